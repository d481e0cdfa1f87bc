"""Settings of `assay export`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from sms.naming import AnyPath
from sms.settings import Settings


@dataclass(frozen=True, kw_only=True)
class ExportSettings(Settings):
    """Where a scorer is handed over to, and under which terms."""

    to: Annotated[AnyPath, "FOLDER|hf:OWNER/NAME"]
    """Write to this new folder (a path or URL), or upload to this repository of the Hugging Face
    hub, which is created if it does not exist."""
    licence: Annotated[str | None, "ID"] = None
    """Licence of the scorer, by the hub's name for it, such as apache-2.0 or cc-by-4.0. Must be
    given unless DIR has a card from an earlier export."""
    private: bool = False
    """Make the new repository private."""
