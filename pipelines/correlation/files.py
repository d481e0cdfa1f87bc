"""The folder of a report: whether it may be written to, and the tables in it.

A report is `report.html`, `report.md`, `correlations.parquet` and `report.json`, which is written
last: it marks a folder whose files are complete. On request every table is there, too.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path

from cluster.output import Output
from cluster.store import delete_file, join, list_names
from pipelines.reports.verdict import verdict_of
from pipelines.tables.records import TABLES, AgreementResult

ABOUT_FILE = "report.json"
LONG_FOLDER = "tables/long"
"""Right in `tables/` are the report's tables, rounded and laid out for papers."""
MAIN_TABLE = "correlations"

_OURS = (
    "correlations.*",
    "tables/*",
    "tables/long/*",
    "report.*",
    "plots/*",
    "explain/*.html",
)
_OUR_NAMES = frozenset({"tables", "plots", "explain"})


def report_folder(out: str | os.PathLike[str], *, is_replacing: bool) -> Output:
    """Return the folder (or URL) of a report, which may be written to.

    Raises ValueError if the folder holds a report that may not be replaced, or files that are no
    report's; OSError if nothing may be written there.
    """
    output = Output.named("--out", out)
    output.check_folder(*_OUR_NAMES, LONG_FOLDER)
    entries = output.names()
    foreign = [
        name
        for name in entries
        if name not in _OUR_NAMES and not any(Path(name).match(pattern) for pattern in _OURS)
    ]
    if foreign and ABOUT_FILE not in entries:
        raise ValueError(
            f"{out} holds files that are not part of an assay report ({', '.join(foreign[:3])}"
            f"{', …' if len(foreign) > 3 else ''}); choose an empty or a new folder"
        )
    if entries and not is_replacing:
        raise ValueError(
            f"{out} holds a report already; use `--fresh` to replace it, or another `--out` folder"
        )
    return output


def clear_folder(output: Output) -> None:
    """Delete the files of an earlier report, and nothing else."""
    for pattern in _OURS:
        *folders, like = pattern.split("/")
        inside = join(output.path, *folders)
        for name in list_names(inside):
            if fnmatchcase(name, like):
                delete_file(join(inside, name))


def write_tables(result: AgreementResult, out: Path, *, all_tables: bool) -> None:
    """Write the correlations as Parquet, and what the folder is about as JSON.

    With `all_tables` the correlations as CSV, too, and all others as both, in `tables/long/`.
    """
    for name in TABLES if all_tables else (MAIN_TABLE,):
        folder = out if name == MAIN_TABLE else out / LONG_FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        frame = getattr(result, name)
        frame.write_parquet(folder / f"{name}.parquet")
        if all_tables:
            frame.write_csv(folder / f"{name}.csv")
    verdicts = [
        asdict(verdict_of(result, level, coefficient))
        for level, coefficient in result.differences.select("level", "coefficient")
        .unique(maintain_order=True)
        .iter_rows()
    ]
    about = {**asdict(result.about), "verdicts": verdicts}
    text = json.dumps(about, indent=1, ensure_ascii=False)
    (out / ABOUT_FILE).write_bytes(f"{text}\n".encode("utf-8", "surrogateescape"))
