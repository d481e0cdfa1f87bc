"""The tables beside the correlations: raters, systems, sample sizes, disagreements, power."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import product
from typing import Any

import numpy as np
from scipy import stats

import agreement
from pipelines.correlation.estimates import can_be_resampled
from pipelines.settings.correlate import CorrelateSettings
from pipelines.tables.study import Study

ALPHAS = ("ordinal", "interval")
WIDTH = 0.2
"""Of the Fisher interval that `systems_for_width` asks for."""
N_SIZES, SMALLEST_SIZE = 10, 2
"""Numbers of documents that the curve of the sample size has, and the smallest of them."""
N_DRAWS = 50
"""Subsets of documents, per size."""
N_DISAGREEMENTS = 10
"""Candidates listed per aspect and metric."""


def rater_rows(study: Study, settings: CorrelateSettings) -> Iterator[dict[str, Any]]:
    """Yield the rows of `AgreementResult.raters`; none where the ratings name no raters."""
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
            row: dict[str, Any] = {"statistic": f"leave_one_out_{coefficient}", "level": level}
            row |= asdict(agreement.leave_one_out(stack, level=level, coefficient=coefficient))
            if level == "system":
                row["n_units"] = len(study.systems)
            yield {**common, **row}


def system_rows(
    study: Study, settings: CorrelateSettings, rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    """Yield the rows of `AgreementResult.systems`."""
    rated = ~np.isnan(study.ratings).all(0)
    named = [("rating", *each) for each in zip(study.aspects, study.ratings, strict=True)]
    named += [("metric", *each) for each in zip(study.metrics, study.scores, strict=True)]
    for kind, name, matrix in named:
        kept = np.where(rated, matrix, np.nan)
        ranking = agreement.rank_systems(kept, n_resamples=settings.resamples, rng=rng)
        n_documents = (~np.isnan(kept)).sum(1)
        for i, system in enumerate(study.systems):
            rank = int(ranking.ranks[i])
            yield {
                "system_id": system,
                "name": name,
                "kind": kind,
                "mean": ranking.means[i].value,
                "low": ranking.means[i].low,
                "high": ranking.means[i].high,
                "rank": rank or None,
                "rank_low": int(ranking.rank_low[i]) or None,
                "rank_high": int(ranking.rank_high[i]) or None,
                "n_documents": int(n_documents[i]),
            }


def sample_size_rows(
    study: Study, settings: CorrelateSettings, seed: np.random.SeedSequence
) -> Iterator[dict[str, Any]]:
    """Yield the rows of `AgreementResult.sample_size`; all curves share the drawn subsets."""
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
        for k, m, s in np.ndindex(len(study.aspects), len(study.metrics), sizes.size):
            yield how | {
                "aspect": study.aspects[k],
                "metric": study.metrics[m],
                "n_documents": int(sizes[s]),
                "n_draws": N_DRAWS,
                "n_undefined": int(curve.n_undefined[s, m, k]),
                "mean": curve.means[s, m, k],
                "low": curve.low[s, m, k],
                "high": curve.high[s, m, k],
            }


def disagreement_rows(study: Study) -> Iterator[dict[str, Any]]:
    """Yield the rows of `AgreementResult.disagreements`, without texts."""
    for k, aspect in enumerate(study.aspects):
        for m, metric in enumerate(study.metrics):
            scores, ratings = agreement.shared_cells(study.scores[m], study.ratings[k])
            score_ranks, rating_ranks = _rank_shares(scores), _rank_shares(ratings)
            gaps = score_ranks - rating_ranks
            cells = np.argwhere(~np.isnan(gaps))
            order = np.argsort(-np.abs(gaps[cells[:, 0], cells[:, 1]]), kind="stable")
            for i, j in cells[order[:N_DISAGREEMENTS]]:
                yield {
                    "aspect": aspect,
                    "metric": metric,
                    "document_id": study.documents[j],
                    "system_id": study.systems[i],
                    "score": scores[i, j],
                    "rating": ratings[i, j],
                    "score_rank": score_ranks[i, j],
                    "rating_rank": rating_ranks[i, j],
                    "gap": gaps[i, j],
                }


def power_rows(study: Study) -> Iterator[dict[str, Any]]:
    """Yield the rows of `AgreementResult.power`."""
    for k, aspect in enumerate(study.aspects):
        for m, metric in enumerate(study.metrics):
            x, y = study.scores[m], study.ratings[k]
            point = agreement.correlate(x, y, level="system")
            row = {
                "aspect": aspect,
                "metric": metric,
                "value": point.value,
                "n_systems": point.n_systems,
                "n_documents": point.n_documents,
                "reason": point.reason,
            }
            if point.reason is None and abs(point.value) < 1.0:
                documents = agreement.documents_for_correlation(x, y)
                row |= {
                    "systems_for_correlation": agreement.systems_for_correlation(point.value),
                    "systems_for_width": agreement.systems_for_width(point.value, WIDTH),
                    "limit": documents.limit,
                    "documents_for_correlation": documents.n,
                    "reason": documents.reason,
                }
            yield row


def _rank_shares(matrix: np.ndarray) -> np.ndarray:
    """Rank of each cell in its document, from 0 (lowest) to 1; NaN where it stands alone."""
    counts = (~np.isnan(matrix)).sum(0)
    ranks = stats.rankdata(matrix, axis=0, nan_policy="omit")
    return np.where(counts > 1, (ranks - 1.0) / np.maximum(counts - 1, 1), np.nan)
