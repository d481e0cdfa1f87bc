"""Which of two metrics agrees better with people: tests, intervals, and which are tied.

By default each metric is tested against the best of its kind and against every baseline: nobody
reads all pairs, and a correction for all of them asks for many times as many swaps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations, product
from typing import Any, TypeAlias

import numpy as np
import polars as pl

import agreement
from agreement.intervals import bootstrap_interval
from pipelines.correlation.estimates import (
    MOST_CELLS_IN_PAIRS,
    Estimates,
    SampleKey,
    can_be_resampled,
)
from pipelines.settings.correlate import CorrelateSettings
from pipelines.tables.records import ALL, BEST
from pipelines.tables.study import Study, is_baseline
from sms.process import n_processors

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
Asked: TypeAlias = Mapping[Pair, Mapping[int, Sequence[str]]]
"""Pairs of metrics to be tested; for each, by aspect, the families it belongs to."""


def difference_rows(
    study: Study,
    settings: CorrelateSettings,
    estimates: Estimates,
    rng: np.random.Generator,
    tell: Callable[[int, int], None],
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the differences, without the corrected p-values.

    `tell` hears how many of how many tests are done; slow and quick ones take turns.
    """
    pairs = list(combinations(range(len(study.metrics)), 2))
    keys = list(product(settings.levels, settings.correlations))
    asked = {key: _asked(study, settings, estimates.points[key]) for key in keys}
    # Every pair has its own stream: which others are tested, and in what order, changes nothing.
    streams = {key: dict(zip(pairs, rng.spawn(len(pairs)), strict=True)) for key in keys}
    n_most = {key: _n_most(settings, asked[key]) for key in keys}
    tests = [(key, pair) for pair in pairs for key in keys if pair in asked[key]]

    def test(one: tuple[SampleKey, Pair]) -> list[dict[str, Any]]:
        """Perm-Both of one pair of metrics, an entry per aspect."""
        (level, coefficient), (a, b) = key, pair = one
        aspects = [*asked[key][pair]]
        if not can_be_resampled(study, level, coefficient):
            reason = f"not tested: more than {MOST_CELLS_IN_PAIRS:,} cells"
            return [{"reason": reason}] * len(aspects)
        tests = agreement.swap_tests(
            study.scores[a],
            study.scores[b],
            study.ratings[aspects],
            level=level,
            coefficient=coefficient,
            n_first=max(settings.resamples, SWAPS_PER_PAIR),  # with fewer, none is below ALPHA
            n_most=n_most[key],
            rng=streams[key][pair],
        )
        return [{"p_value": p_value, "n_resamples": n or None} for p_value, n in tests]

    results = {}
    with ThreadPoolExecutor(n_processors()) as pool:
        for one, outcome in zip(tests, pool.map(test, tests), strict=True):
            results[one] = outcome
            tell(len(results), len(tests))
    for key in keys:
        for pair, of_pair in asked[key].items():
            for (k, families), swap in zip(of_pair.items(), results[key, pair], strict=True):
                rows = [*_rows(study, estimates, key, pair, k, swap)]
                yield from ({**row, "against": family} for family in families for row in rows)


def best_metric(metrics: Sequence[str], values: Sequence[float | None]) -> int | None:
    """Return the place of the highest value; a baseline is the best only among baselines."""
    defined = [i for i, value in enumerate(values) if value is not None and not np.isnan(value)]
    judged = [i for i in defined if not is_baseline(metrics[i])] or defined
    return max(judged, key=lambda i: (values[i], -i), default=None)


def corrected(differences: pl.DataFrame) -> pl.DataFrame:
    """Fill in `p_holm`, over all pairs of metrics of a family."""
    parts = [differences.clear()]
    for group in differences.partition_by(FAMILY, maintain_order=True):
        p_holm = agreement.holm(group["p_value"].fill_null(np.nan).to_numpy())
        parts.append(group.with_columns(p_holm=pl.Series(p_holm).fill_nan(None)))
    return pl.concat(parts)


def with_best(correlations: pl.DataFrame, differences: pl.DataFrame) -> pl.DataFrame:
    """Fill in which metric is the best, and which cannot be told apart from it."""
    key = ["aspect", "level", "coefficient"]
    best_of: dict[tuple[Any, ...], str | None] = {}
    for place, rows in correlations.partition_by(key, as_dict=True).items():
        best = best_metric(rows["metric"].to_list(), rows["value"].to_list())
        best_of[place] = None if best is None else rows["metric"][best]
    tests = differences.filter(test="perm-both", against=BEST)
    tests = tests.select(*key, "metric_a", "metric_b", "p_holm")
    p_best = {(*place, frozenset((a, b))): p for *place, a, b, p in tests.iter_rows()}
    marks = []
    for *where, metric in correlations.select(*key, "metric").iter_rows():
        p_value = p_best.get((*where, frozenset({best_of[*where], metric})))
        is_best = metric == best_of[*where]
        marks.append((is_best, is_best or (p_value is not None and p_value > ALPHA), p_value))
    columns = {"is_best": pl.Boolean, "is_tied": pl.Boolean, "p_best": pl.Float64}
    return correlations.with_columns(pl.DataFrame(marks, columns, orient="row").get_columns())


def _asked(
    study: Study, settings: CorrelateSettings, points: Sequence[Sequence[agreement.Correlation]]
) -> Asked:
    """Choose pairs that answer: is the best one better, and is any better than a baseline."""
    places = range(len(study.metrics))
    baselines = [i for i in places if is_baseline(study.metrics[i])]
    judged = [i for i in places if i not in baselines]
    asked: dict[Pair, dict[int, list[str]]] = {}
    for k in range(len(study.aspects)):
        best = best_metric(study.metrics, [row[k].value for row in points])
        families = {} if best is None else {BEST: [(best, i) for i in places if i != best]}
        families |= {study.metrics[one]: [(one, i) for i in judged] for one in baselines}
        if settings.pairs == "all":
            families[ALL] = list(combinations(places, 2))
        of_pair: dict[Pair, list[str]] = {}
        for family, pairs in families.items():
            for one, other in pairs:
                of_pair.setdefault((min(one, other), max(one, other)), []).append(family)
        for pair in sorted(of_pair):
            asked.setdefault(pair, {})[k] = of_pair[pair]
    return asked


def _n_most(settings: CorrelateSettings, asked: Asked) -> int:
    """Return how many swaps the largest family needs."""
    of_pairs = [of_pair.items() for of_pair in asked.values()]
    sizes = Counter((k, family) for each in of_pairs for k, names in each for family in names)
    return max(settings.resamples, SWAPS_PER_PAIR * max(sizes.values(), default=0))


def _rows(
    study: Study, estimates: Estimates, key: SampleKey, pair: Pair, k: int, swap: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Lay out the tests of one pair of metrics under one aspect."""
    points = [estimates.points[key][i][k] for i in pair]
    named = zip((study.metrics[i] for i in pair), points, strict=True)
    reason = next((f"{name}: {point.reason}" for name, point in named if point.reason), None)
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
    }
    if key in estimates.draws:
        draws = estimates.draws[key][:, pair, k]
        interval = bootstrap_interval(draws[:, 0] - draws[:, 1], difference, points[0], reason)
        common |= {"low": interval.low, "high": interval.high}
    yield {**common, "test": "perm-both", **swap, "reason": reason or swap.get("reason")}
    for test, formula in FORMULAE.items() if key == ("system", "pearson") else ():
        matrices = *(study.scores[i] for i in pair), study.ratings[k]
        tested = agreement.compare_correlations(*matrices, level="system", test=formula)
        numbers = {"statistic": tested.statistic, "p_value": tested.p_value}
        yield {**common, "test": test, **numbers, "reason": reason or tested.reason}
