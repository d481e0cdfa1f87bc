"""Settings of `assay import`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from sms.naming import AnyPath
from sms.settings import Settings


@dataclass(frozen=True, kw_only=True)
class ImportSettings(Settings):
    """Where the tables of a data set go."""

    out: Annotated[AnyPath | None, "FILE"] = None
    """Write the corpus, or the pairs, to this Parquet file."""
    ratings: Annotated[AnyPath | None, "FILE"] = None
    """Write the human ratings to this Parquet file."""
    list: bool = False
    """List the data sets, one per line."""
