"""Cosine of text embeddings, by hand and against scipy."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy.spatial.distance import cdist

from sms.encoders import EncodedSentences
from sms.encoders.static import StaticEncoder, WordTable
from sms.metrics.cosine import cosine_similarities, text_vectors
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


SENTENCES = encoded([[1, 0], [0, 3], [-1, 2], [5, 5], [1, -1], [-1, 1]], [2, 1, 4, 0, 1, 1])


# pooling, sentences of each text, vectors worked out by hand; none where no sentence has weight
POOLED = [
    ("mean", [[0, 1], [2], [1, 1]], [[2 / 3, 1], [-1, 2], [0, 3]]),
    ("max", [[0, 1], [2, 0]], [[1, 3], [1, 2]]),
    *((pooling, [[3, 0], [3], []], [[1, 0], [0, 0], [0, 0]]) for pooling in ("mean", "max")),
    ("mean", [[4, 5], [4]], [[0, 0], [1, -1]]),
    ("max", [], np.empty((0, 2))),
]


@pytest.mark.parametrize(("pooling", "texts", "expected"), POOLED)
def test_text_vectors_by_hand(pooling, texts, expected):
    vectors, is_defined = text_vectors(SENTENCES, Ragged.from_rows(texts), pooling)
    np.testing.assert_allclose(vectors, expected, rtol=1e-15)
    assert is_defined.tolist() == np.any(expected, axis=1).tolist()


def test_cosine_by_hand():
    vectors = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0], [-2.0, 0.0], [4.0, 3.0], [0.0, 0.0]])
    is_defined = np.arange(6) < 5
    found = cosine_similarities(vectors, is_defined, np.zeros(6, dtype=int), np.arange(6))
    np.testing.assert_allclose(found, [1, 0, np.sqrt(0.5), -1, 0.8, np.nan], rtol=0, atol=1e-15)
    assert np.isnan(cosine_similarities(vectors, is_defined, np.array([5]), np.array([5])))


def test_cosine_matches_scipy():
    rng = np.random.default_rng(5)
    vectors = rng.normal(size=(30, 50)) * 10.0 ** rng.integers(-8, 8, size=(30, 1))
    candidate, reference = np.divmod(np.arange(900), 30)
    found = cosine_similarities(vectors, np.ones(30, dtype=bool), candidate, reference)
    expected = 1 - cdist(vectors, vectors, "cosine").ravel()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


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
