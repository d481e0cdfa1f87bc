"""Which of two metrics agrees better with people: tests, intervals, and which are tied.

By default each metric is tested against the best of its kind and against every baseline: nobody
reads all pairs, and a correction for all of them asks for many times as many swaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations, product
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from agreement import (
    Correlation,
    bonferroni,
    compare_correlations,
    correlate,
    holm,
    swap_tests,
    systems_for_difference,
)
from agreement.intervals import CONFIDENCE, bootstrap_name, percentile_interval, too_few_units
from pipelines.correlation.estimates import (
    MOST_CELLS_IN_PAIRS,
    Estimates,
    SampleKey,
    can_be_resampled,
)
from pipelines.settings.correlate import CorrelateSettings
from pipelines.tables.records import ALL, BEST
from pipelines.tables.study import Study, is_baseline
from sms.processors import n_processors

ALPHA = 0.05
"""Level at which metrics are told apart, after Holm's correction."""

SWAPS_PER_PAIR = 25
"""Swaps for every pair of metrics in a family: the smallest p-value times the number of pairs is
then .04, so that Holm can find the most significant pair at .05."""

FORMULAE = {"williams": "williams1959", "steiger": "steiger1980"}
"""Tests by formula, of Pearson at system level, by their name in the table."""

FAMILY = ["aspect", "level", "coefficient", "test", "against"]
"""Pairs of metrics that share these are corrected together."""

Pair: TypeAlias = tuple[int, int]


def difference_rows(
    study: Study,
    settings: CorrelateSettings,
    estimates: Estimates,
    rng: np.random.Generator,
    tell: Callable[[int, int], None],
) -> Iterator[dict[str, Any]]:
    """Yield the rows of `AgreementResult.differences`, without the corrected p-values.

    `tell` hears how many of how many tests are done; slow and quick ones take turns.
    """
    pairs = list(combinations(range(len(study.metrics)), 2))
    keys, aspects = list(product(settings.levels, settings.correlations)), range(len(study.aspects))
    families = {
        key: [_families(study, settings, estimates.points[key], k) for k in aspects] for key in keys
    }
    asked = {key: _aspects_by_pair(of_aspects) for key, of_aspects in families.items()}
    # Every pair has its own stream: which others are tested, and in what order, changes nothing.
    streams = {key: dict(zip(pairs, rng.spawn(len(pairs)), strict=True)) for key in keys}
    n_most = {
        key: max(settings.resamples, SWAPS_PER_PAIR * _largest(families[key])) for key in keys
    }
    tests = [(key, pair) for pair in pairs for key in keys if pair in asked[key]]

    def test(one: tuple[SampleKey, Pair]) -> list[dict[str, Any]]:
        key, pair = one
        asked_for, rng_of_pair = asked[key][pair], streams[key][pair]
        return _swap_results(study, settings, key, n_most[key], pair, asked_for, rng_of_pair)

    results = {}
    with ThreadPoolExecutor(n_processors()) as pool:
        for one, outcome in zip(tests, pool.map(test, tests), strict=True):
            results[one] = outcome
            tell(len(results), len(tests))
    for key in keys:
        for pair, chosen in asked[key].items():
            for k, swap in zip(chosen, results[key, pair], strict=True):
                rows = _rows(study, estimates, key, pair, k, swap)
                for against, members in families[key][k].items():
                    if pair in members:
                        yield from ({**row, "against": against} for row in rows)


def best_metric(metrics: Sequence[str], values: Sequence[float | None]) -> int | None:
    """Return the place of the highest value; a baseline is the best only among baselines.

    Examples
    --------
    >>> best_metric(["length", "sms", "wms"], [0.9, 0.4, 0.5]), best_metric(["sms"], [None])
    (2, None)
    """
    defined = [i for i, value in enumerate(values) if value is not None and not np.isnan(value)]
    judged = [i for i in defined if not is_baseline(metrics[i])] or defined
    return max(judged, key=lambda i: (values[i], -i), default=None)


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


def with_best(correlations: pl.DataFrame, differences: pl.DataFrame) -> pl.DataFrame:
    """Fill in which metric is the best, and which cannot be told apart from it."""
    key = ["aspect", "level", "coefficient"]
    tests = differences.filter(test="perm-both", against=BEST)
    p_best = {
        (*row[:3], frozenset(row[3:5])): row[5]
        for row in tests.select(*key, "metric_a", "metric_b", "p_holm").iter_rows()
    }
    parts = []
    for (*place,), rows in correlations.partition_by(key, as_dict=True).items():
        metrics = rows["metric"].to_list()
        best = best_metric(metrics, rows["value"].to_list())
        pairs = [None if best is None else frozenset({metrics[best], name}) for name in metrics]
        p_values = [p_best.get((*place, pair)) for pair in pairs]
        is_best = [i == best for i in range(len(metrics))]
        tied = [i == best or (p is not None and p > ALPHA) for i, p in enumerate(p_values)]
        parts.append(
            rows.with_columns(
                pl.Series("is_best", is_best, pl.Boolean),
                pl.Series("is_tied", tied, pl.Boolean),
                pl.Series("p_best", p_values, pl.Float64),
            )
        )
    order = correlations.select("aspect", "level", "coefficient", "metric")
    return order.join(pl.concat(parts), on=order.columns, maintain_order="left").select(
        correlations.columns
    )


def _families(
    study: Study,
    settings: CorrelateSettings,
    points: Sequence[Sequence[Correlation]],
    k: int,
) -> dict[str, list[Pair]]:
    """Pairs that answer one question: is the best one better, is any better than a baseline."""
    places = range(len(study.metrics))
    best = best_metric(study.metrics, [row[k].value for row in points])
    baselines = [i for i in places if is_baseline(study.metrics[i])]
    families: dict[str, list[Pair]] = {}
    if best is not None:
        families[BEST] = [_pair(best, i) for i in places if i != best]
    for baseline in baselines:
        others = [i for i in places if i not in baselines]
        families[study.metrics[baseline]] = [_pair(baseline, i) for i in others]
    if settings.pairs == "all":
        families[ALL] = list(combinations(places, 2))
    return families


def _pair(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)


def _largest(families: Sequence[Mapping[str, Sequence[Pair]]]) -> int:
    return max((len(pairs) for each in families for pairs in each.values()), default=0)


def _aspects_by_pair(families: Sequence[Mapping[str, Sequence[Pair]]]) -> dict[Pair, list[int]]:
    asked: dict[Pair, list[int]] = {}
    for k, each in enumerate(families):
        for pair in sorted({pair for pairs in each.values() for pair in pairs}):
            asked.setdefault(pair, []).append(k)
    return asked


def _p_values(group: pl.DataFrame) -> np.ndarray:
    return group["p_value"].fill_null(np.nan).to_numpy()


def _swap_results(
    study: Study,
    settings: CorrelateSettings,
    key: SampleKey,
    n_most: int,
    pair: Pair,
    aspects: Sequence[int],
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    """Perm-Both of one pair of metrics, an entry per aspect."""
    level, coefficient = key
    if not can_be_resampled(study, level, coefficient):
        return [{"reason": f"not tested: more than {MOST_CELLS_IN_PAIRS:,} cells"}] * len(aspects)
    a, b = (study.scores[i] for i in pair)
    tests = swap_tests(
        a,
        b,
        study.ratings[aspects],
        level=level,
        coefficient=coefficient,
        n_first=max(settings.resamples, SWAPS_PER_PAIR),  # with fewer no p-value is below ALPHA
        n_most=n_most,
        rng=rng,
    )
    return [{"p_value": p_value, "n_resamples": n or None} for p_value, n in tests]


def _rows(
    study: Study, estimates: Estimates, key: SampleKey, pair: Pair, k: int, swap: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Lay out all tests of one pair of metrics under one aspect."""
    points = [estimates.points[key][i][k] for i in pair]
    reason = next(
        (
            f"{study.metrics[i]}: {point.reason}"
            for i, point in zip(pair, points, strict=True)
            if point.reason
        ),
        None,
    )
    difference = points[0].value - points[1].value
    common = {
        "aspect": study.aspects[k],
        "level": key[0],
        "coefficient": key[1],
        "metric_a": study.metrics[pair[0]],
        "metric_b": study.metrics[pair[1]],
        "value_a": points[0].value,
        "value_b": points[1].value,
        "difference": difference,
        "n_systems": points[0].n_systems,
        "n_documents": points[0].n_documents,
        "n_cells": study.n_rows,
        "reason": reason,
    }
    if key in estimates.draws:
        draws = estimates.draws[key][:, pair, k]
        interval = percentile_interval(
            draws[:, 0] - draws[:, 1],
            difference,
            CONFIDENCE,
            bootstrap_name(points[0]),
            reason or too_few_units(points[0]),
        )
        common |= {"low": interval.low, "high": interval.high}
    rows = [{**common, "test": "perm-both", **swap, "reason": reason or swap.get("reason")}]
    if key == ("system", "pearson"):
        rows += _formula_rows(study, common, pair, k)
    return rows


def _formula_rows(
    study: Study, common: dict[str, Any], pair: Pair, k: int
) -> Iterator[dict[str, Any]]:
    a, b, y = *(study.scores[i] for i in pair), study.ratings[k]
    for name, formula in FORMULAE.items():
        by_formula = compare_correlations(a, b, y, level="system", test=formula)
        row = {
            **common,
            "test": name,
            "statistic": by_formula.statistic,
            "p_value": by_formula.p_value,
            "reason": common["reason"] or by_formula.reason,
        }
        if name == "williams" and by_formula.reason is None:
            row |= {"systems_needed": _systems_needed(a, b, common)}
        yield row


def _systems_needed(a: np.ndarray, b: np.ndarray, common: dict[str, Any]) -> int | None:
    r_ab = correlate(a, b, level="system").value
    if max(abs(common["value_a"]), abs(common["value_b"]), abs(r_ab)) >= 1.0:
        return None
    return systems_for_difference(common["value_a"], common["value_b"], r_ab)
