"""What all encoders have in common: words are counted, weighed, and vectors kept, here alone.

An encoder says what it is called and turns sentences (`Encoder.vectors_of`), or words
(`WordEncoder.embed`), into vectors. Whatever is built on it gets them from `encode_texts`.

Vectors of recent sentences are kept for later batches, within bounds, and, where a folder is given,
on disk for later runs (`vector_cache`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

import numpy as np

from sms.encoders import CannotSplit, EncodedSentences, EncoderRuntime
from sms.encoders.batches import Batches
from sms.encoders.fragments import in_fragments
from sms.encoders.vector_cache import Recent, SentenceVectors, VectorCache, key_of
from sms.pooling import pool_rows
from sms.ragged import Ragged, offsets_of, ranges
from sms.text import SegmentedTexts

CACHE_BYTES = 256 << 20
"""Vectors of recent sentences that are kept for later batches."""
BATCH_CHARACTERS = 32_768
"""Characters of sentences that are embedded together where an encoder says nothing else."""
COUNTERS = (
    "tokens", "sentences", "cached", "from_disk", "truncated", "words", "unknown", "fragments",
)  # fmt: skip
"""Tokens computed; distinct sentences asked for, and how many of them were found in memory, read
from disk, and are too long for a model whose own library cuts them, cached or not; words that count
in them, and how many of those the encoder does not know, or reads in fragments."""


_UNNAMED = count()
"""Tells tables without a hash apart; an address may be that of one that is gone."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What is known of sentences before they are encoded."""

    is_known: np.ndarray
    """Which words are known, bool, shape (n_words_of_all_sentences,)."""
    is_used: np.ndarray
    """Which of them count, too."""
    n_words: np.ndarray
    """Words of every sentence; int64, (n_sentences,)."""
    n_kept: np.ndarray
    """How many of these count."""
    n_known: np.ndarray
    """How many of those that count are known."""

    @classmethod
    def of(cls, texts: SegmentedTexts, known_words: np.ndarray) -> Counted:
        """Count the words of every sentence, by which words of the vocabulary are known."""
        words = texts.sentence_words
        is_known = known_words[words.values]
        is_kept = texts.is_kept[words.values]
        is_used = is_kept & is_known
        return cls(is_known, is_used, words.lengths, words.sums(is_kept), words.sums(is_used))

    def are_seen(self, texts: SegmentedTexts) -> np.ndarray:
        """Tell which sentences have anything to encode: without a word that counts, stop words."""
        words = texts.sentence_words
        has_content = words.sums((texts.lower[words.values] >= 0) & self.is_known)
        return np.where(self.n_kept > 0, self.n_known, has_content) > 0


class Encoder:
    """Turns the sentences of a batch, each alone, into vectors.

    A sentence's vector for sentence mover's similarity is the mean of its words that count or,
    where the encoder has no word vectors, its own; for cosine it is always its own. Words that it
    does not know are left out, and so are sentences without any other.

    Parameters
    ----------
    signature : str
        Name and settings, the part of a metric's signature after `enc:`.
    content_hash : str
        Of the weights or vectors, so that a resumed run uses the same ones.
    dimension : int
        Of the vectors of words and of a sentence's own.
    has_words : bool
        Whether it gives vectors of words, as `wms` and `s+wms` need.
    pooling : str
        How sentences become one text vector: `mean` or `max`.
    unit : str
        What it is given at once: `sentence`, or `text` (then `SegmentedTexts.whole`).
    """

    counters: ClassVar[tuple[str, ...]] = COUNTERS

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
        self.counts = dict.fromkeys(self.counters, 0)
        self._finest = EncoderRuntime().finest
        self._recent: Recent[SentenceVectors] = Recent()
        self._disk: VectorCache | None = None

    def set_up(self, runtime: EncoderRuntime) -> None:
        """Make and keep what a run reads, on disk, too, where it says so."""
        self._finest = runtime.finest
        if runtime.cache_folder is not None:
            owner = f"{self.signature}|{self.content_hash}|{self._rows_are}"
            self._disk = VectorCache(
                runtime.cache_folder, owner=owner, dimension=self.dimension, dtype=self._dtype
            )

    def vectors_of(
        self, texts: SegmentedTexts, wanted: np.ndarray, kept: Ragged
    ) -> tuple[np.ndarray, np.ndarray]:
        """Encode the sentences of these numbers, or raise `CannotSplit`.

        `kept` says which words of each need a vector: those that count and are known, or none
        where nothing reads vectors of words. Returned are their vectors, float32,
        (n_kept_words, d), sentence after sentence, (0, d) without words, and each sentence's own,
        float32, (n_wanted, d).
        """
        raise NotImplementedError

    def known_words(self, texts: SegmentedTexts) -> np.ndarray:
        """Tell which words of `texts.vocabulary` the encoder knows: all, or a subclass says which.

        Bool, shape (n_words,).
        """
        return np.ones(len(texts.vocabulary.words), dtype=bool)

    def pieces_of_words(self, texts: SegmentedTexts) -> np.ndarray | None:
        """Return how many pieces each word of `texts.vocabulary` is cut into, alone; int64.

        None, unless a subclass says how many, for an encoder that does not cut words.
        """
        return None

    def read_words(self, texts: SegmentedTexts) -> np.ndarray:
        """Tell which words of `texts.vocabulary` are known, and not read in fragments; bool."""
        return self.known_words(texts) & ~self._in_fragments(texts)

    def _in_fragments(self, texts: SegmentedTexts) -> np.ndarray:
        n_pieces = self.pieces_of_words(texts)
        if n_pieces is None:
            return np.zeros(len(texts.vocabulary.words), dtype=bool)
        return in_fragments(texts.vocabulary, n_pieces)

    def is_cut(self, texts: SegmentedTexts) -> np.ndarray:
        """Tell which sentences are read in part: none, or a subclass says which; bool."""
        return np.zeros(len(texts.sentences), dtype=bool)

    def state(self) -> dict[str, int]:
        """Return what was done so far, as counts that may be added up.

        Where `words` that count and `unknown` ones are among them, a run says which share it is.
        """
        return dict(self.counts)

    def encode(self, texts: SegmentedTexts) -> EncodedSentences:
        """Encode the distinct sentences of a batch, or raise `CannotSplit`."""
        counted = Counted.of(texts, self.known_words(texts))
        encoded = self._encoded(texts, counted)
        for name, n in (("words", counted.n_kept), ("unknown", counted.n_kept - counted.n_known)):
            self.counts[name] += int(n.sum())
        if "fragments" in self.counts:
            is_fragments = self._in_fragments(texts)[texts.sentence_words.values]
            self.counts["fragments"] += int((is_fragments & counted.is_used).sum())
        return encoded

    def _encoded(self, texts: SegmentedTexts, counted: Counted) -> EncodedSentences:
        is_cut = np.asarray(self.is_cut(texts), dtype=bool)
        if is_cut.shape != (len(texts.sentences),):
            raise RuntimeError(
                f"`is_cut` of encoder {self.signature} must say it of {len(texts.sentences)} "
                f"sentences, got an array of shape {is_cut.shape}"
            )
        self.counts["truncated"] += int(is_cut.sum())
        rows, sentence_vectors = self._kept_or_fresh(texts, counted)
        pooled = sentence_vectors.astype(np.float64)
        words = Ragged(np.empty(0, np.int64), np.zeros(len(sentence_vectors) + 1, np.int64))
        points, means = np.empty((0, self.dimension), np.float32), pooled
        if self._rows_are == "words":
            words = Ragged(np.arange(len(rows)), offsets_of(counted.n_known))
            points, means = rows, pool_rows(rows, words, with_maximum=False)[0]
        elif self._rows_are == "means":
            means = rows
        # a model that looks words up itself may have found none
        is_seen = counted.are_seen(texts) & sentence_vectors.any(axis=1)
        n_known = counted.n_known * is_seen
        return EncodedSentences(
            word_points=points,
            sentence_words=words,
            sentence_points=means,
            weights=n_known,
            pooled=pooled,
            pooled_weights=np.where(is_seen, counted.n_words, 0).astype(np.float64),
            n_kept=counted.n_kept,
            n_known=n_known,
            is_cut=is_cut,
        )

    def _checked(self, vectors: Any, n: int) -> np.ndarray:
        """Hold `embed` to its word: `n` vectors of the encoder's dimension."""
        array = np.asarray(vectors, dtype=np.float32)
        if array.shape != (n, self.dimension):
            raise RuntimeError(
                f"encoder {self.signature} must give {n} vectors of {self.dimension} values, got "
                f"an array of shape {array.shape}"
            )
        return array

    @property
    def _rows_are(self) -> str:
        """What is kept of a sentence's words: their vectors, their mean, or nothing."""
        kept = {"words": "words", "sentences": "means", "texts": "nothing"}
        return kept[self._finest] if self.has_words else "nothing"

    @property
    def _dtype(self) -> type:
        return np.float64 if self._rows_are == "means" else np.float32

    def _n_rows(self, counted: Counted) -> np.ndarray:
        """Count the rows that are kept of every sentence; int64, (n_sentences,)."""
        if self._rows_are == "words":
            return counted.n_known
        return np.full(counted.n_known.size, int(self._rows_are == "means"), dtype=np.int64)

    def _kept_or_fresh(
        self, texts: SegmentedTexts, counted: Counted
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return what is kept of sentences' words, row after row, and each sentence's own."""
        sentences, n_rows = texts.sentences, self._n_rows(counted)
        missing = np.array(self._recent.missing(sentences), dtype=np.int64)
        rows, sentence_vectors = self._read_or_encode(texts, missing, counted)
        offsets = offsets_of(n_rows[missing])
        n_bytes = (n_rows[missing] * rows.itemsize + sentence_vectors.itemsize) * self.dimension
        from_here_on = np.cumsum(n_bytes[::-1])[::-1]
        # copies, for a slice would keep its whole array in memory
        fresh = {
            sentences[missing[k]]: (
                rows[offsets[k] : offsets[k + 1]].copy(),
                sentence_vectors[k].copy(),
            )
            for k in np.flatnonzero(from_here_on <= CACHE_BYTES).tolist()
        }
        self.counts["sentences"] += len(sentences)
        self.counts["cached"] += len(sentences) - missing.size
        if missing.size < len(sentences):
            there = np.delete(np.arange(len(sentences)), missing).tolist()
            recent = {k: self._recent[sentences[k]] for k in there}
            rows, sentence_vectors = _in_order(n_rows, recent, missing, (rows, sentence_vectors))
        self._recent.add(fresh, CACHE_BYTES)
        return rows, sentence_vectors

    def _read_or_encode(
        self, texts: SegmentedTexts, wanted: np.ndarray, counted: Counted
    ) -> tuple[np.ndarray, np.ndarray]:
        """Read some sentences' vectors from disk and encode, and write, those not there."""
        if self._disk is None or not wanted.size:
            return self._fresh(texts, wanted, counted)
        n_rows = self._n_rows(counted)[wanted]
        rules = texts.vocabulary.rules.signature
        keys = [key_of(rules, texts.sentences[k]) for k in wanted.tolist()]
        read = self._disk.read(keys, n_rows)
        self.counts["from_disk"] += len(read)
        left = np.array([k for k in range(wanted.size) if k not in read], dtype=np.int64)
        fresh_rows, fresh_vectors = self._fresh(texts, wanted[left], counted)
        parts = np.split(fresh_rows, np.cumsum(n_rows[left])[:-1])
        fresh = zip(left.tolist(), parts, fresh_vectors, strict=False)  # one part if none is left
        self._disk.write({keys[k]: (part, vector) for k, part, vector in fresh})
        return _in_order(n_rows, read, left, (fresh_rows, fresh_vectors))

    def _fresh(
        self, texts: SegmentedTexts, wanted: np.ndarray, counted: Counted
    ) -> tuple[np.ndarray, np.ndarray]:
        if not wanted.size:
            nothing = np.empty((0, self.dimension))
            return nothing.astype(self._dtype), nothing.astype(np.float32)
        needs_words = self._rows_are != "nothing"
        kept = Ragged(counted.is_used & needs_words, texts.sentence_words.offsets).take(wanted)
        words, sentence_vectors = self.vectors_of(texts, wanted, kept)
        if self._rows_are != "means":
            return words, sentence_vectors
        of_sentences = Ragged.from_lengths(np.arange(len(words)), counted.n_known[wanted])
        return pool_rows(words, of_sentences, with_maximum=False)[0], sentence_vectors


class WordEncoder(Encoder):
    """An encoder in which a word has one vector, whatever its sentence.

    A subclass says what the vectors are by `embed`. A text's vector is the mean, or with `pooling`
    "max" the largest values, of its words' vectors. Words without a vector are left out; with
    `zero_unknown` they stay in the bag as a zero vector, as in the released sentence mover code.
    """

    counters = ("words", "unknown")

    def __init__(
        self,
        *,
        signature: str,
        content_hash: str = "",
        dimension: int,
        pooling: str = "mean",
        zero_unknown: bool = False,
    ) -> None:
        super().__init__(
            signature=signature,
            content_hash=content_hash,
            dimension=dimension,
            has_words=True,
            pooling=pooling,
        )
        self._zero_unknown = zero_unknown
        self._column = f"word:{content_hash or next(_UNNAMED)}"

    def set_up(self, runtime: EncoderRuntime) -> None:
        """Do nothing: there is nothing that would be computed again."""

    def embed(self, words: Sequence[str]) -> np.ndarray:
        """Return a vector for each word, float32, (n_words, d); zeros where it has none."""
        raise NotImplementedError

    def table(self, texts: SegmentedTexts) -> tuple[np.ndarray, np.ndarray]:
        """Return a table of vectors, and its row for every word of the vocabulary, -1 for none.

        The last row of the table is a vector of zeros. A subclass that has a table of all its words
        returns that.
        """
        vectors = texts.vocabulary.column(self._column, self._embedded)
        # sorted, so that sums over words do not depend on the words that came before
        order = np.argsort(np.array(texts.vocabulary.words, dtype=object), kind="stable")
        rows = np.empty(order.size, dtype=np.int64)
        rows[order] = np.arange(order.size)
        table = np.concatenate([vectors[order], np.zeros((1, self.dimension), np.float32)])
        return table, np.where(vectors.any(axis=1), rows, -1)

    def _vectors_of_words(self, texts: SegmentedTexts) -> np.ndarray:
        return texts.vocabulary.column(self._column, self._embedded)

    def _embedded(self, words: list[str]) -> np.ndarray:
        return self._checked(self.embed(words), len(words))

    def known_words(self, texts: SegmentedTexts) -> np.ndarray:
        """Tell which words of the vocabulary have a vector, bool, (n_words,)."""
        return np.asarray(self._vectors_of_words(texts).any(axis=1))

    def _encoded(self, texts: SegmentedTexts, counted: Counted) -> EncodedSentences:
        vectors, row_of_word = self.table(texts)
        words = texts.sentence_words
        rows, is_used, weights = row_of_word[words.values], counted.is_used, counted.n_known
        if self._zero_unknown:
            rows = np.where(rows < 0, len(vectors) - 1, rows)
            is_used, weights = texts.is_kept[words.values], counted.n_kept
        sentence_words = Ragged(rows[is_used], offsets_of(weights))
        is_max = self.pooling == "max"
        means, largest = pool_rows(vectors, sentence_words, with_maximum=is_max)
        return EncodedSentences(
            word_points=vectors,
            sentence_words=sentence_words,
            sentence_points=means,
            weights=weights,
            pooled=largest if is_max else means,
            pooled_weights=weights.astype(np.float64),
            n_kept=counted.n_kept,
            n_known=counted.n_known,
        )


class SentenceEncoder(Encoder):
    """An encoder without word vectors; a subclass makes vectors of sentences by `embed`."""

    batches: Batches
    """How many are embedded together; by default `BATCH_CHARACTERS`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.batches = Batches(BATCH_CHARACTERS)

    def inputs_of(self, texts: SegmentedTexts, wanted: np.ndarray) -> tuple[list[Any], np.ndarray]:
        """Return what is read for each of some sentences, and how long it is; int64.

        By default the sentences as they stand, and their characters. Where the length is 0 nothing
        is read, and the vector is zero. Raises `CannotSplit`.
        """
        sentences = [texts.sentences[k] for k in wanted.tolist()]
        return sentences, np.array([len(sentence) for sentence in sentences], dtype=np.int64)

    def embed(self, inputs: list[Any]) -> np.ndarray:
        """Return a vector for each of some inputs of about one length, float32."""
        raise NotImplementedError

    def vectors_of(
        self, texts: SegmentedTexts, wanted: np.ndarray, kept: Ragged
    ) -> tuple[np.ndarray, np.ndarray]:
        """Encode some sentences of a batch, longest first."""
        inputs, lengths = self.inputs_of(texts, wanted)
        filled = np.flatnonzero(lengths)
        self.counts["tokens"] += int(lengths.sum())
        vectors = np.zeros((wanted.size, self.dimension), dtype=np.float32)

        def compute(batch: np.ndarray) -> None:
            batch_inputs = [inputs[k] for k in filled[batch].tolist()]
            vectors[filled[batch]] = self._checked(self.embed(batch_inputs), len(batch_inputs))

        self.batches.run(lengths[filled], compute)
        return np.empty((0, self.dimension), dtype=np.float32), vectors


def _in_order(
    n_rows: np.ndarray,
    kept: Mapping[int, SentenceVectors],
    missing: np.ndarray,
    fresh: tuple[np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Put vectors that were kept, by the number of their sentence, and fresh ones into one order.

    `n_rows` are the rows of every sentence, `missing` the numbers of those that are fresh.
    """
    starts = offsets_of(n_rows)
    rows, vectors = (
        np.empty((n, made.shape[1]), made.dtype)
        for n, made in zip((starts[-1], n_rows.size), fresh, strict=True)
    )
    rows[ranges(starts[missing], n_rows[missing])], vectors[missing] = fresh
    for k, sentence in kept.items():
        rows[starts[k] : starts[k + 1]], vectors[k] = sentence
    return rows, vectors


def encode_texts(
    encoder: Encoder, texts: SegmentedTexts, needed: np.ndarray
) -> tuple[EncodedSentences, Ragged, np.ndarray]:
    """Encode the `needed` texts of a batch, but for those that the tokeniser fails on.

    Also returns its sentences of every text, none of a text that is not needed or cannot be split,
    and the texts that the tokeniser failed on, bool, shape (n_texts,).
    """
    part = texts.restrict(needed)
    if encoder.unit == "text":
        part = part.whole()
    try:
        encoded = encoder.encode(part)
    except CannotSplit as error:
        failed = part.texts_with(error.sentences)
        encoded, text_sentences, others = encode_texts(encoder, texts, needed & ~failed)
        return encoded, text_sentences, others | failed
    return encoded, part.text_sentences, np.zeros(needed.size, dtype=bool)
