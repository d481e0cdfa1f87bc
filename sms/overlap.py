"""ROUGE between pairs of texts: n-grams, longest common subsequences, their union and weighting.

Texts come as packed token ids, pairs as index arrays into the texts (int64, shape (n_pairs,));
every score of a batch is one compiled call that releases the GIL. `rouge_n`, `rouge_l` and
`rouge_lsum` return what the package rouge-score returns. Whose tokens are counted, and each
variant's three columns, is at the end, in `Rouge`.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata

import numpy as np
import pyarrow as pa
from rouge_score.tokenize import tokenize

from sms.metric import EITHER, Batch, Metric, Setting
from sms.overlap_kernels import (
    BLOCK,
    count_shared,
    counts_of_values_in,
    lcs_lengths,
    union_lcs_hits,
    weighted_lcs,
)
from sms.ragged import Ragged, ranges
from sms.text import ChunkTable

_LETTERS = string.ascii_letters.encode()


@dataclass(frozen=True, slots=True)
class Overlap:
    """How much of each candidate is in its reference and the other way round, in [0, 1].

    NaN where the candidate or the reference has no token; arrays of shape (n_pairs,).
    """

    precision: np.ndarray
    recall: np.ndarray
    f: np.ndarray
    """Harmonic mean of the two, 0 where both are 0."""


def rouge_n(tokens: Ragged, candidate: np.ndarray, reference: np.ndarray, n: int) -> Overlap:
    """Score each candidate by the n-grams it shares with its reference (Lin 2004, section 2).

    An n-gram matches as often as it occurs in both texts. A pair where a text has tokens but
    fewer than `n` scores 0, as in rouge-score.
    """
    ngrams, n_distinct = number_ngrams(tokens, n)
    hits = count_shared(ngrams.values, ngrams.offsets, candidate, reference, n_distinct)
    n_ngrams = np.maximum(ngrams.lengths, 1)
    has_tokens = (tokens.lengths[candidate] > 0) & (tokens.lengths[reference] > 0)
    return _overlap(hits / n_ngrams[candidate], hits / n_ngrams[reference], has_tokens)


def rouge_l(tokens: Ragged, candidate: np.ndarray, reference: np.ndarray) -> Overlap:
    """Score each candidate by its longest common subsequence with the reference (section 3.1)."""
    numbers, n_distinct = number(tokens.values)
    n_candidate, n_reference = tokens.lengths[candidate], tokens.lengths[reference]
    longest = n_candidate.max(initial=0)
    hits = lcs_lengths(numbers, tokens.offsets, candidate, reference, n_distinct, longest)
    return _overlap_of_matched_tokens(hits, n_candidate, n_reference)


def rouge_lsum(
    sentence_tokens: Ragged, text_sentences: Ragged, candidate: np.ndarray, reference: np.ndarray
) -> Overlap:
    """Score each candidate by the union LCS of the reference's sentences with its own.

    Every reference sentence keeps the tokens that are in its LCS with *some* candidate sentence
    (Lin 2004, section 3.2). Not in the paper but in ROUGE 1.5.5 and rouge-score: a token counts
    at most as often as the candidate has it. Of several LCS, rouge-score's is taken.
    """
    sentences = sentence_tokens.take(text_sentences.values)
    numbers, n_distinct = number(sentences.values)
    n_tokens = np.diff(sentences.offsets[text_sentences.offsets])
    longest = _longest_rows(sentences.lengths, text_sentences.offsets)
    # One table for all pairs; as large as the pair that needs most.
    n_blocks = -(-longest[reference] // BLOCK)
    hits = union_lcs_hits(
        numbers,
        sentences.offsets,
        text_sentences.offsets,
        candidate,
        reference,
        n_distinct,
        (n_blocks * longest[candidate]).max(initial=0),
        longest[candidate].max(initial=0),
        longest[reference].max(initial=0),
    )
    return _overlap_of_matched_tokens(hits, n_tokens[candidate], n_tokens[reference])


def rouge_w(
    tokens: Ragged, candidate: np.ndarray, reference: np.ndarray, weight: float = 1.2
) -> Overlap:
    r"""Score each candidate by a common subsequence that rewards consecutive matches.

    The weighted LCS of Lin 2004, section 4, with :math:`f(k) = k^w` and beta = 1:

    .. math:: P = f^{-1}\left(\frac{WLCS}{f(n)}\right), \quad
              R = f^{-1}\left(\frac{WLCS}{f(m)}\right)

    for a candidate of n and a reference of m tokens. The recurrence is the paper's: it takes
    every match it meets, so the value may lie below the best over all common subsequences.
    A `weight` w of 1 is ROUGE-L; ROUGE 1.5.5 is usually run with 1.2.
    """
    n_candidate, n_reference = tokens.lengths[candidate], tokens.lengths[reference]
    longest = max(n_candidate.max(initial=1), n_reference.max(initial=1))
    f = np.arange(longest + 1, dtype=np.float64) ** weight
    wlcs = weighted_lcs(tokens.values, tokens.offsets, candidate, reference, f)
    has_tokens = (n_candidate > 0) & (n_reference > 0)
    # Rounding may carry a sum of f(k) an ulp past f of the sum.
    precision = np.minimum(wlcs / f[np.maximum(n_candidate, 1)], 1.0) ** (1 / weight)
    recall = np.minimum(wlcs / f[np.maximum(n_reference, 1)], 1.0) ** (1 / weight)
    return _overlap(precision, recall, has_tokens)


def number(keys: np.ndarray) -> tuple[np.ndarray, int]:
    """Give distinct int64 keys numbers from 0, in order of appearance; also return how many."""
    encoded = pa.array(keys, pa.int64()).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


def number_ngrams(tokens: Ragged, n: int) -> tuple[Ragged, int]:
    """Give each distinct n-gram of a batch a number; return each text's, and how many."""
    token_numbers, n_distinct_tokens = number(tokens.values)
    numbers, n_distinct = token_numbers, n_distinct_tokens
    for extra in range(1, n):
        # Runs over the ends of texts too; `starts` leaves those n-grams out.
        numbers, n_distinct = number(numbers[:-1] * n_distinct_tokens + token_numbers[extra:])
    lengths = np.maximum(tokens.lengths - (n - 1), 0)
    starts = ranges(tokens.offsets[:-1], lengths)
    return Ragged.from_lengths(numbers[starts], lengths), n_distinct


def counts_in(rows: Ragged, n_distinct: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Count how often each value of the row `first` is in the row `second`; int64, flat."""
    return counts_of_values_in(rows.values, rows.offsets, first, second, n_distinct)


def _longest_rows(lengths: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Greatest of `lengths` in each row between two `offsets`; 0 in an empty row."""
    if offsets.size == 1:
        return np.empty(0, np.int64)
    # `reduceat` wants every start inside the array and gives an empty row what comes next.
    greatest = np.maximum.reduceat(np.append(lengths, 0), offsets[:-1])
    return np.where(np.diff(offsets) > 0, greatest, 0)


def _overlap_of_matched_tokens(
    n_matched: np.ndarray, n_candidate: np.ndarray, n_reference: np.ndarray
) -> Overlap:
    precision = n_matched / np.maximum(n_candidate, 1)
    recall = n_matched / np.maximum(n_reference, 1)
    return _overlap(precision, recall, (n_candidate > 0) & (n_reference > 0))


def _overlap(precision: np.ndarray, recall: np.ndarray, has_tokens: np.ndarray) -> Overlap:
    total = precision + recall
    f = np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total > 0)
    return Overlap(*(np.where(has_tokens, share, np.nan) for share in (precision, recall, f)))


# The metrics


@dataclass(frozen=True, kw_only=True)
class Rouge(Metric):
    """A variant of ROUGE: precision, recall and F."""

    compare: Callable[..., Overlap]
    """Called with `tokens` of every text and the text numbers of each pair."""
    by_sentence: bool = False
    """Whether `compare` is given tokens by sentence, and sentences by text."""

    def signature_parts(self, setting: Setting) -> Sequence[str]:
        """Name the tokens."""
        if setting.rules.language != "en":
            return ["count:words|stem:no"]
        return [f"tok:rouge-score|stem:no|rs:{metadata.version('rouge-score')}"]

    def prepare(self, batch: Batch) -> None:
        """Cut the sentences into tokens."""
        _tokens(batch)

    def score(self, batch: Batch) -> Mapping[str, np.ndarray]:
        """Score every row; of several references the one with the highest F counts."""
        (side,) = self.sides
        shares = batch.once((Rouge, self.name, side), lambda: self._shares(side, batch))
        return {column: shares[column.partition(":")[0][-1]] for column in self.columns}

    def _shares(self, side: str, batch: Batch) -> dict[str, np.ndarray]:
        of, (by_sentence, text_sentences) = batch.pairs[side], _tokens(batch)
        by_text = batch.once("rouge tokens of texts", lambda: text_sentences.expand(by_sentence))
        tokens = (by_sentence, text_sentences) if self.by_sentence else (by_text,)
        shares = self.compare(*tokens, of.candidate, of.other)
        return of.joined_by(shares.f, {"p": shares.precision, "r": shares.recall, "f": shares.f})

    def text_reasons(self, batch: Batch) -> Mapping[str, np.ndarray]:
        """Name texts that have words and no token."""
        by_sentence, text_sentences = _tokens(batch)
        n_tokens = text_sentences.sums(by_sentence.lengths[text_sentences.values])
        return {"no_rouge_tokens": n_tokens == 0}


def _tokens(batch: Batch) -> tuple[Ragged, Ragged]:
    """Return the tokens of sentences, and the sentences of texts that have tokens.

    They are those of `rouge-score`, or words where it loses letters.
    """

    def cut() -> tuple[Ragged, Ragged]:
        memory = batch.setting.memory
        sentences = batch.texts.text_sentences
        if batch.setting.rules.language != "en":
            return batch.texts.lower_words, sentences
        if "rouge" not in memory or memory["rouge"].is_full:
            memory["rouge"] = ChunkTable(rouge_tokens)
        of_chunks, _ = memory["rouge"].tokens_of(batch.texts.chunks)
        is_read = np.array([*map(_is_read, batch.strings.to_pylist())], dtype=bool)
        of_read = sentences.values[np.repeat(is_read, sentences.lengths)]
        return (
            batch.texts.sentence_chunks.expand(of_chunks),
            Ragged.from_lengths(of_read, np.where(is_read, sentences.lengths, 0)),
        )

    return batch.once("rouge tokens", cut)


def _is_read(text: str | None) -> bool:
    """Tell whether at least half of a text's letters are a to z, all that rouge-score reads.

    Otherwise two unrelated texts are equal that share a number or a Latin name.

    >>> _is_read("Müller à Rome"), _is_read("Москва, BBC 2012"), _is_read("2012!")
    (True, False, True)
    """
    if text is None or text.isascii():
        return True
    ascii_part = text.encode("ascii", "ignore")
    n_read = len(ascii_part) - len(ascii_part.translate(None, _LETTERS))
    if len(text) - len(ascii_part) <= n_read:  # then no more than these can be other letters
        return True
    return sum(map(str.isalpha, text)) <= 2 * n_read


def rouge_tokens(chunk: str) -> list[str]:
    """Return rouge-score's tokens, runs of ``a-z0-9``; none crosses white space."""
    return tokenize(chunk, None)  # without a stemmer


ROUGE = tuple(
    Rouge(
        name=name,
        summary=summary,
        higher_is="closer, 0 to 1",
        needs=(EITHER,),
        columns=(f"{name}_p", f"{name}_r", f"{name}_f"),
        bounds=(0.0, 1.0),
        compare=compare,
        by_sentence=compare is rouge_lsum,
    )
    for name, compare, summary in (
        ("rouge1", partial(rouge_n, n=1), "ROUGE-1: shared words"),
        ("rouge2", partial(rouge_n, n=2), "ROUGE-2: shared pairs of words"),
        ("rouge4", partial(rouge_n, n=4), "ROUGE-4: shared runs of four words"),
        ("rougeL", rouge_l, "ROUGE-L: longest common subsequence"),
        ("rougeLsum", rouge_lsum, "ROUGE-Lsum: the same by sentence, united"),
        ("rougeW", rouge_w, "ROUGE-W-1.2: the same, runs weigh more"),
    )
)
