"""Nearest other documents: against a search of all, and what is no neighbour."""

import numpy as np
import pytest

from reffree import neighbours
from reffree.buckets import neighbours_path, read_bucket
from reffree.neighbours import (
    NEAR_IDENTICAL,
    centred,
    document_vectors,
    nearest_others,
    write_neighbours,
)
from sms.encoders.contextual import ContextualEncoder
from sms.encoders.registry import load_encoder
from tests.reffree.conftest import make_pairs, write_buckets


def units(rng, n, d):
    vectors = rng.normal(size=(n, d)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("rows_at_once", [7, 512])
def test_nearest_match_a_search_of_all(rng, monkeypatch, rows_at_once):
    monkeypatch.setattr(neighbours, "_ROWS_AT_ONCE", rows_at_once)
    vectors, groups = units(rng, 60, 5), rng.integers(0, 20, 60).astype(np.uint64)
    found = nearest_others(vectors, groups, 4)
    for i in range(60):
        cosines = {
            j: float(vectors[i] @ vectors[j])
            for j in range(60)
            if groups[j] != groups[i] and vectors[i] @ vectors[j] <= NEAR_IDENTICAL
        }
        assert found[i].tolist() == sorted(cosines, key=lambda j: -cosines[j])[:4]


def test_same_group_near_identical_and_empty_are_no_neighbours():
    vectors = np.array([[1, 0], [1, 0], [0.999, 0.0447], [0.6, 0.8], [0, 0]], dtype=np.float32)
    groups = np.array([1, 1, 2, 3, 4], dtype=np.uint64)
    found = nearest_others(vectors, groups, 3)
    assert found.tolist() == [[3, -1, -1], [3, -1, -1], [3, -1, -1], [2, 0, 1], [-1, -1, -1]]


def test_common_part_is_taken_out(rng):
    common = np.full(20, 10.0)
    raw = common + rng.normal(size=(50, 20))
    vectors = (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)
    vectors[7] = 0
    assert (vectors[0] @ vectors[1:7].T > NEAR_IDENTICAL).all()
    found = centred(vectors)
    assert (found[0] @ found[1:7].T < NEAR_IDENTICAL).all()
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), np.arange(50) != 7, atol=1e-5)


class Counting(ContextualEncoder):
    """Gives the number of words of what it reads, beside 1."""

    def __init__(self, unit):
        super().__init__(signature="", content_hash="", has_words=False, dimension=2, unit=unit)

    def vectors_of(self, texts, wanted, kept):
        own = [[texts.sentence_words.lengths[k], 1] for k in wanted]
        return np.empty((0, 2), np.float32), np.array(own, np.float32)


@pytest.mark.parametrize(("unit", "n_words"), [("sentence", 3), ("text", 6)])
def test_documents_are_read_in_the_encoders_unit(unit, n_words):
    (found,) = document_vectors(["It rained. We left."], Counting(unit))
    assert found[0] / found[1] == pytest.approx(n_words)


def test_written_beside_the_bucket(tmp_path):
    path = tmp_path / "words.txt"
    words = {"thing0": (1, 0), "thing1": (0.9, 0.4), "thing2": (-1, 0), "thing3": (-0.9, 0.4)}
    path.write_text("".join(f"{word} {x} {y}\n" for word, (x, y) in words.items()))
    (bucket,) = write_buckets(tmp_path / "pairs", make_pairs(4))
    write_neighbours(bucket, load_encoder(f"glove:{path}"), k=1)
    names = read_bucket(bucket).pairs.column("document_id").to_pylist()
    near = {names[i]: names[j] for i, (j,) in enumerate(np.load(neighbours_path(bucket)))}
    assert near == {"d0": "d1", "d1": "d0", "d2": "d3", "d3": "d2"}
