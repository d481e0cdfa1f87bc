"""Published judges once more, as their repositories describe them: one pair after another.

Each takes the folder of a model, a document (for one, a reference) and a summary.
"""

import functools
import re

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    T5ForTokenClassification,
)


def sentences(text):
    return re.split(r"(?<=[.!?])\s+", text.strip())


@functools.lru_cache(maxsize=1)
def _classes(folder):
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)

    @torch.no_grad()
    def probabilities(*texts, **settings):
        inputs = tokenizer(*texts, return_tensors="pt", **settings)
        return model(**inputs).logits[0].softmax(-1).tolist()

    return probabilities, tokenizer


def _summac_image(folder, document, summary):
    """Return the probabilities of all classes for sentences of more than 10 characters."""
    ask, _ = _classes(folder)
    ours, theirs = ([s for s in sentences(text) if len(s) > 10] for text in (document, summary))
    image = [[ask(a, b, truncation=True, max_length=500) for b in theirs] for a in ours[:100]]
    return np.array(image)


def summac_zs(folder, document, summary):
    image = _summac_image(folder, document, summary)
    contradiction, entailment = image[:, :, 0].max(axis=0), image[:, :, 2].max(axis=0)
    return (entailment - contradiction).mean()


def summac_conv(folder, document, summary):
    image = _summac_image(folder, document, summary)[:, :, 0]
    bins = [0.0, 0.01, 0.02, 0.03, 0.04, 0.07, 0.13, 0.37, 0.90, 0.91, 0.92, 0.93, 0.94, 0.95]
    bins += [0.955, 0.96, 0.965, 0.97, 0.975, 0.98, 0.985, 0.99, 0.995, 1.0]
    state = torch.load(folder / "summac_conv_vitc_sent_perc_e.bin", weights_only=True)
    histograms = torch.zeros(10, 23)
    for k, column in enumerate(image.T[:10]):
        histograms[k] = torch.from_numpy(np.histogram(column, range=(0, 1), bins=bins)[0])
    n = int((histograms.sum(dim=1) != 0).sum())
    each = (histograms @ state["mlp.weight"].T + state["mlp.bias"])[:n, 0]
    features = torch.stack([each.mean()] * 3)
    logits = state["layer_final.weight"] @ features + state["layer_final.bias"]
    return logits.softmax(-1)[1].item()


@torch.no_grad()
def alignscore(folder, document, summary):
    state = torch.load(folder / "AlignScore-base.ckpt", weights_only=True)["state_dict"]
    base = AutoModel.from_config(AutoConfig.from_pretrained(folder)).eval()
    start = "base_model."
    base_state = {n.removeprefix(start): v for n, v in state.items() if n.startswith(start)}
    base.load_state_dict(base_state)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    parts = sentences(document)
    size = max(len(parts) // (len(document.strip().split()) // 350 + 1), 1)
    chunks = [" ".join(parts[k : k + size]) for k in range(0, len(parts), size)]
    found = []
    for claim in sentences(summary):
        scores = []
        for chunk in chunks:
            inputs = tokenizer(
                chunk, claim, truncation="only_first", padding="max_length", max_length=512,
                return_tensors="pt",
            )  # fmt: skip
            pooled = base(**inputs).pooler_output
            logits = pooled @ state["tri_layer.weight"].T + state["tri_layer.bias"]
            scores.append(logits.softmax(-1)[0, 0].item())
        found.append(max(scores))
    return np.mean(found)


def _minicheck_chunks(document, most, count):
    parts = []
    for block in document.split("\n"):
        parts += [*sentences(block), "\n"]
    chunks, current, size = [], [], 0
    for part in parts[:-1]:
        if size + count(part) > most:
            chunks.append(" ".join(current))
            current, size = [part], count(part)
        else:
            current.append(part)
            size += count(part)
    chunks.append(" ".join(current))
    chunks = [chunk.replace(" \n ", "\n").strip() for chunk in chunks]
    return [chunk for chunk in chunks if chunk]


@functools.lru_cache(maxsize=1)
def _generator(folder):
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)

    @torch.no_grad()
    def logits(text, max_length):
        inputs = tokenizer(text, truncation=True, max_length=max_length, return_tensors="pt")
        start = torch.zeros((1, 1), dtype=torch.long)
        return model(**inputs, decoder_input_ids=start).logits[0, 0]

    return logits, tokenizer


def minicheck(folder, document, summary):
    ask, tokenizer = _generator(folder)
    answers = [tokenizer(answer)["input_ids"][0] for answer in ("0", "1")]
    chunks = _minicheck_chunks(document, 500, lambda part: len(part.split()))

    def support(chunk, claim):
        logits = ask("predict: " + tokenizer.eos_token.join([chunk, claim]), 2048)
        return logits[answers].softmax(-1)[1].item()

    return min(max(support(chunk, claim) for chunk in chunks) for claim in sentences(summary))


def minicheck_classifier(folder, document, summary):
    ask, tokenizer = _classes(folder)

    def count(part):
        return len(tokenizer(part, add_special_tokens=False)["input_ids"])

    chunks = _minicheck_chunks(document, 400, count)
    return min(
        max(ask(tokenizer.eos_token.join([chunk, claim]))[1] for chunk in chunks)
        for claim in sentences(summary)
    )


@torch.no_grad()
def hhem(folder, document, summary):
    config = AutoConfig.from_pretrained(folder / "foundation")
    tokenizer = AutoTokenizer.from_pretrained(folder / "foundation")
    model = T5ForTokenClassification(config).eval()
    state = load_file(folder / "model.safetensors")
    state = {name.removeprefix("t5."): tensor for name, tensor in state.items()}
    model.load_state_dict(state, strict=False)
    text = "<pad> Determine if the hypothesis is true given the premise?\n\nPremise: "
    text += f"{document}\n\nHypothesis: {summary}"
    return model(**tokenizer(text, return_tensors="pt")).logits[0, 0].softmax(-1)[1].item()


def true(folder, document, summary):
    """TrueTeacher and SEAHORSE: the probability of the label 1."""
    ask, tokenizer = _generator(folder)
    logits = ask(f"premise: {document} hypothesis: {summary}", 2048)
    return logits.softmax(-1)[tokenizer("1")["input_ids"][0]].item()


def _yes(folder, text):
    ask, tokenizer = _generator(folder)
    found = ask(text, 1024).softmax(-1)
    yes, no = (found[tokenizer(answer)["input_ids"][0]].item() for answer in ("Yes", "No"))
    return yes / (yes + no)


def coherence(folder, document, summary):
    question = "question: Is this a coherent summary to the document? </s> summary: "
    return _yes(folder, question + summary + " </s> document: " + document)


def consistency(folder, document, summary):
    question = "question: Is this claim consistent with the document? </s> claim: "
    each = [_yes(folder, question + s + " </s> document: " + document) for s in sentences(summary)]
    return np.mean(each)


def fluency(folder, document, summary):
    question = "question: Is this a fluent paragraph? </s> paragraph: "
    return np.mean([_yes(folder, question + sentence) for sentence in sentences(summary)])


def relevance(folder, reference, summary):
    question = "question: Is this summary relevant to the reference? </s> summary: "
    return _yes(folder, question + summary + " </s> reference: " + reference)


@torch.no_grad()
def next_token(folder, text, answers):
    """Return the share of the first of two answers as a causal model's next token."""
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    logits = model(**tokenizer(text, return_tensors="pt")).logits[0, -1]
    first = [tokenizer(answer, add_special_tokens=False)["input_ids"][0] for answer in answers]
    return logits[first].softmax(-1)[0].item()
