"""Settings of `assay correlate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pipelines.settings.form import Settings
from sms.naming import AnyPath

LEVELS = ("system", "summary", "global")
CORRELATIONS = ("pearson", "spearman", "kendall_b", "kendall_c")
ACCURACIES = ("pairwise_accuracy", "soft_pairwise_accuracy")
"""Between 0 and 1, with 0.5 for guessing."""


@dataclass(frozen=True, kw_only=True)
class CorrelateSettings(Settings):
    """How scores are held against human ratings."""

    ratings: Annotated[AnyPath, "FILE"]
    """Human ratings: a row per candidate, and `rater` where raters are named."""
    out: Annotated[AnyPath | None, "DIR"] = None
    """Folder for the report and its tables. Required on the command line."""
    aspects: Annotated[Sequence[str], "rare"] = ()
    """Columns of the ratings. Default: all that hold numbers."""
    raters: Sequence[str] = ()
    """Raters to average, names or patterns such as `expert-*`. Default: all, if they are of one
    pool."""
    metrics: Sequence[str] = ()
    """Columns of the scores, names or patterns. Default: all that hold numbers, but for precision
    and recall that `assay score` was not asked for by name."""
    systems: Annotated[Sequence[str], "rare"] = ()
    """Systems to keep, names or patterns. Default: all that are rated."""
    exclude_systems: Annotated[Sequence[str], "rare"] = ()
    """Systems to leave out, likewise."""
    levels: Sequence[str] = LEVELS
    """Means of systems; systems inside each document, averaged; all cells at once."""
    coefficients: Sequence[str] = ("pearson", "spearman", "kendall_b", *ACCURACIES)
    """Also kendall_c. The first that the levels have is shown here: pairwise_accuracy is not
    defined at global level, soft_pairwise_accuracy at system level only."""
    resamples: int = 1_000
    """Bootstrap resamples, and swaps of a permutation test (or 25 for each metric, where that is
    more). 10000 is for print, and takes ten times as long."""
    pairs: Annotated[Literal["best", "all"], "rare"] = "best"
    """Metrics that are tested against each other: every one against the best and against the
    baselines, or all pairs, which takes many times as long."""
    seed: Annotated[int, "rare"] = 0
    """Of all random numbers."""
    corpus: Annotated[AnyPath | None, "rare"] = None
    """The texts: file, folder, glob or URL. They are shown where metric and people disagree."""
    explain: Annotated[bool, "rare"] = False
    """Also a page for each score of `assay score` that people disagree with most."""
    all_tables: Annotated[bool, "rare"] = False
    """Also every table as Parquet, CSV and LaTeX, and every plot as SVG and PNG."""
    columns: Mapping[str, str] | None = None
    """What the files call a column, for example system_id=model; repeated or with commas."""
    accept_unfinished: Annotated[bool, "rare"] = False
    """Take what an unfinished `assay score` has so far."""
    fresh: bool = False
    """Replace the report that is in DIR."""
    on_progress: Annotated[Callable[..., None] | None, "python"] = None
    """Called with a `Progress` at every stage and after every test."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for option, names, choices in (
            ("--levels", self.levels, LEVELS),
            ("--coefficients", self.coefficients, (*CORRELATIONS, *ACCURACIES)),
        ):
            for i, name in enumerate(names):
                if name not in choices:
                    raise ValueError(
                        f"`{option}` must be one of {', '.join(choices)}, got {name!r}"
                    )
                if name in names[:i]:
                    raise ValueError(f"`{option}` must not name one twice, got {name!r}")
        if not self.levels or not self.correlations:
            raise ValueError(
                f"`--levels` and `--coefficients` must name at least one of {', '.join(LEVELS)} "
                f"and one of {', '.join(CORRELATIONS)}"
            )
        if self.resamples < 1:
            raise ValueError(f"`--resamples` must be at least 1, got {self.resamples}")
        if self.seed < 0:
            raise ValueError(f"`--seed` must not be negative, got {self.seed}")
        if self.explain and self.out is None:
            raise ValueError("`out` must name a folder for the pages of `explain`, got none")

    def coefficients_at(self, level: str) -> list[str]:
        """Return the coefficients that a level has: accuracies are about pairs of systems."""
        lacks = {"system": (), "summary": ACCURACIES[1:], "global": ACCURACIES}[level]
        return [name for name in self.coefficients if name not in lacks]

    @property
    def correlations(self) -> list[str]:
        """The coefficients that are correlations."""
        return [name for name in self.coefficients if name in CORRELATIONS]
