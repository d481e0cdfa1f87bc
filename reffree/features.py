"""What a scorer of features reads of a summary and its document: numbers that tell why it is bad.

A mean hides one bad sentence, so each sentence is looked at: how much of it one sentence of the
document says, where that sentence stands, and how bad the worst one is. The rest says how much is
copied, repeated and left out. Every number has a name in `WORD_FEATURES`, with what it means. Whole
texts are read, whatever their length, and as they would be if no tokeniser had been at them
(`detokenize`). Columns of metrics may be features, too (`metric_features`); they read the texts as
they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import regex

from reffree.copying import FIRST_SHARES, components, fit_shares
from reffree.english import POINTING
from reffree.matching import NO_WORD, best_sentences, share_linked
from reffree.metric_features import FeatureValues, MetricFeatures, scoring_config
from sms import baselines
from sms.config import ScoringConfig
from sms.detokenize import detokenized
from sms.overlap import counts_in, number, number_ngrams, rouge_n
from sms.ragged import Ragged, owners_of, places_of, ranges
from sms.text import SegmentedTexts, Segmenter

BAD_SHARE = 0.5
"""A sentence is bad if the document's nearest sentence has a smaller share of its words."""
LEAD_SENTENCES = 5
"""Sentences of a document that a summary of news should not leave out."""
STEM_LETTERS = 6
"""Words that begin with the same so many letters count as one: report, reports, reported."""

WORD_FEATURES = {
    "length": "number of words of the summary (logarithm)",
    "sentence_length": "words per sentence (logarithm)",
    "compression": "words of the document for each word of the summary (logarithm)",
    "coverage": "share of the words that are in fragments copied from the document",
    "density": "length of the copied fragment that a word is in, mean over all words (logarithm)",
    "novelty": "share of word pairs that are not in the document",
    "joined":
        "share of word pairs whose two words are in the document, but not next to each other there",
    "rouge2_p": "share of word pairs that are in the document (ROUGE-2 precision)",
    "lead3": "overlap with the document's first three sentences (ROUGE-L F)",
    "copy_mean": "how likely the words are as a copy of the document (mean log probability)",
    "copy_least":
        "how likely the least likely sentence is as a copy of the document (mean log probability)",
    "copied":
        "how likely the words of the document are as a copy of the summary (mean log probability)",
    "unknown_words": "share of the content words that are not in the document",
    "unknown_names": "share of the content words that are names or numbers and not in the document",
    "words_mean":
        "share of a sentence's content words in the document's nearest sentence, mean of all",
    "words_least":
        "share of a sentence's content words in the document's nearest sentence, lowest of all",
    "words_bad":
        "share of the sentences with less than half of their content words in the document's "
        "nearest sentence",
    "linked":
        "share of neighbouring content words that stand together in a sentence of the document",
    "lead_words":
        "share of a sentence's content words in the summary's nearest sentence, mean of the "
        "document's first five sentences",
    "order": "share of the steps from one sentence to the next that go forward in the document",
    "place": "how far from the document's beginning the sentences come, mean (logarithm)",
    "first_place": "how far from the document's beginning the first sentence comes (logarithm)",
    "neighbours": "share of a sentence's content words in the sentence before it, mean of all",
    "redundancy_words":
        "share of a sentence's content words in an earlier sentence of the summary, highest of all",
    "repetition": "share of the runs of three words that were there before",
    "pointing": "1 if the first word points back at something that was not said (this, he, but)",
    "ending": "1 if the summary ends as a sentence does",
}  # fmt: skip

_PAIRS_AT_ONCE = 512
_END = regex.compile(r"""[.!?。!?]["' ]*$""")


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureConfig:
    """Which features, and by what."""

    names: tuple[str, ...] = tuple(WORD_FEATURES)
    """Out of `WORD_FEATURES`; any other is a column of a metric, such as `pair@nli`."""
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By alias the models of these metrics, as in `sms.model_tables`."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """By metric with a model, where it was when the scorer was trained."""
    copy_shares: tuple[float, ...] = FIRST_SHARES
    """Of the copy model; see `copying`."""

    def __post_init__(self) -> None:
        if self.metrics:
            words = tuple(name for name in self.names if name in WORD_FEATURES)
            object.__setattr__(self, "names", (*words, *self.metrics))
            object.__setattr__(self, "paths", dict(self.scoring.model_paths))

    @classmethod
    def of(
        cls, metrics: Sequence[str] = (), models: Mapping[str, Any] | None = None
    ) -> FeatureConfig:
        """Name all features of words, and the columns of some metrics.

        Raises `ValueError` if a metric is unknown or compares with a reference.
        """
        if not metrics:
            return cls()
        config = scoring_config(metrics, models or {})
        columns = (column for request in config.requests for column in request.columns)
        names = dict.fromkeys((*WORD_FEATURES, *columns))
        return cls(names=tuple(names), models=config.models)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The features that are columns of metrics."""
        return tuple(name for name in self.names if name not in WORD_FEATURES)

    @property
    def scoring(self) -> ScoringConfig:
        """How these columns are computed."""
        return scoring_config(self.metrics, self.models, self.paths)


class PairFeatures:
    """Computes the features of pairs."""

    def __init__(
        self,
        config: FeatureConfig,
        *,
        device: str = "cpu",
        threads: int | None = None,
        cache_folder: str | None = None,
    ) -> None:
        self.config = config
        self._segmenter = Segmenter()
        self.metrics: MetricFeatures | None = None
        if config.metrics:
            self.metrics = MetricFeatures(
                config.scoring, device=device, threads=threads, cache_folder=cache_folder
            )

    @property
    def meanings(self) -> dict[str, str]:
        """What every feature is."""
        return {**WORD_FEATURES, **(self.metrics.meanings if self.metrics else {})}

    def fit_copies(self, sources: Sequence[str], candidates: Sequence[str]) -> None:
        """Fit the shares of the copy model to pairs."""
        pairs = self._pairs(sources, candidates)
        parts = components(pairs.words, pairs.candidate, pairs.source)
        self.config = replace(self.config, copy_shares=fit_shares(parts))

    def read(self, sources: Sequence[str], candidates: Sequence[str]) -> FeatureValues:
        """Compute the features of pairs.

        NaN where a pair has no such number; in a whole row where a text has no word or cannot be
        split. A document's pairs should stand together: recent documents are remembered.
        """
        values = np.full((len(sources), len(self.config.names)), np.nan)
        is_cut = np.zeros(len(sources), dtype=bool)
        reasons: dict[int, tuple[str, ...]] = {}
        for start in range(0, len(sources), _PAIRS_AT_ONCE):
            rows = slice(start, start + _PAIRS_AT_ONCE)
            own = self.of_words(sources[rows], candidates[rows])
            values[rows, : own.shape[1]] = own
            if self.metrics:
                of_metrics = self.metrics.read(sources[rows], candidates[rows])
                of_metrics.values[np.isnan(own).all(axis=1)] = np.nan
                values[rows, own.shape[1] :] = of_metrics.values
                is_cut[rows] = of_metrics.is_cut
                reasons |= {start + row: why for row, why in of_metrics.reasons.items()}
        return FeatureValues(values, is_cut, reasons)

    def of_words(self, sources: Sequence[str], candidates: Sequence[str]) -> np.ndarray:
        """Compute the features of words alone, which stand first."""
        pairs = self._pairs(sources, candidates)
        columns = {**_of_words(pairs), **_of_copying(pairs, self.config.copy_shares)}
        columns |= {**_of_sentences(pairs), **_of_form(pairs)}
        made = np.column_stack([columns[name] for name in self.config.names if name in columns])
        made[~pairs.has_words] = np.nan
        return made

    def least_sentences(self, source: str, candidate: str) -> dict[str, str]:
        """For each feature about the worst sentence, return that sentence."""
        pairs = self._pairs([source], [candidate])
        forward, _ = _likelihoods(pairs, self.config.copy_shares)
        own_sentences = pairs.texts.text_sentences[pairs.candidate[0]]
        values = {
            "copy_least": _means_of_sentences(forward, pairs),
            "words_least": _shares_of_sentences(pairs, _content(pairs.texts)[0])[0],
        }
        return {
            name: pairs.texts.sentences[own_sentences[np.nanargmin(own)]]
            for name, own in values.items()
            if not np.isnan(own).all()
        }

    def _pairs(self, sources: Sequence[str], candidates: Sequence[str]) -> _Pairs:
        read = {text: detokenized(text) for text in dict.fromkeys([*sources, *candidates])}
        distinct = list(dict.fromkeys(read.values()))
        places = {text: place for place, text in enumerate(distinct)}
        texts = self._segmenter.segment(pa.array(distinct, pa.string()))
        return _Pairs(
            texts=texts,
            raw=distinct,
            words=texts.text_sentences.expand(texts.lower_words),
            candidate=np.array([places[read[text]] for text in candidates], dtype=np.int64),
            source=np.array([places[read[text]] for text in sources], dtype=np.int64),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pairs:
    """Pairs of a block: its distinct texts, and which two each pair has."""

    texts: SegmentedTexts
    raw: Sequence[str]
    words: Ragged
    """Lower-cased words of every text, punctuation left out."""
    candidate: np.ndarray
    source: np.ndarray

    @property
    def has_words(self) -> np.ndarray:
        """Whether both texts have a word, bool, (n_pairs,)."""
        lengths = self.words.lengths
        return (lengths[self.candidate] > 0) & (lengths[self.source] > 0)


def _of_words(pairs: _Pairs) -> dict[str, np.ndarray]:
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
        "rouge2_p": rouge_n(words, *both, 2).precision,
        "lead3": baselines.lead3(pairs.texts.lower_words, pairs.texts.text_sentences, *both),
    }


def _of_copying(pairs: _Pairs, shares: Sequence[float]) -> dict[str, np.ndarray]:
    """How likely each text is as a copy of the other."""
    n = pairs.candidate.size
    forward, back = _likelihoods(pairs, shares)
    of_sentence = _means_of_sentences(forward, pairs)
    sentences = pairs.texts.text_sentences.take(pairs.candidate)
    return {
        "copy_mean": _means(forward, owners_of(pairs.words.lengths[pairs.candidate]), n),
        "copy_least": _least(of_sentence, sentences.owners, n),
        "copied": _means(back, owners_of(pairs.words.lengths[pairs.source]), n),
    }


def _likelihoods(pairs: _Pairs, shares: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return log probabilities of the candidates' words, then of the documents', as copies."""
    forward = components(pairs.words, pairs.candidate, pairs.source) @ np.array(shares)
    back = components(pairs.words, pairs.source, pairs.candidate) @ np.array(shares)
    return np.log(forward), np.log(back)


def _means_of_sentences(of_words: np.ndarray, pairs: _Pairs) -> np.ndarray:
    """Average what the candidates' words have, by sentence."""
    sentences = pairs.texts.text_sentences.take(pairs.candidate)
    lengths = pairs.texts.lower_words.lengths[sentences.values]
    return _means(of_words, owners_of(lengths), lengths.size)


def _shares_of_sentences(pairs: _Pairs, content: Ragged) -> tuple[np.ndarray, np.ndarray]:
    """Return each sentence's share in the document's nearest, NaN without words; and its place."""
    shares, places = best_sentences(
        content, pairs.texts.text_sentences, pairs.candidate, pairs.source
    )
    shares[shares == NO_WORD] = np.nan
    return shares, places


def _of_sentences(pairs: _Pairs) -> dict[str, np.ndarray]:
    """Where its sentences come from, by content words."""
    texts, n = pairs.texts.text_sentences, pairs.candidate.size
    content, is_name = _content(pairs.texts)
    both = (pairs.candidate, pairs.source)
    shares, places = _shares_of_sentences(pairs, content)
    lengths = texts.lengths[pairs.candidate]
    owner = owners_of(lengths)
    place = np.log1p(places)
    steps = np.flatnonzero(owner[1:] == owner[:-1])
    is_forward = places[steps + 1] > places[steps]
    first = np.minimum(np.cumsum(lengths) - lengths, max(places.size - 1, 0))
    leads, of_lead = _leads(texts, pairs)
    lead_shares, _ = best_sentences(content, leads, of_lead, pairs.candidate)
    lead_shares[lead_shares == NO_WORD] = np.nan
    all_words, every_word = (
        texts.expand(content),
        Ragged(np.arange(content.values.size), content.offsets),
    )
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
        "lead_words": _means(lead_shares, owners_of(leads.lengths[of_lead]), n),
        "order": _means(is_forward, owner[steps], n),
        "place": _means(place, owner, n),
        "first_place": np.where(lengths > 0, place[first] if place.size else 0.0, np.nan),
        **_within(content, texts, pairs.candidate),
    }


def _within(content: Ragged, texts: Ragged, candidate: np.ndarray) -> dict[str, np.ndarray]:
    """How much sentences of the summary say what others say."""
    own = texts.take(candidate)
    alone = Ragged.from_lengths(own.values, np.ones(own.values.size, dtype=np.int64))
    owner = own.owners
    i, j = _other_sentences(own)
    shares, _ = best_sentences(content, alone, i, j)
    shares[shares == NO_WORD] = np.nan
    is_next = i == j + 1
    most = np.full(candidate.size, np.nan)
    np.fmax.at(most, owner[i], shares)
    return {
        "neighbours": _means(shares[is_next], owner[i[is_next]], candidate.size),
        "redundancy_words": most,
    }


def _of_form(pairs: _Pairs) -> dict[str, np.ndarray]:
    """How it repeats itself, begins and ends."""
    is_pointing, is_ended = np.zeros(len(pairs.raw)), np.zeros(len(pairs.raw))
    for text in np.unique(pairs.candidate).tolist():
        raw = pairs.raw[text].strip()
        is_pointing[text] = raw[:12].partition(" ")[0].lower() in POINTING
        is_ended[text] = _END.search(raw) is not None
    return {
        "repetition": baselines.repetition(pairs.words, pairs.candidate),
        "pointing": is_pointing[pairs.candidate],
        "ending": is_ended[pairs.candidate],
    }


def _content(texts: SegmentedTexts) -> tuple[Ragged, np.ndarray]:
    """Return the content words of every sentence by number, and which are names or numbers.

    Words that begin alike have one number.
    """
    words = texts.sentence_words
    used, numbers = np.unique(words.values, return_inverse=True)
    spelled = [texts.vocabulary.words[k] for k in used.tolist()]
    stems = {stem: k for k, stem in enumerate(dict.fromkeys(map(_stem, spelled)))}
    stem = np.array([stems[_stem(word)] for word in spelled], dtype=np.int64)
    is_name = np.array([word[:1].isupper() or word[:1].isdigit() for word in spelled], dtype=bool)
    is_kept = texts.is_kept[words.values]
    owner = words.owners[is_kept]
    lengths = np.bincount(owner, minlength=len(words))
    is_upper = np.array([word[:1].isupper() for word in spelled], dtype=bool)
    named = is_name[numbers] & ((places_of(words.lengths) > 0) | ~is_upper[numbers])
    return Ragged.from_lengths(stem[numbers[is_kept]], lengths), named[is_kept]


def _stem(word: str) -> str:
    return word.lower()[:STEM_LETTERS]


def _leads(texts: Ragged, pairs: _Pairs) -> tuple[Ragged, np.ndarray]:
    """Return texts with the leads of the documents after them, and the lead of each pair."""
    lengths = np.minimum(texts.lengths, LEAD_SENTENCES)
    leads = Ragged.from_lengths(texts.values[ranges(texts.offsets[:-1], lengths)], lengths)
    return texts.and_rows(leads), pairs.source + len(texts)


def _other_sentences(rows: Ragged) -> tuple[np.ndarray, np.ndarray]:
    """Pair every value of a row with every other one before it, by place."""
    n_before = places_of(rows.lengths)
    later = owners_of(n_before)
    return later, later - 1 - places_of(n_before)


def _found(rows: Ragged, n_distinct: int, both: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Say which values of the first row are in the second; bool, flat."""
    return counts_in(rows, n_distinct, *both) > 0


def _means(values: Any, owner: np.ndarray, n: int) -> np.ndarray:  # noqa: ANN401  (an array)
    """Average values by owner, NaN left out; NaN where there is none."""
    values = np.asarray(values, dtype=np.float64)
    is_known = ~np.isnan(values)
    sums = np.bincount(owner[is_known], weights=values[is_known], minlength=n)
    counts = np.bincount(owner[is_known], minlength=n)
    return np.divide(sums, counts, out=np.full(n, np.nan), where=counts > 0)


def _least(values: np.ndarray, owner: np.ndarray, n: int) -> np.ndarray:
    found = np.full(n, np.nan)
    np.fmin.at(found, owner, values)
    return found
