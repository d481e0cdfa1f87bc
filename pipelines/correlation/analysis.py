"""From matrices to all tables of an `AgreementResult`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from pipelines.correlation.comparisons import cluster_rows, corrected, difference_rows
from pipelines.correlation.details import (
    disagreement_rows,
    power_rows,
    rater_rows,
    sample_size_rows,
    system_rows,
)
from pipelines.correlation.estimates import Settings, correlation_rows, estimate
from pipelines.tables.keyed import KEYS
from pipelines.tables.records import DISAGREEMENTS, About, AgreementResult, table
from pipelines.tables.study import Study
from pipelines.tables.texts import TEXTS


def analyse(
    study: Study,
    settings: Settings,
    about: About,
    *,
    texts: pl.DataFrame | None = None,
    on_stage: Callable[[str], None] = lambda _stage: None,
) -> AgreementResult:
    """Compute every table.

    Parameters
    ----------
    study : Study
        From `make_study`.
    settings : Settings
        What to compute.
    about : About
        Goes into the result.
    texts : polars.DataFrame, optional
        From `read_texts`, for the list of disagreements.
    on_stage : callable, optional
        Told what is being computed.

    Returns
    -------
    AgreementResult
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
        disagreements=_with_texts(
            table("disagreements", disagreement_rows(study, settings)), texts
        ),
        power=table("power", power_rows(study)),
        score_names=study.metrics,
        aspects=study.aspects,
    )


def _with_texts(rows: pl.DataFrame, texts: pl.DataFrame | None) -> pl.DataFrame:
    if texts is None:
        return rows
    joined = rows.drop(TEXTS).join(texts, on=KEYS, how="left", maintain_order="left")
    return joined.select(DISAGREEMENTS.names())
