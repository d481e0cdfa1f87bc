"""ROUGE of packed pairs, held against rouge-score, a plain weighted LCS and Lin's examples."""

from __future__ import annotations

from itertools import chain, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from sms.overlap import (
    Overlap,
    rouge_l,
    rouge_lsum,
    rouge_n,
    rouge_tokens,
    rouge_w,
)
from sms.ragged import Ragged

ATOL = 1e-12
"""Both sides divide the same small integers; only the last digits may differ."""

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


def pack(texts: list[str]) -> tuple[Ragged, Ragged]:
    """Token ids of each line, lines of each text."""
    lines = [text.split("\n") for text in texts]
    ids: dict[str, int] = {}
    rows = [
        [ids.setdefault(token, 7 * len(ids) - 20) for token in rouge_tokens(line)]
        for line in chain.from_iterable(lines)
    ]
    n_lines = np.array([len(lines_of_text) for lines_of_text in lines])
    return Ragged.from_rows(rows), Ragged.from_lengths(np.arange(len(rows)), n_lines)


def all_pairs(n_texts: int) -> tuple[np.ndarray, np.ndarray]:
    return np.divmod(np.arange(n_texts**2), n_texts)


def ours(texts: list[str]) -> dict[str, Overlap]:
    sentence_tokens, text_sentences = pack(texts)
    tokens = text_sentences.expand(sentence_tokens)
    pairs = all_pairs(len(texts))
    scores = {f"rouge{n}": rouge_n(tokens, *pairs, n) for n in (1, 2, 4)}
    scores["rougeL"] = rouge_l(tokens, *pairs)
    scores["rougeLsum"] = rouge_lsum(sentence_tokens, text_sentences, *pairs)
    return scores


def assert_matches_rouge_score(texts: list[str]) -> None:
    scorer = RougeScorer(TYPES, use_stemmer=False)
    scores = ours(texts)
    for pair, (candidate, reference) in enumerate(product(texts, repeat=2)):
        expected = scorer.score(reference, candidate)
        is_scored = bool(rouge_tokens(candidate)) and bool(rouge_tokens(reference))
        for name in TYPES:
            overlap = scores[name]
            got = [overlap.precision[pair], overlap.recall[pair], overlap.f[pair]]
            wanted = list(expected[name]) if is_scored else [np.nan] * 3
            np.testing.assert_allclose(got, wanted, rtol=0, atol=ATOL, err_msg=name)


def test_written_texts_match_rouge_score():
    assert_matches_rouge_score(WRITTEN)


@settings(deadline=None, max_examples=60)
@given(texts=texts_of_lines)
def test_generated_texts_match_rouge_score(texts):
    assert_matches_rouge_score(texts)


@pytest.mark.parametrize("n_words", [2, 12, 60])
def test_long_texts_match_rouge_score(n_words):
    # Lines on both sides of 64 and 128 tokens, where the bit-parallel LCS changes blocks.
    rng = np.random.default_rng(n_words)
    lines = [
        " ".join(f"w{word}" for word in rng.integers(n_words, size=size))
        for size in (63, 64, 65, 127, 128, 129, 150, 7)
    ]
    assert_matches_rouge_score([*lines, "\n".join(lines[:2]), "\n".join(lines[2:4])])


@pytest.mark.parametrize("n_between", [62, 63, 127, 200])
def test_swapped_ends_across_blocks_match_rouge_score(n_between):
    # The step that finds `a` must undo `b`'s two or three blocks further on.
    between = " ".join(f"w{word}" for word in range(n_between))
    assert_matches_rouge_score([f"a {between} b", "b a", "a b a"])


def test_chunks_of_one_character_of_each_kind():
    # Lower-casing must not depend on the neighbours, nor white space on the splitter.
    for code in range(0x3100):
        text = f"Running{chr(code)}RUNNERS {chr(code)} x{chr(code)}"
        by_chunk = [token for chunk in text.split() for token in rouge_tokens(chunk)]
        assert by_chunk == rouge_tokens(text), hex(code)


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
    """Every kind of score; for the union LCS each text is one sentence."""
    sentences = Ragged.from_rows([[text] for text in range(len(tokens))])
    return [
        rouge_n(tokens, candidate, reference, 1),
        rouge_n(tokens, candidate, reference, 2),
        rouge_l(tokens, candidate, reference),
        rouge_w(tokens, candidate, reference),
        rouge_lsum(tokens, sentences, candidate, reference),
    ]


@settings(deadline=None, max_examples=40)
@given(rows=token_rows)
def test_shares_are_bounded_and_exchanged_sides_exchange_them(rows):
    tokens, (candidate, reference) = Ragged.from_rows(rows), all_pairs(len(rows))
    there = all_overlaps(tokens, candidate, reference)
    back = all_overlaps(tokens, reference, candidate)
    is_same = (candidate == reference) & (tokens.lengths[candidate] > 1)
    for overlap, exchanged in zip(there, back, strict=True):
        for share in (overlap.precision, overlap.recall, overlap.f):
            assert (np.isnan(share) | ((share >= 0) & (share <= 1))).all()
            assert (share[is_same] == 1).all()
        np.testing.assert_array_equal(overlap.precision, exchanged.recall)
        np.testing.assert_array_equal(overlap.f, exchanged.f)


def test_text_without_tokens_scores_nan_and_short_one_0():
    tokens = Ragged.from_rows([[], [1, 2]])
    for overlap in all_overlaps(tokens, np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])):
        np.testing.assert_array_equal(overlap.f, [np.nan, np.nan, np.nan, 1])
        np.testing.assert_array_equal(overlap.recall, [np.nan, np.nan, np.nan, 1])
    short = rouge_n(tokens, np.array([1]), np.array([1]), 4)
    np.testing.assert_array_equal(short.f, [0])
    none = np.array([], dtype=np.int64)
    for texts in (tokens, Ragged.from_rows([])):
        assert [overlap.f.size for overlap in all_overlaps(texts, none, none)] == [0] * 5
