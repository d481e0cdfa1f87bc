"""Which system is better under each metric, from scores alone: paired tests.

Of one score folder, every pair of systems is compared. Of two that hold the same systems, two runs
of each; of two that hold different ones, every system of the one with every system of the other. It
speaks of the metrics, not of human judgement.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from agreement import TIE_RTOL, compact_letters, compare_systems, holm, mean_intervals
from agreement.intervals import CONFIDENCE
from cluster.output import output_of
from pipelines.reports.comparison import (
    PAIRS,
    RUNS,
    SYSTEMS,
    MetricComparison,
    ScoreComparison,
    SystemMean,
    comparison_sheet,
    render_comparison,
)
from pipelines.reports.tables import SUFFIXES
from pipelines.runs.forks import with_threads
from pipelines.settings.compare import CompareSettings
from pipelines.summary import meanings
from pipelines.tables import keyed
from pipelines.tables.keyed import KEYS
from pipelines.tables.scores import ScoreInput, Scores, find_scores, read_scores
from pipelines.tables.study import cell_matrix
from sms.naming import AnyPath, counted


@with_threads
def compare(
    scores_a: AnyPath, scores_b: AnyPath | None, settings: CompareSettings
) -> ScoreComparison:
    """Compare the systems of one set of scores, or two sets, without ratings.

    Raises ValueError or OSError if there is nothing to compare, or `out` cannot be written.
    """
    if scores_b is None and settings.systems_b:
        scores_b = scores_a
    inputs = [scores_a] if scores_b is None else [scores_a, scores_b]
    output = output_of(settings.out, *SUFFIXES, ".html", apart=inputs)
    result = _compared(inputs, settings)
    if output and output.suffix == ".html":
        output.write(render_comparison(result).encode("utf-8", "replace"))
    elif output:
        output.write(comparison_sheet(result).content(output.suffix).encode())
    return result


def _compared(inputs: Sequence[AnyPath], settings: CompareSettings) -> ScoreComparison:
    found = [find_scores(path) for path in inputs]
    keyed.check_columns(settings.columns, [each.files for each in found])
    a = b = _read(found[0], settings, settings.systems_a, "--systems-a")
    if len(found) > 1:
        b = _read(found[1], settings, settings.systems_b, "--systems-b")
    shared = [name for name in a.scores.metrics if name in b.scores.metrics]
    _check_comparable(a, b, shared)
    kind, pairs, notes = _pairs(a, b)
    documents = sorted({*a.documents, *b.documents})
    rows = [row for name in shared for row in _of_metric(name, a, b, documents, pairs, settings)]
    for i, p_holm in enumerate(holm(np.array([row.p_value for row in rows]))):
        higher = ("a" if rows[i].difference > 0 else "b") if p_holm <= 1.0 - CONFIDENCE else None
        rows[i] = replace(rows[i], p_holm=float(p_holm), higher=higher)
    means = [
        mean
        for name in shared
        if kind == PAIRS
        for mean in _means(
            name, a, documents, [row for row in rows if row.metric == name], settings
        )
    ]
    records = {record.path: record for side in (a, b) for record in side.scores.records}
    signatures = a.scores.signatures
    return ScoreComparison(
        scores_a=os.fspath(inputs[0]),
        scores_b=os.fspath(inputs[1]) if len(inputs) > 1 else None,
        kind=kind,
        rows=tuple(rows),
        means=tuple(means),
        signatures={name: signatures[name] for name in shared if name in signatures},
        meanings=tuple(meanings(shared)),
        inputs=tuple(records.values()),
        notes=tuple(dict.fromkeys([*notes, *_notes(a, b, shared)])),
        n_resamples=settings.resamples,
        confidence=CONFIDENCE,
        seed=settings.seed,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Side:
    path: str
    scores: Scores
    """Of the chosen systems."""
    systems: list[str]
    notes: Sequence[str]
    """On rows that are left out."""

    @property
    def documents(self) -> list[str]:
        return self.scores.frame["document_id"].unique().sort().to_list()


def _read(
    source: ScoreInput, settings: CompareSettings, systems: Sequence[str], option: str
) -> _Side:
    columns = settings.columns or {}
    table = keyed.open_table(source.files, columns)
    keys, notes = keyed.with_key(table.read([]).frame, table.where)
    scores = read_scores(
        [source],
        keys.unique().sort(KEYS),
        metrics=settings.metrics,
        with_parts=False,
        columns=columns,
    )
    there = scores.frame["system_id"].unique().sort().to_list()
    kept = keyed.matching(there, systems, option) if systems else there
    scores = replace(scores, frame=scores.frame.filter(pl.col("system_id").is_in(kept)))
    return _Side(path=source.path, scores=scores, systems=kept, notes=notes)


def _check_comparable(a: _Side, b: _Side, shared: Sequence[str]) -> None:
    """Refuse sides that share no metric or document, or whose metrics are not the same."""
    if not shared:
        raise ValueError(
            f"the two must share a metric, but {a.path} has {keyed.listed(a.scores.metrics)} and "
            f"{b.path} has {keyed.listed(b.scores.metrics)}; score both with the same `--metrics`"
        )
    ours, theirs = a.scores.signatures, b.scores.signatures
    both = [name for name in shared if name in ours and name in theirs]
    if differing := [name for name in both if ours[name] != theirs[name]]:
        name, *others = differing
        more = f" (and so do {keyed.listed(others)})" if others else ""
        parts = [each[name].split("|") for each in (ours, theirs)]
        only = [
            "|".join(part for part in side if part not in other) or "nothing"
            for side, other in (parts, parts[::-1])
        ]
        raise ValueError(
            f"`{name}` must be the same metric in both, but its signatures differ: `{only[0]}` "
            f"against `{only[1]}`{more}; score both with the same settings, or choose others with "
            "`--metrics`"
        )
    if not set(a.documents) & set(b.documents):
        raise ValueError(
            f"the two must share documents, but {a.path} has {keyed.listed(a.documents, 3)} and "
            f"{b.path} has {keyed.listed(b.documents, 3)}; score the same documents"
        )


def _pairs(a: _Side, b: _Side) -> tuple[str, list[tuple[str, str]], list[str]]:
    """Say what is compared, with which pairs of systems, and who is left out."""
    if a is b:
        if len(a.systems) < 2:
            raise ValueError(
                f"one set of scores must have two systems to compare, but {a.path} has only "
                f"{keyed.listed(a.systems)}; name a second set of scores, too, or score again with "
                "`--columns system_id=COLUMN`"
            )
        return PAIRS, list(itertools.combinations(a.systems, 2)), []
    shared = [system for system in a.systems if system in b.systems]
    if not shared:
        return SYSTEMS, list(itertools.product(a.systems, b.systems)), []
    if a.path == b.path:
        raise ValueError(
            f"`scores_b` must differ from `scores_a`, got {a.path} twice with "
            f"{keyed.listed(shared)}; choose different systems with `--systems-a` and `--systems-b`"
        )
    notes = []
    if left_out := sorted(set(a.systems) ^ set(b.systems)):
        notes.append(
            f"Systems that only one side has are left out: {keyed.listed(left_out)}; compare them "
            "with `--systems-a` and `--systems-b`"
        )
    return RUNS, [(system, system) for system in shared], notes


def _of_metric(
    metric: str,
    a: _Side,
    b: _Side,
    documents: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    settings: CompareSettings,
) -> Iterator[MetricComparison]:
    """Compare the pairs of systems under a metric; rows with the same documents share the draws."""
    of_a, of_b = (
        cell_matrix(side.scores.frame, metric, side.systems, documents) for side in (a, b)
    )
    rows_a = of_a[[a.systems.index(system) for system, _ in pairs]]
    rows_b = of_b[[b.systems.index(system) for _, system in pairs]]
    rng = np.random.default_rng(settings.seed)
    results = compare_systems(rows_a, rows_b, n_resamples=settings.resamples, rng=rng)
    each = zip(pairs, rows_a, rows_b, results, strict=True)
    for (system_a, system_b), scores_a, scores_b, result in each:
        shared = np.flatnonzero(~(np.isnan(scores_a) | np.isnan(scores_b)))
        x, y = scores_a[shared], scores_b[shared]
        names = [documents[i] for i in shared.tolist()]
        tolerance = TIE_RTOL * np.maximum(np.abs(x), np.abs(y))
        wins, losses = int((x - y > tolerance).sum()), int((y - x > tolerance).sum())
        yield MetricComparison(
            metric=metric,
            system_a=system_a,
            system_b=system_b,
            mean_a=float(x.mean()) if x.size else np.nan,
            mean_b=float(y.mean()) if y.size else np.nan,
            difference=result.difference.value,
            low=result.difference.low,
            high=result.difference.high,
            p_value=result.p_value,
            p_holm=np.nan,
            wins=wins,
            ties=x.size - wins - losses,
            losses=losses,
            n_documents=result.n_documents,
            n_missing=result.n_missing,
            n_a=int((~np.isnan(scores_a)).sum()),
            n_b=int((~np.isnan(scores_b)).sum()),
            higher=None,
            reason=result.reason,
            documents=tuple(zip(names, (x - y).tolist(), strict=True)),
        )


def _means(
    metric: str,
    side: _Side,
    documents: Sequence[str],
    rows: Sequence[MetricComparison],
    settings: CompareSettings,
) -> Iterator[SystemMean]:
    """Average a metric by system, the highest first, with the letters of tests of all pairs."""
    matrix = cell_matrix(side.scores.frame, metric, side.systems, documents)
    rng = np.random.default_rng(settings.seed)
    intervals = mean_intervals(matrix, n_resamples=settings.resamples, rng=rng)

    def place_of(k: int) -> tuple[bool, float, str]:
        mean, is_missing = intervals[k].value, math.isnan(intervals[k].value)
        return is_missing, 0.0 if is_missing else -mean, side.systems[k]

    # a system without a score, whose mean is NaN, comes last and has no letters
    order = sorted(range(len(intervals)), key=place_of)
    place = {side.systems[k]: rank for rank, k in enumerate(order)}
    differs = np.zeros((len(order), len(order)), dtype=bool)
    for row in rows:
        i, j = place[row.system_a], place[row.system_b]
        differs[i, j] = differs[j, i] = row.higher is not None
    n_scored = sum(not math.isnan(interval.value) for interval in intervals)
    letters = compact_letters(differs[:n_scored, :n_scored])
    for rank, k in enumerate(order):
        yield SystemMean(
            metric=metric,
            system=side.systems[k],
            mean=intervals[k].value,
            low=intervals[k].low,
            high=intervals[k].high,
            n_documents=int((~np.isnan(matrix[k])).sum()),
            letters=letters[rank] if rank < n_scored else "",
        )


def _notes(a: _Side, b: _Side, metrics: Sequence[str]) -> Iterator[str]:
    for side, other in ((a, b), (b, a)):
        yield from side.notes
        yield from side.scores.notes
        if only := [name for name in side.scores.metrics if name not in metrics]:
            yield f"Metrics that only {side.path} has are left out: {keyed.listed(only)}"
        if only := sorted(set(side.documents) - set(other.documents)):
            these = counted(len(only), "document is", "documents are")
            yield f"{these} in {side.path} only: {keyed.listed(only, 3)}"
    if a is b:
        return
    signed = a.scores.signatures.keys() & b.scores.signatures.keys()
    if unsigned := [name for name in metrics if name not in signed]:
        yield (
            "A signature is missing, so both sides may not have computed the same: "
            f"{keyed.listed(unsigned)}"
        )
