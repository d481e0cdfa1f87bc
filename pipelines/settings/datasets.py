"""Settings of `assay import` and `assay export`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pipelines.settings.form import Settings
from sms.naming import AnyPath


@dataclass(frozen=True, kw_only=True)
class ImportSettings(Settings):
    """Where the tables of a data set go."""

    out: Annotated[AnyPath | None, "FILE"] = None
    """Parquet file for the corpus, or the pairs."""
    ratings: Annotated[AnyPath | None, "FILE"] = None
    """Parquet file for what people said."""
    scores: Annotated[AnyPath | None, "FILE"] = None
    """Parquet file for metric scores that come along."""
    list: bool = False
    """Show the data sets, one a line."""


@dataclass(frozen=True, kw_only=True)
class ExportSettings(Settings):
    """Where the files for another tool go."""

    out: Annotated[AnyPath, "DIR"]
    """Folder to make."""
