"""Which system is better under each metric, from scores alone: two score folders, paired tests.

Where both hold the same systems, two runs of each are compared; where they hold different ones,
every system of the one with every system of the other, on the documents both have. It speaks of
the metrics, not of human judgement.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from agreement import TIE_RTOL, compare_systems, holm
from pipelines.reports.comparison import RUNS, SYSTEMS, MetricComparison, ScoreComparison
from pipelines.settings.compare import CompareSettings
from pipelines.summary import meanings
from pipelines.tables import keyed
from pipelines.tables.keyed import KEYS
from pipelines.tables.scores import ScoreInput, Scores, find_scores, read_scores
from pipelines.tables.study import cell_matrix
from sms.naming import AnyPath


def compare_scores(
    scores_a: AnyPath, scores_b: AnyPath, settings: CompareSettings
) -> ScoreComparison:
    """Compare two sets of scores without ratings, under every metric that both have.

    Raises ValueError if a metric has another signature on the other side, or the sides share no
    metric or no document, or are the same.
    """
    inputs = [find_scores(scores_a), find_scores(scores_b)]
    keyed.check_columns(settings.columns, [each.files for each in inputs])
    a = _read(inputs[0], settings, settings.systems_a, "--systems-a")
    b = _read(inputs[1], settings, settings.systems_b, "--systems-b")
    shared = _shared_metrics(a, b)
    _refuse_other_signatures(a, b, shared)
    kind, pairs, notes = _pairs(a, b)
    documents = _documents(a, b)
    rows = [row for name in shared for row in _of_metric(name, a, b, documents, pairs, settings)]
    records = {record.path: record for side in (a, b) for record in side.scores.records}
    signatures = a.scores.signatures
    return ScoreComparison(
        scores_a=os.fspath(scores_a),
        scores_b=os.fspath(scores_b),
        kind=kind,
        rows=tuple(_corrected(rows, 1.0 - settings.confidence)),
        signatures={name: signatures[name] for name in shared if name in signatures},
        meanings=tuple(meanings(shared)),
        inputs=tuple(records.values()),
        notes=tuple(dict.fromkeys([*notes, *_notes(a, b, shared)])),
        n_resamples=settings.resamples,
        confidence=settings.confidence,
        seed=settings.seed,
    )


def signature_difference(first: str, second: str) -> str:
    """Say which parts of two signatures differ, such as `ref:best` against `ref:first`."""
    ours, theirs = first.split("|"), second.split("|")

    def only(parts: Sequence[str], others: Sequence[str]) -> str:
        return "|".join(part for part in parts if part not in others) or "nothing"

    return f"`{only(ours, theirs)}` against `{only(theirs, ours)}`"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Side:
    path: str
    scores: Scores
    """Of the chosen systems."""
    systems: list[str]
    n_without_key: int
    """Rows left out."""

    @property
    def documents(self) -> list[str]:
        return self.scores.frame["document_id"].unique().sort().to_list()


def _read(
    source: ScoreInput, settings: CompareSettings, systems: Sequence[str], option: str
) -> _Side:
    columns = settings.columns or {}
    where = keyed.place(source.files)
    whole = keyed.collect(keyed.scan_files(source.files, columns).select(KEYS), where)
    keys = whole.drop_nulls()
    if keys.is_empty():
        raise ValueError(f"{where} must have rows with `document_id` and `system_id`, got none")
    keys, n_without_key = keys.unique().sort(KEYS), len(whole) - len(keys)
    scores = read_scores(
        [source], keys, metrics=settings.metrics, with_parts=False, columns=columns
    )
    there = scores.frame["system_id"].unique().sort().to_list()
    kept = keyed.matching(there, systems, option) if systems else there
    scores = replace(scores, frame=scores.frame.filter(pl.col("system_id").is_in(kept)))
    return _Side(path=source.path, scores=scores, systems=kept, n_without_key=n_without_key)


def _shared_metrics(a: _Side, b: _Side) -> list[str]:
    shared = [name for name in a.scores.metrics if name in b.scores.metrics]
    if not shared:
        raise ValueError(
            f"the two must share a metric, but {a.path} has {keyed.listed(a.scores.metrics)} and "
            f"{b.path} has {keyed.listed(b.scores.metrics)}; score both with the same `--metrics`"
        )
    return shared


def _refuse_other_signatures(a: _Side, b: _Side, metrics: Sequence[str]) -> None:
    ours, theirs = a.scores.signatures, b.scores.signatures
    differing = [
        name for name in metrics if name in ours and ours[name] != theirs.get(name, ours[name])
    ]
    if differing:
        name, *others = differing
        more = f" (and so do {keyed.listed(others)})" if others else ""
        raise ValueError(
            f"`{name}` must be the same metric in both, but its signatures differ: "
            f"{signature_difference(ours[name], theirs[name])}{more}; score both with the same "
            "settings, or choose others with `--metrics`"
        )


def _pairs(a: _Side, b: _Side) -> tuple[str, list[tuple[str, str]], list[str]]:
    """Say what is compared, with which pairs of systems, and who is left out."""
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


def _documents(a: _Side, b: _Side) -> list[str]:
    of_a, of_b = a.documents, b.documents
    if not set(of_a) & set(of_b):
        raise ValueError(
            f"the two must share documents, but {a.path} has {keyed.listed(of_a, 3)} and {b.path} "
            f"has {keyed.listed(of_b, 3)}; score the same documents"
        )
    return sorted({*of_a, *of_b})


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
        dict(
            zip(
                side.systems,
                cell_matrix(side.scores.frame, metric, side.systems, documents),
                strict=True,
            )
        )
        for side in (a, b)
    )
    for system_a, system_b in pairs:
        scores_a, scores_b = of_a[system_a], of_b[system_b]
        has_row = ~(np.isnan(scores_a) & np.isnan(scores_b))
        result = compare_systems(
            scores_a[has_row],
            scores_b[has_row],
            n_resamples=settings.resamples,
            confidence=settings.confidence,
            rng=np.random.default_rng(settings.seed),
        )
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
            higher=None,
            reason=result.reason,
            documents=tuple(zip(names, (x - y).tolist(), strict=True)),
        )


def _corrected(rows: Sequence[MetricComparison], alpha: float) -> Iterator[MetricComparison]:
    """Put in the corrected p-values, and which side is higher by them."""
    adjusted = holm(np.array([row.p_value for row in rows]))
    for row, p_holm in zip(rows, adjusted, strict=True):
        higher = ("a" if row.difference > 0 else "b") if p_holm <= alpha else None
        yield replace(row, p_holm=float(p_holm), higher=higher)


def _notes(a: _Side, b: _Side, metrics: Sequence[str]) -> Iterator[str]:
    for side, other in ((a, b), (b, a)):
        if n := side.n_without_key:
            yield f"Rows without a key, left out: {n:,} of {side.path}"
        yield from side.scores.notes
        if only := [name for name in side.scores.metrics if name not in metrics]:
            yield f"Metrics that only {side.path} has are left out: {keyed.listed(only)}"
        if only := sorted(set(side.documents) - set(other.documents)):
            yield f"{len(only):,} documents are in {side.path} only: {keyed.listed(only, 3)}"
    signed = a.scores.signatures.keys() & b.scores.signatures.keys()
    if unsigned := [name for name in metrics if name not in signed]:
        yield (
            "A signature is missing, so both sides may not have computed the same: "
            f"{keyed.listed(unsigned)}"
        )
