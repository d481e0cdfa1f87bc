"""Sides by document: stable, in proportion, and without a text on two of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reffree.hashing import hash64
from reffree.pairs import SIDES
from reffree.splits import TextRegister, hashed_sides

NO_SIDE = -1


@pytest.fixture
def register(tmp_path):
    made = []

    def make(entries):
        """Note (text, document, side) in the order given."""
        register = TextRegister(tmp_path / str(len(made)))
        made.append(register)
        register.note([(hash64(text), document, side) for text, document, side in entries])
        return register

    yield make
    for register in made:
        register.close()


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=40), st.randoms())
def test_groups_match_a_search_of_the_graph(tmp_path_factory, edges, random):
    entries = [(f"{text}", document) for text, document in edges] or [("a", 0)]
    shuffled = random.sample(entries, len(entries))
    found = []
    for listed in (entries, shuffled):
        register = TextRegister(tmp_path_factory.mktemp("register") / "texts")
        register.note([(hash64(text), document, NO_SIDE) for text, document in listed])
        found.append(register.groups().group_of(np.arange(13, dtype=np.uint64)).tolist())
        register.close()
    reached = {document: {document} for document in range(13)}
    for _ in range(13):
        for text, document in entries:
            for other_text, other in entries:
                if text == other_text:
                    reached[document] |= reached[other]
    assert found[0] == found[1] == [min(reached[document]) for document in range(13)]


def test_leak_leaves_out_the_earlier_side(register):
    # documents 1 (train) and 2 (test) share a text; 3 is twice there, for training and validation
    entries = [("a", 1, 0), ("a", 2, 2), ("doc 3", 3, 0), ("doc 3", 3, 1), ("b", 4, 0)]
    noted = register(entries)
    groups = noted.groups()
    keys = np.array([1, 2, 3, 3, 4], dtype=np.uint64)
    sides = np.array([0, 2, 0, 1, 0], dtype=np.int8)
    assert groups.is_leak(keys, sides).tolist() == [True, False, True, False, False]
    assert noted.n_leaks(lambda _keys, own: own) == {
        ("train", "test"): 1,
        ("train", "validation"): 1,
    }
    kept = noted.n_leaks(lambda k, own: np.where(groups.is_leak(k, own), NO_SIDE, own))
    assert kept == {}


def test_shares_of_sides():
    keys = np.random.default_rng(0).integers(0, 2**64, 100_000, dtype=np.uint64)
    shares = np.bincount(hashed_sides(keys, seed=3), minlength=len(SIDES)) / keys.size
    np.testing.assert_allclose(shares, [0.8, 0.1, 0.1], atol=0.005)  # five standard deviations


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1), st.integers(0, 1000))
def test_side_depends_on_document_and_seed_only(keys, seed):
    together = hashed_sides(np.array(keys, dtype=np.uint64), seed=seed)
    alone = [hashed_sides(np.array([key], dtype=np.uint64), seed=seed)[0] for key in keys]
    assert together.tolist() == alone
    assert set(alone) <= {0, 1, 2}
