"""Cosine of text embeddings, by hand and against scipy."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy.spatial.distance import cdist

from sms.cosine import cosine_similarities, text_vectors
from sms.encoders import EncodedSentences
from sms.encoders.static import StaticEncoder
from sms.encoders.word_table import WordTable
from sms.ragged import Ragged
from sms.text import Segmenter


def encoded(pooled: list[list[float]], weights: list[float]) -> EncodedSentences:
    """Sentences of which only the pooled vectors matter."""
    n = len(pooled)
    vectors = np.array(pooled)
    counts = np.zeros(n, dtype=np.int64)
    return EncodedSentences(
        word_points=np.empty((0, vectors.shape[1])),
        sentence_words=Ragged.from_rows([[]] * n),
        sentence_points=vectors,
        weights=counts,
        pooled=vectors,
        pooled_weights=np.array(weights, dtype=np.float64),
        n_kept=counts,
        n_known=counts,
    )


SENTENCES = encoded([[1, 0], [0, 3], [-1, 2], [5, 5]], [2, 1, 4, 0])


def test_mean_is_weighted_by_hand():
    vectors, is_defined = text_vectors(SENTENCES, Ragged.from_rows([[0, 1], [2], [1, 1]]), "mean")
    np.testing.assert_allclose(vectors, [[2 / 3, 1], [-1, 2], [0, 3]], rtol=1e-15)
    assert is_defined.all()


def test_max_by_hand():
    vectors, is_defined = text_vectors(SENTENCES, Ragged.from_rows([[0, 1], [2, 0]]), "max")
    np.testing.assert_array_equal(vectors, [[1, 3], [1, 2]])
    assert is_defined.all()


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_sentence_without_weight_is_left_out(pooling):
    vectors, is_defined = text_vectors(SENTENCES, Ragged.from_rows([[3, 0], [3], []]), pooling)
    np.testing.assert_array_equal(vectors, [[1, 0], [0, 0], [0, 0]])
    assert is_defined.tolist() == [True, False, False]


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_no_texts(pooling):
    vectors, is_defined = text_vectors(SENTENCES, Ragged.from_rows([]), pooling)
    assert vectors.shape == (0, 2)
    assert is_defined.shape == (0,)


def test_zero_vector_is_undefined():
    vectors, is_defined = text_vectors(
        encoded([[1, -1], [-1, 1]], [1, 1]), Ragged.from_rows([[0, 1], [0]]), "mean"
    )
    assert is_defined.tolist() == [False, True]
    found = cosine_similarities(vectors, is_defined, np.array([0, 1, 0]), np.array([1, 1, 0]))
    np.testing.assert_array_equal(found, [np.nan, 1.0, np.nan])


def test_cosine_by_hand():
    vectors = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0], [-2.0, 0.0], [4.0, 3.0]])
    found = cosine_similarities(
        vectors, np.ones(5, dtype=bool), np.array([0, 0, 0, 0]), np.array([1, 2, 3, 4])
    )
    np.testing.assert_allclose(found, [0, np.sqrt(0.5), -1, 0.8], rtol=0, atol=1e-15)


def test_cosine_matches_scipy():
    rng = np.random.default_rng(5)
    vectors = rng.normal(size=(30, 50)) * 10.0 ** rng.integers(-8, 8, size=(30, 1))
    candidate, reference = np.divmod(np.arange(900), 30)
    found = cosine_similarities(vectors, np.ones(30, dtype=bool), candidate, reference)
    expected = 1 - cdist(vectors, vectors, "cosine").ravel()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_similarity_is_symmetric_and_bounded():
    rng = np.random.default_rng(6)
    vectors = rng.normal(size=(40, 3)).round(1)
    vectors[20:] = vectors[:20] * 3  # parallel, so rounding could leave [-1, 1]
    is_defined = (vectors != 0).any(axis=1)
    candidate, reference = np.divmod(np.arange(1600), 40)
    found = cosine_similarities(vectors, is_defined, candidate, reference)
    np.testing.assert_array_equal(
        found, cosine_similarities(vectors, is_defined, reference, candidate)
    )
    assert np.nanmax(np.abs(found)) <= 1.0


def test_same_text_is_exactly_one():
    vectors = np.random.default_rng(8).normal(size=(100, 384))
    same = np.arange(100)
    found = cosine_similarities(vectors, np.ones(100, dtype=bool), same, same)
    assert (found == 1.0).all()


def test_no_pairs():
    none = np.empty(0, dtype=np.int64)
    assert cosine_similarities(np.ones((2, 3)), np.ones(2, dtype=bool), none, none).size == 0


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_text_vector_is_pooled_over_all_its_words(pooling):
    # Sun and Nenkova 2019: over words, so sentence boundaries do not matter
    table = np.random.default_rng(9).normal(size=(4, 6)).astype(np.float32)
    words = WordTable.of(["cat", "dog", "hen", "cow"], table)
    encoder = StaticEncoder(words, name="test", pooling=pooling)
    segmented = Segmenter().segment(pa.array(["Cat dog dog. Hen! Cow cat."]))
    assert segmented.text_sentences.lengths.tolist() == [3]
    vectors, _ = text_vectors(encoder.encode(segmented), segmented.text_sentences, pooling)
    words = table[[0, 1, 1, 2, 3, 0]].astype(np.float64)
    expected = words.max(axis=0) if pooling == "max" else words.mean(axis=0)
    np.testing.assert_allclose(vectors, [expected], rtol=1e-12)
