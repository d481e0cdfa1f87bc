"""What a scorer of features reads of a summary and its document: numbers that tell why it is bad.

Every number of `word_features` has a name in `WORD_FEATURES`, with what it means. Whole texts are
read, whatever their length, and as they would be if no tokeniser had been at them (`detokenize`).
Columns of metrics may be features, too, such as `likelihood@lm`: whatever `assay score` computes
without a reference, with the model, settings and cache that it has there; they read the texts as
they are.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from reffree.features.matching import FIRST_SHARES, components, fit_shares
from reffree.features.words import TextPairs, features_of_words, worst_sentences
from sms.config import ScoringConfig
from sms.reasons import CUT
from sms.scoring import SummaryScorer, to_rows
from sms.text import Segmenter, composed
from sms.text.detokenize import detokenized
from sms.text.sentences import whole

_DATA = Path(__file__).parents[1] / "data"
TABLES = tomllib.loads((_DATA / "features.toml").read_text("utf-8"))
WORD_FEATURES: dict[str, str] = TABLES["meanings"]  # features of words, and what they mean
UNDEFINED = (("features", "undefined"),)  # why a pair has no score where no text is to blame

_PAIRS_AT_ONCE = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureConfig:
    """Which features, and by what."""

    names: tuple[str, ...] = tuple(WORD_FEATURES)
    """Out of `WORD_FEATURES`; any other is a column of a metric, such as `pair@nli`."""
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By alias the models of these metrics, as in `sms.options`."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """By metric with a model, where it was when the scorer was trained."""
    copy_shares: tuple[float, ...] = FIRST_SHARES  # of the copy model; see `matching`

    def __post_init__(self) -> None:
        if self.metrics:
            words = tuple(name for name in self.names if name in WORD_FEATURES)
            object.__setattr__(self, "names", (*words, *self.metrics))
            object.__setattr__(self, "paths", dict(self.scoring.model_paths))

    @classmethod
    def of(
        cls, metrics: Sequence[str] = (), models: Mapping[str, Any] | None = None
    ) -> FeatureConfig:
        """Name all features of words, and the columns of some metrics."""
        if not metrics:
            return cls()
        config = _scoring(metrics, models or {}, {})
        columns = (column for metric in config.asked for column in metric.columns)
        names = tuple(dict.fromkeys((*WORD_FEATURES, *columns)))
        return cls(names=names, models=config.models or {})

    @property
    def metrics(self) -> tuple[str, ...]:
        """The features that are columns of metrics."""
        return tuple(name for name in self.names if name not in WORD_FEATURES)

    @property
    def scoring(self) -> ScoringConfig:
        """How these columns are computed."""
        return _scoring(self.metrics, self.models, self.paths)


def _scoring(
    metrics: Sequence[str], models: Mapping[str, Any], paths: Mapping[str, str]
) -> ScoringConfig:
    config = ScoringConfig(
        metrics=tuple(metrics), models=models, model_paths=paths, precision="fp32"
    )
    for metric in config.asked:
        if "references" in metric.sides:
            raise ValueError(
                f"a feature must do without a reference, got {metric.written!r}; write "
                f"`{metric.written.partition(':')[0]}:source` if the metric takes it"
            )
    return config


@dataclass(frozen=True, slots=True)
class FeatureValues:
    """Features of pairs."""

    values: np.ndarray  # NaN where there is no such number; float64, shape (n_pairs, n_features)
    cut: np.ndarray
    """Whether a model has read only a part of the candidate, and of the source; bool, shape
    (n_pairs, 2)."""
    reasons: dict[int, tuple[tuple[str, str], ...]]
    """By row, which text is to blame and why, where a metric has no value."""


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
            scorer = SummaryScorer(
                config.scoring, threads, device=device, cache_folder=cache_folder
            )
            self.metrics = MetricFeatures(scorer)

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
        """Compute the features of pairs."""
        values = np.full((len(sources), len(self.config.names)), np.nan)
        cut = np.zeros((len(sources), 2), dtype=bool)
        reasons: dict[int, tuple[tuple[str, str], ...]] = {}
        for start in range(0, len(sources), _PAIRS_AT_ONCE):
            rows = slice(start, start + _PAIRS_AT_ONCE)
            pairs = self._pairs(sources[rows], candidates[rows])
            columns = features_of_words(pairs, self.config.copy_shares)
            of_words = np.column_stack(
                [columns[name] for name in self.config.names if name in columns]
            )
            of_words[~pairs.has_words] = np.nan
            values[rows, : of_words.shape[1]] = of_words
            if self.metrics:
                of_metrics = self.metrics.read(sources[rows], candidates[rows])
                of_metrics.values[~pairs.has_words] = np.nan
                values[rows, of_words.shape[1] :] = of_metrics.values
                cut[rows] = of_metrics.cut
                reasons |= {start + row: why for row, why in of_metrics.reasons.items()}
        return FeatureValues(values, cut, reasons)

    def least_sentences(self, source: str, candidate: str) -> dict[str, str]:
        """For each feature about the worst sentence, return that sentence."""
        return worst_sentences(self._pairs([source], [candidate]), self.config.copy_shares)

    def _pairs(self, sources: Sequence[str], candidates: Sequence[str]) -> TextPairs:
        given = dict.fromkeys([*sources, *candidates])
        read = {text: detokenized(composed(text)) for text in given}
        distinct = list(dict.fromkeys(read.values()))
        places = {text: place for place, text in enumerate(distinct)}
        texts = self._segmenter.segment(pa.array(distinct, pa.string()))
        return TextPairs(
            texts=texts,
            raw=[*map(whole, distinct)],
            words=texts.text_sentences.expand(texts.lower_words),
            candidate=np.array([places[read[text]] for text in candidates], dtype=np.int64),
            source=np.array([places[read[text]] for text in sources], dtype=np.int64),
        )


class MetricFeatures:
    """The columns of metrics, in fp32 wherever they are computed."""

    def __init__(self, scorer: SummaryScorer) -> None:
        self._scorer = scorer
        self.meanings = {metric.written: metric.summary for metric in scorer.config.asked}
        """By column, what it is."""

    @property
    def content(self) -> str:
        """Hashes of all models."""
        return "+".join(self._scorer.content.values())

    @property
    def signature(self) -> str:
        """Signatures of all columns, without the version."""
        signatures = self._scorer.signatures
        return "|".join(signatures[name].rpartition("|v:")[0] for name in self.meanings)

    def read(self, sources: Sequence[str], candidates: Sequence[str]) -> FeatureValues:
        """Compute the columns of pairs."""
        batch = self._scorer.prepare(to_rows(candidates, sources=sources))
        scores, told = self._scorer.scored(batch)
        values = np.column_stack([scores[name] for name in self.meanings])
        cut = np.zeros((len(sources), 2), dtype=bool)
        for place, side in enumerate(("candidate", "source")):
            for reason in told:
                if (reason.side, reason.why) == (side, CUT):
                    cut[:, place] |= reason.rows
        reasons = {}
        for row in np.flatnonzero(np.isnan(values).any(axis=1)).tolist():
            whys = [
                (reason.side, reason.why)
                for reason in told
                if reason.why != CUT and reason.rows[row]
            ]
            reasons[row] = tuple(whys) or UNDEFINED
        return FeatureValues(values, cut, reasons)
