"""All tables of a study but that of the differences: correlations, raters, systems, sample sizes.

Each function that ends in `_rows` yields the rows of the table of that name in `AgreementResult`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy import stats

import agreement
from agreement.intervals import bootstrap_interval
from pipelines.settings.correlate import CorrelateSettings
from pipelines.tables.study import Study, is_baseline

MOST_CELLS_IN_PAIRS = 5_000
"""Kendall at global level is resampled only up to so many cells: its cost is quadratic."""
ALPHAS = ("ordinal", "interval")
N_SIZES, SMALLEST_SIZE = 10, 2
"""Numbers of documents that the curve of the sample size has, and the smallest of them."""
N_DRAWS = 50
"""Subsets of documents, per size."""
N_DISAGREEMENTS = 10
"""Candidates listed per aspect and metric."""

SampleKey = tuple[str, str]
"""A level and a coefficient."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimates:
    """Coefficients at every level, each metric and aspect on the cells both have."""

    points: Mapping[SampleKey, Sequence[Sequence[agreement.Correlation]]]
    """By level and coefficient: a row per metric, an entry per aspect."""
    draws: Mapping[SampleKey, np.ndarray]
    """Shape (n_resamples, n_metrics, n_aspects); absent where it would take too long."""


def estimate(study: Study, settings: CorrelateSettings, rng: np.random.Generator) -> Estimates:
    """Compute every coefficient of every metric with every aspect, and its bootstrap."""
    shape = len(study.systems), len(study.documents)
    resamples = agreement.draw_resamples(*shape, n_resamples=settings.resamples, rng=rng)
    points, draws = {}, {}
    for key in product(settings.levels, settings.correlations):
        how = dict(zip(("level", "coefficient"), key, strict=True))
        points[key] = [
            [agreement.correlate(x, y, **how) for y in study.ratings] for x in study.scores
        ]
        if can_be_resampled(study, *key):
            draws[key] = agreement.resampled_correlations(
                study.scores, study.ratings, resamples, **how
            )
    return Estimates(points=points, draws=draws)


def can_be_resampled(study: Study, level: str, coefficient: str) -> bool:
    """Say whether thousands of resamples are affordable."""
    n_cells = len(study.systems) * len(study.documents)
    is_quadratic = level == "global" and coefficient.startswith("kendall")
    return not (is_quadratic and n_cells > MOST_CELLS_IN_PAIRS)


def correlation_rows(
    study: Study, settings: CorrelateSettings, estimates: Estimates, rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    """By aspect, metric and level: correlations, the same given length, accuracies."""
    for common, m, k in _cells(study):
        x, y = agreement.shared_cells(study.scores[m], study.ratings[k])
        common |= {
            "n_cells": int((~np.isnan(x)).sum()),
            "raters": study.pool,
            "is_baseline": is_baseline(study.metrics[m]),
        }
        for level in settings.levels:
            rows = [
                _correlation_row(x, y, estimates, (level, coefficient), m, k)
                for coefficient in settings.correlations
            ]
            if study.lengths is not None:
                for coefficient in settings.correlations:
                    how = {"level": level, "coefficient": coefficient}
                    point = agreement.partial_correlate(x, y, study.lengths, **how)
                    rows.append({**asdict(point), "coefficient": f"partial_{coefficient}"})
            rows += _accuracy_rows(x, y, level, settings, rng)
            yield from (common | {"level": level} | row for row in rows)


def _cells(study: Study) -> Iterator[tuple[dict[str, Any], int, int]]:
    """Go through aspects and their metrics: names for a row, places of metric and aspect."""
    for (k, aspect), (m, metric) in product(enumerate(study.aspects), enumerate(study.metrics)):
        yield {"aspect": aspect, "metric": metric}, m, k


def _correlation_row(
    x: np.ndarray, y: np.ndarray, estimates: Estimates, key: SampleKey, m: int, k: int
) -> dict[str, Any]:
    point = estimates.points[key][m][k]
    row = asdict(point)
    if key in estimates.draws:
        draws = estimates.draws[key][:, m, k]
        row |= asdict(interval := bootstrap_interval(draws, point.value, point, point.reason))
        row["interval"] = None if interval.reason else interval.method
    else:
        row["reason"] = point.reason or f"no interval: more than {MOST_CELLS_IN_PAIRS:,} cells"
    row["p_value"] = agreement.correlation_test(x, y, level=key[0], coefficient=key[1])
    return row


def _accuracy_rows(
    x: np.ndarray, y: np.ndarray, level: str, settings: CorrelateSettings, rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    """Pairs of systems, over all documents or inside each; not pairs of any two cells."""
    have = ~np.isnan(x)
    for name in settings.coefficients_at(level):
        if name == "pairwise_accuracy":
            accuracy = agreement.calibrate_ties(x, y, level=level)
        elif name == "soft_pairwise_accuracy":
            accuracy = agreement.soft_pairwise_accuracy(x, y, rng=rng)
        else:
            continue
        yield {
            "coefficient": name,
            **asdict(accuracy),
            "n_systems": int(have.any(1).sum()),
            "n_documents": int(have.any(0).sum()),
            "n_missing": int((~have).sum()),
        }


def power_rows(study: Study) -> Iterator[dict[str, Any]]:
    """Say what a larger study would need, by aspect and metric."""
    for row, m, k in _cells(study):
        x, y = study.scores[m], study.ratings[k]
        point = agreement.correlate(x, y, level="system")
        row |= asdict(point)
        if point.reason is None and abs(point.value) < 1.0:
            documents = agreement.documents_for_correlation(x, y)
            row |= {
                "systems_for_correlation": agreement.systems_for_correlation(point.value),
                "limit": documents.limit,
                "documents_for_correlation": documents.n,
                "reason": documents.reason,
            }
        yield row


def rater_rows(study: Study, settings: CorrelateSettings) -> Iterator[dict[str, Any]]:
    """How far raters agree; none where the ratings name no raters."""
    for aspect, stack in study.by_rater.items():
        common = {
            "aspect": aspect,
            "pool": study.pool,
            "n_raters": len(stack),
            "n_missing": int(np.isnan(stack).sum()),
        }
        flat = stack.reshape(len(stack), -1)
        for measurement in ALPHAS:
            statistic = f"krippendorff_alpha_{measurement}"
            alpha = agreement.krippendorff_alpha(flat, measurement=measurement)
            yield {**common, "statistic": statistic, **asdict(alpha)}
        for level, coefficient in product(settings.levels, settings.correlations):
            found = asdict(agreement.leave_one_out(stack, level=level, coefficient=coefficient))
            if level == "system":
                found["n_units"] = len(study.systems)
            yield {**common, "statistic": f"leave_one_out_{coefficient}", "level": level, **found}


def system_rows(
    study: Study, settings: CorrelateSettings, rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    """Mean of each system under each aspect and metric."""
    rated = ~np.isnan(study.ratings).all(0)
    named = [("rating", *each) for each in zip(study.aspects, study.ratings, strict=True)]
    named += [("metric", *each) for each in zip(study.metrics, study.scores, strict=True)]
    for kind, name, matrix in named:
        kept = np.where(rated, matrix, np.nan)
        means = agreement.mean_intervals(kept, n_resamples=settings.resamples, rng=rng)
        for system, mean, n in zip(study.systems, means, (~np.isnan(kept)).sum(1), strict=True):
            row = {"system_id": system, "name": name, "kind": kind, "n_documents": int(n)}
            yield row | asdict(mean) | {"mean": mean.value}


def sample_size_rows(
    study: Study, settings: CorrelateSettings, seed: np.random.SeedSequence
) -> Iterator[dict[str, Any]]:
    """Correlations on random subsets of the documents; all curves share the subsets."""
    n_documents = len(study.documents)
    sizes = np.unique(
        np.geomspace(min(SMALLEST_SIZE, n_documents), n_documents, N_SIZES).round().astype(int)
    )
    for level, coefficient in product(settings.levels, settings.correlations):
        if not can_be_resampled(study, level, coefficient):
            continue
        how = {"level": level, "coefficient": coefficient}
        rng = np.random.default_rng(seed)
        curve = agreement.sample_size_curve(
            study.scores, study.ratings, sizes, **how, n_draws=N_DRAWS, rng=rng
        )
        for (names, m, k), (s, size) in product(_cells(study), enumerate(sizes.tolist())):
            yield {
                **names,
                **how,
                "n_documents": size,
                "n_draws": N_DRAWS,
                "n_undefined": int(curve.n_undefined[s, m, k]),
                "mean": curve.means[s, m, k],
                "low": curve.low[s, m, k],
                "high": curve.high[s, m, k],
            }


def disagreement_rows(study: Study) -> Iterator[dict[str, Any]]:
    """Candidates whose rank inside their document differs most, the worst of each metric first."""
    for names, m, k in _cells(study):
        scores, ratings = agreement.shared_cells(study.scores[m], study.ratings[k])
        score_ranks, rating_ranks = _rank_shares(scores), _rank_shares(ratings)
        gaps = score_ranks - rating_ranks
        cells = np.argwhere(~np.isnan(gaps))
        order = np.argsort(-np.abs(gaps[cells[:, 0], cells[:, 1]]), kind="stable")
        for i, j in cells[order[:N_DISAGREEMENTS]]:
            yield {
                **names,
                "document_id": study.documents[j],
                "system_id": study.systems[i],
                "score": scores[i, j],
                "rating": ratings[i, j],
                "score_rank": score_ranks[i, j],
                "rating_rank": rating_ranks[i, j],
                "gap": gaps[i, j],
            }


def _rank_shares(matrix: np.ndarray) -> np.ndarray:
    """Rank of each cell in its document, from 0 (lowest) to 1; NaN where it stands alone."""
    counts = (~np.isnan(matrix)).sum(0)
    ranks = stats.rankdata(matrix, axis=0, nan_policy="omit")
    return np.where(counts > 1, (ranks - 1.0) / np.maximum(counts - 1, 1), np.nan)
