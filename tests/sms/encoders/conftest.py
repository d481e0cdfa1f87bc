"""Tiny models of several architectures, written in the published formats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from sms.encoders import EncodedSentences
from sms.ragged import Ragged
from sms.text import SegmentedTexts, Segmenter, TextRules
from tests.tiny_tokenizers import byte_level, wordpiece

TRAINING = [
    "The committee met on Tuesday and didn't agree on anything; it will meet again.",
    "Warmer states pay $2,000.5 more a year, the U.S. reported at 6.15pm.",
    "Der Präsident sprach über naïve Café-Besucher in Straßburg.",
    "東京は日本の首都です。 これは本です。",
]
# Heads of 16 or more, as real models have: torch's attention over heads of 8 depends, in the last
# digit, on how many sequences two threads share.
WIDTH, HEADS, N_LAYERS, MAX_POSITIONS = 32, 2, 3, 64


def as_they_are(sentences: list[str], **rules: str) -> SegmentedTexts:
    """Segment texts that are one sentence each, and number the sentences in that order."""
    found = Segmenter(TextRules(**rules)).segment(pa.array(sentences))
    numbers = found.text_sentences.values
    assert [found.sentences[number] for number in numbers] == sentences
    return replace(
        found,
        sentences=sentences,
        text_sentences=Ragged.from_rows([[k] for k in range(len(sentences))]),
        sentence_words=found.sentence_words.take(numbers),
    )


def assert_equal_bits(found: EncodedSentences, expected: EncodedSentences) -> None:
    for name in ("word_points", "pooled", "sentence_points"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def word_vectors(encoded: EncodedSentences, sentence: int) -> np.ndarray:
    return encoded.word_points[encoded.sentence_words[sentence]]


def roberta_like() -> Tokenizer:
    tokenizer = byte_level(TRAINING, 340, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), add_prefix_space=False
    )
    return tokenizer


def unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=150, show_progress=False, special_tokens=special, unk_token="<unk>"
    )
    tokenizer.train_from_iterator(TRAINING, trainer)
    marks = [(name, tokenizer.token_to_id(name)) for name in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=marks
    )
    return tokenizer


_BERT_LIKE = {
    "hidden_size": WIDTH,
    "num_hidden_layers": N_LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 2 * WIDTH,
}
_BERT = {**_BERT_LIKE, "max_position_embeddings": MAX_POSITIONS}
_ROBERTA = {**_BERT_LIKE, "max_position_embeddings": MAX_POSITIONS + 2, "pad_token_id": 1}
_DISTILBERT = {"dim": WIDTH, "n_layers": N_LAYERS, "n_heads": HEADS, "hidden_dim": 2 * WIDTH}
_DISTILBERT |= {"max_position_embeddings": MAX_POSITIONS}
_MODERNBERT = {"pad_token_id": 1, "cls_token_id": 0, "sep_token_id": 2, "local_attention": 16}
_DEBERTA = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "pad_token_id": 1}
ARCHITECTURES = {
    "bert": ("BertConfig", partial(wordpiece, TRAINING), _BERT),
    "distilbert": ("DistilBertConfig", partial(wordpiece, TRAINING), _DISTILBERT),
    "roberta": ("RobertaConfig", roberta_like, _ROBERTA),
    "xlm-roberta": ("XLMRobertaConfig", unigram, _ROBERTA),
    "mpnet": ("MPNetConfig", partial(wordpiece, TRAINING, pad_first=False), _ROBERTA),
    "modernbert": ("ModernBertConfig", roberta_like, _BERT | _MODERNBERT),
    "deberta-v2": ("DebertaV2Config", unigram, _BERT | _DEBERTA),
}
"""Class of the configuration, tokeniser and settings, by name."""


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory) -> Callable[[str], Path]:
    """Write a model of random weights and its tokeniser, once per architecture."""
    written: dict[str, Path] = {}

    def folder(architecture: str) -> Path:
        if architecture not in written:
            written[architecture] = tmp_path_factory.mktemp("models") / f"tiny-{architecture}"
            write_model(architecture, written[architecture])
        return written[architecture]

    return folder


def write_model(architecture: str, folder: Path) -> None:
    import transformers

    kind, make_tokenizer, settings = ARCHITECTURES[architecture]
    tokenizer = make_tokenizer()
    names = ("<pad>", "<unk>", "<s>", "</s>")
    if tokenizer.token_to_id("[PAD]") is not None:
        names = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
    marks = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), names, strict=True))
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=MAX_POSITIONS,
        model_input_names=["input_ids", "attention_mask"],  # version 4 gives token types, too
        **marks,
    ).save_pretrained(folder)
    config = getattr(transformers, kind)(vocab_size=tokenizer.get_vocab_size() + 8, **settings)
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = transformers.AutoModel.from_config(config)
        with torch.no_grad():  # the usual small weights would make all tokens look alike
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.15)
    model.save_pretrained(folder)
