"""The features of words: how a summary's words and sentences relate to its document's.

A mean hides one bad sentence, so each sentence is looked at: how much of it one sentence of the
document says, where that sentence stands, and how bad the worst one is. The rest says how much is
copied, repeated and left out. `data/features.toml` says what every number means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import regex

from reffree.features.matching import NO_WORD, best_sentences, components, share_linked
from reffree.negatives.hard_edits import ENGLISH
from sms.metrics import baselines
from sms.metrics.overlap import counts_in, number, number_ngrams
from sms.metrics.rouge import rouge_of_words
from sms.ragged import Ragged, owners_of, places_of
from sms.text import SegmentedTexts

BAD_SHARE = 0.5
"""A sentence is bad if the document's nearest sentence has a smaller share of its words."""
LEAD_SENTENCES = 5  # sentences of a document that a summary of news should not leave out
SAID_SENTENCES = 10  # sentences of a document, those that the summary says most of, that are judged
RECALLED_WORDS = 50
"""Distinct content words of an ideal summary: it has those that its document repeats most."""
STEM_LETTERS = 6
"""Words that begin with the same so many letters count as one: report, reports, reported."""

_END = regex.compile(r"""[.!?。!?]["' ]*$""")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPairs:
    """Some distinct texts, and which two each pair has."""

    texts: SegmentedTexts
    raw: Sequence[str]
    words: Ragged  # lower-cased words of every text, punctuation left out
    candidate: np.ndarray
    source: np.ndarray

    @property
    def has_words(self) -> np.ndarray:
        """Whether both texts have a word, bool, (n_pairs,)."""
        lengths = self.words.lengths
        return (lengths[self.candidate] > 0) & (lengths[self.source] > 0)


def features_of_words(pairs: TextPairs, copy_shares: Sequence[float]) -> dict[str, np.ndarray]:
    """Compute every feature, by name, shape (n_pairs,)."""
    return {
        **_of_words(pairs),
        **_of_copying(pairs, copy_shares),
        **_of_sentences(pairs),
        **_of_form(pairs),
    }


def worst_sentences(pairs: TextPairs, copy_shares: Sequence[float]) -> dict[str, str]:
    """For each feature about the worst sentence, return that of the first pair."""
    forward = _likelihoods(pairs.words, pairs.candidate, pairs.source, copy_shares)
    candidate_sentences = pairs.texts.text_sentences[pairs.candidate[0]]
    values = {
        "copy_least": _means_of_sentences(forward, pairs),
        "words_least": _nearest(
            _content(pairs.texts)[0], pairs.texts.text_sentences, pairs.candidate, pairs.source
        )[0],
    }
    return {
        name: pairs.texts.sentences[candidate_sentences[np.nanargmin(by_sentence)]]
        for name, by_sentence in values.items()
        if not np.isnan(by_sentence).all()
    }


def _of_words(pairs: TextPairs) -> dict[str, np.ndarray]:
    """How long it is, and how much of it is copied."""
    words, both = pairs.words, (pairs.candidate, pairs.source)
    lengths = np.maximum(words.lengths, 1)
    n_sentences = np.maximum(pairs.texts.text_sentences.lengths, 1)
    unigrams, n_words = number(words.values)
    known = _found(Ragged(unigrams, words.offsets), n_words, both)
    bigrams, n_bigrams = number_ngrams(words, 2)
    novel = ~_found(bigrams, n_bigrams, both)
    of_pair = words.lengths[pairs.candidate]
    has_next = np.ones(known.size, dtype=bool)
    has_next[np.cumsum(of_pair)[of_pair > 0] - 1] = False
    both_known = (known & np.append(known[1:], False))[has_next]
    owner = owners_of(bigrams.lengths[pairs.candidate])
    return {
        "length": np.log1p(lengths[pairs.candidate]),
        "sentence_length": np.log1p((lengths / n_sentences)[pairs.candidate]),
        "compression": np.log(lengths[pairs.source] / lengths[pairs.candidate]),
        "coverage": baselines.coverage(words, *both),
        "density": np.log1p(baselines.density(words, *both)),
        "novelty": _means(novel, owner, pairs.candidate.size),
        "joined": _means(novel[both_known], owner[both_known], pairs.candidate.size),
        "rouge2_p": rouge_of_words(words, *both, "rouge2").precision,
        "lead3": baselines.lead3(pairs.texts.lower_words, pairs.texts.text_sentences, *both),
    }


def _of_copying(pairs: TextPairs, shares: Sequence[float]) -> dict[str, np.ndarray]:
    """How likely each text is as a copy of the other."""
    words, n = pairs.words, pairs.candidate.size
    forward = _likelihoods(words, pairs.candidate, pairs.source, shares)
    back = _likelihoods(words, pairs.source, pairs.candidate, shares)
    sentences = pairs.texts.text_sentences.take(pairs.candidate)
    return {
        "copy_mean": _means(forward, owners_of(words.lengths[pairs.candidate]), n),
        "copy_least": _least(_means_of_sentences(forward, pairs), sentences.owners, n),
        "copied": _means(back, owners_of(words.lengths[pairs.source]), n),
    }


def _likelihoods(
    words: Ragged, first: np.ndarray, second: np.ndarray, shares: Sequence[float]
) -> np.ndarray:
    """Return the log probability of every word of `first` as a copy of `second`."""
    return np.log(components(words, first, second) @ np.array(shares))


def _means_of_sentences(of_words: np.ndarray, pairs: TextPairs) -> np.ndarray:
    """Average what the candidates' words have, by sentence."""
    sentences = pairs.texts.text_sentences.take(pairs.candidate)
    lengths = pairs.texts.lower_words.lengths[sentences.values]
    return _means(of_words, owners_of(lengths), lengths.size)


def _nearest(
    content: Ragged, texts: Ragged, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return each sentence's share in the nearest of `second`, NaN without words; and its place."""
    shares, places = best_sentences(content, texts, first, second)
    shares[shares == NO_WORD] = np.nan
    return shares, places


def _of_sentences(pairs: TextPairs) -> dict[str, np.ndarray]:
    """Where its sentences come from, by content words."""
    texts, n = pairs.texts.text_sentences, pairs.candidate.size
    content, is_name = _content(pairs.texts)
    both = (pairs.candidate, pairs.source)
    shares, places = _nearest(content, texts, *both)
    lengths = texts.lengths[pairs.candidate]
    owner = owners_of(lengths)
    place = np.log1p(places)
    steps = np.flatnonzero(owner[1:] == owner[:-1])
    is_forward = places[steps + 1] > places[steps]
    first = np.minimum(np.cumsum(lengths) - lengths, max(places.size - 1, 0))
    # the same, turned round: how much of each sentence of the document the summary says
    n_in_source = texts.lengths[pairs.source]
    said, _ = _nearest(content, texts, pairs.source, pairs.candidate)
    source_owner, is_lead = owners_of(n_in_source), places_of(n_in_source) < LEAD_SENTENCES
    all_words = texts.expand(content)
    every_word = Ragged(np.arange(content.values.size), content.offsets)
    numbers, n_distinct = number(all_words.values)
    unknown = ~_found(Ragged(numbers, all_words.offsets), n_distinct, both)
    names = is_name[texts.take(pairs.candidate).expand(every_word).values]
    words_owner = owners_of(all_words.lengths[pairs.candidate])
    return {
        "unknown_words": _means(unknown, words_owner, n),
        "unknown_names": _means(unknown & names, words_owner, n),
        "words_mean": _means(shares, owner, n),
        "words_least": _least(shares, owner, n),
        "words_bad": _means(np.where(np.isnan(shares), np.nan, shares < BAD_SHARE), owner, n),
        "linked": share_linked(content, texts, *both),
        "lead_words": _means(said[is_lead], source_owner[is_lead], n),
        "said": _means(*_largest(said, source_owner, SAID_SENTENCES), n),
        "recalled": _recalled(Ragged(numbers, all_words.offsets), n_distinct, *both),
        "order": _means(is_forward, owner[steps], n),
        "place": _means(place, owner, n),
        "first_place": np.where(lengths > 0, place[first] if place.size else 0.0, np.nan),
        **_within(content, texts, pairs.candidate),
    }


def _recalled(
    words: Ragged, n_distinct: int, candidate: np.ndarray, source: np.ndarray
) -> np.ndarray:
    """Measure how many of the source's words are words of the candidate, against an ideal.

    `words` has the content words of every text, by number. Every occurrence in the source counts,
    so words that it repeats count more. The ideal are its `RECALLED_WORDS` most frequent words:
    without it, a value would depend on the length of the source.
    """
    keys, n_times = np.unique(words.owners * n_distinct + words.values, return_counts=True)
    owner = keys // n_distinct
    distinct = Ragged.from_lengths(
        keys % n_distinct, np.bincount(owner, minlength=len(words)).astype(np.int64)
    )
    ideal_counts, ideal_owner = _largest(n_times, owner, RECALLED_WORDS)
    ideal = np.bincount(ideal_owner, weights=ideal_counts, minlength=len(words))[source]
    in_source = counts_in(words.and_rows(distinct), n_distinct, candidate + len(words), source)
    found = np.bincount(
        owners_of(distinct.lengths[candidate]), weights=in_source, minlength=candidate.size
    )
    return np.divide(found, ideal, out=np.full(candidate.size, np.nan), where=ideal > 0)


def _within(content: Ragged, texts: Ragged, candidate: np.ndarray) -> dict[str, np.ndarray]:
    """How much sentences of the summary say what others say."""
    sentences = texts.take(candidate)
    alone = Ragged.from_lengths(sentences.values, np.ones(sentences.values.size, dtype=np.int64))
    owner = sentences.owners
    # every sentence with every other one before it, by place
    n_before = places_of(sentences.lengths)
    i = owners_of(n_before)
    j = i - 1 - places_of(n_before)
    shares, _ = _nearest(content, alone, i, j)
    is_next = i == j + 1
    most = np.full(candidate.size, np.nan)
    np.fmax.at(most, owner[i], shares)
    return {
        "neighbours": _means(shares[is_next], owner[i[is_next]], candidate.size),
        "redundancy_words": most,
    }


def _of_form(pairs: TextPairs) -> dict[str, np.ndarray]:
    """How it repeats itself, begins and ends."""
    is_pointing, is_ended = np.zeros(len(pairs.raw)), np.zeros(len(pairs.raw))
    for text in np.unique(pairs.candidate).tolist():
        raw = pairs.raw[text].strip()
        is_pointing[text] = raw[:12].partition(" ")[0].lower() in ENGLISH["pointing"]
        is_ended[text] = _END.search(raw) is not None
    return {
        "repetition": baselines.repetition(pairs.words, pairs.candidate),
        "pointing": is_pointing[pairs.candidate],
        "ending": is_ended[pairs.candidate],
    }


def _content(texts: SegmentedTexts) -> tuple[Ragged, np.ndarray]:
    """Return the content words of every sentence by number, and which are names or numbers."""
    words = texts.sentence_words
    used, numbers = np.unique(words.values, return_inverse=True)
    spelled = [texts.vocabulary.words[k] for k in used.tolist()]
    begun = [word.lower()[:STEM_LETTERS] for word in spelled]
    stems = {stem: k for k, stem in enumerate(dict.fromkeys(begun))}
    stem = np.array([stems[each] for each in begun], dtype=np.int64)
    is_name = np.array([word[:1].isupper() or word[:1].isdigit() for word in spelled], dtype=bool)
    is_kept = texts.is_kept[words.values]
    owner = words.owners[is_kept]
    lengths = np.bincount(owner, minlength=len(words))
    is_upper = np.array([word[:1].isupper() for word in spelled], dtype=bool)
    named = is_name[numbers] & ((places_of(words.lengths) > 0) | ~is_upper[numbers])
    return Ragged.from_lengths(stem[numbers[is_kept]], lengths), named[is_kept]


def _found(rows: Ragged, n_distinct: int, both: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Say which values of the first row are in the second; bool, flat."""
    return counts_in(rows, n_distinct, *both) > 0


def _means(values: Any, owner: np.ndarray, n: int) -> np.ndarray:  # noqa: ANN401  (an array)
    """Average values by owner, NaN left out; NaN where there is none."""
    values = np.asarray(values, dtype=np.float64)
    is_known = ~np.isnan(values)
    sums = np.bincount(owner[is_known], weights=values[is_known], minlength=n)
    n_known = np.bincount(owner[is_known], minlength=n)
    return np.divide(sums, n_known, out=np.full(n, np.nan), where=n_known > 0)


def _largest(values: np.ndarray, owner: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Keep the `most` largest values of each owner, NaN left out; return them and their owners."""
    is_known = ~np.isnan(values)
    values, owner = values[is_known], owner[is_known]
    order = np.lexsort((-values, owner))
    n_of_owner = np.bincount(owner) if owner.size else np.zeros(0, dtype=np.int64)
    kept = order[places_of(n_of_owner) < most]
    return values[kept], owner[kept]


def _least(values: np.ndarray, owner: np.ndarray, n: int) -> np.ndarray:
    found = np.full(n, np.nan)
    np.fmin.at(found, owner, values)
    return found
