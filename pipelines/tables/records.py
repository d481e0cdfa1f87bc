"""What `correlate` finds: tables of agreement, and where they come from.

The tables are polars DataFrames with the columns declared here, in this order. A number that is
undefined is null, never NaN, and where a table has a column `reason`, that says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

BASELINES = ("length", "compression", "coverage", "density", "novelty", "lead3")
"""Trivial metrics: a score that cannot beat them is not worth reporting."""

CORRELATIONS = pl.Schema(
    {
        "aspect": pl.String,
        "metric": pl.String,
        "level": pl.String,  # "system", "summary", "global"
        "coefficient": pl.String,  # see `AgreementResult.correlations`
        "value": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
        "interval": pl.String,  # as in `bootstrap_name`; null where there is none
        "fisher_low": pl.Float64,
        "fisher_high": pl.Float64,
        "p_value": pl.Float64,
        "n_systems": pl.Int64,
        "n_documents": pl.Int64,
        "n_cells": pl.Int64,
        "n_missing": pl.Int64,
        "n_skipped": pl.Int64,
        "n_ties": pl.Int64,
        "n_rating_ties": pl.Int64,
        "threshold": pl.Float64,
        "n_undefined": pl.Int64,
        "raters": pl.String,
        "reason": pl.String,
        "is_baseline": pl.Boolean,
    }
)

DIFFERENCES = pl.Schema(
    {
        "aspect": pl.String,
        "level": pl.String,
        "coefficient": pl.String,
        "metric_a": pl.String,
        "metric_b": pl.String,
        "value_a": pl.Float64,
        "value_b": pl.Float64,
        "difference": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
        "test": pl.String,  # "perm-both", "williams", "steiger"
        "statistic": pl.Float64,
        "p_value": pl.Float64,
        "p_holm": pl.Float64,
        "p_bonferroni": pl.Float64,
        "n_resamples": pl.Int64,
        "n_systems": pl.Int64,
        "n_documents": pl.Int64,
        "n_cells": pl.Int64,
        "systems_needed": pl.Int64,
        "reason": pl.String,
    }
)

CLUSTERS = pl.Schema(
    {
        "aspect": pl.String,
        "level": pl.String,
        "coefficient": pl.String,
        "metric": pl.String,
        "value": pl.Float64,
        "cluster": pl.Int64,
    }
)

RATERS = pl.Schema(
    {
        "aspect": pl.String,
        "pool": pl.String,
        "statistic": pl.String,
        "level": pl.String,
        "value": pl.Float64,
        "n_raters": pl.Int64,
        "n_units": pl.Int64,
        "n_missing": pl.Int64,
        "reason": pl.String,
    }
)

SYSTEMS = pl.Schema(
    {
        "system_id": pl.String,
        "name": pl.String,
        "kind": pl.String,  # "rating" or "metric"
        "mean": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
        "rank": pl.Int64,
        "rank_low": pl.Int64,
        "rank_high": pl.Int64,
        "n_documents": pl.Int64,
    }
)

SAMPLE_SIZE = pl.Schema(
    {
        "aspect": pl.String,
        "metric": pl.String,
        "level": pl.String,
        "coefficient": pl.String,
        "n_documents": pl.Int64,
        "mean": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
        "n_draws": pl.Int64,
        "n_undefined": pl.Int64,
    }
)

DISAGREEMENTS = pl.Schema(
    {
        "aspect": pl.String,
        "metric": pl.String,
        "document_id": pl.String,
        "system_id": pl.String,
        "score": pl.Float64,
        "rating": pl.Float64,
        "score_rank": pl.Float64,
        "rating_rank": pl.Float64,
        "gap": pl.Float64,
        "candidate": pl.String,
        "reference": pl.String,
        "source": pl.String,
    }
)

POWER = pl.Schema(
    {
        "aspect": pl.String,
        "metric": pl.String,
        "value": pl.Float64,
        "n_systems": pl.Int64,
        "n_documents": pl.Int64,
        "systems_for_correlation": pl.Int64,
        "systems_for_width": pl.Int64,
        "limit": pl.Float64,
        "documents_for_correlation": pl.Int64,
        "reason": pl.String,
    }
)

TABLES: Mapping[str, pl.Schema] = {
    "correlations": CORRELATIONS,
    "differences": DIFFERENCES,
    "clusters": CLUSTERS,
    "raters": RATERS,
    "systems": SYSTEMS,
    "sample_size": SAMPLE_SIZE,
    "disagreements": DISAGREEMENTS,
    "power": POWER,
}
"""Columns of every table, by its name in `AgreementResult`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRecord:
    """A file that was read."""

    path: str
    bytes: int
    sha256: str
    """Of the content, in hexadecimal."""
    role: str
    """"scores", "ratings" or "texts"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Where the numbers come from: everything a reader needs to make them again."""

    command: str
    version: str
    """Of assay."""
    libraries: Mapping[str, str]
    """Versions, by distribution."""
    seed: int
    n_resamples: int
    """Of the bootstrap and, at most, of every permutation test."""
    confidence: float
    """Of all intervals."""
    inputs: Sequence[InputRecord]
    signatures: Mapping[str, str]
    """By metric as it is called in the tables; only metrics whose run recorded one."""
    systems: Sequence[str]
    """Kept, in the order of all matrices."""
    excluded_systems: Sequence[str]
    raters: str
    """The pattern asked for, "all" where it was none and there is one pool, "mean column" where
    the ratings do not name raters."""
    n_documents: int
    notes: Sequence[str]
    """Sentences a reader must see: keys that do not match, duplicates, ties, missing cells."""

    @property
    def resampled(self) -> str:
        """What intervals are over, in words: what there is one of only never varies."""
        drawn = {"systems": len(self.systems), "documents": self.n_documents}
        varied = [noun for noun, n in drawn.items() if n > 1]
        return " and ".join(varied or drawn)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AgreementResult:
    """Everything `correlate` has computed. Cells are pairs of a system and a document."""

    about: About

    correlations: pl.DataFrame
    """One row per aspect, metric, level and coefficient (`CORRELATIONS`).

    - `coefficient`: "pearson", "spearman", "kendall_b", "kendall_c"; the same with `partial_`
      before it: given the length of the candidate; "pairwise_accuracy", with ties calibrated;
      "soft_pairwise_accuracy" (system level).
    - `value`; `low`, `high`: interval of the method in `interval`; null where there is none.
    - `fisher_low`, `fisher_high`: Fisher's interval at system level; too narrow.
    - `p_value`: textbook test that the correlation is 0 (system and global level); at global
      level too sure of itself, for cells are not independent.
    - `n_systems`, `n_documents`, `n_cells`: that metric and ratings share; `n_missing`: cells of
      the matrix that either lacks; `n_skipped`: documents on which the coefficient is undefined
      (summary level), most often because ratings are constant.
    - `n_ties`, `n_rating_ties`: units (system means; cells inside a document; cells) whose score,
      or rating, another unit of the same comparison has too.
    - `threshold`: for pairwise accuracy, scores no further apart are tied.
    - `n_undefined`: resamples in which the coefficient is undefined, left out of the interval.
    - `raters`: as `About.raters`. `reason`: why the value (or, if there is a value, its interval)
      is undefined. `is_baseline`: whether the metric is one of `BASELINES`."""

    differences: pl.DataFrame
    """One row per aspect, level, coefficient, pair of metrics and test (`DIFFERENCES`).

    `value_a` and `value_b` are computed on the cells both metrics and the ratings have, so they
    may differ from `correlations` where cells are missing. `difference` is `value_a - value_b`
    with its bootstrap interval `low`, `high`; `p_value` is two-sided; `p_holm` and `p_bonferroni`
    are corrected over all pairs of metrics of one aspect, level, coefficient and test.
    `statistic` is t for "williams", z for "steiger", null for "perm-both". `n_resamples` is the
    number of swaps made, null for a formula. `systems_needed`: systems that would be enough to
    find this difference with a power of 0.8 (on the rows of "williams"; null: out of reach)."""

    clusters: pl.DataFrame
    """One row per aspect, level, coefficient and metric (`CLUSTERS`): metrics of one `cluster`
    cannot be told apart at .05 after Holm; 1 is the best, 0 means an undefined value."""

    raters: pl.DataFrame
    """Agreement among the raters of one pool (`RATERS`), the ceiling for a metric: `statistic` is
    "krippendorff_alpha_ordinal", "krippendorff_alpha_interval" (`level` null), or
    "leave_one_out_pearson" and so on at each `level`. No rows where ratings name no raters."""

    systems: pl.DataFrame
    """Mean of each system under each aspect and metric (`SYSTEMS`), `name`, over the cells that
    have a rating and this value; interval and ranks by bootstrap over documents; ranks count
    from 1 for the highest mean. Systems without any value have a null mean and rank, those with a
    value on one document only no interval."""

    sample_size: pl.DataFrame
    """Correlation on random subsets of `n_documents` documents (`SAMPLE_SIZE`): mean and
    percentiles over `n_draws` draws."""

    disagreements: pl.DataFrame
    """Candidates that metric and people rank most differently inside their document
    (`DISAGREEMENTS`), worst first: ranks are shares from 0 (lowest) to 1 (highest) of the systems
    of the document, `gap` is `score_rank - rating_rank` (positive: the metric is kinder). Texts
    are null where no corpus was given."""

    power: pl.DataFrame
    """What a larger study would need, system-level Pearson (`POWER`): `systems_for_correlation`
    to find the correlation different from 0 with a power of 0.8, `systems_for_width` for a Fisher
    interval no wider than 0.2, `limit` the correlation expected with endless documents,
    `documents_for_correlation` after which it is within .05 of that. Null: no number is enough,
    `reason` says why."""

    score_names: Sequence[str]
    """Metrics, in the order they were found."""
    aspects: Sequence[str]
    """Aspects, in the order asked for or found."""


def table(name: str, rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Make one of the tables from its rows; NaN becomes null, a column not given is null.

    Raises
    ------
    ValueError
        If a row has a column that the table has not.
    """
    schema = TABLES[name]
    rows = list(rows)
    unknown = {column for row in rows for column in row} - set(schema)
    if unknown:
        raise ValueError(f"`rows` must have the columns of `{name}`, got {sorted(unknown)}")
    frame = pl.DataFrame([{column: row.get(column) for column in schema} for row in rows], schema)
    return frame.with_columns(pl.selectors.float().fill_nan(None))
