"""ROUGE, held against rouge-score to the last bit, a plain weighted LCS and Lin's examples."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from sms.metrics.rouge import Overlap, numbered, rouge, rouge_of_words, rouge_w
from sms.ragged import Ragged
from sms.scoring import score_texts

ATOL = 1e-12
"""The plain recurrence adds in another order."""

TYPES = ["rouge1", "rouge2", "rouge4", "rougeL", "rougeLsum"]

WRITTEN = [
    "The committee met on Tuesday.\nIt postponed its decisions; nobody was surprised!",
    "On Tuesday the committees were meeting.\n\nNobody was surprised; a decision was postponed.",
    "warmer states . for $ 89 , he 's well-known -- u.s. 3.5 %\nhe said : `` go on '' .",
    "He's well known in warmer states.\nFor $89, he said go on.\nGoing, going, gone.",
    "the the the the of of of\nthe of the of the",
    "of the of the\nthe the of of\nthe",
    "Café Straße naïve ﬁne İstanbul ΟΔΟΣ 東京",
    "東京 …",
    "one",
    "",
]

few_words = st.lists(st.sampled_from(["a", "b", "c", "Going", "gone,"]), max_size=12).map(" ".join)
texts_of_lines = st.lists(st.lists(few_words, max_size=4).map("\n".join), min_size=1, max_size=4)
token_rows = st.lists(st.lists(st.integers(0, 3), max_size=9), min_size=1, max_size=4)


def all_pairs(n_texts: int) -> tuple[np.ndarray, np.ndarray]:
    return np.divmod(np.arange(n_texts**2), n_texts)


def assert_matches_rouge_score(texts: list[str], *, stems: bool = False) -> None:
    scorer = RougeScorer(TYPES, use_stemmer=stems)
    scores = rouge(texts, *all_pairs(len(texts)), TYPES, stems=stems)
    for pair, (candidate, reference) in enumerate(product(texts, repeat=2)):
        expected = scorer.score(reference, candidate)
        is_scored = all(re.search("[a-z0-9]", text.lower()) for text in (candidate, reference))
        for name in TYPES:
            overlap = scores[name]
            got = [overlap.precision[pair], overlap.recall[pair], overlap.f[pair]]
            wanted = list(expected[name]) if is_scored else [np.nan] * 3
            np.testing.assert_array_equal(got, wanted, err_msg=name)


@pytest.mark.parametrize("stems", [False, True])
def test_written_texts_match_rouge_score(stems):
    assert_matches_rouge_score(WRITTEN, stems=stems)


@settings(deadline=None, max_examples=60)
@given(texts=texts_of_lines, stems=st.booleans())
def test_generated_texts_match_rouge_score(texts, stems):
    assert_matches_rouge_score(texts, stems=stems)


@pytest.mark.parametrize("n_words", [2, 60])
def test_long_texts_match_rouge_score(n_words):
    rng = np.random.default_rng(n_words)
    lines = [
        " ".join(f"w{word}" for word in rng.integers(n_words, size=size)) for size in (63, 129, 7)
    ]
    assert_matches_rouge_score([*lines, "\n".join(lines[:2])])


def test_characters_of_each_kind_match_rouge_score():
    texts = [f"Running{chr(code)}RUNNERS {chr(code)} x{chr(code)}" for code in range(0x3100)]
    plain = ["running runners x runner"]
    texts = [re.sub("[\ud800-\udfff]", "", text) for text in texts] + plain
    scorer, last = RougeScorer(TYPES, use_stemmer=True), len(texts) - 1
    candidate = np.arange(last)
    scores = rouge(texts, candidate, np.full(last, last), TYPES, stems=True)
    for pair in range(0, last, 7):
        expected = scorer.score(plain[0], texts[pair])
        for name in TYPES:
            assert scores[name].f[pair] == expected[name].fmeasure, hex(pair)


def test_words_of_any_language_are_numbers():
    words = Ragged.from_rows([[3, 14, 15], [14, 3, 15], []])
    assert numbered(words) == ["3 14 15", "14 3 15", ""]
    overlap = rouge_of_words(words, np.array([0, 0]), np.array([1, 2]), "rougeL")
    np.testing.assert_array_equal(overlap.f, [2 / 3, np.nan])


# As a metric

TEXTS = [
    "Runners were running.\nThe cities' bridges closed, it is said.",
    "Müller’s plan: 3.5 % more",
]


@pytest.mark.parametrize("stems", [False, True])
def test_metric_is_that_of_rouge_score(stems):
    """With a sentence a line, the sentences are those of the package, too."""
    pairs = list(product(TEXTS, repeat=2))
    table = score_texts(
        [a for a, _ in pairs], [[b] for _, b in pairs], metrics=TYPES, stemmer=stems
    )
    scorer = RougeScorer(TYPES, use_stemmer=stems)
    for row, (candidate, reference) in zip(table.to_pylist(), pairs, strict=True):
        for name, expected in scorer.score(reference, candidate).items():
            assert [row[f"{name}_{part}"] for part in "prf"] == list(expected)


def test_stemmer_takes_endings_off():
    texts, against = ["A runner jumped."], [["The runners jump."]]
    by_stem = [
        score_texts(texts, against, metrics=("rouge1_f", "rougeW_f"), stemmer=stems).to_pylist()
        for stems in (False, True)
    ]
    assert [row[0]["rouge1_f"] for row in by_stem] == [0.0, 2 / 3]
    assert by_stem[0][0]["rougeW_f"] == 0.0 < by_stem[1][0]["rougeW_f"]
    with pytest.raises(ValueError, match=r"there is no `stemmer` for language 'vi'.*, de, "):
        score_texts(texts, against, metrics=("rouge1_f",), stemmer=True, language="vi")


def test_rouge_reads_no_sentences(monkeypatch):
    """What no metric reads is not looked for."""
    monkeypatch.setattr("sms.text.batches.EnglishBatches.cut", None)
    metrics = ("rouge1", "rouge2", "rougeL", "rougeW", "bleu", "chrf")
    (row,) = score_texts(["A cat sat. It left."], [["A cat."]], metrics=metrics).to_pylist()
    assert row["rouge1_r"] == 1.0
    for text, why in (("", "empty"), ("?! …", "no_words"), (None, "null")):
        (row,) = score_texts([text], [["A cat."]], metrics=metrics).to_pylist()
        assert row["status"] == f"candidate:{why}"


def test_forked_process_scores_the_same():
    program = """
import os
from sms.scoring import score_texts
def score():
    table = score_texts(["A cat sat."] * 40, [["A cat."]] * 40, metrics=("rougeL_f",))
    return table["rougeL_f"].to_pylist()
first = score()
if os.fork() == 0:
    assert score() == first
    print("same", flush=True)
    os._exit(0)
os.wait()
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env=os.environ | {"RAYON_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "same\n"


# ROUGE-W

# candidate, reference, weight, F worked out by hand (the first two are Lin 2004, section 4)
WLCS_BY_HAND = [
    pytest.param("ABCDHIK", "ABCDEFG", 2.0, 4 / 7, id="lin-y1-consecutive"),
    pytest.param("AHBKCID", "ABCDEFG", 2.0, 2 / 7, id="lin-y2-scattered"),
    pytest.param("ABC", "ABC", 1.2, 1.0, id="identical"),
    pytest.param("ABXC", "ABC", 2.0, 2 * 5 / (5**0.5 * (3 + 4)), id="two-runs"),
    pytest.param("XYZ", "ABC", 1.2, 0.0, id="nothing-shared"),
]


@pytest.mark.parametrize(("candidate", "reference", "weight", "expected"), WLCS_BY_HAND)
def test_weighted_lcs_by_hand(candidate, reference, weight, expected):
    tokens = Ragged.from_rows([[ord(c) for c in candidate], [ord(c) for c in reference]])
    overlap = rouge_w(tokens, np.array([0]), np.array([1]), weight)
    np.testing.assert_allclose(overlap.f, [expected], rtol=0, atol=ATOL)


def plain_wlcs(x: list[int], y: list[int], weight: float) -> float:
    """Lin's recurrence as it is printed."""
    c = np.zeros((len(x) + 1, len(y) + 1))
    w = np.zeros((len(x) + 1, len(y) + 1))
    for i in range(1, len(x) + 1):
        for j in range(1, len(y) + 1):
            if x[i - 1] == y[j - 1]:
                k = w[i - 1, j - 1]
                c[i, j] = c[i - 1, j - 1] + (k + 1) ** weight - k**weight
                w[i, j] = k + 1
            elif c[i - 1, j] > c[i, j - 1]:
                c[i, j] = c[i - 1, j]
            else:
                c[i, j] = c[i, j - 1]
    return float(c[-1, -1])


@settings(deadline=None, max_examples=60)
@given(rows=token_rows, weight=st.sampled_from([1.0, 1.2, 2.0]))
def test_weighted_lcs_matches_plain_recurrence(rows, weight):
    tokens = Ragged.from_rows(rows)
    overlap = rouge_w(tokens, *all_pairs(len(rows)), weight)
    for pair, (y, x) in enumerate(product(rows, repeat=2)):
        wlcs = plain_wlcs(x, y, weight)
        for got, row in ((overlap.precision[pair], y), (overlap.recall[pair], x)):
            share = (wlcs / len(row) ** weight) ** (1 / weight) if x and y else np.nan
            np.testing.assert_allclose(got, share, rtol=0, atol=ATOL)


def all_overlaps(tokens: Ragged, candidate: np.ndarray, reference: np.ndarray) -> list[Overlap]:
    """Every kind of score."""
    found = rouge(numbered(tokens), candidate, reference, TYPES)
    return [*found.values(), rouge_w(tokens, candidate, reference)]


@settings(deadline=None, max_examples=40)
@given(rows=token_rows)
def test_shares_are_bounded_and_exchanged_sides_exchange_them(rows):
    tokens, (candidate, reference) = Ragged.from_rows(rows), all_pairs(len(rows))
    there = all_overlaps(tokens, candidate, reference)
    back = all_overlaps(tokens, reference, candidate)
    is_same = (candidate == reference) & (tokens.lengths[candidate] > 3)
    for overlap, exchanged in zip(there, back, strict=True):
        for share in (overlap.precision, overlap.recall, overlap.f):
            assert (np.isnan(share) | ((share >= 0) & (share <= 1))).all()
            assert (share[is_same] == 1).all()
        np.testing.assert_array_equal(overlap.precision, exchanged.recall)
        np.testing.assert_array_equal(overlap.f, exchanged.f)


def test_text_without_tokens_scores_nan_and_short_one_0():
    tokens = Ragged.from_rows([[], [1, 2]])
    for overlap in (*all_overlaps(tokens, np.array([0, 1, 0]), np.array([0, 0, 1])),):
        np.testing.assert_array_equal(overlap.f, [np.nan] * 3)
        np.testing.assert_array_equal(overlap.recall, [np.nan] * 3)
    short = rouge_of_words(tokens, np.array([1]), np.array([1]), "rouge4")
    np.testing.assert_array_equal(short.f, [0])
    none = np.array([], dtype=np.int64)
    for texts in (tokens, Ragged.from_rows([])):
        assert [overlap.f.size for overlap in all_overlaps(texts, none, none)] == [0] * 6
