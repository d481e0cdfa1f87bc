"""Settings of `assay preferences`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pipelines.settings.form import Settings
from sms.naming import AnyPath


@dataclass(frozen=True, kw_only=True)
class PreferencesSettings(Settings):
    """How judgements of two texts each are summed up, or a new sheet for judges is made."""

    systems: Sequence[str] = ()
    """Systems to compare; in every pair the earlier one is A. Default: all."""
    columns: Annotated[Mapping[str, str] | None, "rare"] = None
    """What the files call a column, for example winner=choice."""
    key: Annotated[AnyPath | None, "FILE"] = None
    """Key of the sheets. Default: SHEET.key.csv for a new one."""
    out: Annotated[AnyPath | None, "FILE"] = None
    """Write the table to a file, too: .csv, .json or .md by its name. Or the new sheet."""
    interval: Annotated[Literal["wilson", "clopper-pearson"], "rare"] = "wilson"
    """Of the share of wins."""
    confidence: Annotated[float, "rare"] = 0.95
    """Of the intervals; one minus it is the level of the tests."""
    seed: Annotated[int, "rare"] = 0
    """Of the draws."""
    make_sheet: Annotated[AnyPath | None, "CORPUS"] = None
    """Instead, make a sheet for judges of a corpus: needs `--systems` and `--out`."""
    n: int = 100
    """Documents on the new sheet."""
    criteria: Annotated[Sequence[str], "rare"] = (
        "non-redundancy",
        "coherence",
        "focus",
        "overall",
    )
    """Columns of the new sheet."""
