"""`correlate`: reads scores and ratings, computes the agreement, writes it to a folder."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from importlib import metadata
from pathlib import Path

import numpy as np

from agreement.intervals import CONFIDENCE
from cluster.output import Output
from cluster.progress import Progress
from cluster.store import delete_file, join, list_names
from pipelines.correlation.comparisons import corrected, difference_rows, with_best
from pipelines.correlation.estimates import (
    correlation_rows,
    disagreement_rows,
    estimate,
    power_rows,
    rater_rows,
    sample_size_rows,
    system_rows,
)
from pipelines.reports.verdict import verdict_of
from pipelines.runs.forks import with_threads
from pipelines.settings.correlate import CorrelateSettings
from pipelines.settings.form import as_options
from pipelines.tables.keyed import check_columns
from pipelines.tables.ratings import Ratings, columns_apart, read_ratings
from pipelines.tables.records import TABLES, About, AgreementResult, table
from pipelines.tables.scores import Scores, find_scores, read_scores
from pipelines.tables.study import Study, make_study, remarks, shared_rows
from sms.naming import OneOrMore, several
from sms.signature import version

LIBRARIES = ("numpy", "scipy", "polars")
"""Distributions whose version may change a number."""

ABOUT_FILE = "report.json"
"""Written last: it marks a folder whose files are complete."""
LONG_FOLDER = "tables/long"
"""Right in `tables/` are the report's tables, rounded and laid out for papers."""
MAIN_TABLE = "correlations"

_OURS = ("correlations.*", "tables/*", "tables/long/*", "report.*", "plots/*")
_OUR_NAMES = frozenset({"tables", "plots"})


@with_threads
def correlate(scores: OneOrMore, settings: CorrelateSettings) -> AgreementResult:
    """Correlate scores with human ratings; without `out` nothing is written.

    Raises ValueError or OSError if the request or an input is wrong; nothing has been written then.
    """
    paths, tell = several(scores), settings.on_progress or (lambda _progress: None)
    output = None
    if settings.out is not None:
        output = _report_folder(settings.out, is_replacing=settings.fresh)
    tell(Progress(stage="reading ratings and scores"))
    rated, scored, compared = _shared(paths, settings)
    study = make_study(rated, scored)
    notes = [compared, *rated.notes, *scored.notes, *remarks(study)]
    command = shlex.join(["assay", "correlate", *paths, *as_options(settings)])
    main_level, main_coefficient = settings.lead(study.n_rows, len(study.documents))
    about = About(
        command=command,
        version=version(),
        libraries={name: metadata.version(name) for name in LIBRARIES},
        seed=settings.seed,
        n_resamples=settings.resamples,
        confidence=CONFIDENCE,
        inputs=[*scored.records, *rated.records],
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
    result = _analyse(study, settings, about, tell)
    if output is not None:
        tell(Progress(stage="writing the report"))
        with output.filled(last=ABOUT_FILE) as folder:
            _write(result, folder, all_tables=settings.all_tables)
            _clear(output)  # an earlier report stays until nothing can fail
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
    if not paths:
        raise ValueError("`scores` must name at least one folder or file, got none")
    inputs = [find_scores(path) for path in paths]
    scored = read_scores(
        inputs, rated.keys, metrics=settings.metrics, with_parts=False, columns=columns
    )
    check_columns(settings.columns, [each.files for each in inputs], rated.files)
    return shared_rows(rated, scored)


def _analyse(
    study: Study, settings: CorrelateSettings, about: About, tell: Callable[[Progress], None]
) -> AgreementResult:
    """Compute every table; each has its own random numbers, so that none depends on another."""
    seeds = np.random.SeedSequence(settings.seed).spawn(5)
    of_bootstrap, of_soft, of_swaps, of_systems = map(np.random.default_rng, seeds[:4])
    tell(Progress(stage="correlations and their bootstrap"))
    estimates = estimate(study, settings, of_bootstrap)
    correlations = table("correlations", correlation_rows(study, settings, estimates, of_soft))

    def compared(n_done: int, n_tests: int) -> None:
        tell(Progress(stage="comparing metrics", n_rows=n_tests, n_done=n_done, unit="tests"))

    rows = table("differences", difference_rows(study, settings, estimates, of_swaps, compared))
    differences = corrected(rows)
    tell(Progress(stage="raters, systems and sample sizes"))
    return AgreementResult(
        about=about,
        correlations=with_best(correlations, differences),
        differences=differences,
        raters=table("raters", rater_rows(study, settings)),
        systems=table("systems", system_rows(study, settings, of_systems)),
        sample_size=table("sample_size", sample_size_rows(study, settings, seeds[4])),
        disagreements=table("disagreements", disagreement_rows(study)),
        power=table("power", power_rows(study)),
        score_names=study.metrics,
        aspects=study.aspects,
    )


# The folder


def _report_folder(out: str | os.PathLike[str], *, is_replacing: bool) -> Output:
    """Return the folder (or URL) of a report; refuse one that holds another or other files."""
    output = Output.named("--out", out)
    output.check_folder(*_OUR_NAMES, LONG_FOLDER)
    entries = output.names()
    foreign = [
        name
        for name in entries
        if name not in _OUR_NAMES and not any(Path(name).match(pattern) for pattern in _OURS)
    ]
    if foreign and ABOUT_FILE not in entries:
        raise ValueError(
            f"{out} holds files that are not part of an assay report ({', '.join(foreign[:3])}"
            f"{', …' if len(foreign) > 3 else ''}); choose an empty or a new folder"
        )
    if entries and not is_replacing:
        raise ValueError(
            f"{out} holds a report already; use `--fresh` to replace it, or another `--out` folder"
        )
    return output


def _clear(output: Output) -> None:
    """Delete the files of an earlier report, and nothing else."""
    for pattern in _OURS:
        *folders, like = pattern.split("/")
        inside = join(output.path, *folders)
        for name in list_names(inside):
            if fnmatchcase(name, like):
                delete_file(join(inside, name))


def _write(result: AgreementResult, folder: Path, *, all_tables: bool) -> None:
    """Write the report, the correlations as Parquet, and what the folder is about as JSON.

    With `all_tables` the correlations as CSV, too, and all others as both, in `tables/long/`.
    """
    from pipelines.reports.agreement_report import write_report  # brings jinja2

    write_report(result, folder, all_tables=all_tables)
    for name in TABLES if all_tables else (MAIN_TABLE,):
        inside = folder if name == MAIN_TABLE else folder / LONG_FOLDER
        inside.mkdir(parents=True, exist_ok=True)
        frame = getattr(result, name)
        frame.write_parquet(inside / f"{name}.parquet")
        if all_tables:
            frame.write_csv(inside / f"{name}.csv")
    judged = result.differences.select("level", "coefficient").unique(maintain_order=True)
    verdicts = [asdict(verdict_of(result, *each)) for each in judged.iter_rows()]
    about = {**asdict(result.about), "verdicts": verdicts}
    text = json.dumps(about, indent=1, ensure_ascii=False)
    (folder / ABOUT_FILE).write_bytes(f"{text}\n".encode("utf-8", "surrogateescape"))
