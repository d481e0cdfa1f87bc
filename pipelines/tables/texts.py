"""Reads the texts of rated candidates, to be shown where metric and people disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from pipelines.tables import keyed
from pipelines.tables.keyed import KEYS
from pipelines.tables.records import InputRecord

TEXTS = ("candidate", "reference", "source")

_CALLED = {
    "candidate": ("candidate",),
    "reference": ("reference", "references"),
    "source": ("source", "sources"),
}


def read_texts(
    path: str, rated: pl.DataFrame, columns: Mapping[str, str]
) -> tuple[pl.DataFrame, Sequence[InputRecord], list[str]]:
    """Read the texts of rated candidates from a corpus.

    Returns the keys with `candidate`, `reference` (the first) and `source`, null where absent; the
    files; and how many candidates have no text.

    Raises ValueError if a column is missing, a key repeats, or no rated candidate is there.
    """
    files = keyed.files_of(path)
    where = keyed.place(files)
    lazy = keyed.scan_files(files, columns)
    schema = lazy.collect_schema()
    if "candidate" not in schema:
        raise ValueError(
            f"column `candidate` is missing in {where}, which has {keyed.listed(schema.names())}; "
            "name it with `--columns candidate=NAME`"
        )
    wanted = [*KEYS, *(_text(schema, name) for name in TEXTS)]
    frame = keyed.collect(lazy.select(wanted).join(rated.lazy(), on=KEYS, how="semi"), where)
    if not frame.height:
        raise ValueError(
            f"no row of {where} is rated; ratings have {keyed.examples(rated)}; name the right "
            "columns with `--columns`"
        )
    keyed.check_unique(frame, KEYS, where, "keep one row of each")
    n_missing = rated.height - frame.height
    notes = [f"{n_missing:,} rated candidates have no text in {where}"] * (n_missing > 0)
    return frame, [keyed.record_of(file, "texts") for file in files], notes


def _text(schema: pl.Schema, name: str) -> pl.Expr:
    """Make a text of a column of texts or of lists of texts, or null where there is none."""
    column = next((called for called in _CALLED[name] if called in schema), None)
    if column is None:
        return pl.lit(None, pl.String).alias(name)
    if isinstance(schema[column], pl.List):
        texts = pl.col(column).list
        return (texts.first() if name == "reference" else texts.join("\n\n")).alias(name)
    return pl.col(column).cast(pl.String).alias(name)
