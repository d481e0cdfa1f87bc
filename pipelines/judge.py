"""Says which metric to trust on a partly rated corpus, and how long scoring all of it takes.

The rated rows are scored with the usual metrics, the scores are compared with the ratings (as
`assay correlate` does), and the metrics that are worth it timed on the same machine.
"""

from __future__ import annotations

import io
import os
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pyarrow as pa

from cluster import InputFile, column_names, list_inputs, resolve_columns
from cluster.progress import Progress
from cluster.reading import Wanted, read_files
from cluster.schema import CANDIDATE, UNREADABLE, MissingColumnError
from cluster.store import absolute, join, write_whole
from pipelines.correlation.run import correlate
from pipelines.fetched import open_scorer
from pipelines.reports.terminal import wrapped
from pipelines.reports.verdict import SHIPPED, Verdict, verdict_of
from pipelines.runs.forks import with_threads
from pipelines.runs.progress import duration, row_rate
from pipelines.runs.questions import Asked, repeatability
from pipelines.runs.score_run import ScoreRun
from pipelines.score import score_corpus
from pipelines.settings.correlate import CorrelateSettings, level_for
from pipelines.settings.form import as_options, shared_fields
from pipelines.settings.judge import JudgeSettings
from pipelines.settings.score import ScoreSettings
from pipelines.tables import keyed
from pipelines.tables.keyed import KEYS
from pipelines.tables.ratings import columns_apart, read_ratings
from pipelines.tables.records import AgreementResult
from reffree.features.aspects import NEWS_HEADS
from sms.config import ScoringConfig
from sms.metrics import parse_metric
from sms.naming import OneOrMore, counted, several
from sms.options import URL, ScoringOptions, models_of

USUAL = (
    *("length", "compression", "coverage", "density", "novelty", "lead3"),
    *("rouge1", "rouge2", "rougeL", "sms", "wms", "s+wms", "cosine"),
    *("rouge2_p:source", "sms:source", "s+wms:source", "cosine:source"),
    *(
        f"reffree@{scorer}{head}"
        for scorer in SHIPPED
        for head in ("", *(f".{name}" for name in NEWS_HEADS.kinds))
    ),
)
"""Metrics that are judged where the rows have what they need."""

COEFFICIENTS = ("spearman", "pearson", "kendall_b")
"""The first is that of the verdict: it asks nothing of the scale of a metric."""
TIMED_ROWS, WARM_ROWS = 128, 8
"""Rows that are timed, and rows before them that are not."""

ASKED_AGAIN = 0.1
"""Share of the questions that a server is asked twice, where its table says nothing else."""

_RATED, _SCORES, _REPORT = "rated.parquet", "scores", "report"
_SIDES = {"references": ("reference", "references"), "sources": ("source", "sources")}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judgement:
    """Which metric to trust, and what it takes."""

    verdict: Verdict
    result: AgreementResult
    """All numbers, as of `assay correlate`."""
    rows_per_s: Mapping[str, float]
    """Of each of the best metrics and those tied with them, alone on this machine, by column."""
    chosen: tuple[str, ...]
    """Metrics to score the whole corpus with: the best of each aspect that has a usable one, or
    of all aspects if none has."""
    chosen_rows_per_s: float
    """The speed of these metrics together."""
    n_rows: int
    """Of the whole corpus."""
    n_machines: int
    scoring: ScoreSettings
    """How the whole corpus is scored with the metrics chosen."""
    command: str
    """The same as a command."""
    out: str | None
    """Where scores and report are kept."""
    notes: tuple[str, ...] = ()
    """What of the ratings was left out, and which rated rows were; how alike two answers of a
    language model are."""
    answers_s: float = 0.0
    """Seconds that servers of language models take to answer about the whole corpus, at one limit
    for all machines."""
    estimates: tuple[str, ...] = ()
    """What the answers of language models take for the whole corpus, by those that were chosen."""

    def text(self, width: int | None = None) -> str:
        """Write it down for people, lines but that of the command being broken at `width`."""
        about = self.result.about
        seconds = self.n_rows / self.chosen_rows_per_s
        shared_s = self.answers_s + (seconds - self.answers_s) / self.n_machines
        lines = [
            *self.verdict.lines(self._cheapest),
            *self.verdict.advice,
            f"({self.verdict.title}; {about.compared}, raters: {about.raters})",
            self.verdict.meaning,
            *self.notes,
            "",
            f"Whole corpus: {counted(self.n_rows, 'row')} at {row_rate(self.chosen_rows_per_s)} "
            f"({', '.join(self.chosen)}, measured just now): {duration(seconds)} on this machine, "
            f"{duration(shared_s)} on {self.n_machines} such machines",
            *self.estimates,
            *([f"Report: {join(self.out, _REPORT, 'report.html')}"] if self.out else []),
            "",
        ]
        return f"{wrapped(lines, width)}\n{self.command}"

    def _cheapest(self, metrics: Iterable[str]) -> str:
        name = max(metrics, key=lambda metric: self.rows_per_s[metric])
        return f"{name}, {row_rate(self.rows_per_s[name])}"


@with_threads
def judge(corpora: OneOrMore, settings: JudgeSettings) -> Judgement:
    """Judge the usual metrics by the rated rows of a corpus."""
    paths, tell = several(corpora), settings.on_progress or (lambda _progress: None)
    kept = nullcontext(os.fspath(settings.out)) if settings.out else TemporaryDirectory()
    with kept as folder:
        out = absolute(folder).rstrip("/")
        tell(Progress(stage="reading ratings and rows"))
        files = list_inputs(paths)
        rows, n_rows, notes = _rated_rows(files, settings)
        sink = io.BytesIO()
        rows.write_parquet(sink)
        write_whole(join(out, _RATED), sink.getvalue())
        config = _config(rows.columns, settings)
        scoring = ScoreSettings(
            out=join(out, _SCORES),
            **_scoring(config.metrics, settings) | {"models": _asked_again(settings.models)},
            local=True,
            **{name: getattr(settings, name) for name in ("fresh", "device", "on_progress")},
        )
        run = score_corpus(join(out, _RATED), scoring)
        notes += repeatability([metric.written for metric in config.asked], run.counters)
        result = correlate(join(out, _SCORES), _correlation(rows, out, settings))
        verdict = verdict_of(result, result.about.main_level, result.about.main_coefficient)
        best = [each.metric for each in verdict.aspects if each.metric is not None]
        if not best:
            raise ValueError("no metric can be judged; the report in `--out` gives the reasons")
        tell(Progress(stage="timing the best metrics"))
        asked_by = {column: each.written for each in config.asked for column in each.columns}
        worth = dict.fromkeys([*best, *(name for each in verdict.aspects for name in each.tied)])
        names = dict.fromkeys(asked_by[metric] for metric in worth)
        clock = _Clock(list_inputs([join(out, _RATED)]), config, run, settings)
        alone = {name: clock.rows_per_s([name]) for name in names}
        if result.about.n_rows < rows.height:
            notes.append(result.about.notes[0])  # says how many rows were compared
        usable = [each.metric for each in verdict.judged if each.is_usable]
        chosen = tuple(dict.fromkeys(asked_by[str(metric)] for metric in usable or best))
        together = alone[chosen[0]] if len(chosen) == 1 else clock.rows_per_s(chosen)
        answers = clock.answers(chosen)
    return Judgement(
        verdict=verdict,
        result=result,
        rows_per_s={metric: alone[asked_by[metric]] for metric in worth},
        chosen=chosen,
        chosen_rows_per_s=together,
        n_rows=n_rows,
        n_machines=settings.machines,
        scoring=(whole := _for_all_rows(chosen, settings)),
        command=shlex.join(["assay", "score", *paths, *as_options(whole)]),
        out=out if settings.out else None,
        notes=tuple(notes),
        answers_s=sum(n_rows / each.rows_per_s(run.n_rows) for each in answers),
        estimates=tuple(
            f"{each.metric}: {each.estimate(run.n_rows, n_rows, is_repeated=False)}"
            for each in answers
            if each.n_new
        ),
    )


def _rated_rows(
    files: Sequence[InputFile], settings: JudgeSettings
) -> tuple[pl.DataFrame, int, list[str]]:
    """Read the rows that are rated, in our words; count all rows, and say what is left out."""
    columns, of_ratings = columns_apart(settings.columns)
    rated = read_ratings(
        settings.ratings, aspects=settings.aspects, raters=settings.raters, columns=of_ratings
    )
    keyed.check_columns(settings.columns, [files], rated.files)
    where, notes = keyed.place(files), [*rated.notes]
    wanted = Wanted(needed=(*KEYS, CANDIDATE, *_sides_of(files, columns)), columns=columns)
    kept, n_rows, reasons = [], 0, list[str]()
    for table in read_files(files, wanted):
        n_rows += table.num_rows
        reasons += table[UNREADABLE].drop_null().to_pylist()
        frame = pl.DataFrame(pl.from_arrow(table))
        kept.append(frame.join(rated.keys, on=KEYS, how="semi", maintain_order="left"))
    rows = pl.concat(kept).sort(KEYS) if kept else pl.DataFrame()
    if rows.is_empty():
        raise ValueError(
            f"no row of {where} is rated; ratings have {keyed.examples(rated.keys)}; name the "
            "right columns with `--columns`"
        )
    if reasons:
        why = keyed.listed(list(dict.fromkeys(reasons)), keyed.SHOWN)
        notes.append(f"{counted(len(reasons), 'row')} of {where} cannot be read: {why}")
    n_lost = rated.keys.height - rows.height
    rows = rows.filter(pl.col(UNREADABLE).is_null()).drop(UNREADABLE)
    keyed.check_unique(rows, KEYS, where, "keep one row of each")
    if n_lost:
        one, many = "rated row is", "rated rows are"
        notes.append(f"{counted(n_lost, one, many)} not in {where}")
    return rows, n_rows, notes


def _sides_of(files: Sequence[InputFile], columns: Mapping[str, str]) -> list[str]:
    """Return what every file has of references and sources."""
    sides = []
    for side in _SIDES:
        with suppress(MissingColumnError):
            for file in files:
                names = column_names(file.path, file.format)
                resolve_columns(names, [side], columns, where=file.path)
            sides.append(side)
    return sides


def _config(columns: Sequence[str], settings: JudgeSettings) -> ScoringConfig:
    """Choose the metrics whose inputs the rows have, and those that are asked for."""
    has = {side for side, names in _SIDES.items() if {*names} & {*columns}}
    aliases = list(settings.encoders)
    models = models_of(settings.models or {})
    asked_for = [parse_metric(name, aliases, models) for name in settings.metrics]
    asked = {column for one in asked_for for column in one.columns}
    usual = [parse_metric(name, aliases) for name in USUAL]
    added = [one.written for one in usual if {*one.sides} <= has and not asked & {*one.columns}]
    return ScoringConfig(**_scoring([*added, *settings.metrics], settings))


def _scoring(metrics: Sequence[str], settings: JudgeSettings) -> dict[str, Any]:
    return shared_fields(ScoringOptions, settings) | {"metrics": tuple(metrics)}


def _asked_again(models: Mapping[str, Any] | None) -> dict[str, Any]:
    """Have servers asked some questions twice, where a table does not say how many."""
    tables = models_of(models or {})
    return {
        alias: {"repeat_share": ASKED_AGAIN, **table} if URL in table else table
        for alias, table in tables.items()
    }


def _correlation(rows: pl.DataFrame, out: str, settings: JudgeSettings) -> CorrelateSettings:
    """Say how scores are compared with ratings: inside documents if they have enough systems."""
    is_ordered = level_for(len(rows), rows["document_id"].n_unique()) == "summary"
    _, of_ratings = columns_apart(settings.columns)
    same = ("ratings", "aspects", "raters", "resamples", "seed", "on_progress")
    return CorrelateSettings(
        out=join(out, _REPORT),
        levels=["summary", "system", "global"] if is_ordered else ["global", "system", "summary"],
        coefficients=COEFFICIENTS,
        columns={f"{keyed.OF_RATINGS}{ours}": theirs for ours, theirs in of_ratings.items()}
        or None,
        fresh=True,
        **{name: getattr(settings, name) for name in same},
    )


class _Clock:
    """Says how fast metrics are: on rated rows, or as the answers of a server took in the run."""

    def __init__(
        self,
        rated: Sequence[InputFile],
        config: ScoringConfig,
        run: ScoreRun,
        settings: JudgeSettings,
    ) -> None:
        self._rated, self._settings, self._n_rows = rated, settings, run.n_rows
        self._served = {
            metric.written: Asked.of(metric.written, run.counters)
            for metric in config.asked
            if metric.most_workers is not None
        }

    def answers(self, metrics: Sequence[str]) -> list[Asked]:
        """Return what servers were asked for some metrics."""
        return [self._served[name] for name in metrics if name in self._served]

    def rows_per_s(self, metrics: Sequence[str]) -> float:
        """Return the speed of some metrics together."""
        speeds = [each.rows_per_s(self._n_rows) for each in self.answers(metrics)]
        # a second time the answers of servers are read where they are kept, and nobody is asked
        if here := [name for name in metrics if name not in self._served]:
            speeds.append(self._timed(here))
        return 1 / sum(1 / speed for speed in speeds)

    def _timed(self, metrics: Sequence[str]) -> float:
        """Time metrics on rated rows, models being loaded before."""
        config = ScoringConfig(**_scoring(metrics, self._settings))
        scorer = open_scorer(config, device=self._settings.device)
        wanted = Wanted(needed=(CANDIDATE, *config.input_columns), columns={})
        rows = pa.concat_tables(read_files(self._rated, wanted, limit=WARM_ROWS + TIMED_ROWS))
        n_warm = min(WARM_ROWS, len(rows) - 1)
        scorer.score(rows[:n_warm])
        started = time.perf_counter()
        scorer.score(rows[n_warm:])
        return float(len(rows) - n_warm) / (time.perf_counter() - started)


def _for_all_rows(metrics: Sequence[str], settings: JudgeSettings) -> ScoreSettings:
    columns = columns_apart(settings.columns)[0] or None
    return ScoreSettings(out="scores", columns=columns, **_scoring(metrics, settings))
