"""`correlate`: reads scores and ratings, computes the agreement, writes it to a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import numpy as np
import polars as pl

from agreement import LEVELS
from pipelines.correlation.comparisons import cluster_rows, corrected, difference_rows
from pipelines.correlation.details import (
    disagreement_rows,
    power_rows,
    rater_rows,
    sample_size_rows,
    system_rows,
)
from pipelines.correlation.estimates import (
    CONFIDENCE,
    DEFAULT_COEFFICIENTS,
    Settings,
    correlation_rows,
    estimate,
)
from pipelines.correlation.files import ABOUT_FILE, clear_folder, report_folder, write_tables
from pipelines.reports.file_names import EXPLAIN_FOLDER
from pipelines.tables.keyed import KEYS
from pipelines.tables.ratings import Ratings, read_ratings
from pipelines.tables.records import DISAGREEMENTS, About, AgreementResult, InputRecord, table
from pipelines.tables.scores import Scores, find_scores, read_scores
from pipelines.tables.study import Study, find_lengths, make_study, remarks
from pipelines.tables.texts import TEXTS, read_texts
from sms.naming import AnyPath, OneOrMore, several
from sms.signature import version

LIBRARIES = ("numpy", "scipy", "polars")
"""Distributions whose version may change a number."""


def correlate(
    scores: OneOrMore,
    ratings: AnyPath,
    out: AnyPath | None = None,
    *,
    aspects: str | Sequence[str] = (),
    raters: str | Sequence[str] = (),
    systems: str | Sequence[str] = (),
    exclude_systems: str | Sequence[str] = (),
    metrics: str | Sequence[str] = (),
    levels: str | Sequence[str] = LEVELS,
    coefficients: str | Sequence[str] = DEFAULT_COEFFICIENTS,
    n_resamples: int = 1_000,
    seed: int = 0,
    corpus: AnyPath | None = None,
    explain: bool = False,
    all_tables: bool = False,
    columns: Mapping[str, str] | None = None,
    accept_unfinished: bool = False,
    fresh: bool = False,
    command: str = "pipelines.correlate",
    on_stage: Callable[[str], None] = lambda _stage: None,
) -> AgreementResult:
    """Correlate scores with human ratings, at every level, with intervals and tests.

    Parameters
    ----------
    scores : path or sequence of paths
        Folders of `assay score`, or Parquet, CSV or JSONL files of any tool: a row per candidate
        with `document_id`, `system_id` and a column of numbers per metric.
    ratings : path
        The same with a column per aspect, and `rater` where raters are named.
    out : path, optional
        Folder or URL for the report and its tables; without, nothing is written.
    aspects : str or sequence of str
        Columns of the ratings; all where empty.
    raters, systems, exclude_systems, metrics : str or sequence of str
        Names or patterns (`expert-*`). Without `raters` all must be of one pool.
    levels, coefficients, n_resamples, seed
        See `Settings`.
    corpus : path, optional
        Texts of the candidates, for the list of disagreements and, if no metric is called
        `length`, for partial correlations.
    explain : bool
        Write a page for every score in the list of disagreements that `assay score` computed,
        and link to it; needs `out`, the scored corpus and its encoders.
    all_tables : bool
        Write every table and plot as files of their own, too.
    columns : mapping of str to str, optional
        Our column name to a file's, where they differ.
    accept_unfinished : bool
        Take what an unfinished `assay score` has committed.
    fresh : bool
        Replace the report that is in `out`.
    command : str
        What a reader would run to get the same; goes into the report.
    on_stage : callable, optional
        Told what is being done.

    Returns
    -------
    AgreementResult
        All tables, and where they come from.

    Raises
    ------
    ValueError, OSError
        If the request or an input is wrong; nothing has been written then.
    """
    settings = Settings(
        levels=tuple(several(levels)),
        coefficients=tuple(several(coefficients)),
        n_resamples=n_resamples,
        seed=seed,
    )
    if out is None and explain:
        raise ValueError("`out` must name a folder for the pages of `explain`, got none")
    output = None if out is None else report_folder(out, is_replacing=fresh)
    on_stage("reading ratings and scores")
    rated = read_ratings(
        ratings,
        aspects=several(aspects),
        raters=several(raters),
        systems=several(systems),
        exclude_systems=several(exclude_systems),
        columns=columns or {},
    )
    found = read_scores(
        [find_scores(name, is_unfinished_accepted=accept_unfinished) for name in several(scores)],
        rated.keys,
        all_rated=rated.all_keys,
        metrics=several(metrics),
        columns=columns or {},
    )
    study, texts, text_records, notes = _study(rated, found, corpus, columns or {})
    inputs = [*found.records, *rated.records, *text_records]
    about = _about(command, settings, study, rated, found, inputs, notes)
    result = analyse(study, settings, about, texts=texts, on_stage=on_stage)
    if output is not None:
        with output.filled(last=ABOUT_FILE) as folder:
            if explain:
                on_stage("explaining the disagreements")
                _explain(result.disagreements, found.origins, folder / EXPLAIN_FOLDER)
            on_stage("writing the report")
            _write(result, folder, all_tables=all_tables)
            clear_folder(output)  # an earlier report stays until nothing can fail
    return result


def analyse(
    study: Study,
    settings: Settings,
    about: About,
    *,
    texts: pl.DataFrame | None = None,
    on_stage: Callable[[str], None] = lambda _stage: None,
) -> AgreementResult:
    """Compute every table of a study; `texts` are those of its candidates, from `read_texts`.

    Each table has its own stream of random numbers: leaving one out changes no other.
    """
    seeds = np.random.SeedSequence(settings.seed).spawn(5)
    streams = [np.random.default_rng(seed) for seed in seeds]
    on_stage("correlations and their bootstrap")
    estimates = estimate(study, settings, streams[0])
    correlations = table("correlations", correlation_rows(study, settings, estimates, streams[1]))
    on_stage("differences of metrics")
    found = table("differences", difference_rows(study, settings, estimates, streams[2]))
    differences = corrected(found)
    on_stage("raters, systems and sample sizes")
    return AgreementResult(
        about=about,
        correlations=correlations,
        differences=differences,
        clusters=table("clusters", cluster_rows(study, estimates, differences)),
        raters=table("raters", rater_rows(study, settings)),
        systems=table("systems", system_rows(study, settings, streams[3])),
        sample_size=table("sample_size", sample_size_rows(study, settings, seeds[4])),
        disagreements=_with_texts(table("disagreements", disagreement_rows(study)), texts),
        power=table("power", power_rows(study)),
        score_names=study.metrics,
        aspects=study.aspects,
    )


def _study(
    rated: Ratings, found: Scores, corpus: AnyPath | None, columns: Mapping[str, str]
) -> tuple[Study, pl.DataFrame | None, Sequence[InputRecord], list[str]]:
    """Lay the numbers out, and say what a reader must know about them."""
    texts: pl.DataFrame | None = None
    records: Sequence[InputRecord] = ()
    notes: Sequence[str] = ()
    if corpus is not None:
        texts, records, notes = read_texts(os.fspath(corpus), rated.keys, columns)
    study = make_study(rated, found)
    lengths, said = find_lengths(study, texts)
    notes = [*rated.notes, *found.notes, *notes, *remarks(study), *([said] if said else [])]
    return replace(study, lengths=lengths), texts, records, notes


def _write(result: AgreementResult, folder: Path, *, all_tables: bool) -> None:
    from pipelines.reports.agreement_report import write_report  # brings a library of charts

    write_report(result, folder, all_tables=all_tables)
    write_tables(result, folder, all_tables=all_tables)


def _with_texts(rows: pl.DataFrame, texts: pl.DataFrame | None) -> pl.DataFrame:
    if texts is None:
        return rows
    joined = rows.drop(TEXTS).join(texts, on=KEYS, how="left", maintain_order="left")
    return joined.select(DISAGREEMENTS.names())


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
    settings: Settings,
    study: Study,
    rated: Ratings,
    found: Scores,
    inputs: Sequence[InputRecord],
    notes: Sequence[str],
) -> About:
    return About(
        command=command,
        version=version(),
        libraries={name: metadata.version(name) for name in LIBRARIES},
        seed=settings.seed,
        n_resamples=settings.n_resamples,
        confidence=CONFIDENCE,
        inputs=inputs,
        signatures=found.signatures,
        systems=study.systems,
        excluded_systems=rated.excluded_systems,
        raters=rated.raters,
        n_documents=len(study.documents),
        notes=notes,
    )
