"""What encoders that read whole sentences have in common: each distinct sentence is read once.

Recent sentences' vectors are kept for later batches, within bounds, and, where a folder is given,
on disk for later runs (`vector_cache`). A subclass turns the sentences that are not among them
into vectors and knows nothing of the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from sms.compiled import kernel
from sms.encoders import EncodedSentences, EncoderRuntime
from sms.encoders.batches import Batches
from sms.encoders.vector_cache import Recent, SentenceVectors, VectorCache, key_of
from sms.ragged import Ragged, offsets_of
from sms.text import SegmentedTexts

CACHE_BYTES = 256 << 20
"""Vectors of recent sentences that are kept for later batches."""
COUNTERS = ("tokens", "sentences", "cached", "from_disk", "truncated", "words", "unknown")
"""Tokens computed; distinct sentences asked for, and how many of them were found in memory, read
from disk, and are too long for a model whose own library cuts them, cached or not; words that count
in them, and how many of those the encoder does not know."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What is known of sentences before they are encoded."""

    needed: Ragged
    """Which words need a vector, bool: those that count and are known, if any do."""
    n_needed: np.ndarray
    """How many these are in every sentence; int64, (n_sentences,)."""
    n_words: np.ndarray
    n_kept: np.ndarray
    """Words that count; int64, (n_sentences,)."""
    n_known: np.ndarray
    """How many of these are known."""
    is_seen: np.ndarray
    """Whether there is anything to encode."""


def count_words(texts: SegmentedTexts, known_words: np.ndarray, has_words: bool) -> Counted:
    """Count the words of every sentence, by which words of the vocabulary are known.

    Without `has_words` none needs a vector.
    """
    words = texts.sentence_words
    is_known = known_words[words.values]
    counts = texts.is_kept[words.values]
    n_kept, n_known = words.sums(counts), words.sums(counts & is_known)
    needed = Ragged(counts & is_known & has_words, words.offsets)
    has_content = words.sums((texts.lower[words.values] >= 0) & is_known)
    # without a word that counts, stop words will do
    is_seen = np.where(n_kept > 0, n_known, has_content) > 0
    return Counted(needed, n_known * has_words, words.lengths, n_kept, n_known, is_seen)


class ContextualEncoder(ABC):
    """An encoder that reads whole sentences, each alone.

    A sentence's vector for sentence mover's similarity is the mean of its kept words or, where
    the encoder has no word vectors, its own; for cosine it is always its own. Words that it does
    not know are left out, and so are sentences without any other. `dimension` is that of word
    vectors and of a sentence's own; the rest is as in `Encoder`.
    """

    def __init__(
        self,
        *,
        signature: str,
        content_hash: str,
        dimension: int,
        has_words: bool = False,
        pooling: str = "mean",
        unit: str = "sentence",
    ) -> None:
        self.signature, self.content_hash = signature, content_hash
        self.has_words, self.dimension = has_words, dimension
        self.pooling, self.unit = pooling, unit
        self._cache: Recent[SentenceVectors] = Recent()
        self._disk: VectorCache | None = None
        self.counts = dict.fromkeys(COUNTERS, 0)

    def set_up(self, runtime: EncoderRuntime) -> None:
        """Keep vectors on disk, and leave those of words out, where a runtime says so."""
        part = ""
        if self.has_words and runtime.sentences_only:
            self.has_words, part = False, "|sentences"
        if runtime.cache_folder is not None:
            owner = f"{self.signature}|{self.content_hash}{part}"
            self._disk = VectorCache(runtime.cache_folder, owner=owner, dimension=self.dimension)

    @abstractmethod
    def vectors_of(
        self, texts: SegmentedTexts, wanted: np.ndarray, kept: Ragged
    ) -> tuple[np.ndarray, np.ndarray]:
        """Encode the sentences of these numbers, or raise `CannotSplit`.

        `kept` says which words of each count and are known; only they need a vector. Returned are
        their vectors, float32, (n_kept_words, d), sentence after sentence, (0, d) without words,
        and each sentence's own, float32, (n_wanted, d).
        """

    def known_words(self, texts: SegmentedTexts) -> np.ndarray:
        """Tell which words of the vocabulary the encoder knows: all, or a subclass says which."""
        return np.ones(len(texts.vocabulary.words), dtype=bool)

    def is_cut(self, texts: SegmentedTexts) -> np.ndarray:
        """Tell which sentences are read in part: none, or a subclass says which."""
        return np.zeros(len(texts.sentences), dtype=bool)

    def encode(self, texts: SegmentedTexts) -> EncodedSentences:
        """Encode the distinct sentences of a batch that are not in the cache."""
        counted = count_words(texts, self.known_words(texts), self.has_words)
        is_cut = self.is_cut(texts)
        points, own = self._cached_or_fresh(texts, counted)
        n_kept, n_known = counted.n_kept, counted.n_known
        self.counts["truncated"] += int(is_cut.sum())
        self.counts["words"] += int(n_kept.sum())
        self.counts["unknown"] += int(n_kept.sum() - n_known.sum())
        # a model that looks words up itself may have found none
        is_seen = counted.is_seen & own.any(axis=1)
        weights = n_known * is_seen
        words = Ragged(np.arange(len(points)), offsets_of(counted.n_needed))
        return EncodedSentences(
            word_points=points,
            sentence_words=words,
            sentence_points=_means(points, words.offsets) if self.has_words else own,
            weights=weights,
            pooled=own,
            pooled_weights=np.where(is_seen, counted.n_words, 0).astype(np.float64),
            n_kept=n_kept,
            n_known=weights,
            is_cut=is_cut,
        )

    def state(self) -> dict[str, int]:
        """Return what was done so far, by `COUNTERS`."""
        return dict(self.counts)

    def _cached_or_fresh(
        self, texts: SegmentedTexts, counted: Counted
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the vectors of words that need one, and each sentence's own, float64."""
        sentences = texts.sentences
        missing = np.array(self._cache.missing(sentences), dtype=np.int64)
        fresh = self._read_or_encode(texts, missing, counted)
        entries = [fresh.get(k) or self._cache[text] for k, text in enumerate(sentences)]
        # whole arrays are not to be kept for the sake of a slice
        copies = {sentences[k]: (own[0].copy(), own[1].copy()) for k, own in fresh.items()}
        self._cache.add(copies, CACHE_BYTES)
        self.counts["sentences"] += len(sentences)
        self.counts["cached"] += len(sentences) - missing.size
        nothing = np.empty((0, self.dimension), dtype=np.float32)
        points = np.concatenate([nothing, *(words for words, _ in entries)])
        own = np.array([own for _, own in entries], np.float32).reshape(-1, self.dimension)
        return points, own.astype(np.float64)

    def _read_or_encode(
        self, texts: SegmentedTexts, wanted: np.ndarray, counted: Counted
    ) -> dict[int, SentenceVectors]:
        """Read some sentences' vectors from disk and encode, and write, those not there."""
        fresh: dict[int, SentenceVectors] = {}
        keys = {}
        if self._disk is not None:
            rules = texts.vocabulary.rules.signature
            keys = {k: key_of(rules, texts.sentences[k]) for k in wanted.tolist()}
            read = self._disk.read(list(keys.values()), counted.n_needed[wanted])
            fresh = {int(wanted[place]): vectors for place, vectors in read.items()}
            self.counts["from_disk"] += len(fresh)
            wanted = np.array([k for k in wanted.tolist() if k not in fresh], dtype=np.int64)
        if not wanted.size:
            return fresh
        words, own = self.vectors_of(texts, wanted, counted.needed.take(wanted))
        parts = np.split(words, np.cumsum(counted.n_needed[wanted])[:-1])
        encoded = dict(zip(wanted.tolist(), zip(parts, own, strict=True), strict=True))
        if self._disk is not None:
            self._disk.write({keys[k]: vectors for k, vectors in encoded.items()})
        return fresh | encoded


class SentenceEncoder(ContextualEncoder):
    """An encoder without word vectors; what makes a vector of a sentence is given to `embed`."""

    batches: Batches

    @abstractmethod
    def inputs_of(self, texts: SegmentedTexts, wanted: np.ndarray) -> tuple[list[Any], np.ndarray]:
        """Return what is read for each of some sentences, and how long it is; int64.

        Where that is 0 nothing is read, and the vector is zero. Raises `CannotSplit`.
        """

    @abstractmethod
    def embed(self, inputs: list[Any]) -> np.ndarray:
        """Return a vector for each of some inputs of about one length, float32."""

    def vectors_of(
        self, texts: SegmentedTexts, wanted: np.ndarray, kept: Ragged
    ) -> tuple[np.ndarray, np.ndarray]:
        """Encode some sentences of a batch, longest first."""
        inputs, lengths = self.inputs_of(texts, wanted)
        filled = np.flatnonzero(lengths)
        self.counts["tokens"] += int(lengths.sum())
        vectors = np.zeros((wanted.size, self.dimension), dtype=np.float32)

        def compute(batch: np.ndarray) -> None:
            vectors[filled[batch]] = self.embed([inputs[k] for k in filled[batch].tolist()])

        self.batches.run(lengths[filled], compute)
        return np.empty((0, self.dimension), dtype=np.float32), vectors


@kernel()
def _means(points: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the float64 mean of every row's vectors; zeros for a row without any.

    Compiled, because `np.add.reduceat` took five times as long as a GPU took for the vectors.
    """
    means = np.zeros((offsets.size - 1, points.shape[1]))
    for row in range(offsets.size - 1):
        mean = means[row]
        for point in range(offsets[row], offsets[row + 1]):
            for place in range(mean.size):
                mean[place] += points[point, place]
        if offsets[row + 1] > offsets[row]:
            mean /= offsets[row + 1] - offsets[row]
    return means
