"""`correlate`: reads scores and ratings, computes the agreement, writes it to a folder."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import numpy as np
import polars as pl

from agreement.intervals import CONFIDENCE
from pipelines.correlation.comparisons import corrected, difference_rows, with_best
from pipelines.correlation.details import (
    disagreement_rows,
    power_rows,
    rater_rows,
    sample_size_rows,
    system_rows,
)
from pipelines.correlation.estimates import correlation_rows, estimate
from pipelines.correlation.files import ABOUT_FILE, clear_folder, report_folder, write_tables
from pipelines.runs.manifest import EXPLAIN_FOLDER
from pipelines.runs.progress import Progress
from pipelines.settings.correlate import CorrelateSettings
from pipelines.settings.form import as_options
from pipelines.tables.keyed import KEYS, check_columns, files_of
from pipelines.tables.overlap import shared_rows
from pipelines.tables.ratings import Ratings, columns_apart, read_ratings
from pipelines.tables.records import TABLES, About, AgreementResult, InputRecord, table
from pipelines.tables.scores import Scores, find_scores, read_scores
from pipelines.tables.study import Study, find_lengths, make_study, remarks
from pipelines.tables.texts import TEXTS, read_texts
from sms.naming import OneOrMore, several
from sms.signature import version

LIBRARIES = ("numpy", "scipy", "polars")
"""Distributions whose version may change a number."""


def correlate(scores: OneOrMore, settings: CorrelateSettings) -> AgreementResult:
    """Correlate scores with human ratings; without `out` nothing is written.

    Raises ValueError or OSError if the request or an input is wrong; nothing has been written then.
    """
    paths, tell = several(scores), settings.on_progress or (lambda _progress: None)
    output = None
    if settings.out is not None:
        output = report_folder(settings.out, is_replacing=settings.fresh)
    tell(Progress(stage="reading ratings and scores"))
    rated, scored, compared = _shared(paths, settings)
    study = make_study(rated, scored)
    texts: pl.DataFrame | None = None
    text_notes: list[str] = []
    inputs = [*scored.records, *rated.records]
    if settings.corpus is not None:
        columns, _ = columns_apart(settings.columns)
        corpus = os.fspath(settings.corpus)
        texts, records, text_notes = read_texts(corpus, rated.keys, columns)
        inputs += records
    lengths, said = find_lengths(study, texts)
    study = replace(study, lengths=lengths)
    notes = [compared, *rated.notes, *scored.notes, *text_notes, *remarks(study), *said]
    command = shlex.join(["assay", "correlate", *paths, *as_options(settings)])
    about = _about(command, settings, study, rated, scored, inputs, notes)
    result = _analyse(study, settings, about, texts, tell)
    if output is not None:
        with output.filled(last=ABOUT_FILE) as folder:
            if settings.explain:
                tell(Progress(stage="explaining the disagreements"))
                _explain(result.disagreements, scored.origins, folder / EXPLAIN_FOLDER)
            tell(Progress(stage="writing the report"))
            _write(result, folder, all_tables=settings.all_tables)
            clear_folder(output)  # an earlier report stays until nothing can fail
    return result


def _shared(paths: Sequence[str], settings: CorrelateSettings) -> tuple[Ratings, Scores, str]:
    """Read ratings and scores, cut to the rows that both have; the text says how many."""
    columns, of_ratings = columns_apart(settings.columns)
    rated = read_ratings(
        settings.ratings,
        aspects=settings.aspects,
        raters=settings.raters,
        systems=settings.systems,
        exclude_systems=settings.exclude_systems,
        columns=of_ratings,
    )
    is_open = settings.accept_unfinished
    if not paths:
        raise ValueError("`scores` must name at least one folder or file, got none")
    inputs = [find_scores(path, is_unfinished_accepted=is_open) for path in paths]
    scored = read_scores(
        inputs,
        rated.keys,
        metrics=settings.metrics,
        with_parts=False,
        columns=columns,
    )
    texts_of = files_of(os.fspath(settings.corpus)) if settings.corpus is not None else []
    ratings_of = files_of(os.fspath(settings.ratings))
    check_columns(settings.columns, [texts_of, *(each.files for each in inputs)], ratings_of)
    return shared_rows(rated, scored)


def _analyse(
    study: Study,
    settings: CorrelateSettings,
    about: About,
    texts: pl.DataFrame | None,
    tell: Callable[[Progress], None],
) -> AgreementResult:
    """Compute every table; each has its own random numbers, so that none depends on another."""
    seeds = np.random.SeedSequence(settings.seed).spawn(5)
    streams = [np.random.default_rng(seed) for seed in seeds]
    tell(Progress(stage="correlations and their bootstrap"))
    estimates = estimate(study, settings, streams[0])
    correlations = table("correlations", correlation_rows(study, settings, estimates, streams[1]))

    def compared(n_done: int, n_tests: int) -> None:
        tell(Progress(stage="comparing metrics", n_rows=n_tests, n_done=n_done, unit="tests"))

    rows = table("differences", difference_rows(study, settings, estimates, streams[2], compared))
    differences = corrected(rows)
    tell(Progress(stage="raters, systems and sample sizes"))
    return AgreementResult(
        about=about,
        correlations=with_best(correlations, differences),
        differences=differences,
        raters=table("raters", rater_rows(study, settings)),
        systems=table("systems", system_rows(study, settings, streams[3])),
        sample_size=table("sample_size", sample_size_rows(study, settings, seeds[4])),
        disagreements=_with_texts(table("disagreements", disagreement_rows(study)), texts),
        power=table("power", power_rows(study)),
        score_names=study.metrics,
        aspects=study.aspects,
    )


def _write(result: AgreementResult, folder: Path, *, all_tables: bool) -> None:
    from pipelines.reports.agreement_report import write_report  # brings a library of charts

    write_report(result, folder, all_tables=all_tables)
    write_tables(result, folder, all_tables=all_tables)


def _with_texts(rows: pl.DataFrame, texts: pl.DataFrame | None) -> pl.DataFrame:
    if texts is None:
        return rows
    joined = rows.drop(TEXTS).join(texts, on=KEYS, how="left", maintain_order="left")
    return joined.select(TABLES["disagreements"].names())


def _explain(
    disagreements: pl.DataFrame, origins: Mapping[str, tuple[str, str]], folder: Path
) -> None:
    from pipelines.explain import open_explainer  # brings encoders

    for metric, (scores, column) in origins.items():
        rows = disagreements.filter(pl.col("metric") == metric)
        if rows.height:
            open_explainer(metric=column, scores=scores).write_pages(
                rows.select("document_id", "system_id").iter_rows(), folder, metric=metric
            )


def _about(
    command: str,
    settings: CorrelateSettings,
    study: Study,
    rated: Ratings,
    scored: Scores,
    inputs: Sequence[InputRecord],
    notes: Sequence[str],
) -> About:
    main_level, main_coefficient = settings.lead(study.n_rows, len(study.documents))
    return About(
        command=command,
        version=version(),
        libraries={name: metadata.version(name) for name in LIBRARIES},
        seed=settings.seed,
        n_resamples=settings.resamples,
        confidence=CONFIDENCE,
        inputs=inputs,
        signatures=scored.signatures,
        systems=study.systems,
        excluded_systems=rated.excluded_systems,
        raters=rated.raters,
        n_documents=len(study.documents),
        main_level=main_level,
        main_coefficient=main_coefficient,
        n_rows=study.n_rows,
        notes=notes,
    )
