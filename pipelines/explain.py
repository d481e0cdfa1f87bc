"""Explains scores of a corpus: finds the rows, scores and explains them, writes pages.

`open_explainer` reads the settings (from a scores folder, so that the numbers are its numbers, or
as given) and loads the scorer once; the `Explainer` then makes pages of documents. What an
explanation is, is in `sms.explaining`; the page is in `reports`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from cluster import InputFile, list_inputs, write_whole
from cluster.manifest import EXPLAIN_FOLDER, read_manifest
from cluster.output import output_of
from cluster.pipes import is_gone
from cluster.reading import Wanted, read_files
from cluster.schema import CANDIDATE, DOCUMENT_ID, IDS, ONE_SYSTEM, SYSTEM_ID, UNREADABLE
from cluster.store import absolute, join
from pipelines.fetched import open_scorer
from pipelines.reports.explain_page import ExplainedSystem, picture_of, render_explanations
from pipelines.reports.pages import explain_file
from pipelines.reports.scores_page import RowOfMetric, extremes, read_rows
from pipelines.runs.forks import with_threads
from pipelines.runs.score_run import ScoreRun
from pipelines.settings.explain import ExplainSettings
from pipelines.settings.form import shared_fields
from pipelines.tables.keyed import open_table, place
from pipelines.tables.ratings import columns_apart, read_ratings
from pipelines.tables.scores import find_scores
from sms.config import ScoringConfig
from sms.encoders import SCORE_TOLERANCE
from sms.explaining import Explanation, column_of, explain_rows
from sms.naming import AnyPath, OneOrMore, nearest, several
from sms.noticing import Notices
from sms.options import MetricOptions
from sms.scoring import SummaryScorer
from sms.text.sentences import sentence_end

logger = logging.getLogger(__name__)

SAME_ATOL = 1e-12
"""Scores that differ by no more count as equal to those of a scores folder, whatever computed them;
those of neural encoders may differ by `SCORE_TOLERANCE`."""

_BATCH_ROWS = 4096

_Key: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explainer:
    """Explains documents of one corpus under one metric."""

    files: Sequence[InputFile]
    wanted: Wanted
    """What is read of every row of the files."""
    scorer: SummaryScorer
    column: str
    """Score that is explained."""
    recorded: Sequence[InputFile] = ()
    """Scores files to agree with."""
    tolerance: float = 0.0
    """Of the agreement, as a batch had other neighbours: a share of a mover's similarity, a
    difference of every other score."""
    ratings: Mapping[_Key, Mapping[str, float | None]] = field(default_factory=dict)
    """By document and system: aspects, the mean over raters."""

    def explain(
        self, wanted: Mapping[str, str | Sequence[str]]
    ) -> dict[str, list[ExplainedSystem]]:
        """Explain candidates of some documents; the corpus is read once.

        `wanted` has the systems of every document; all of them where none is named. Documents come
        in its order, systems in the order of the corpus.

        Raises ValueError if a document or system is not there, cannot be read or is there twice
        with different texts, or a score differs from the recorded one.
        """
        recorded = {}
        if self.recorded:
            documents = pl.DataFrame({DOCUMENT_ID: list(wanted)})
            read = open_table(self.recorded, {}).read([self.column], among=documents)
            rows = read.frame.drop_nulls(IDS).select(*IDS, self.column).iter_rows()
            recorded = {(document, system): score for document, system, score in rows}
        by_document: dict[str, list[ExplainedSystem]] = {}
        found_rows = self._rows_of(wanted)
        if not self.recorded:  # the run has said it
            self._tell_of_language(found_rows.values())
        for document, found in found_rows.items():
            table = _chosen(found, document, several(wanted[document]))
            explained = explain_rows(self.scorer, table, self.column)
            systems = by_document[document] = []
            for system, each in zip(table[SYSTEM_ID].to_pylist(), explained, strict=True):
                key = (document, system)
                if key in recorded:
                    _check_same(each, key, recorded[key], self.tolerance)
                systems.append(
                    ExplainedSystem(
                        system_id=system,
                        explanation=each,
                        recorded=recorded.get(key),
                        ratings=self.ratings.get(key, {}),
                    )
                )
        return by_document

    def _tell_of_language(self, tables: Iterable[pa.Table]) -> None:
        texts = [text for table in tables for text in table[CANDIDATE].to_pylist()]
        Notices(self.scorer.config.language).look_at(texts)

    def _rows_of(self, documents: Iterable[str]) -> dict[str, pa.Table]:
        """Read the rows of some documents, in the order of the corpus."""
        listed = pa.array(list(documents), pa.string())
        tables = read_files(self.files, self.wanted, batch_rows=_BATCH_ROWS)
        kept = [table.filter(pc.is_in(table[DOCUMENT_ID], listed)) for table in tables]
        found = {}
        for document in listed.to_pylist():
            rows = [table.filter(pc.equal(table[DOCUMENT_ID], document)) for table in kept]
            if not any(map(len, rows)):
                raise ValueError(f"{place(self.files)} has no document {document!r}")
            found[document] = pa.concat_tables(rows)
        return found


@with_threads
def explain(corpora: OneOrMore, settings: ExplainSettings) -> list[ExplainedSystem]:
    """Explain the scores of a document, for each of its systems; write them to a page or picture.

    Raises ValueError or OSError if the settings are wrong, contradict those of the scores folder,
    or what they name is not there.
    """
    output = output_of(settings.out, ".html", ".svg")
    document = settings.document
    systems = open_explainer(corpora, settings).explain({document: settings.system})[document]
    if output:
        make = picture_of if output.suffix == ".svg" else render_explanations
        output.write(make(document, systems).encode("utf-8", "surrogateescape"))
    return systems


def open_explainer(corpora: OneOrMore, settings: ExplainSettings) -> Explainer:
    """Get ready to explain scores of a corpus.

    With `scores`, a folder of `assay score`, its options of metrics are used, the scores must be
    the same, `columns` are added to its own, and `corpora` may be empty. `metric` is a metric or a
    score column; a ROUGE variant without a part stands for its F measure. `ratings`, of these
    `raters`, are shown with the scores.

    Raises ValueError or OSError if the settings are wrong or contradict those of the scores folder.
    """
    metric, scores, columns = settings.metric, settings.scores, settings.columns
    corpora, system = several(corpora), ONE_SYSTEM
    recorded: Sequence[InputFile] = ()
    if scores is None:
        config = ScoringConfig(metrics=(metric,), **shared_fields(MetricOptions, settings))
    elif given := _changed_options(settings):
        raise ValueError(f"`scores` already has settings; leave out {', '.join(given)}")
    else:
        config, columns, inputs, system = _settings_of(scores, metric, columns)
        if not corpora and (gone := [path for path in inputs if is_gone(path)]):
            raise ValueError(
                f"the texts of {scores} came through a pipe ({gone[0]}), which cannot be read a "
                "second time; name the corpus, too"
            )
        corpora = corpora or inputs
        recorded = find_scores(scores, is_unfinished_accepted=True).files
    if not corpora:
        raise ValueError("name a corpus, or give a folder of `assay score` with `--scores`")
    names, of_ratings = columns_apart(columns)
    rated = _mean_ratings(settings.ratings, settings.raters, of_ratings)
    files = list_inputs(corpora)
    scorer = open_scorer(config)
    tolerance = SCORE_TOLERANCE.get(config.precision, 0.0) if config.used_encoders else 0.0
    if config.model_paths:  # the precision of learned scorers is their own
        tolerance = max(SCORE_TOLERANCE.values())
    return Explainer(
        files=files,
        wanted=Wanted(
            needed=scorer.input_columns,
            columns=names,
            sentence_end=sentence_end(config.sentences),
            system=system,
        ),
        scorer=scorer,
        column=column_of(metric, scorer.score_fields),
        recorded=recorded,
        tolerance=tolerance,
        ratings=rated,
    )


def explain_extremes(run: ScoreRun) -> dict[RowOfMetric, str]:
    """Write a page for each of the lowest and highest rows of each metric, beside the scores.

    Returns their pictures (SVG).
    """
    pictures = {}
    rows = read_rows(run)
    rows = rows.filter(pl.struct(IDS).is_unique())  # of duplicates the text is ambiguous
    for metric in run.main_columns:
        wanted: dict[str, list[str]] = {}
        for key in dict.fromkeys(
            (row["document"], row["system"]) for row in extremes(rows, metric)
        ):
            if None not in key:
                wanted.setdefault(key[0], []).append(key[1])
        settings = ExplainSettings(document="", metric=metric, scores=run.out)
        explainer = open_explainer((), settings)
        for document, explained in explainer.explain(wanted).items():
            for each in explained:
                name = explain_file(document, each.system_id, explainer.column)
                page = render_explanations(document, [each]).encode("utf-8", "surrogateescape")
                write_whole(join(run.out, EXPLAIN_FOLDER, name), page)
                pictures[document, each.system_id, metric] = each.explanation.svg()
    return pictures


def _changed_options(settings: ExplainSettings) -> list[str]:
    """Name the options of metrics that are not as they are by default."""
    default = MetricOptions()
    given = shared_fields(MetricOptions, settings)
    return sorted(name for name, value in given.items() if value != getattr(default, name))


def _settings_of(
    scores: AnyPath, metric: str, columns: Mapping[str, str] | None
) -> tuple[ScoringConfig, Mapping[str, str], list[str], str]:
    """Read what a run computed: the part that bears on one metric, column names, inputs, system."""
    folder = absolute(os.fspath(scores)).rstrip("/")
    manifest = read_manifest(folder)
    if manifest is None:
        raise ValueError(f"{scores} must be a folder of `assay score`, but has no run.json")
    kept = {field.name for field in fields(ScoringConfig)}
    settings = {key: value for key, value in manifest.configuration.items() if key in kept}
    whole = ScoringConfig(**settings)
    column = column_of(metric, whole.columns)
    explained_metric = next((metric for metric in whole.asked if column in metric.columns), None)
    # Metrics of the same encoder are computed together: with them the last digits are the same.
    metrics = tuple(
        metric.written
        for metric in whole.asked
        if explained_metric is None
        or metric == explained_metric
        or (explained_metric.encoder and metric.encoder == explained_metric.encoder)
    )
    config = ScoringConfig(**settings | {"metrics": metrics}).pinned(manifest.signatures)
    names = {**manifest.configuration["columns"], **(columns or {})}
    return config, names, [file.path for file in manifest.inputs], manifest.configuration["system"]


def _mean_ratings(
    path: AnyPath | None, raters: Sequence[str], columns: Mapping[str, str]
) -> dict[_Key, dict[str, float | None]]:
    if path is None:
        if raters:
            raise ValueError("`raters` needs ratings; give `--ratings`, too")
        return {}
    rated = read_ratings(path, raters=raters, columns=columns)
    for note in rated.notes:
        logger.warning("%s", note)
    rows = rated.means().iter_rows(named=True)
    return {(row.pop(DOCUMENT_ID), row.pop(SYSTEM_ID)): row for row in rows}


def _check_same(
    explanation: Explanation, key: _Key, recorded: float | None, tolerance: float
) -> None:
    """Refuse a score that is not the recorded one; no score is one thing to agree about, too."""
    score = explanation.score
    if score is None or recorded is None:
        is_same = score is recorded
    else:
        scale = max(score, recorded) if explanation.moves else 1.0
        is_same = abs(score - recorded) <= max(SAME_ATOL, tolerance * scale)
    if not is_same:
        here, there = ("undefined" if each is None else repr(each) for each in (score, recorded))
        raise ValueError(
            f"{explanation.metric} of document {key[0]!r}, system {key[1]!r} is {here} "
            f"here and {there} in the scores folder; the texts, the encoder or the "
            "versions have changed since: score again, or leave out `--scores`"
        )


def _chosen(rows: pa.Table, document: str, systems: Sequence[str]) -> pa.Table:
    """Keep the rows of some systems; the same row twice is one."""
    known = dict.fromkeys(rows[SYSTEM_ID].drop_null().to_pylist())
    if unknown := [system for system in systems if system not in known]:
        hint = nearest(unknown[0], known)
        raise ValueError(f"document {document!r} has no system {unknown[0]!r}; {hint}")
    first: dict[str, tuple[int, dict[str, Any]]] = {}
    for k, row in enumerate(rows.to_pylist()):
        system = row[SYSTEM_ID]
        if system is None or (systems and system not in systems):
            continue
        if row[UNREADABLE] is not None:
            raise ValueError(
                f"document {document!r}, system {system!r} cannot be read: {row[UNREADABLE]}"
            )
        if first.setdefault(system, (k, row))[1] != row:
            raise ValueError(
                f"document {document!r} has several rows of system {system!r} with different "
                "texts; keep one of them, or give them different ids"
            )
    if not first:
        raise ValueError(f"no row of document {document!r} names its system")
    return rows.take([k for k, _ in first.values()]).drop_columns(UNREADABLE)
