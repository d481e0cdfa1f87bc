"""Encoders: what turns the sentences of a batch into word and sentence vectors.

`registry.load_encoder` makes one from its specification. Importing this package loads no model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sms.naming import check_choice
from sms.ragged import Ragged
from sms.text import SegmentedTexts

PRECISIONS = ("auto", "fp32", "bf16", "fp16")
"""Number formats a model may compute in; `auto` is fp32 on a CPU and bf16 on a GPU."""
DEVICES = ("auto", "cpu", "cuda")
SCORE_TOLERANCE: Mapping[str, float] = {"fp32": 1e-4, "fp16": 1e-2, "bf16": 5e-2}
"""How far a score may lie from the same score computed elsewhere, or in another batch, by the
precision of its encoder: a share of a mover's similarity, a difference of every other score.
`docs/files.md` has the table with what was measured, and says what is equal bit by bit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderRuntime:
    """How the encoders of a run work, in addition to each one's specification.

    `zero_unknown` and `precision` change the numbers and belong in an encoder's signature; the
    others do not.
    """

    zero_unknown: bool = False
    """Keep words without a static vector as zero vectors (preset `clark2019`)."""
    precision: str = "auto"
    """One of `PRECISIONS`; pooling is always done in fp32 or finer."""
    device: str = "auto"
    """One of `DEVICES`; `auto` takes a GPU where there is one."""
    threads: int | None = None
    """Threads of one encoder; None leaves the library's own choice."""
    cache_folder: str | None = None
    """Folder of embeddings that outlive the run; None for none."""
    sentences_only: bool = False
    """Whether vectors of words are not asked for: encoders that have both then compute, and keep,
    those of sentences alone."""

    def __post_init__(self) -> None:
        check_choice("precision", self.precision, PRECISIONS)
        check_choice("device", self.device, DEVICES)
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"`threads` must be at least 1, got {self.threads}")


@dataclass(frozen=True, slots=True)
class EncodedSentences:
    """Vectors of a batch's distinct sentences.

    Words and sentences may lie in spaces of different dimension (d_words, d_sentences, d_pooled);
    only `s+wms` needs the first two to be one space.
    """

    word_points: np.ndarray
    """Vectors of words, shape (n_points, d_words); static encoders give their whole table."""
    sentence_words: Ragged
    """Rows of `word_points` for the kept words of every sentence, with repetitions; all rows are
    empty for encoders without word vectors."""
    sentence_points: np.ndarray
    """One vector per sentence for sentence mover's similarity, float64, shape
    (n_sentences, d_sentences)."""
    weights: np.ndarray
    """Kept words of every sentence that are known, int64, shape (n_sentences,); all kept words
    where unknown ones stay as zero vectors. A sentence of weight 0 has no point."""
    pooled: np.ndarray
    """One vector per sentence for cosine, float64, shape (n_sentences, d_pooled); for `max`
    pooling the largest value of each dimension, otherwise a mean."""
    pooled_weights: np.ndarray
    """Weight of each sentence in the mean of its text, float64, shape (n_sentences,)."""
    n_kept: np.ndarray
    """Kept words of every sentence, known or not, int64, shape (n_sentences,)."""
    n_known: np.ndarray
    """Kept words of every sentence that the encoder knows, int64, shape (n_sentences,)."""
    is_cut: np.ndarray | None = None
    """Whether only the beginning of a sentence was read, bool, shape (n_sentences,); None where
    none can be cut."""

    def cut_texts(self, text_sentences: Ragged) -> np.ndarray:
        """Tell which texts, given as their sentences, were read in part; bool, shape (n_texts,)."""
        if self.is_cut is None:
            return np.zeros(len(text_sentences), dtype=bool)
        return text_sentences.sums(self.is_cut[text_sentences.values]) > 0


class CannotSplit(Exception):
    """The tokeniser of an encoder fails on these of `SegmentedTexts.sentences`, by number."""

    def __init__(self, sentences: np.ndarray) -> None:
        super().__init__(f"the tokeniser fails on {sentences.size} sentences")
        self.sentences = sentences


class Encoder(Protocol):
    """What a metric needs of an encoder."""

    signature: str
    """Name and settings, the part of a metric's signature after `enc:`."""
    content_hash: str
    """Of the weights or vectors, so that a resumed run uses the same ones."""
    has_words: bool
    """Whether it gives word vectors, as `wms` and `s+wms` need."""
    pooling: str
    """How word or sentence vectors become one text vector: `mean` or `max`."""
    unit: str
    """What it is given at once: `sentence`, or `text` (then `SegmentedTexts.whole`)."""

    def known_words(self, texts: SegmentedTexts) -> np.ndarray:
        """Tell which words of `texts.vocabulary` the encoder knows, bool, shape (n_words,)."""

    def encode(self, texts: SegmentedTexts) -> EncodedSentences:
        """Encode the distinct sentences of a batch, or raise `CannotSplit`."""

    def state(self) -> Mapping[str, int]:
        """Return what was done so far, as counts that may be added up, such as `tokens` computed.

        Where `words` that count and `unknown` ones are among them, a run says which share it is.
        """


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
