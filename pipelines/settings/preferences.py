"""Settings of `assay preferences`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from sms.naming import AnyPath
from sms.settings import Settings


@dataclass(frozen=True, kw_only=True)
class PreferencesSettings(Settings):
    """How judgements of two texts each are summed up, or a new sheet for judges is made."""

    systems: Sequence[str] = ()
    """Compare these systems; in every pair the earlier one is A. Default: all."""
    columns: Annotated[Mapping[str, str] | None, "rare"] = None
    """Read Assay's column OURS from your column THEIRS, for example winner=choice."""
    key: Annotated[AnyPath | None, "FILE"] = None
    """Read the key of the sheets from FILE; it says which system is left and which is right."""
    out: Annotated[AnyPath | None, "FILE"] = None
    """Also write the table to FILE, which must end in .csv, .json, .md or .tex. With
    `--make-sheet`, write the new sheet to FILE, and its key to the same folder (sheet.csv and
    sheet.key.csv)."""
    seed: Annotated[int, "rare"] = 0
    """Seed of all random numbers."""
    make_sheet: Annotated[AnyPath | None, "CORPUS"] = None
    """Instead, make a sheet for judges from CORPUS; needs `--systems` and `--out`."""
    n: int = 100
    """Put N documents on the new sheet."""
    criteria: Annotated[Sequence[str], "rare"] = ("non-redundancy", "coherence", "focus", "overall")
    """Columns of the new sheet that judges fill."""
