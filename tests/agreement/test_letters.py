"""Letters for tests of all pairs: by hand, and against all groups found by trying each."""

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agreement import compact_letters


def matrix(n, pairs):
    differs = np.zeros((n, n), dtype=bool)
    for i, j in pairs:
        differs[i, j] = differs[j, i] = True
    return differs


@pytest.mark.parametrize(
    ("n", "pairs", "letters"),
    [
        (0, [], []),
        (1, [], ["a"]),
        (2, [], ["a", "a"]),
        (2, [(0, 1)], ["a", "b"]),
        (3, [(0, 1), (0, 2), (1, 2)], ["a", "b", "c"]),
        (3, [(0, 2)], ["a", "ab", "b"]),
        # B and C differ, A from neither, though its mean is the highest
        (3, [(1, 2)], ["ab", "a", "b"]),
        # Piepho 2004: four in a chain, where each differs from all but its neighbours
        (4, [(0, 2), (0, 3), (1, 3)], ["a", "ab", "bc", "c"]),
    ],
)
def test_letters_by_hand(n, pairs, letters):
    assert compact_letters(matrix(n, pairs)) == letters


@st.composite
def matrices(draw):
    n = draw(st.integers(1, 7))
    pairs = list(combinations(range(n), 2))
    return n, draw(st.sets(st.sampled_from(pairs))) if pairs else set()


@given(matrices())
def test_two_systems_share_a_letter_if_and_only_if_they_do_not_differ(case):
    n, pairs = case
    letters = compact_letters(matrix(n, pairs))
    assert all(letters)
    for pair in combinations(range(n), 2):
        assert (pair in pairs) == (not {*letters[pair[0]]} & {*letters[pair[1]]})
    assert "a" in letters[0]


@given(matrices())
def test_every_letter_is_needed_and_stands_for_a_largest_group(case):
    """The largest groups without a difference are found by trying every set of systems."""
    n, pairs = case
    letters = compact_letters(matrix(n, pairs))
    groups = {x: {k for k in range(n) if x in letters[k]} for x in {*chain.from_iterable(letters)}}
    sets = chain.from_iterable(combinations(range(n), size) for size in range(1, n + 1))
    free = [{*some} for some in sets if not {*combinations(some, 2)} & pairs]
    largest = [group for group in free if not any(group < other for other in free)]
    assert all(group in largest for group in groups.values())
    for letter in groups:
        rest = [group for other, group in groups.items() if other != letter]
        together = [*combinations(sorted(groups[letter]), 2), *((k, k) for k in groups[letter])]
        assert not all(any({*pair} <= group for group in rest) for pair in together)


def test_more_groups_than_letters():
    letters = compact_letters(~np.eye(60, dtype=bool))
    assert len({*letters}) == 60
    assert letters[:2] == ["a", "b"]
    assert letters[51:54] == ["Z", "aa", "ab"]


@pytest.mark.parametrize(
    "differs", [np.zeros((2, 3), bool), np.eye(2, dtype=bool), np.triu(np.ones((2, 2), bool), 1)]
)
def test_matrix_that_is_none_of_pairs_is_refused(differs):
    with pytest.raises(ValueError, match="must be a symmetric square matrix"):
        compact_letters(differs)
