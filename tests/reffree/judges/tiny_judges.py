"""Tiny judges with random weights, in the formats of the published ones, and texts for them."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from tests.tiny_tokenizers import byte_level, wordpiece

NEWS = (
    "The committee met on Tuesday in the old town hall. It rained.\nNobody agreed on the new "
    "bridge over the river! Will the mayor ask the people again next year? The costs have risen "
    "to nine million since the first plan was drawn. A second meeting follows in May."
)
SUMMARIES = [
    "The committee did not agree on the bridge. It will meet again in May.",
    "The mayor opened the bridge.",
    "So what. The costs of the bridge have risen. The mayor asks the people next year.",
]
REFERENCE = "The committee could not agree on a bridge and meets again in May."
LONG = "\n".join(
    f"In part {k} the {thing} of the river town told the {other} about the year of the flood. "
    f"The {other} wrote all of it down and read it to the people on the {thing} square."
    for k, (thing, other) in enumerate(
        [("mayor", "doctor"), ("baker", "teacher"), ("miller", "writer"), ("farmer", "judge")] * 5
    )
)
"""Of 700 words in 40 sentences."""
_TRAINING = [NEWS, *SUMMARIES, LONG, "Yes No 0 1 question: premise: hypothesis: predict: claim:"]

_WIDTH = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
_CLASSES = {"id2label": {0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"}}


def _wordpiece():
    names = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return wordpiece(_TRAINING), names


def _byte_level():
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    found = byte_level(_TRAINING, 800, special)
    found.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    names = ("bos_token", "pad_token", "eos_token", "unk_token")
    return found, dict(zip(names, special[:4], strict=True)) | {"sep_token": "</s>"}


def _unigram():
    found = Tokenizer(models.Unigram())
    found.normalizer = normalizers.Sequence(
        [normalizers.Replace("\n", " "), normalizers.Replace("  ", " "), normalizers.NFKC()]
    )
    found.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=800, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    found.train_from_iterator(_TRAINING, trainer)
    # the library's trainer gives them another order, and scores, each time
    pieces = sorted(found.get_vocab().keys() - set(special))
    scored = [(piece, -1 - number / 1000) for number, piece in enumerate(pieces)]
    found.model = models.Unigram([(piece, 0.0) for piece in special] + scored, unk_id=2)
    found.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return found, {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}


def _save_tokenizer(folder, made, most):
    from transformers import PreTrainedTokenizerFast

    tokenizer, names = made
    types = ["token_type_ids"] if "cls_token" in names else []
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=most,
        model_input_names=["input_ids", *types, "attention_mask"],
        **names,
    )
    made.save_pretrained(folder)
    return tokenizer.get_vocab_size()


def _with_weights(make, noise=0.2):
    """Make a model whose answers differ from pair to pair."""
    with torch.random.fork_rng():
        torch.manual_seed(11)
        model = make()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * noise)
    return model.eval()


def write_classifier(folder: Path, family: str = "bert", noise: float = 0.2, **config) -> Path:
    """Write a classifier: `bert`, `roberta` or `deberta-v2`."""
    import transformers

    made = {"bert": _wordpiece, "roberta": _byte_level, "deberta-v2": _unigram}[family]()
    size = _save_tokenizer(folder, made, 512)
    of_family = {
        "bert": {"max_position_embeddings": 512},
        "roberta": {"max_position_embeddings": 514, "pad_token_id": 1, "type_vocab_size": 1},
        "deberta-v2": {
            "relative_attention": True, "position_biased_input": False, "type_vocab_size": 0,
            "pos_att_type": ["p2c", "c2p"], "pad_token_id": 0,
        },
    }[family]  # fmt: skip
    settings = transformers.AutoConfig.for_model(
        family,
        vocab_size=size,
        intermediate_size=64,
        **_WIDTH,
        **of_family,
        **({**_CLASSES, **config}),
    )
    model = transformers.AutoModelForSequenceClassification
    _with_weights(lambda: model.from_config(settings), noise).save_pretrained(folder)
    return folder


def _t5(size, **settings):
    from transformers import T5Config

    width = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2}
    return T5Config(vocab_size=size, decoder_start_token_id=0, **width, **settings)


def write_t5(folder: Path) -> Path:
    """Write a generator of an encoder and a decoder."""
    from transformers import T5ForConditionalGeneration

    config = _t5(_save_tokenizer(folder, _unigram(), 512))
    _with_weights(lambda: T5ForConditionalGeneration(config)).save_pretrained(folder)
    return folder


def write_causal(folder: Path) -> Path:
    """Write a causal generator."""
    from transformers import LlamaConfig, LlamaForCausalLM

    size = _save_tokenizer(folder, _byte_level(), 512)
    config = LlamaConfig(vocab_size=size, intermediate_size=64, pad_token_id=1, **_WIDTH)
    _with_weights(lambda: LlamaForCausalLM(config)).save_pretrained(folder)
    return folder


def write_summac_conv(folder: Path) -> Path:
    """Write an NLI classifier with the names of classes of VitaminC, and SummaC's layers."""
    labels = {0: "SUPPORTS", 1: "REFUTES", 2: "NOT ENOUGH INFO"}
    write_classifier(folder, noise=0.5, id2label=labels)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        layers = {"mlp": torch.nn.Linear(23, 1), "layer_final": torch.nn.Linear(3, 2)}
    state = torch.nn.ModuleDict(layers).state_dict()
    torch.save(state, folder / "summac_conv_vitc_sent_perc_e.bin")
    return folder


def write_alignscore(folder: Path) -> Path:
    """Write what pytorch-lightning keeps of AlignScore, beside a RoBERTa's configuration."""
    from transformers import AutoConfig, AutoModel

    write_classifier(folder, "roberta")
    (folder / "model.safetensors").unlink()
    config = AutoConfig.from_pretrained(folder)
    heads = {"bin_layer": 2, "tri_layer": 3, "reg_layer": 1, "mlm_head": 9}

    def make():
        parts = {name: torch.nn.Linear(32, n) for name, n in heads.items()}
        return torch.nn.ModuleDict({"base_model": AutoModel.from_config(config), **parts})

    state = _with_weights(make, 0.5).state_dict()
    kept = {"epoch": 1, "state_dict": state, "hyper_parameters": {"model": "roberta-base"}}
    torch.save(kept, folder / "AlignScore-base.ckpt")
    return folder


def write_hhem(folder: Path, ran: Path | None = None) -> Path:
    """Write HHEM with code beside it, which would leave a file `ran`, and its foundation."""
    from transformers import T5ForTokenClassification

    base = folder / "foundation"
    config = _t5(_save_tokenizer(base, _unigram(), 512), num_labels=2)
    config.save_pretrained(base)
    state = _with_weights(lambda: T5ForTokenClassification(config), 0.05).state_dict()
    del state["transformer.encoder.embed_tokens.weight"]  # that of the words
    save_file(
        {f"t5.{name}": tensor for name, tensor in state.items()}, folder / "model.safetensors"
    )
    code = {"AutoConfig": "code.Own", "AutoModelForSequenceClassification": "code.Own"}
    hhem_config = {"model_type": "HHEMv2", "foundation": "google/flan-t5-base", "auto_map": code}
    (folder / "config.json").write_text(json.dumps(hhem_config))
    (folder / "code.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    return folder
