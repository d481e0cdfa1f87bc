"""ROUGE between pairs of texts, by the library rouge-score-rs; ROUGE-W by a kernel of ours.

The library computes what the package rouge-score does, bit by bit, some hundred times as fast;
`research/speed-of-text.md` has the trial. It is given texts: in English as they are written,
elsewhere with each word, its stem or its characters spelled in a to z, because its own tokens have
no other letters.
"""

from __future__ import annotations

import gc
import os
import re
import string
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np

from sms.metric import EITHER, Batch, Metric, Setting
from sms.metrics.overlap_kernels import weighted_lcs
from sms.process import available_threads
from sms.ragged import Ragged
from sms.text import HAS_CONTENT, TextRules
from sms.text.languages import Language, language_of
from sms.text.words import characters

if TYPE_CHECKING:
    from rouge_score_rs.rouge_scorer import RougeScorer

LIBRARY = "rouge-score-rs"
SUM = "rougeLsum"
_LETTERS = string.ascii_letters.encode()
_TOKEN = re.compile("[A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class Overlap:
    """How much of each candidate is in its reference and the other way round, in [0, 1].

    NaN where the candidate or the reference has no token; arrays of shape (n_pairs,).
    """

    precision: np.ndarray
    recall: np.ndarray
    f: np.ndarray
    """Harmonic mean of the two, 0 where both are 0."""


def rouge(
    texts: Sequence[str],
    candidate: np.ndarray,
    reference: np.ndarray,
    variants: Collection[str],
    *,
    stems: bool = False,
) -> dict[str, Overlap]:
    """Score each candidate against its reference: text numbers, int64, shape (n_pairs,).

    `variants` are out of `rouge1` to `rouge9`, `rougeL` and `rougeLsum`, of which the last takes
    lines for sentences. With `stems`, Porter's stemmer takes the endings of words off first.
    """
    has_token = _have_token(texts)
    pairs = np.flatnonzero(has_token[candidate] & has_token[reference])
    overlaps = {}
    with _uncollected():
        found = _scorer(tuple(variants), stems).score_batch(
            [texts[k] for k in reference[pairs].tolist()],
            [texts[k] for k in candidate[pairs].tolist()],
        )
        for variant in variants:
            shares = np.full((3, candidate.size), np.nan)
            values = chain.from_iterable([scores[variant] for scores in found])
            shares[:, pairs] = np.fromiter(values, np.float64, 3 * pairs.size).reshape(-1, 3).T
            overlaps[variant] = Overlap(*shares)
        del found
    return overlaps


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the garbage collector from going through all of many new objects again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _have_token(texts: Sequence[str]) -> np.ndarray:
    """Tell in which texts the library finds something, bool, shape (n_texts,)."""
    search = _TOKEN.search
    found = [search(text) or (not text.isascii() and search(text.lower())) for text in texts]
    return np.array(found, dtype=bool)


def rouge_of_words(
    words: Ragged, candidate: np.ndarray, reference: np.ndarray, variant: str
) -> Overlap:
    """Score texts of words that are numbers, a row for each text."""
    return rouge(numbered(words), candidate, reference, [variant])[variant]


def numbered(words: Ragged) -> list[str]:
    """Write rows of numbers as texts, whose tokens they are."""
    written = words.values.astype(str).tolist()
    bounds = words.offsets.tolist()
    return [" ".join(written[start:end]) for start, end in pairwise(bounds)]


@cache
def _scorer(variants: tuple[str, ...], stems: bool) -> RougeScorer:
    # The library reads its number of threads here, once; `tokenizers` reads the same variable.
    os.environ.setdefault("RAYON_NUM_THREADS", str(available_threads()))
    from rouge_score_rs.rouge_scorer import RougeScorer

    return RougeScorer(list(variants), use_stemmer=stems)


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


def _overlap(precision: np.ndarray, recall: np.ndarray, has_tokens: np.ndarray) -> Overlap:
    total = precision + recall
    f = np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total > 0)
    return Overlap(*(np.where(has_tokens, share, np.nan) for share in (precision, recall, f)))


# The metrics


@dataclass(frozen=True, kw_only=True)
class Rouge(Metric):
    """A variant of ROUGE: precision, recall and F."""

    def needs_sentences(self, rules: TextRules) -> bool:
        """Say that ROUGE-Lsum goes by sentences, and words of other languages are found in them."""
        return self.name == SUM or rules.language != "en"

    def signature_parts(self, setting: Setting) -> Sequence[str]:
        """Name the tokens."""
        is_english = setting.rules.language == "en"
        stem = "no"
        if setting.stemmer:
            algorithm = language_of(setting.rules.language).stemmer
            snowball = f"snowball-{metadata.version('snowballstemmer')}-{algorithm}"
            stem = "porter" if is_english else snowball
        if not is_english:
            return [f"count:{setting.rouge_tokens}|stem:{stem}"]
        return [f"tok:rouge-score|stem:{stem}|{LIBRARY}:{metadata.version(LIBRARY)}"]

    def score(self, batch: Batch) -> Mapping[str, np.ndarray]:
        """Score every row; of several references the one with the highest F counts."""
        (side,) = self.sides
        of, overlap = batch.pairs[side], self._overlaps(side, batch)[self.name]
        parts = {"p": overlap.precision, "r": overlap.recall, "f": overlap.f}
        shares = batch.once((Rouge, self.name, side), lambda: of.joined_by(overlap.f, parts))
        return {
            column: shares[base[-1]] for column, base in zip(self.columns, self.bases, strict=True)
        }

    def _overlaps(self, side: str, batch: Batch) -> Mapping[str, Overlap]:
        """Score all variants of a side together."""
        of, setting = batch.pairs[side], batch.setting
        asked = [
            metric
            for metric in setting.metrics
            if type(metric) is Rouge and metric.sides == self.sides
        ]
        variants = dict.fromkeys(metric.name for metric in asked)
        texts = _texts(batch, by_sentence=SUM in variants)
        return batch.once(
            (Rouge, side),
            lambda: rouge(texts, of.candidate, of.other, variants, stems=_is_porter(setting)),
        )

    def text_reasons(self, batch: Batch) -> Mapping[str, np.ndarray]:
        """Name texts that have words and no token."""
        return {"no_rouge_tokens": ~_have_token(_texts(batch))}


class RougeW(Rouge):
    """ROUGE-W, of which the library has none."""

    def _overlaps(self, side: str, batch: Batch) -> Mapping[str, Overlap]:
        of = batch.pairs[side]
        tokens = batch.once("tokens of ROUGE-W", lambda: _tokens(batch))
        scored = batch.once((RougeW, side), lambda: rouge_w(tokens, of.candidate, of.other))
        return {self.name: scored}


def _texts(batch: Batch, *, by_sentence: bool = False) -> list[str]:
    """Return the distinct texts as the library reads them, empty where it can read too little.

    English ones are as they are written, or `by_sentence` with a sentence a line; those of other
    languages always have lines, of tokens that `_spelled` writes.
    """
    is_english = batch.setting.rules.language == "en"
    has_lines = by_sentence or not is_english

    def write() -> list[str]:
        if not has_lines:
            written = batch.written
        else:
            lines = _english_lines(batch) if is_english else _lines_of_tokens(batch)
            of_texts = batch.texts.text_sentences
            rows = (of_texts[text].tolist() for text in range(len(of_texts)))
            written = ["\n".join([lines[k] for k in row]) for row in rows]
        if not is_english:
            return written
        return [
            rouge_text if text.isascii() or _is_read(text) else ""
            for rouge_text, text in zip(written, batch.written, strict=True)
        ]

    return batch.once(("texts for ROUGE", has_lines), write)


def _english_lines(batch: Batch) -> list[str]:
    """Write every sentence in one line."""
    return [sentence.replace("\n", " ") for sentence in batch.texts.sentences]


def _lines_of_tokens(batch: Batch) -> list[str]:
    """Write the tokens of every sentence in one line."""
    language = language_of(batch.setting.rules.language)
    tokens_of = _token_maker(batch.setting, language)

    def write(words: list[str]) -> np.ndarray:
        written = [
            " ".join(map(_spelled, tokens_of(language.lower(word))))
            if HAS_CONTENT.search(word)
            else ""
            for word in words
        ]
        return np.array(written, dtype=object)

    texts = batch.texts
    words = texts.vocabulary.column("tokens for ROUGE", write)[texts.sentence_words.values].tolist()
    return [" ".join(words[i:j]) for i, j in pairwise(texts.sentence_words.offsets.tolist())]


def _is_porter(setting: Setting) -> bool:
    """Tell whether the library takes endings off; in other languages words come without them."""
    return setting.stemmer and setting.rules.language == "en"


def _spelled(token: str) -> str:
    """Write a token in a to z and digits, each in another way.

    >>> _spelled("haus"), _spelled("häus"), _spelled("xyz")
    ('haus', 'x006800e400750073', 'x00780079007a')
    """
    if token.isascii() and token.isalnum() and token[0] != "x":
        return token
    return f"x{token.encode('utf-16-be').hex()}"


def _token_maker(setting: Setting, language: Language) -> Callable[[str], list[str]]:
    """Return what makes tokens, which ROUGE counts, of a word in small letters."""
    if setting.rouge_tokens == "characters":
        return characters
    if not setting.stemmer:
        return lambda word: [word]
    import snowballstemmer

    stem = snowballstemmer.stemmer(language.stemmer).stemWord
    return lambda word: [stem(word) or word]


def _tokens(batch: Batch) -> Ragged:
    """Return the library's tokens of every text, by number."""
    from rouge_score_rs.tokenizers import DefaultTokenizer

    tokenize = DefaultTokenizer(use_stemmer=_is_porter(batch.setting)).tokenize
    numbers: dict[str, int] = {}
    rows = [
        [numbers.setdefault(token, len(numbers)) for token in tokenize(text)]
        for text in _texts(batch)
    ]
    return Ragged.from_rows([np.array(row, dtype=np.int64) for row in rows])


def _is_read(text: str) -> bool:
    """Tell whether at least half of a text's letters are a to z, all that rouge-score reads.

    Otherwise two unrelated texts are equal that share a number or a Latin name.

    >>> _is_read("Müller à Rome"), _is_read("Москва, BBC 2012"), _is_read("2012!")
    (True, False, True)
    """
    ascii_part = text.encode("ascii", "ignore")
    n_read = len(ascii_part) - len(ascii_part.translate(None, _LETTERS))
    if len(text) - len(ascii_part) <= n_read:  # then no more than these can be other letters
        return True
    return sum(map(str.isalpha, text)) <= 2 * n_read


ROUGE = tuple(
    (RougeW if name == "rougeW" else Rouge)(
        name=name,
        summary=summary,
        higher_is="closer, 0 to 1",
        needs=(EITHER,),
        columns=(f"{name}_p", f"{name}_r", f"{name}_f"),
        bounds=(0.0, 1.0),
    )
    for name, summary in (
        ("rouge1", "ROUGE-1: shared words"),
        ("rouge2", "ROUGE-2: shared pairs of words"),
        ("rouge4", "ROUGE-4: shared runs of four words"),
        ("rougeL", "ROUGE-L: longest common subsequence"),
        (SUM, "ROUGE-Lsum: the same by sentence, united"),
        ("rougeW", "ROUGE-W-1.2: the same, runs weigh more"),
    )
)
