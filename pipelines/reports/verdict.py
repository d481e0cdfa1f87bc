"""What a reader wants first: which metric for which aspect, what is tied with it, what it beats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from pipelines.reports.numbers import interval_text, number_text
from pipelines.reports.words import COEFFICIENTS, LEVELS, SIGNIFICANCE, lead_text, listed
from pipelines.tables.records import BEST, AgreementResult
from pipelines.tables.study import unlabelled

WEAK = ("length", "density")
"""Baselines that a metric must beat to be worth its time."""
SHIPPED = ("news", "general")
"""The scorers without references that come with the package."""
TRIED_INSTEAD = (
    "on reviews, the first had .33 in coherence, the second .22, and `reffree@general` .14"
)
"""What these two were worth where it was measured (research/general-scorer.md)."""
MOST_NAMED = 4
"""Tied metrics that are named; the table has all."""
NOT_USABLE = "no metric"
"""What to use where even the best one may agree by chance, or a baseline is better."""
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
    """Those of `WEAK` that were scored, and that metrics were tested against."""
    beating: tuple[str, ...]
    """Metrics that agree better with people than each of these, the best first."""
    ahead: tuple[str, float] | None = None
    """The best baseline and its value, if that is significantly better than the best metric."""
    is_tested: bool = True
    """Whether there was a test against the best metric, where there is another."""
    untested: tuple[str, ...] = ()
    """Those of `WEAK` that were scored, but that nothing could be tested against."""
    n_others: int = 0
    """Metrics beside the best one; no baselines."""
    behind: tuple[str, float, str, float] | None = None
    """The best of the shipped scorers and its value, and the one of `WEAK` that has more."""

    @property
    def is_usable(self) -> bool:
        """Whether the best metric is shown to rise with ratings, and no baseline is better."""
        rises = self.value is not None and self.value > 0 and not self.includes_zero
        return rises and self.ahead is None

    @property
    def includes_zero(self) -> bool:
        """Whether the best metric may have no agreement at all, by its interval."""
        return self.low is not None and self.high is not None and self.low <= 0 <= self.high

    @property
    def is_alone(self) -> bool:
        """Whether the best metric was tested against others, and is better than all of them."""
        return self.n_others > 0 and self.is_tested and not self.tied

    @property
    def value_text(self) -> str:
        """Write the value of the best metric, and why it is not to be used if so."""
        interval = interval_text(self.low, self.high, 2, minus="-")
        value = f"{number_text(self.value, 2, minus='-')} {interval}"
        if self.is_usable:
            return value
        value = f"{self.metric}, the best, has {value}"
        if self.ahead is not None:
            name, other = self.ahead
            return f"{value}, but {name} alone has {number_text(other, 2, minus='-')}"
        return f"{value}, which may be chance" if self.includes_zero else value

    @property
    def tied_text(self) -> str:
        """Name the tied metrics, the first few of them."""
        if not self.is_tested:
            return "not tested"
        return listed(self.tied, MOST_NAMED) if self.tied else "none"

    @property
    def beating_text(self) -> str:
        """Name the metrics that beat the weak ones, the first few of them."""
        if not self.beating:
            return "no metric"
        is_missing = self.metric not in self.beating
        return listed(self.beating, MOST_NAMED) + f" (not {self.metric})" * is_missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the numbers say at one level, under one coefficient."""

    level: str
    coefficient: str
    aspects: tuple[AspectVerdict, ...]

    @property
    def title(self) -> str:
        """Return level and coefficient in words."""
        return f"{LEVELS[self.level]} level, {self.coefficient_name}"

    @property
    def meaning(self) -> str:
        """Say what this level and this coefficient ask."""
        return lead_text(self.level, self.coefficient)

    @property
    def coefficient_name(self) -> str:
        """Return the coefficient in words."""
        return COEFFICIENTS[self.coefficient]

    @property
    def judged(self) -> tuple[AspectVerdict, ...]:
        """Aspects that have a best metric."""
        return tuple(each for each in self.aspects if each.metric is not None)

    @property
    def headline(self) -> str:
        """Name the best metrics, in one line."""
        if not (judged := self.judged):
            return NOTHING_JUDGED
        usable = dict.fromkeys(str(each.metric) for each in judged if each.is_usable)
        unusable = [each.aspect for each in judged if not each.is_usable]
        if not usable:
            return f"No metric can be recommended for {listed(unusable)}"
        said = f"{listed([*usable], MOST_NAMED)} agree{'s' * (len(usable) == 1)} best with people"
        if unusable:
            said += f", none can be recommended for {listed(unusable)}"
        if (weak := judged[0].weak) and not any(each.beating for each in judged):
            said += f"; no test shows a metric better than {listed(weak)}"
        return said

    @property
    def belief(self) -> list[str]:
        """Say in sentences how sure that is: against other metrics, and against baselines."""
        if not (judged := self.judged):
            return []
        alone, rest = _parted(judged, lambda each: each.is_alone)
        if not any(each.n_others and each.is_tested for each in judged):
            said = ["No other metric was tested against the best."]
        elif not rest:
            said = ["The best metric is significantly better than every other."]
        elif not alone:
            said = ["Other metrics may be as good: tests cannot tell them apart from the best."]
        else:
            said = [
                f"On {alone} the best metric is significantly better than every other; "
                f"on {rest} others may be as good."
            ]
        if not (weak := listed(judged[0].weak)):
            return said
        beating, rest = _parted(judged, lambda each: each.metric in each.beating)
        if not beating:
            return [*said, f"No test shows that it is better than {weak}."]
        where = f" on {beating}, but not on {rest}" if rest else ""
        return [*said, f"It is significantly better than {weak}{where}."]

    def lines(self, cheapest: Callable[[Iterable[str]], str] | None = None) -> list[str]:
        """Write three paragraphs; `cheapest` says which of some metrics costs least."""
        if not (defined := self.judged):
            return [NOTHING_JUDGED]
        aspects_of: dict[str, list[str]] = {}
        for each in defined:
            use = str(each.metric) if each.is_usable else NOT_USABLE
            aspects_of.setdefault(use, []).append(f"{each.aspect} ({each.value_text})")
        best = (f"{metric} for {listed(aspects)}" for metric, aspects in aspects_of.items())
        tied = [f"{each.aspect}: {_tied(each, cheapest)}" for each in defined]
        apart = f"Cannot be told apart from {'the best' if len(tied) > 1 else 'it'}"
        return [
            f"Use {'; '.join(best)}",
            "\n  ".join([f"{apart} at {SIGNIFICANCE:g}:", *tied])
            if len(tied) > 1
            else f"{apart} at {SIGNIFICANCE:g}: {tied[0]}",
            _baselines(defined),
        ]

    @property
    def advice(self) -> list[str]:
        """Say where the shipped scorers follow people less than a baseline, and what to do."""
        behind = {each.aspect: each.behind for each in self.judged if each.behind is not None}
        if not behind:
            return []
        said = (
            f"{aspect} ({shipped} {number_text(value, 2, minus='-')}, {weak} "
            f"{number_text(more, 2, minus='-')})"
            for aspect, (shipped, value, weak, more) in behind.items()
        )
        return [
            f"No scorer that comes with Assay reaches the baselines for {listed([*said])}. Judge a "
            "language model, too (`--metrics likelihood@MODEL`), or a scorer that you train on "
            "some 500 good summaries of your kind of text (`assay train PAIRS --preset general`); "
            f"{TRIED_INSTEAD}"
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
    scored = [name for plain in WEAK for name in rows["metric"] if unlabelled(name) == plain]
    weak = [name for name in scored if tests.filter(against=name)["p_holm"].count()]
    others = judged.filter(~pl.col("is_best"))
    better = {name: _better_than(name, tests.filter(against=name)) for name in weak}
    first = best[0] if best else dict.fromkeys(("metric", "value", "low", "high"))
    better_than_best = _better_than(str(first["metric"]), tests.filter(against=BEST))
    baselines = ranked.filter("is_baseline", pl.col("metric").is_in(better_than_best))
    ahead = baselines.select("metric", "value").rows()
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
        ahead=ahead[0] if ahead else None,
        is_tested=others.is_empty() or others["p_best"].count() > 0,
        untested=tuple(name for name in scored if name not in weak),
        n_others=len(others),
        behind=_behind(ranked),
    )


def _behind(ranked: pl.DataFrame) -> tuple[str, float, str, float] | None:
    """Compare the best shipped scorer with the best baseline; None unless that is better."""
    rows = ranked.select("metric", "value").rows()
    shipped = [row for row in rows if _is_shipped(unlabelled(row[0]))]
    weak = [row for row in rows if unlabelled(row[0]) in WEAK]
    if not shipped or not weak or shipped[0][1] >= weak[0][1]:
        return None
    return (*shipped[0], *weak[0])


def _is_shipped(metric: str) -> bool:
    name, _, scorer = metric.partition("@")
    return name == "reffree" and scorer.partition(".")[0] in SHIPPED


def _better_than(name: str, tests: pl.DataFrame) -> set[str]:
    """Metrics that agree significantly better with people than one, by the tests against it."""
    significant = tests.filter(pl.col("p_holm") <= SIGNIFICANCE)
    return {
        metric_a if difference > 0 else metric_b
        for metric_a, metric_b, difference in significant.select(
            "metric_a", "metric_b", "difference"
        ).iter_rows()
    } - {name}


def _parted(
    judged: Sequence[AspectVerdict], holds: Callable[[AspectVerdict], bool]
) -> tuple[str, str]:
    """Name the aspects of which something holds, and the others."""
    return (
        listed([each.aspect for each in judged if holds(each)]),
        listed([each.aspect for each in judged if not holds(each)]),
    )


def _tied(each: AspectVerdict, cheapest: Callable[[Iterable[str]], str] | None) -> str:
    text = each.tied_text
    if cheapest is not None and each.metric is not None and each.tied:
        text += f" (cheapest of all: {cheapest((each.metric, *each.tied))})"
    return text


def _baselines(aspects: Sequence[AspectVerdict]) -> str:
    if not (weak := aspects[0].weak):
        untested = aspects[0].untested
        why = f"{listed(untested)} could not be tested" if untested else "score these, too"
        return f"It is not known whether the best metric beats {listed(WEAK)}: {why}"
    if not any(each.beating for each in aspects):
        both = "both " if len(weak) > 1 else ""
        return f"No metric agrees better with people than {both}{listed(weak)}, for any aspect"
    beaten = (f"{each.aspect}: {each.beating_text}" for each in aspects)
    return f"Metrics that agree better with people than {listed(weak)}: {'; '.join(beaten)}"
