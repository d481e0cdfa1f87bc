"""Texts that cannot be scored: a null with its reason, never NaN, 0 or another row's score."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sms.scoring import ScoringConfig, SummaryScorer, score_texts, to_rows
from sms.text import batches, words
from tests.sms.scoring_cases import EMBEDDED, GOOD, METRICS, REFERENCE

# text, what its status says
BAD = [
    pytest.param(None, "null", id="null"),
    pytest.param("", "empty", id="empty"),
    pytest.param(" \n\t\u3000\u2028\xa0", "empty", id="whitespace"),
    pytest.param("... -- !? “”", "no_words", id="punctuation"),
    pytest.param("the of and it", "no_words", id="stop-words"),
    pytest.param("🎉🎉 👩\u200d🚀", "no_words", id="emoji"),
    pytest.param("\u200b\ufeff", "no_words", id="invisible"),
    pytest.param("Zyx qwv.", "no_known_words@glove", id="unknown-words"),
    pytest.param("東京は晴れ。", "no_known_words@glove, no_rouge_tokens", id="cjk"),
    pytest.param("مرحبا بالعالم", "no_known_words@glove, no_rouge_tokens", id="rtl"),
]

# Letters of other scripts, with a number or a Latin name that unrelated texts share; and texts of
# which ROUGE reads at least half of the letters.
# ruff: noqa: RUF001 (their letters are meant)
UNREAD = [
    ("Матч 2012 года", "Выборы 2012 года"),
    ("Η ομάδα BBC νίκησε", "Το κανάλι BBC έκλεισε"),
    ("فاز الفريق 3 مرات", "خسر الحزب 3 مقاعد"),
    ("टीम BBC जीती", "चैनल BBC बंद हुआ"),
    ("팀이 BBC 3 이겼다", "채널 BBC 3 닫았다"),
    ("東京タワー 333", "大阪 333 メートル"),
]
READ = ["Müller – “né” à Łódź, 2012", "2012: 3–2!", "BBCNN Москв", "naïve café"]


@pytest.mark.parametrize(("candidate", "reference"), UNREAD)
def test_text_that_rouge_cannot_read_has_no_rouge(candidate, reference):
    metrics = ("rouge1", "rouge2", "rougeL", "rougeLsum", "rougeW")
    (row,) = score_texts([candidate], [[reference]], metrics=metrics).to_pylist()
    assert row.pop("status") == "candidate:no_rouge_tokens; reference:no_rouge_tokens"
    assert {*row.values()} == {None}


@pytest.mark.parametrize("text", READ)
def test_text_that_rouge_reads_has_rouge(text):
    (row,) = score_texts([text], [[text]], metrics=("rouge1_f",)).to_pylist()
    assert (row["status"], row["rouge1_f"]) == (None, 1.0)


@pytest.mark.parametrize("side", ["candidate", "reference", "source"])
@pytest.mark.parametrize(("bad", "reasons"), BAD)
def test_bad_text_has_a_status(bad, reasons, side, glove):
    against = "source" if side == "source" else "reference"
    texts = {"candidate": [GOOD] * 3, against: [REFERENCE] * 3}
    texts[side][1] = bad
    table = score_texts(
        texts["candidate"],
        **{f"{against}s": [[text] for text in texts[against]]},
        metrics=tuple(f"{name}:{against}" for name in METRICS),
        encoders=glove,
    )
    names = [name.removesuffix(f":{against}") for name in table.column_names]
    before, row, after = table.rename_columns(names).to_pylist()
    assert before == after
    assert before["status"] is None
    assert row["status"] == "; ".join(f"{side}:{reason}" for reason in reasons.split(", "))
    assert [row[name] for name in EMBEDDED] == [None] * len(EMBEDDED)


def test_no_nan_among_the_scores(glove):
    texts = [param.values[0] for param in BAD] + [GOOD]
    pairs = [(candidate, reference) for candidate in texts for reference in texts]
    metrics = (*METRICS, "rouge1", "rouge4", "rougeLsum", "rougeW", "length", "novelty", "lead3",
               "compression", "coverage", "density", "cosine:source")  # fmt: skip
    table = score_texts(
        [candidate for candidate, _ in pairs],
        [[reference] for _, reference in pairs],
        [[reference] for _, reference in pairs],
        metrics=metrics,
        encoders=glove,
    )
    undefined = np.zeros(len(pairs), dtype=bool)
    for name in table.column_names[:-1]:
        column = table[name].combine_chunks()
        assert column.type == pa.float64()
        assert np.isfinite(column.drop_null().to_numpy()).all()
        undefined |= column.is_null().to_numpy(zero_copy_only=False)
    has_status = table["status"].is_valid().to_numpy()
    np.testing.assert_array_equal(has_status, undefined)


def test_undefined_column_is_named():
    found = score_texts(["Cats."], sources=["Cats met dogs."], metrics=("length", "novelty"))
    assert found.to_pylist() == [{"length": 1.0, "novelty": None, "status": "novelty:undefined"}]


@pytest.mark.parametrize("how", ["best", "mean"])
def test_reference_beyond_the_solver_is_not_left_out(how, glove, monkeypatch):
    monkeypatch.setattr("sms.metrics.movers.MAX_CELLS", 20)
    options = {"metrics": ("wms", "cosine"), "encoders": glove, "multi_reference": how}
    row, good, repeated = score_texts(
        [GOOD, GOOD, "Cat " * 9], [[REFERENCE, "A dog."], ["", "A dog."], ["Dog " * 9]], **options
    ).to_pylist()
    assert repeated["wms"] > 0  # nine times one word is one point
    assert row["wms"] is None
    assert row["cosine"] is not None
    assert row["status"] == "reference:too_long"
    assert good["wms"] is not None
    assert good["status"] is None


@pytest.mark.parametrize("metrics", [("sms", "rougeL_f"), ("wms", "sms", "s+wms")])
def test_sentences_of_a_pair_with_too_many_words_are_scored(metrics, glove, monkeypatch):
    expected = score_texts([GOOD], [REFERENCE], metrics=("sms",), encoders=glove)["sms"]
    monkeypatch.setattr("sms.metrics.movers.MAX_CELLS", 20)
    (row,) = score_texts([GOOD], [REFERENCE], metrics=metrics, encoders=glove).to_pylist()
    assert row["sms"] == expected[0].as_py()
    assert row["status"] == ("reference:too_long" if "wms" in metrics else None)
    assert row.get("wms") is row.get("s+wms") is None


def test_only_bad_rows_and_none(glove):
    candidates = [None, "", "...", "the of", GOOD]
    table = score_texts(
        candidates, [[None], None, [""], ["of the"], []], metrics=METRICS, encoders=glove
    )
    said = table["status"].to_pylist()
    assert said[:3] == [
        "candidate:null; reference:null",
        "candidate:empty; reference:missing",
        "candidate:no_words; reference:empty",
    ]
    assert said[4] == "reference:missing"
    assert [table[name][4].as_py() for name in METRICS] == [None] * 5
    assert table["rougeL_f"][3].as_py() == 0.5  # stop words are ROUGE's tokens, too
    more = (*METRICS, "rougeLsum_f", "rougeW_f", "density", "novelty", "compression")
    none = score_texts([], [], [], metrics=more, encoders=glove)
    assert none.column_names == [*more, "known_words@glove", "status"]
    assert none.num_rows == 0


# Texts that cannot be split


FIVE = ("length", "rouge1_f", "rougeL_f:source", "compression", "wms")
CANDIDATES = ["A cat sat. It slept.", "The dog ran away.", "A hen fed a cat."]
REFERENCES = ["The cat slept.", "A dog ran.", "The hen fed cats."]
SOURCES = ["A cat sat and slept all day.", "The dog ran far away.", "A hen fed all the cats."]
BROKEN = "The BROKEN had 22. Pensacola one."


class PanicException(BaseException):
    """As what Python sees of a library in Rust that breaks off."""


@pytest.fixture
def config(glove) -> ScoringConfig:
    return ScoringConfig(metrics=FIVE, encoders=glove)


def failing(function, error):
    """Make a splitter raise at a text with BROKEN in it."""

    def split(text, *arguments, **options):
        if "BROKEN" in text:
            raise error
        return function(text, *arguments, **options)

    return split


@pytest.fixture(
    params=[
        pytest.param((batches, "english_starts", ValueError("on purpose")), id="sentences"),
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
        with_row(CANDIDATES, f"It slept. {BROKEN}"),
        with_row(REFERENCES, REFERENCES[0]),
        with_row(SOURCES, SOURCES[0]),
    )
    for _ in range(2):
        found = scorer.score(rows).to_pylist()
        row = found.pop(1)
        assert found == expected
        assert row.pop("status") == "candidate:cannot_be_split"
        # ROUGE needs no sentences and has its own words
        assert all((row[name] is not None) == name.startswith("rouge") for name in row)


@pytest.mark.usefixtures("broken_splitter")
@pytest.mark.parametrize(
    ("references", "source", "status", "blank"),
    [
        # it might be the best
        (
            [REFERENCES[0], BROKEN],
            SOURCES[0],
            "reference",
            {"wms", "known_words@glove"},
        ),
        (REFERENCES[0], BROKEN, "source", {"compression"}),
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
        scorer.score(to_rows([*CANDIDATES, BROKEN], [*REFERENCES, BROKEN], [*SOURCES, BROKEN]))
    rows = to_rows(CANDIDATES, REFERENCES, SOURCES)
    assert scorer.score(rows).equals(SummaryScorer(config).score(rows))
