"""Encoders: what turns the sentences of a batch into word and sentence vectors.

`registry.load_encoder` makes one from its name. Importing this package loads no model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sms.ragged import Ragged
from sms.text import SegmentedTexts


@dataclass(frozen=True, slots=True)
class EncodedSentences:
    """Vectors of a batch's distinct sentences."""

    word_points: np.ndarray
    """Vectors of words, shape (n_points, d); static encoders give their whole table."""
    sentence_words: Ragged
    """Rows of `word_points` for the kept words of every sentence, with repetitions."""
    sentence_points: np.ndarray
    """One vector per sentence for sentence mover's similarity, float64, shape (n_sentences, d)."""
    weights: np.ndarray
    """Kept words of every sentence that have a vector, int64, shape (n_sentences,)."""
    pooled: np.ndarray
    """One vector per sentence for cosine, float64, shape (n_sentences, d); for `max` pooling the
    largest value of each dimension, otherwise a mean."""
    pooled_weights: np.ndarray
    """Weight of each sentence in the mean of its text, float64, shape (n_sentences,)."""
    n_kept: np.ndarray
    """Kept words of every sentence, with or without a vector, int64, shape (n_sentences,)."""
    n_known: np.ndarray
    """Kept words of every sentence that the encoder knows, int64, shape (n_sentences,)."""


class Encoder(Protocol):
    """What a metric needs of an encoder."""

    @property
    def signature(self) -> str:
        """Name and settings, the part of a metric's signature after `enc:`."""

    @property
    def content_hash(self) -> str:
        """Hash of the weights or vectors, so that a resumed run uses the same ones."""

    @property
    def has_words(self) -> bool:
        """Whether it gives word vectors, as `wms` and `s+wms` need."""

    @property
    def pooling(self) -> str:
        """How word or sentence vectors become one text vector: `mean` or `max`."""

    def encode(self, texts: SegmentedTexts) -> EncodedSentences:
        """Encode the distinct sentences of a batch."""
