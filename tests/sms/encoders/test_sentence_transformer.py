"""Models of sentence-transformers, tiny ones in its own format, held against `encode`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from sms.encoders import EncoderRuntime
from sms.encoders.bert import BertEncoder
from sms.encoders.registry import load_encoder
from sms.encoders.sentence_transformer import LibraryEncoder, load_st
from tests.sms.encoders.conftest import as_they_are
from tests.sms.encoders.library_modules import Dense, Normalize, Transformer, pooling

ATOL = 2e-6
CPU = EncoderRuntime(device="cpu")
SENTENCES = [
    "The committee met on Tuesday.",
    "it didn't cost $2,000.5 more in warmer U.S. states -- naïve",
    "東京 is in 日本。",
    "One",
    "the of and",
    "Warmer states",
]


def saved(folder: Path, transformer: Path, *others, **options) -> Path:
    """Save a sentence-transformers model around a transformer."""
    parts = [Transformer(str(transformer)), *others]
    SentenceTransformer(modules=parts, device="cpu", **options).save(str(folder))
    return folder


def expected(folder: Path, sentences: list[str]) -> np.ndarray:
    return SentenceTransformer(str(folder), device="cpu").encode(sentences)


@pytest.mark.parametrize(
    ("architecture", "mode"),
    [("bert", "mean"), ("roberta", "max"), ("mpnet", "cls"), ("modernbert", "mean")],
)
def test_plain_model_matches_encode(architecture, mode, tiny_model, tmp_path):
    folder = saved(tmp_path / "model", tiny_model(architecture), pooling(32, mode), Normalize())
    encoder = load_st(str(folder), runtime=CPU)
    assert isinstance(encoder, BertEncoder)
    assert not encoder.has_words
    encoded = encoder.encode(as_they_are(SENTENCES))
    np.testing.assert_allclose(encoded.pooled, expected(folder, SENTENCES), rtol=0, atol=ATOL)
    np.testing.assert_array_equal(encoded.sentence_points, encoded.pooled)
    assert encoded.word_points.shape == (0, 32)
    assert encoded.sentence_words.lengths.tolist() == [0] * len(SENTENCES)


OTHERS = {
    "dense": (16, lambda: [pooling(32, "mean"), Dense(32, 16)], {}),
    "two-poolings": (64, lambda: [pooling(32, "mean", "max")], {}),
    "weighted-mean": (32, lambda: [pooling(32, "weightedmean")], {}),
    "prompt": (
        32,
        lambda: [pooling(32, "mean")],
        {"prompts": {"query": "Tuesday: "}, "default_prompt_name": "query"},
    ),
    "lower-case": (32, lambda: [pooling(32, "mean")], {}),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_model_is_run_by_its_library(kind, tiny_model, tmp_path):
    dimension, others, options = OTHERS[kind]
    folder = saved(tmp_path / "model", tiny_model("bert"), *others(), **options)
    if kind == "lower-case":
        settings = folder / "sentence_bert_config.json"
        settings.write_text(json.dumps(json.loads(settings.read_text()) | {"do_lower_case": True}))
    encoder = load_st(str(folder), runtime=CPU)
    assert isinstance(encoder, LibraryEncoder)
    assert encoder.dimension == dimension
    encoded = encoder.encode(as_they_are(SENTENCES))
    np.testing.assert_allclose(encoded.pooled, expected(folder, SENTENCES), rtol=0, atol=ATOL)
    assert encoder.counts["tokens"] > 0
    letters = encoder.encode(as_they_are(["One [SEP] of the", "One [ SEP ] of the"])).pooled
    np.testing.assert_allclose(*letters, rtol=0, atol=ATOL)


def test_long_sentence_is_windowed(tiny_model, tmp_path):
    folder = saved(tmp_path / "model", tiny_model("bert"), pooling(32, "mean"))
    encoder = load_st(str(folder), runtime=CPU)
    once = " ".join(["."] * 61 + ["a"])  # with two special tokens the model's 64
    encoded = encoder.encode(as_they_are([once, f"{once} {once}"]))
    np.testing.assert_allclose(encoded.pooled[1], encoded.pooled[0], rtol=0, atol=ATOL)
    assert encoder.state()["truncated"] == 0


def test_what_the_library_cuts_is_counted(tiny_model, tmp_path):
    folder = saved(tmp_path / "model", tiny_model("bert"), pooling(32, "weightedmean"))
    sentences = [" ".join(["committee"] * 200), "One", " ".join(["Tuesday"] * 90), "." * 62]
    runtime = EncoderRuntime(device="cpu", cache_folder=str(tmp_path / "cache"))
    for _ in range(2):  # the second time from disk
        encoder = load_encoder(f"st:{folder}", runtime)
        encoded = encoder.encode(as_they_are(sentences))
        assert encoder.state()["truncated"] == 2
        np.testing.assert_allclose(encoded.pooled, expected(folder, sentences), rtol=0, atol=ATOL)
    assert encoder.counts["from_disk"] == len(sentences)


def test_damaged_module_list_rejected(tiny_model, tmp_path):
    folder = saved(tmp_path / "model", tiny_model("bert"), pooling(32, "mean"))
    (folder / "modules.json").write_text('[{"idx": 0, "name": "0"')
    with pytest.raises(ValueError, match="that sentence-transformers can load and run") as caught:
        load_st(str(folder), runtime=CPU)
    assert "\n" not in str(caught.value)
