"""Which of two metrics agrees better with people: tests, intervals, and groups of metrics."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np
import polars as pl

from agreement import (
    bonferroni,
    clusters,
    compare_correlations,
    correlate,
    holm,
    resampled_correlations,
    shared_cells,
    swap_tests,
    systems_for_difference,
)
from agreement.intervals import bootstrap_name, percentile_interval
from pipelines.correlation.estimates import (
    CONFIDENCE,
    MOST_CELLS_IN_PAIRS,
    Estimates,
    SampleKey,
    can_be_resampled,
)
from pipelines.settings.correlate import CorrelateSettings
from pipelines.tables.study import Study
from sms.processors import n_processors

ALPHA = 0.05
"""Level of the clusters."""

SWAPS_PER_PAIR = 25
"""Swaps for every pair of metrics in a family: the smallest p-value times the number of pairs is
then .04, so that Holm can find the most significant pair at .05."""

FORMULAE = {"williams": "williams1959", "steiger": "steiger1980"}
"""Tests by formula, of Pearson at system level, by their name in the table."""

FAMILY = ["aspect", "level", "coefficient", "test"]
"""Pairs of metrics that share these are corrected together."""


def difference_rows(
    study: Study, settings: CorrelateSettings, estimates: Estimates, rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    """Yield the rows of `AgreementResult.differences`, without the corrected p-values."""
    n_pairs = math.comb(len(study.metrics), 2)
    n_most = max(settings.resamples, SWAPS_PER_PAIR * n_pairs)
    pairs = list(combinations(range(len(study.metrics)), 2))
    with ThreadPoolExecutor(n_processors()) as pool:
        for key in product(settings.levels, settings.correlations):
            test = partial(_swap_results, study, settings, key, n_most)
            # Every pair has its own stream: the order in which threads finish changes nothing.
            for pair, swaps in zip(pairs, pool.map(test, pairs, rng.spawn(n_pairs)), strict=True):
                for k, swap in enumerate(swaps):
                    common = _difference(study, settings, estimates, key, pair, k)
                    yield {**common, **swap, "reason": common["reason"] or swap.get("reason")}
                    if key == ("system", "pearson"):
                        yield from _formula_rows(study, common, pair, k)


def corrected(differences: pl.DataFrame) -> pl.DataFrame:
    """Fill in `p_holm` and `p_bonferroni`, over all pairs of metrics of a family."""
    parts = [
        group.with_columns(
            pl.Series("p_holm", holm(_p_values(group)), pl.Float64).fill_nan(None),
            pl.Series("p_bonferroni", bonferroni(_p_values(group)), pl.Float64).fill_nan(None),
        )
        for group in differences.partition_by(FAMILY, maintain_order=True)
    ]
    return pl.concat(parts) if parts else differences


def cluster_rows(
    study: Study, estimates: Estimates, differences: pl.DataFrame
) -> Iterator[dict[str, Any]]:
    """Yield the rows of `AgreementResult.clusters`, from corrected permutation tests."""
    tests = differences.filter(pl.col("test") == "perm-both")
    place = {metric: i for i, metric in enumerate(study.metrics)}
    for (level, coefficient), points in estimates.points.items():
        for k, aspect in enumerate(study.aspects):
            values = np.array([row[k].value for row in points])
            family = tests.filter(
                (pl.col("aspect") == aspect)
                & (pl.col("level") == level)
                & (pl.col("coefficient") == coefficient)
            )
            p_values = np.ones((values.size, values.size))
            for row in family.iter_rows(named=True):
                if row["p_holm"] is not None:
                    a, b = place[row["metric_a"]], place[row["metric_b"]]
                    better, worse = (a, b) if row["difference"] > 0 else (b, a)
                    p_values[better, worse] = row["p_holm"]
            found = clusters(values, p_values, alpha=ALPHA)
            for metric, value, cluster in zip(study.metrics, values, found, strict=True):
                yield {
                    "aspect": aspect,
                    "level": level,
                    "coefficient": coefficient,
                    "metric": metric,
                    "value": value,
                    "cluster": int(cluster),
                }


def _p_values(group: pl.DataFrame) -> np.ndarray:
    return group["p_value"].fill_null(np.nan).to_numpy()


def _swap_results(
    study: Study,
    settings: CorrelateSettings,
    key: SampleKey,
    n_most: int,
    pair: tuple[int, int],
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    """Perm-Both of one pair of metrics, an entry per aspect."""
    level, coefficient = key
    results: list[dict[str, Any]] = [{"test": "perm-both"} for _ in study.aspects]
    if not can_be_resampled(study, level, coefficient):
        reason = f"not tested: more than {MOST_CELLS_IN_PAIRS:,} cells"
        return [{**result, "reason": reason} for result in results]
    a, b = (study.scores[i] for i in pair)
    for aspects in _same_cells(study.ratings):
        tests = swap_tests(
            a,
            b,
            study.ratings[aspects],
            level=level,
            coefficient=coefficient,
            n_first=settings.resamples,
            n_most=n_most,
            rng=rng,
        )
        for k, test in zip(aspects, tests, strict=True):
            results[k] |= {"p_value": test.p_value, "n_resamples": test.n_resamples or None}
    return results


def _same_cells(ratings: np.ndarray) -> list[list[int]]:
    """Group aspects by which cells are rated."""
    groups: dict[bytes, list[int]] = {}
    for k, matrix in enumerate(ratings):
        groups.setdefault(np.isnan(matrix).tobytes(), []).append(k)
    return list(groups.values())


def _difference(
    study: Study,
    settings: CorrelateSettings,
    estimates: Estimates,
    key: SampleKey,
    pair: tuple[int, int],
    k: int,
) -> dict[str, Any]:
    """Both values on the cells that all three have, and the interval of their difference."""
    level, coefficient = key
    a, b, y = shared_cells(*(study.scores[i] for i in pair), study.ratings[k])
    have = ~np.isnan(y)
    points = [estimates.points[key][i][k] for i in pair]
    draws = None
    if all(point.n_missing == y.size - have.sum() for point in points):
        if key in estimates.draws:
            draws = estimates.draws[key][:, pair, k]
    else:
        points = [correlate(each, y, level=level, coefficient=coefficient) for each in (a, b)]
        if key in estimates.draws:
            draws = resampled_correlations(
                np.stack([a, b]), y[None], estimates.resamples, level=level, coefficient=coefficient
            )[..., 0]
    reason = next(
        (
            f"{study.metrics[i]}: {point.reason}"
            for i, point in zip(pair, points, strict=True)
            if point.reason
        ),
        None,
    )
    difference = points[0].value - points[1].value
    row = {
        "aspect": study.aspects[k],
        "level": level,
        "coefficient": coefficient,
        "metric_a": study.metrics[pair[0]],
        "metric_b": study.metrics[pair[1]],
        "value_a": points[0].value,
        "value_b": points[1].value,
        "difference": difference,
        "n_systems": points[0].n_systems,
        "n_documents": points[0].n_documents,
        "n_cells": int(have.sum()),
        "reason": reason,
    }
    if draws is not None:
        found = percentile_interval(
            draws[:, 0] - draws[:, 1],
            difference,
            CONFIDENCE,
            bootstrap_name(points[0]),
            reason,
        )
        row |= {"low": found.low, "high": found.high}
    return row


def _formula_rows(
    study: Study, common: dict[str, Any], pair: Sequence[int], k: int
) -> Iterator[dict[str, Any]]:
    a, b, y = shared_cells(*(study.scores[i] for i in pair), study.ratings[k])
    for name, formula in FORMULAE.items():
        found = compare_correlations(a, b, y, level="system", test=formula)
        row = {
            **common,
            "test": name,
            "statistic": found.statistic,
            "p_value": found.p_value,
            "reason": common["reason"] or found.reason,
        }
        if name == "williams" and found.reason is None:
            row |= {"systems_needed": _systems_needed(a, b, common)}
        yield row


def _systems_needed(a: np.ndarray, b: np.ndarray, common: dict[str, Any]) -> int | None:
    r_ab = correlate(a, b, level="system").value
    if max(abs(common["value_a"]), abs(common["value_b"]), abs(r_ab)) >= 1.0:
        return None
    return systems_for_difference(common["value_a"], common["value_b"], r_ab)
