"""The folder of a report: whether it may be written to, and the tables in it.

`about.json` is written last: it marks a folder whose tables are complete.
"""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from pathlib import Path

import polars as pl

from cluster import write_whole
from pipelines.correlation.records import TABLES, AgreementResult
from pipelines.manifest import check_can_write, folder_entries

ABOUT_FILE = "about.json"
LONG_FOLDER = "tables/long"
"""Right in `tables/` are the report's tables, rounded and laid out for papers."""
MAIN_TABLE = "correlations"

_OURS = (
    "about.json",
    "correlations.*",
    "tables/*",
    "tables/long/*",
    "report.*",
    "plots/*",
    "papers/*",
    "explain/*.html",
)
_OUR_NAMES = frozenset({"tables", "plots", "papers", "explain"})


def check_folder(out: Path, *, is_replacing: bool) -> None:
    """Check that a report may be written to a folder.

    Parameters
    ----------
    out : path
        Need not exist.
    is_replacing : bool
        Whether an earlier report may be there.

    Raises
    ------
    ValueError
        If the folder holds a report that may not be replaced, or files that are no report's.
    OSError
        If nothing may be written there.
    """
    check_can_write(str(out))
    entries = folder_entries(str(out))
    foreign = [
        name
        for name in entries
        if name not in _OUR_NAMES and not any(Path(name).match(pattern) for pattern in _OURS)
    ]
    if foreign and ABOUT_FILE not in entries:
        raise ValueError(
            f"{out} holds files that are no report of assay ({', '.join(foreign[:3])}"
            f"{', …' if len(foreign) > 3 else ''}); choose an empty or a new folder"
        )
    if entries and not is_replacing:
        raise ValueError(
            f"{out} holds a report already; use `--fresh` to replace it, or another `--out` folder"
        )


def clear_folder(out: Path) -> None:
    """Delete the files of an earlier report, and nothing else."""
    for pattern in _OURS:
        for path in out.glob(pattern):
            if path.is_file():
                path.unlink()


def write_tables(result: AgreementResult, out: Path) -> None:
    """Write every table as Parquet and CSV, each whole or not at all.

    The correlations go right into the folder, the others into `tables/long/`.
    """
    for name in TABLES:
        folder = out if name == MAIN_TABLE else out / LONG_FOLDER
        frame: pl.DataFrame = getattr(result, name)
        stream = io.BytesIO()
        frame.write_parquet(stream)
        write_whole(folder / f"{name}.parquet", stream.getvalue())
        write_whole(folder / f"{name}.csv", frame.write_csv().encode())


def write_about(result: AgreementResult, out: Path) -> None:
    """Say that the folder is complete, and how it came about."""
    text = json.dumps(asdict(result.about), indent=1, ensure_ascii=False)
    write_whole(out / ABOUT_FILE, f"{text}\n".encode("utf-8", "surrogateescape"))
