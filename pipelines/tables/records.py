"""What `correlate` finds: tables of agreement, and where they come from.

The tables are polars DataFrames with the columns declared here, in this order. A number that is
undefined is null, never NaN, and where a table has a column `reason`, that says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from sms.naming import counted


def _columns(*groups: tuple[type[pl.DataType], str]) -> pl.Schema:
    """Make a schema of groups of columns of one type, their names separated by blanks."""
    return pl.Schema({name: kind for kind, names in groups for name in names.split()})


CORRELATIONS = _columns(
    (pl.String, "aspect metric level coefficient"),
    (pl.Float64, "value low high"),
    (pl.String, "interval"),
    (pl.Float64, "fisher_low fisher_high p_value"),
    (pl.Int64, "n_systems n_documents n_cells n_missing n_skipped n_ties n_rating_ties"),
    (pl.Float64, "threshold"),
    (pl.Int64, "n_undefined"),
    (pl.String, "raters reason"),
    (pl.Boolean, "is_baseline is_best is_tied"),
    (pl.Float64, "p_best"),
)
DIFFERENCES = _columns(
    (pl.String, "aspect level coefficient metric_a metric_b"),
    (pl.Float64, "value_a value_b difference low high"),
    (pl.String, "test against"),  # test: "perm-both", "williams", "steiger"
    (pl.Float64, "statistic p_value p_holm p_bonferroni"),
    (pl.Int64, "n_resamples n_systems n_documents n_cells systems_needed"),
    (pl.String, "reason"),
)
RATERS = _columns(
    (pl.String, "aspect pool statistic level"),
    (pl.Float64, "value"),
    (pl.Int64, "n_raters n_units n_missing"),
    (pl.String, "reason"),
)
SYSTEMS = _columns(
    (pl.String, "system_id name kind"),  # of "rating" or "metric"
    (pl.Float64, "mean low high"),
    (pl.Int64, "rank rank_low rank_high n_documents"),
)
SAMPLE_SIZE = _columns(
    (pl.String, "aspect metric level coefficient"),
    (pl.Int64, "n_documents"),
    (pl.Float64, "mean low high"),
    (pl.Int64, "n_draws n_undefined"),
)
DISAGREEMENTS = _columns(
    (pl.String, "aspect metric document_id system_id"),
    (pl.Float64, "score rating score_rank rating_rank gap"),
    (pl.String, "candidate reference source"),
)
POWER = _columns(
    (pl.String, "aspect metric"),
    (pl.Float64, "value"),
    (pl.Int64, "n_systems n_documents systems_for_correlation systems_for_width"),
    (pl.Float64, "limit"),
    (pl.Int64, "documents_for_correlation"),
    (pl.String, "reason"),
)

BEST, ALL = "best", "all"
"""Families of tests, besides those against a baseline, which are called by its name."""

TABLES: Mapping[str, pl.Schema] = {
    "correlations": CORRELATIONS,
    "differences": DIFFERENCES,
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
    """Of the bootstrap; permutation tests of many metrics may make more swaps."""
    confidence: float
    """Of all intervals."""
    inputs: Sequence[InputRecord]
    signatures: Mapping[str, str]
    """By metric as it is called in the tables; only metrics whose run recorded one."""
    systems: Sequence[str]
    """Kept, in the order of all matrices."""
    excluded_systems: Sequence[str]
    raters: str
    """The pattern asked for, "all" where it was none and there is one pool, "not named" where
    the ratings do not name raters."""
    n_documents: int
    main_level: str
    """What the verdict is about, as is the next: see `CorrelateSettings.lead`."""
    main_coefficient: str
    n_rows: int
    """Rows with every score and rating: all numbers are about these."""
    notes: Sequence[str]
    """Sentences a reader must see; the first says which rows are compared."""

    @property
    def compared(self) -> str:
        """What every number is about."""
        return (
            f"{counted(self.n_rows, 'row')} of {counted(len(self.systems), 'system')} and "
            f"{counted(self.n_documents, 'document')}"
        )

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
    """One row per aspect, metric, level and coefficient.

    - `coefficient`: a correlation, the same with `partial_` before it (given the length of the
      candidate), or an accuracy. `low`, `high`: by the method in `interval`; null where there is
      none. `fisher_low`, `fisher_high`: at system level; too narrow.
    - `p_value`: textbook test that the correlation is 0; at global level too sure of itself, for
      cells are not independent. `threshold`: scores no further apart are tied.
    - `n_missing`: cells of the matrix that metric or ratings lack; `n_skipped`: documents on which
      the coefficient is undefined; `n_undefined`: such resamples, left out of the interval;
      `n_ties`, `n_rating_ties`: units whose score, or rating, another unit it is compared with has.
    - `is_best`: the highest value of its aspect, level and coefficient, of a metric that is no
      baseline. `p_best`: against the best one, permutation test after Holm's correction over the
      metrics; `is_tied`: the best one, and those that cannot be told apart from it at .05."""
    differences: pl.DataFrame
    """One row per aspect, level, coefficient, pair of metrics, test and family of tests `against`:
    the best metric, a baseline by its name, or "all" pairs. `difference` is `value_a - value_b`,
    `p_value` two-sided, `p_holm` and `p_bonferroni` corrected over the pairs of one family.
    `statistic` is t for "williams", z for "steiger". `n_resamples` is the number of swaps made.
    `systems_needed` (on the rows of "williams"): enough to find this difference with a power of
    0.8; null where out of reach."""
    raters: pl.DataFrame
    """Agreement among the raters of one pool, the ceiling for a metric; no rows where ratings name
    no raters. `level` is null for Krippendorff's alpha."""
    systems: pl.DataFrame
    """Mean of each system under each aspect and metric, `name`, over the cells that have a rating
    and this value; interval and ranks (from 1, the highest mean) by bootstrap over documents."""
    sample_size: pl.DataFrame
    """Mean and percentiles of the correlation over draws of `n_documents` documents."""
    disagreements: pl.DataFrame
    """Candidates that metric and people rank most differently inside their document, worst first.
    Ranks are shares from 0 (lowest) to 1 of the systems of the document; `gap` is `score_rank -
    rating_rank` (positive: the metric is kinder). Texts are null where no corpus was given."""
    power: pl.DataFrame
    """What a larger study would need, system-level Pearson: see `agreement.power`. `limit` is the
    correlation expected with unlimited documents. Null: no number is enough."""
    score_names: Sequence[str]
    """Metrics, in the order they were found."""
    aspects: Sequence[str]
    """Aspects, in the order asked for or found."""


def table(name: str, rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Make one of the tables from its rows; NaN becomes null, a column not given is null."""
    schema = TABLES[name]
    frame = pl.DataFrame([{column: row.get(column) for column in schema} for row in rows], schema)
    return frame.with_columns(pl.selectors.float().fill_nan(None))
