"""What a reader wants first: which metric for which aspect, what is tied with it, what it beats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from pipelines.reports.numbers import interval_text, number_text
from pipelines.reports.words import COEFFICIENTS, LEVELS, SIGNIFICANCE, listed
from pipelines.tables.records import AgreementResult

WEAK = ("length", "density")
"""Baselines that a metric must beat to be worth its time."""
MOST_NAMED = 4
"""Tied metrics that are named; the table has all."""
NOTHING_JUDGED = "No metric can be judged: no coefficient is defined."


@dataclass(frozen=True, slots=True, kw_only=True)
class AspectVerdict:
    """What the numbers say about one aspect."""

    aspect: str
    metric: str | None
    """The best one; None where no coefficient is defined."""
    value: float | None
    low: float | None
    high: float | None
    tied: tuple[str, ...]
    """Other metrics that cannot be told apart from it, the best first; no baselines."""
    weak: tuple[str, ...]
    """Those of `WEAK` that were scored."""
    beating: tuple[str, ...]
    """Metrics that agree better with people than each of these, the best first."""

    @property
    def tied_text(self) -> str:
        """Name the tied metrics, the first few of them."""
        return listed(_few(self.tied)) if self.tied else "none"

    @property
    def beating_text(self) -> str:
        """Name the metrics that beat the weak ones, the first few of them."""
        return listed(_few(self.beating)) if self.beating else "no metric"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the numbers say at one level, under one coefficient."""

    level: str
    coefficient: str
    aspects: tuple[AspectVerdict, ...]

    @property
    def title(self) -> str:
        """Return level and coefficient in words."""
        return f"{LEVELS.get(self.level, self.level)} level, {self.coefficient_name}"

    @property
    def coefficient_name(self) -> str:
        """Return the coefficient in words."""
        return COEFFICIENTS.get(self.coefficient, self.coefficient)

    @property
    def judged(self) -> tuple[AspectVerdict, ...]:
        """Aspects that have a best metric."""
        return tuple(each for each in self.aspects if each.metric is not None)

    def lines(self, cheapest: Callable[[Iterable[str]], str] | None = None) -> list[str]:
        """Write the three lines; `cheapest` says which of some metrics costs least."""
        if not (defined := self.judged):
            return [NOTHING_JUDGED]
        found: dict[str, list[str]] = {}
        for each in defined:
            interval = interval_text(each.low, each.high, 2, minus="-")
            value = f"{number_text(each.value, 2, minus='-')} {interval}"
            found.setdefault(str(each.metric), []).append(f"{each.aspect} ({value})")
        best = (f"{metric} for {listed(aspects)}" for metric, aspects in found.items())
        tied = (f"{each.aspect}: {_tied(each, cheapest)}" for each in defined)
        return [
            f"Use {'; '.join(best)}",
            f"Cannot be told apart from it at {SIGNIFICANCE:g}: {'; '.join(tied)}",
            _baselines(defined),
        ]


def verdict_of(result: AgreementResult, level: str, coefficient: str) -> Verdict:
    """Read the verdict off the tables."""
    rows = result.correlations.filter(level=level, coefficient=coefficient)
    tests = result.differences.filter(level=level, coefficient=coefficient, test="perm-both")
    return Verdict(
        level=level,
        coefficient=coefficient,
        aspects=tuple(
            _of_aspect(aspect, rows.filter(aspect=aspect), tests.filter(aspect=aspect))
            for aspect in result.aspects
        ),
    )


def _of_aspect(aspect: str, rows: pl.DataFrame, tests: pl.DataFrame) -> AspectVerdict:
    ranked = rows.drop_nulls("value").sort("value", descending=True)
    judged = ranked.filter(~pl.col("is_baseline"))
    best = ranked.filter("is_best").to_dicts()
    weak = [name for name in WEAK if name in rows["metric"]]
    better = {name: _better_than(name, tests) for name in weak}
    first = best[0] if best else dict.fromkeys(("metric", "value", "low", "high"))
    return AspectVerdict(
        aspect=aspect,
        **{name: first[name] for name in ("metric", "value", "low", "high")},
        tied=tuple(judged.filter(pl.col("is_tied") & ~pl.col("is_best"))["metric"]),
        weak=tuple(weak),
        beating=tuple(
            metric
            for metric in judged["metric"]
            if weak and all(metric in better[name] for name in weak)
        ),
    )


def _better_than(baseline: str, tests: pl.DataFrame) -> set[str]:
    """Metrics that agree significantly better with people than a baseline."""
    found = tests.filter(pl.col("against") == baseline, pl.col("p_holm") <= SIGNIFICANCE)
    return {
        metric_a if difference > 0 else metric_b
        for metric_a, metric_b, difference in found.select(
            "metric_a", "metric_b", "difference"
        ).iter_rows()
    } - {baseline}


def _tied(each: AspectVerdict, cheapest: Callable[[Iterable[str]], str] | None) -> str:
    if not each.tied:
        return "none"
    text = each.tied_text
    if cheapest is not None and each.metric is not None:
        text += f" (cheapest of all: {cheapest((each.metric, *each.tied))})"
    return text


def _baselines(aspects: Sequence[AspectVerdict]) -> str:
    if not (weak := aspects[0].weak):
        return f"Whether it beats {listed(WEAK)} is not known: score these, too"
    if not any(each.beating for each in aspects):
        both = "both " if len(weak) > 1 else ""
        return f"No metric agrees better with people than {both}{listed(weak)}, for any aspect"
    found = (f"{each.aspect}: {each.beating_text}" for each in aspects)
    return f"Agrees better with people than {listed(weak)}: {'; '.join(found)}"


def _few(names: Sequence[str]) -> list[str]:
    more = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
    return [*names[:MOST_NAMED], *more]
