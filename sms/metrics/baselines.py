"""Trivial baselines: what a metric has to beat before its scores are worth reporting.

Texts come as packed word ids (lower-cased words, no punctuation), pairs as index arrays into them
(int64, shape (n_pairs,)); what comes back has that shape. None of these reads the reference. A
value is NaN where a text it reads has no word. Unlike the other metrics, some of them are counts or
ratios that exceed 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sms.metric import Batch, Metric, Setting
from sms.metrics.overlap import counts_in, number, number_ngrams
from sms.metrics.overlap_kernels import next_occurrences, sum_fragments
from sms.metrics.rouge import rouge_of_words
from sms.ragged import Ragged, offsets_of, ranges
from sms.text import detokenize

LEAD_SENTENCES = 3
"""Sentences of a news article that are its lead, as in Nallapati, Zhai and Zhou 2017."""


def length(words: Ragged, candidate: np.ndarray) -> np.ndarray:
    """Count the candidate's words."""
    n_words = words.lengths[candidate]
    return np.where(n_words > 0, n_words, np.nan)


def compression(words: Ragged, candidate: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Divide the source's words by the candidate's (Grusky, Naaman and Artzi 2018)."""
    return _share(words.lengths[source], words.lengths[candidate], words.lengths[source] > 0)


def coverage(words: Ragged, candidate: np.ndarray, source: np.ndarray) -> np.ndarray:
    r"""Measure the share of the candidate's words that are in fragments of the source.

    .. math:: \frac{1}{|S|} \sum_{f \in F(A, S)} |f|

    with the extractive fragments F of article A and summary S (Grusky, Naaman and Artzi 2018,
    "Newsroom"): from its first word on, the candidate is cut into the longest
    pieces that occur in the source. As in the paper's algorithm, the search for a piece goes on
    *behind* a match and so misses a longer one that begins inside it.
    """
    sum_of_lengths, _ = _fragments(words, candidate, source)
    return _share(sum_of_lengths, words.lengths[candidate], words.lengths[source] > 0)


def density(words: Ragged, candidate: np.ndarray, source: np.ndarray) -> np.ndarray:
    r"""Measure the average length of the fragment that a word of the candidate is in.

    .. math:: \frac{1}{|S|} \sum_{f \in F(A, S)} |f|^2

    with the fragments of `coverage`; a word that is not in the source counts 0.
    """
    _, sum_of_squares = _fragments(words, candidate, source)
    return _share(sum_of_squares, words.lengths[candidate], words.lengths[source] > 0)


def novelty(words: Ragged, candidate: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Measure the share of the candidate's bigrams that the source does not have.

    After the novel n-grams of See, Liu and Manning (2017, "Get to the point"). Every
    occurrence counts: a novel bigram said twice is two novel bigrams.
    """
    bigrams, n_distinct = number_ngrams(words, 2)
    n_in_source = counts_in(bigrams, n_distinct, candidate, source)
    in_source = Ragged.from_lengths(n_in_source, bigrams.lengths[candidate])
    n_novel = in_source.sums(n_in_source == 0)
    return _share(n_novel, in_source.lengths, words.lengths[source] > 0)


def repetition(words: Ragged, candidate: np.ndarray) -> np.ndarray:
    """Measure the share of the candidate's trigrams that have come before in it.

    This is seq-rep-3 of Welleck et al. (2020, "Neural text generation with unlikelihood training",
    section 6.1); 0 where a text is too short for any.
    """
    trigrams, n_distinct = number_ngrams(words, 3)
    keys = trigrams.owners * max(n_distinct, 1) + trigrams.values
    different = np.unique(keys) // max(n_distinct, 1)
    n_different = np.bincount(different, minlength=len(words))
    share = 1 - n_different / np.maximum(trigrams.lengths, 1) - (trigrams.lengths == 0)
    return np.where(words.lengths > 0, share, np.nan)[candidate]


def lead3(
    sentence_words: Ragged, text_sentences: Ragged, candidate: np.ndarray, source: np.ndarray
) -> np.ndarray:
    """Score the candidate by ROUGE-L F against the first three sentences of the source.

    The lead of a news article is itself a strong summary of it (Nallapati, Zhai and Zhou 2017),
    so this is how much the candidate resembles that summary. Sentences without a word are
    passed over.
    """
    has_words = sentence_words.lengths[text_sentences.values] > 0
    offsets = offsets_of(has_words)[text_sentences.offsets]
    lengths = np.minimum(np.diff(offsets), LEAD_SENTENCES)
    spoken = text_sentences.values[has_words]
    leads = Ragged.from_lengths(spoken[ranges(offsets[:-1], lengths)], lengths)
    words = text_sentences.and_rows(leads).expand(sentence_words)
    return rouge_of_words(words, candidate, source + len(text_sentences), "rougeL").f


def _share(part: np.ndarray, whole: np.ndarray, is_defined: np.ndarray) -> np.ndarray:
    """`part / whole`; NaN where `whole` is 0 or it is not defined."""
    return np.divide(part, whole, out=np.full(whole.shape, np.nan), where=is_defined & (whole > 0))


def _fragments(
    words: Ragged, candidate: np.ndarray, source: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sum the lengths, and the squared lengths, of each pair's extractive fragments."""
    numbers, n_distinct = number(words.values)
    following = next_occurrences(numbers, words.offsets, n_distinct)
    return sum_fragments(numbers, words.offsets, following, candidate, source, n_distinct)


@dataclass(frozen=True, kw_only=True)
class Baseline(Metric):
    """A number computed from lower-cased words, of the candidate or of it and the source."""

    of_words: Callable[..., np.ndarray]
    """Called with `words` of every text and the text numbers of each pair."""
    by_sentence: bool = False
    """Whether `of_words` is given words by sentence, and sentences by text."""

    counts_words: ClassVar[bool] = True

    def signature_parts(self, setting: Setting) -> Sequence[str]:
        """Say that English words are those of the text as written."""
        return [detokenize.SIGNATURE] if setting.rules.language == "en" else []

    def score(self, batch: Batch) -> Mapping[str, np.ndarray]:
        """Score every candidate, or pair it with every source."""
        words = batch.whole_words
        if not self.by_sentence:
            lower, sentences = batch.whole_words
            words = (batch.once("words", lambda: sentences.expand(lower)),)
        if not self.sides:
            return {self.written: self.of_words(*words, batch.candidate)}
        of = batch.pairs[self.sides[0]]
        return {self.written: of.joined(self.of_words(*words, of.candidate, of.other))}


_SHARE, _AMOUNT = (0.0, 1.0), (0.0, np.inf)
_LEAD = "ROUGE-L F against the source's first three sentences"

BASELINES = tuple(
    Baseline(
        name=of_words.__name__,
        summary=summary,
        higher_is=higher_is,
        bounds=bounds,
        needs=() if of_words in (length, repetition) else ("source",),
        of_words=of_words,
        by_sentence=of_words is lead3,
    )
    for of_words, summary, higher_is, bounds in (
        (length, "words of the candidate", "longer", _AMOUNT),
        (repetition, "share of trigrams that came before", "more repetitive", _SHARE),
        (compression, "source words per candidate word", "shorter", _AMOUNT),
        (coverage, "share of words copied from the source", "copied", _SHARE),
        (density, "mean length of the copied fragments", "copied", _AMOUNT),
        (novelty, "share of bigrams not in the source", "less copied", _SHARE),
        (lead3, _LEAD, "closer to the lead", _SHARE),
    )
)
