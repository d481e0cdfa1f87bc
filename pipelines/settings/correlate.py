"""Settings of `assay correlate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from sms.naming import AnyPath, check_choice
from sms.settings import Settings

LEVELS = ("system", "summary", "global")
CORRELATIONS = ("pearson", "spearman", "kendall_b")
ACCURACIES = ("pairwise_accuracy", "soft_pairwise_accuracy")
"""Between 0 and 1, with 0.5 for guessing."""
COEFFICIENTS = ("pearson", "spearman", "kendall_b", *ACCURACIES)
FEWEST_SYSTEMS = 3
"""Systems on a document, on average, from which on summaries are ordered inside each document."""


@dataclass(frozen=True, kw_only=True)
class CorrelateSettings(Settings):
    """How scores are compared with human ratings."""

    ratings: Annotated[AnyPath, "FILE"]
    """Read human ratings from FILE: one row per candidate, or with a column `rater` one row per
    candidate and rater."""
    out: Annotated[AnyPath | None, "DIR"] = None
    """Write the report and its tables to this folder. Required on the command line."""
    aspects: Annotated[Sequence[str], "rare"] = ()
    """Columns of the ratings to use. Default: all columns of numbers."""
    raters: Sequence[str] = ()
    """Average these raters, given as names or patterns such as `expert-*`. Default: all. Required
    if the names show several pools, such as expert-1 and turker-1."""
    metrics: Sequence[str] = ()
    """Correlate these columns of the scores, given as names or patterns. Default: all columns of
    numbers, but precision and recall only where `assay score --metrics` named them."""
    systems: Annotated[Sequence[str], "rare"] = ()
    """Systems to keep, names or patterns. Default: all rated systems."""
    exclude_systems: Annotated[Sequence[str], "rare"] = ()
    """Systems to leave out, names or patterns."""
    levels: Sequence[str] = LEVELS
    """Correlate at these levels: means of systems (system); systems within each document, then
    averaged (summary); all rows at once (global). The verdict uses the first level. Default: all
    levels; the verdict then uses summary level, or global level with fewer than 3 systems per
    document."""
    coefficients: Sequence[str] = COEFFICIENTS
    """Compute these coefficients. The verdict uses the first one; without this option, spearman, or
    pearson at system level. pairwise_accuracy is not defined at global level, and
    soft_pairwise_accuracy only at system level."""
    resamples: int = 1_000
    """Number of bootstrap resamples, and of permutations in a test (at least 25 for each
    metric). 10000 is enough for a publication, and takes ten times as long."""
    pairs: Annotated[Literal["best", "all"], "rare"] = "best"
    """Test every metric against the best one and the baselines (best), or test all pairs of metrics
    (all), which takes many times as long."""
    seed: Annotated[int, "rare"] = 0
    """Seed of all random numbers."""
    all_tables: Annotated[bool, "rare"] = False
    """Also write every table as Parquet and CSV, those of report.md as LaTeX, and
    every plot as SVG."""
    columns: Mapping[str, str] | None = None
    """Read Assay's column OURS from your column THEIRS, for example system_id=model.
    Repeat the option or separate pairs by commas. For a column of the ratings alone, write
    `ratings.` first, for example ratings.document_id=item."""
    fresh: bool = False
    """Replace the report in DIR."""
    on_progress: Annotated[Callable[..., None] | None, "python"] = None
    """Called with a `Progress` at every stage and after every test."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for option, names, choices in (
            ("--levels", self.levels, LEVELS),
            ("--coefficients", self.coefficients, (*CORRELATIONS, *ACCURACIES)),
        ):
            for i, name in enumerate(names):
                check_choice(option, name, choices)
                if name in names[:i]:
                    raise ValueError(f"`{option}` must not repeat a name, got {name!r} twice")
        if not self.levels or not self.correlations:
            raise ValueError(
                f"`--levels` and `--coefficients` must name at least one of {', '.join(LEVELS)} "
                f"and one of {', '.join(CORRELATIONS)}"
            )
        if self.resamples < 1:
            raise ValueError(f"`--resamples` must be at least 1, got {self.resamples}")
        if self.seed < 0:
            raise ValueError(f"`--seed` must not be negative, got {self.seed}")

    @property
    def correlations(self) -> list[str]:
        """The coefficients that are correlations."""
        return [name for name in self.coefficients if name in CORRELATIONS]

    def coefficients_at(self, level: str) -> list[str]:
        """Return the coefficients that a level has: accuracies are about pairs of systems."""
        lacks = {"system": (), "summary": ACCURACIES[1:], "global": ACCURACIES}[level]
        return [name for name in self.coefficients if name not in lacks]

    def lead(self, n_rows: int, n_documents: int) -> tuple[str, str]:
        """Return level and coefficient of the verdict: the first asked for, else those of `judge`.

        A metric for one's data must order summaries, most of all those of one document, and
        nothing is known of its scale. Means of systems are compared by Pearson, as in papers.
        """
        level = self.levels[0]
        if tuple(self.levels) == LEVELS:
            level = level_for(n_rows, n_documents)
        if tuple(self.coefficients) == COEFFICIENTS and level != "system":
            return level, "spearman"
        return level, self.coefficients_at(level)[0]


def level_for(n_rows: int, n_documents: int) -> str:
    """Return the level that says which metric suits some data."""
    return "summary" if n_rows >= FEWEST_SYSTEMS * n_documents else "global"
