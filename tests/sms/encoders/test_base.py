"""What every encoder gets from its base class, on encoders as somebody else would write them."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from pipelines.cli.app import run
from sms.encoders.base import SentenceEncoder, WordEncoder
from sms.encoders.registry import ENCODERS, EncoderKind, all_encoders, load_encoder, parse_spec
from sms.encoders.static import StaticEncoder, WordTable
from sms.scoring import ScoringConfig, SummaryScorer, to_rows
from sms.settings import Settings
from sms.text import Segmenter
from tests.sms.scoring_cases import made_kind

WORDS = ["cat", "dog", "sat", "ran", "mat"]
VECTORS = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
TEXTS = [
    "The cat sat. A dog ran!",
    "A zebra sat.",
    "...",
    "Dogs and cats.",
    "the of",
    "mat mat dog",
]


class Looked(WordEncoder):
    """Knows five words, in small letters alone."""

    def __init__(self, **settings):
        super().__init__(signature="looked", dimension=4, **settings)
        self.n_asked = 0

    def embed(self, words):
        self.n_asked += len(words)
        known = dict(zip(WORDS, VECTORS, strict=True))
        return np.array([known.get(word.lower(), np.zeros(4)) for word in words])


def scores(encoder, monkeypatch, metrics=("wms", "sms", "s+wms", "cosine")):
    encoders = {"e": made_kind(encoder, monkeypatch)}
    scorer = SummaryScorer(ScoringConfig(metrics=metrics, encoders=encoders))
    return scorer.score(to_rows(TEXTS, TEXTS[1:] + TEXTS[:1])).to_pylist()


@pytest.mark.parametrize("pooling", ["mean", "max"])
@pytest.mark.parametrize("zero_unknown", [False, True])
def test_vectors_that_are_made_score_as_those_of_a_table(pooling, zero_unknown, monkeypatch):
    settings = {"pooling": pooling, "zero_unknown": zero_unknown}
    table = StaticEncoder(WordTable.of(WORDS, VECTORS), name="table", **settings)
    found, expected = (scores(each, monkeypatch) for each in (Looked(**settings), table))
    for one, other in zip(found, expected, strict=True):
        assert one.pop("status") == other.pop("status")
        assert [*one.values()] == [x if x is None else pytest.approx(x) for x in other.values()]


def test_words_that_came_before_change_no_bit():
    fresh, used = Segmenter(), Segmenter()
    used.segment(pa.array(["ran mat zoo dog cat sat"]))
    one, other = (Looked().encode(each.segment(pa.array(TEXTS))) for each in (fresh, used))
    np.testing.assert_array_equal(one.sentence_points, other.sentence_points)


def test_a_word_is_embedded_once():
    encoder, segmenter = Looked(), Segmenter()
    for texts in (TEXTS[:3], TEXTS):
        cut = segmenter.segment(pa.array(texts))
        encoder.encode(cut)
        assert encoder.n_asked == len(cut.vocabulary.words)
    assert encoder.state()["unknown"] == 2 * 1 + 2  # a zebra twice; dogs and cats


class Letters(SentenceEncoder):
    """Counts letters."""

    def __init__(self):
        super().__init__(signature="letters", content_hash="", dimension=26)
        self.n_asked = 0

    def embed(self, inputs):
        self.n_asked += len(inputs)
        return np.array([np.bincount([ord(c) - 97 for c in text.lower() if "a" <= c <= "z"],
                                     minlength=26) for text in inputs])  # fmt: skip


def test_sentences_are_embedded_once_and_scored(monkeypatch):
    encoder = Letters()
    rows = scores(encoder, monkeypatch, ("sms", "cosine"))
    assert [row["status"] for row in rows] == [
        None, "reference:no_words", "candidate:no_words", "reference:no_words",
        "candidate:no_words", None,
    ]  # fmt: skip
    n = encoder.n_asked
    assert scores(encoder, monkeypatch, ("sms", "cosine")) == rows
    assert encoder.n_asked == n


def test_vectors_of_another_shape_are_named():
    class Wrong(Looked):
        def embed(self, words):
            return super().embed(words)[:, :3]

    with pytest.raises(RuntimeError, match=r"encoder looked must give 3 vectors of 4 values, got"):
        Wrong().encode(Segmenter().segment(pa.array(["The cat sat"])))


@dataclass(frozen=True, kw_only=True)
class Numbers(Settings):
    """Options that are no texts."""

    most: int = 20
    """words that are read"""
    is_cased: bool = False
    """whether capitals count"""


def test_options_may_be_numbers_and_truths(monkeypatch, capsys):
    kind = EncoderKind(
        kind="numbers", summary="", vectors=("words",), loader="none:load", options=Numbers
    )
    monkeypatch.setitem(ENCODERS, "numbers", kind)
    assert parse_spec("numbers,most=5,is_cased=true").values == {"most": 5, "is_cased": True}
    assert str(parse_spec("numbers,most=20,is_cased=false")) == "numbers"
    assert str(parse_spec("numbers,most=5")) == "numbers,most=5"
    with pytest.raises(ValueError, match="`most` of encoder `numbers` must be a whole number, got"):
        parse_spec("numbers,most=five")
    assert run(["encoders"]) == 0
    assert "most=" in capsys.readouterr().out


def test_encoders_of_other_packages_are_found(tmp_path, monkeypatch):
    (tmp_path / "other_encoder.py").write_text(
        "from sms.encoders.registry import ENCODERS, EncoderKind\n"
        "from tests.sms.encoders.test_base import Looked\n"
        "def load(path, *, runtime):\n    return Looked()\n"
        "ENCODERS['other'] = EncoderKind(kind='other', summary='of another package',\n"
        "    vectors=('words',), loader='other_encoder:load', is_static=True)\n"
    )
    (tmp_path / "other-1.dist-info").mkdir()
    (tmp_path / "other-1.dist-info" / "METADATA").write_text("Name: other\nVersion: 1\n")
    (tmp_path / "other-1.dist-info" / "entry_points.txt").write_text(
        "[assay.encoders]\nany = other_encoder\n"
    )
    monkeypatch.setitem(sys.modules, "other_encoder", None)
    monkeypatch.delitem(sys.modules, "other_encoder")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="unknown encoder 'others'; did you mean `other`"):
        parse_spec("others")
    try:
        assert all_encoders()["other"].summary == "of another package"
        assert load_encoder("other").signature == "looked"
    finally:
        ENCODERS.pop("other", None)
