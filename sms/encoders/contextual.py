"""What encoders that read whole sentences have in common: each distinct sentence is read once.

Recent sentences' vectors are kept for later batches, within bounds. A subclass turns the
sentences that are not among them into vectors and knows nothing of the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from typing import Any

import numpy as np

from sms.encoders import EncodedSentences
from sms.ragged import Ragged, offsets_of
from sms.text import SegmentedTexts

CACHE_BYTES = 256 << 20
"""Vectors of recent sentences that are kept for later batches."""


class ContextualEncoder(ABC):
    """An encoder that reads whole sentences, each alone.

    A sentence's vector for sentence mover's similarity is the mean of its kept words or, where
    the encoder has no word vectors, its own; for cosine it is always its own.

    Parameters
    ----------
    signature : str
        Name and settings.
    content_hash : str
        Of the weights.
    has_words : bool
        Whether it gives word vectors.
    dimension : int
        Of word vectors, or of sentence vectors where there are none.
    pooled_dimension : int, optional
        Of a sentence's own vector; by default `dimension`.
    pooling : {"mean", "max"}
        How the sentences' own vectors become one text vector.
    """

    def __init__(
        self,
        *,
        signature: str,
        content_hash: str,
        has_words: bool,
        dimension: int,
        pooled_dimension: int | None = None,
        pooling: str = "mean",
    ) -> None:
        self.signature = signature
        self.content_hash = content_hash
        self.has_words = has_words
        self.dimension = dimension
        self.pooling = pooling
        self._pooled_dimension = pooled_dimension or dimension
        self._cache: OrderedDict[str, tuple[np.ndarray, np.ndarray]] = OrderedDict()
        self._cache_bytes = 0
        self.n_sentences = 0
        """Distinct sentences asked for so far."""
        self.n_cached = 0
        """How many of them were found in the cache."""
        self.n_tokens = 0
        """Tokens computed so far, where the encoder counts them."""

    @abstractmethod
    def vectors_of(
        self, texts: SegmentedTexts, wanted: np.ndarray, kept: Ragged
    ) -> tuple[np.ndarray, np.ndarray]:
        """Encode some sentences of a batch.

        Parameters
        ----------
        texts : SegmentedTexts
        wanted : ndarray of int64, shape (n_wanted,)
            Numbers of the sentences in `texts.sentences`.
        kept : Ragged of bool
            For every wanted sentence, which of its words count (only they need a vector).

        Returns
        -------
        words : ndarray of float32, shape (n_kept_words, d)
            Vectors of the kept words, in order, sentence after sentence; (0, d) without words.
        pooled : ndarray of float32, shape (n_wanted, d_pooled)
            Each sentence's own vector.
        """

    def encode(self, texts: SegmentedTexts) -> EncodedSentences:
        """Encode the distinct sentences of a batch that are not in the cache."""
        words = texts.sentence_words
        kept = Ragged(texts.is_kept[words.values], words.offsets)
        n_kept = _true_per_row(kept)
        has_content = _true_per_row(Ragged(texts.lower[words.values] >= 0, words.offsets)) > 0
        found = self._look_up(texts, kept, n_kept)
        if found:
            points = np.concatenate([entry[0] for entry in found])
            own = np.stack([entry[1] for entry in found]).astype(np.float64)
        else:
            points = np.empty((0, self.dimension), dtype=np.float32)
            own = np.empty((0, self._pooled_dimension))
        offsets = offsets_of(n_kept if self.has_words else np.zeros_like(n_kept))
        return EncodedSentences(
            word_points=points,
            sentence_words=Ragged(np.arange(len(points)), offsets),
            sentence_points=_means(points, offsets) if self.has_words else own,
            weights=n_kept,
            pooled=own,
            pooled_weights=np.where(has_content, words.lengths, 0).astype(np.float64),
            n_kept=n_kept,
            n_known=n_kept,
        )

    def state(self) -> dict[str, Any]:
        """Return what was done so far: tokens computed, sentences asked for and found cached."""
        return {
            "tokens": self.n_tokens,
            "sentences": self.n_sentences,
            "cached": self.n_cached,
        }

    def _look_up(
        self, texts: SegmentedTexts, kept: Ragged, n_kept: np.ndarray
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return word vectors and own vector of every sentence, from the cache or encoded."""
        sentences = texts.sentences
        missing = np.array(
            [k for k, sentence in enumerate(sentences) if sentence not in self._cache],
            dtype=np.int64,
        )
        self.n_sentences += len(sentences)
        self.n_cached += len(sentences) - missing.size
        fresh: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        if missing.size:
            vectors, pooled = self.vectors_of(texts, missing, kept.take(missing))
            starts = offsets_of(n_kept[missing] if self.has_words else np.zeros_like(missing))
            for k, position in enumerate(missing.tolist()):
                fresh[sentences[position]] = (vectors[starts[k] : starts[k + 1]], pooled[k])
        found = []
        for sentence in sentences:
            entry = fresh.get(sentence)
            if entry is None:
                entry = self._cache[sentence]
                self._cache.move_to_end(sentence)
            found.append(entry)
        self._remember(fresh)
        return found

    def _remember(self, fresh: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
        for sentence, (vectors, pooled) in fresh.items():
            self._cache[sentence] = (vectors.copy(), pooled.copy())
            self._cache_bytes += vectors.nbytes + pooled.nbytes
        while self._cache_bytes > CACHE_BYTES:
            _, (vectors, pooled) = self._cache.popitem(last=False)
            self._cache_bytes -= vectors.nbytes + pooled.nbytes


def _true_per_row(rows: Ragged) -> np.ndarray:
    owner = np.repeat(np.arange(len(rows)), rows.lengths)
    return np.bincount(owner[rows.values], minlength=len(rows))


def _means(points: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the float64 mean of every row's vectors; zeros for a row without any."""
    lengths = np.diff(offsets)
    means = np.zeros((lengths.size, points.shape[1]))
    filled = np.flatnonzero(lengths)
    if filled.size:
        means[filled] = np.add.reduceat(points, offsets[filled], axis=0, dtype=np.float64)
        means[filled] /= lengths[filled, None]
    return means
