"""Encoders: what turns the sentences of a batch into word and sentence vectors.

`registry.load_encoder` makes one from its specification. Importing this package loads no model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sms.naming import check_choice
from sms.ragged import Ragged

PRECISIONS = ("auto", "fp32", "bf16", "fp16")
"""Number formats a model may compute in; `auto` is fp32 on a CPU and bf16 on a GPU."""
DEVICES = ("auto", "cpu", "cuda")
VECTORS = ("words", "sentences", "texts")
"""What metrics read of an encoder: vectors of words; one of each sentence, the mean of its words
where there are any, as mover's similarity needs; or only what a text's vector is made of."""
SCORE_TOLERANCE: Mapping[str, float] = {"fp32": 1e-4, "fp16": 1e-2, "bf16": 5e-2}
"""How far a score may lie from the same score computed elsewhere, or in another batch, by the
precision of its encoder: a share of a mover's similarity, a difference of every other score.
`docs/files.md` says what is equal bit by bit, `research/speed-of-encoders.md` what was measured."""


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
    n_workers: int = 1
    """Processes that score at the same time, among which a limit on a server is divided."""
    finest: str = "words"
    """One of `VECTORS`: the finest vectors that are read; they are made, and kept, with all coarser
    ones."""

    def __post_init__(self) -> None:
        check_choice("precision", self.precision, PRECISIONS)
        check_choice("device", self.device, DEVICES)
        check_choice("finest", self.finest, VECTORS)
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
    empty for encoders without word vectors, and where no metric reads them."""
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
