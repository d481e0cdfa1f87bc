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
Asked: TypeAlias = Mapping[Pair, Mapping[int, Sequence[str]]]
"""Pairs of metrics to be tested; for each, by aspect, the families it belongs to."""


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
    keys = list(product(settings.levels, settings.correlations))
    asked = {key: _asked(study, settings, estimates.points[key]) for key in keys}
    # Every pair has its own stream: which others are tested, and in what order, changes nothing.
    streams = {key: dict(zip(pairs, rng.spawn(len(pairs)), strict=True)) for key in keys}
    n_most = {key: _n_most(settings, asked[key]) for key in keys}
    tests = [(key, pair) for pair in pairs for key in keys if pair in asked[key]]

    def test(one: tuple[SampleKey, Pair]) -> list[dict[str, Any]]:
        key, pair = one
        aspects, stream = [*asked[key][pair]], streams[key][pair]
        return _swap_results(study, settings, key, n_most[key], pair, aspects, stream)

    results = {}
    with ThreadPoolExecutor(n_processors()) as pool:
        for one, outcome in zip(tests, pool.map(test, tests), strict=True):
            results[one] = outcome
            tell(len(results), len(tests))
    for key in keys:
        for pair, of_pair in asked[key].items():
            for (k, families), swap in zip(of_pair.items(), results[key, pair], strict=True):
                rows = _rows(study, estimates, key, pair, k, swap)
                yield from ({**row, "against": family} for family in families for row in rows)


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
    parts = [differences.clear()]
    for group in differences.partition_by(FAMILY, maintain_order=True):
        p_values = group["p_value"].fill_null(np.nan).to_numpy()
        adjusted = {
            "p_holm": agreement.holm(p_values),
            "p_bonferroni": agreement.bonferroni(p_values),
        }
        parts.append(group.with_columns(pl.Series(*each) for each in adjusted.items()))
    return pl.concat(parts).with_columns(pl.selectors.float().fill_nan(None))


def with_best(correlations: pl.DataFrame, differences: pl.DataFrame) -> pl.DataFrame:
    """Fill in which metric is the best, and which cannot be told apart from it."""
    key = ["aspect", "level", "coefficient"]
    best_of: dict[tuple[Any, ...], str | None] = {}
    for place, rows in correlations.partition_by(key, as_dict=True).items():
        best = best_metric(rows["metric"].to_list(), rows["value"].to_list())
        best_of[place] = None if best is None else rows["metric"][best]
    tests = differences.filter(test="perm-both", against=BEST)
    p_best = {
        (*place, frozenset({one, other})): p_value
        for *place, one, other, p_value in tests.select(
            *key, "metric_a", "metric_b", "p_holm"
        ).iter_rows()
    }
    marks = []
    for *where, metric in correlations.select(*key, "metric").iter_rows():
        best_here = best_of[*where]
        p_value = p_best.get((*where, frozenset({best_here, metric})))
        is_best = metric == best_here
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
    sizes = Counter(
        (k, family)
        for of_pair in asked.values()
        for k, families in of_pair.items()
        for family in families
    )
    return max(settings.resamples, SWAPS_PER_PAIR * max(sizes.values(), default=0))


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
    tests = agreement.swap_tests(
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
        "reason": reason,
    }
    if key in estimates.draws:
        draws = estimates.draws[key][:, pair, k]
        interval = bootstrap_interval(draws[:, 0] - draws[:, 1], difference, points[0], reason)
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
        tested = agreement.compare_correlations(a, b, y, level="system", test=formula)
        reason = common["reason"] or tested.reason
        row = {"test": name, "statistic": tested.statistic, "p_value": tested.p_value}
        if name == "williams" and tested.reason is None:
            r_ab = agreement.correlate(a, b, level="system").value
            values = common["value_a"], common["value_b"], r_ab
            if max(map(abs, values)) < 1.0:
                row["systems_needed"] = agreement.systems_for_difference(*values)
        yield {**common, **row, "reason": reason}
