"""A text that a splitter fails on costs its own rows a score, and no other row a bit."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from sms import text, words
from sms.scoring import ScoringConfig, SummaryScorer, to_rows
from sms.text import ChunkTable

METRICS = ("length", "rouge1_f", "rougeL_f:source", "compression", "wms")
CANDIDATES = ["A cat sat. It slept.", "The dog ran away.", "A hen fed a cat."]
REFERENCES = ["The cat slept.", "A dog ran.", "The hen fed cats."]
SOURCES = ["A cat sat and slept all day.", "The dog ran far away.", "A hen fed all the cats."]
BAD = "The BROKEN one."


class PanicException(BaseException):
    """As what Python sees of a library in Rust that breaks off."""


@pytest.fixture
def config(glove) -> ScoringConfig:
    return ScoringConfig(metrics=METRICS, encoders=glove)


def failing(function, error):
    """Make a splitter raise at a text with BROKEN in it."""

    def split(text, *arguments, **options):
        if "BROKEN" in text:
            raise error
        return function(text, *arguments, **options)

    return split


@pytest.fixture(
    params=[
        pytest.param((text, "split_sentences", ValueError("on purpose")), id="sentences"),
        pytest.param((words, "split_words", RuntimeError("on purpose")), id="words"),
        pytest.param((words, "split_words", PanicException("on purpose")), id="panic"),
    ]
)
def broken_splitter(request, monkeypatch):
    module, name, error = request.param
    monkeypatch.setattr(module, name, failing(getattr(module, name), error))


def with_row(listed, other):
    """Put another row second."""
    return [listed[0], other, *listed[1:]]


@pytest.mark.usefixtures("broken_splitter")
def test_candidate_that_cannot_be_split_has_a_status(config):
    expected = SummaryScorer(config).score(to_rows(CANDIDATES, REFERENCES, SOURCES)).to_pylist()
    scorer = SummaryScorer(config)
    rows = to_rows(
        # its other sentence is another row's, too
        with_row(CANDIDATES, f"It slept. {BAD}"),
        with_row(REFERENCES, REFERENCES[0]),
        with_row(SOURCES, SOURCES[0]),
    )
    for _ in range(2):
        found = scorer.score(rows).to_pylist()
        row = found.pop(1)
        assert found == expected
        assert row == dict.fromkeys(config.columns) | {"status": "candidate:cannot_be_split"}


@pytest.mark.usefixtures("broken_splitter")
@pytest.mark.parametrize(
    ("references", "source", "status", "blank"),
    [
        # it might be the best
        ([REFERENCES[0], BAD], SOURCES[0], "reference", {"rouge1_f", "wms", "coverage@glove"}),
        (REFERENCES[0], BAD, "source", {"rougeL_f:source", "compression"}),
    ],
)
def test_text_compared_with_that_cannot_be_split(config, references, source, status, blank):
    rows = to_rows(CANDIDATES[:1], [references], [source])
    (row,) = SummaryScorer(config).score(rows).to_pylist()
    assert row["status"] == f"{status}:cannot_be_split"
    assert {name for name in config.columns if row[name] is None} == blank


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_what_no_text_is_to_blame_for_is_raised(config, error, monkeypatch):
    monkeypatch.setattr(words, "split_words", failing(words.split_words, error()))
    scorer = SummaryScorer(config)
    with pytest.raises(error):
        scorer.score(to_rows([*CANDIDATES, BAD], [*REFERENCES, BAD], [*SOURCES, BAD]))
    rows = to_rows(CANDIDATES, REFERENCES, SOURCES)
    assert scorer.score(rows).equals(SummaryScorer(config).score(rows))


def test_table_that_broke_off_has_not_changed():
    def tokenise(chunk):
        if chunk == "bad":
            raise KeyboardInterrupt
        return list(chunk)

    table = ChunkTable(tokenise)
    table.tokens_of(["ab"])
    with pytest.raises(KeyboardInterrupt):
        table.tokens_of(["bc", "bad", "cd"])
    assert table.tokens == ["a", "b"]
    rows, _ = table.tokens_of(["cd", "ab", "bc"])
    assert [[table.tokens[k] for k in rows[row]] for row in range(3)] == [
        *map(list, ["cd", "ab", "bc"])
    ]


@pytest.mark.skipif(find_spec("sudachipy") is None, reason="needs assay[ja]")
def test_japanese_text_that_its_library_refuses():
    good = ["今日は晴れです。明日は雨でしょう。", "東京は日本の首都です。"]
    config = ScoringConfig(metrics=("length", "rouge1_f"), language="ja")
    scorer = SummaryScorer(config)
    found = scorer.score(to_rows([good[0], "㌖" * 8_000, good[1]], [good[1]] * 3)).to_pylist()
    assert found.pop(1)["status"] == "candidate:cannot_be_split"
    rows = to_rows(good, [good[1]] * 2)
    assert found == SummaryScorer(config).score(rows).to_pylist()
    assert scorer.score(rows).to_pylist() == found
