"""Makes a sheet for judges: two texts a row without their authors, and the key to it apart.

As Clark et al. (2019, A.5), judges see the two texts and neither source nor reference.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from cluster.output import Output
from pipelines.judgements import KEY_COLUMNS, SHEET_COLUMNS, SIDES
from pipelines.settings.preferences import PreferencesSettings
from pipelines.tables import keyed
from pipelines.tables.keyed import KEYS

KEY_SUFFIX = ".key.csv"
_TAG_BYTES = 3
_Keyed = tuple[str, str, str, str, str]
"""Item, document, both systems, and the one on the left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingSheet:
    """A sheet and its key, as they were written."""

    sheet: str
    key: str
    n_rows: int
    n_documents: int
    """Drawn, out of `n_eligible`."""
    n_eligible: int
    """Documents for which every system has a text."""
    n_equal: int
    """Rows with the same text on both sides; they can only tie."""


def make_sheet(settings: PreferencesSettings) -> JudgingSheet:
    """Draw documents and write every pair of systems on them in random order.

    Of each pair, either system stands on the left in half of the rows (one more of either if
    their number is odd). The sheet names no system and no document; its key does.

    Raises ValueError if there are too few systems or documents, a file is there already, or a name
    is taken.
    """
    systems, n_documents = settings.systems, settings.n
    sheet_file, key_file = _files(settings)
    _check_request(settings)
    texts = _texts_by_document(str(settings.make_sheet), systems, settings.columns or {})
    if len(texts) < n_documents:
        raise ValueError(
            f"`n` must be at most {len(texts)}, the number of documents for which all of "
            f"{keyed.listed(list(systems))} have a text, got {n_documents}"
        )
    rng = np.random.default_rng(settings.seed)
    drawn, in_order_of_pairs = _drawn(texts, systems, n_documents, rng)
    sheet = [_sheet_row(row, texts, settings.criteria) for row in drawn]
    key_file.write(pl.DataFrame(in_order_of_pairs, KEY_COLUMNS, orient="row").write_csv().encode())
    sheet_file.write(pl.DataFrame(sheet).write_csv().encode())
    return JudgingSheet(
        sheet=sheet_file.path,
        key=key_file.path,
        n_rows=len(sheet),
        n_documents=n_documents,
        n_eligible=len(texts),
        n_equal=sum(row["left"] == row["right"] for row in sheet),
    )


def _files(settings: PreferencesSettings) -> tuple[Output, Output]:
    """Name the sheet and its key, which must not exist yet."""
    if not settings.out:
        raise ValueError("`--out` must name the new sheet, a .csv file, got none")
    sheet = Output.named("out", settings.out)
    if settings.key is None:
        key_file = sheet.beside("key", f"{os.path.splitext(sheet.name)[0]}{KEY_SUFFIX}")
    else:
        key_file = Output.named("key", settings.key)
    sheet.check_file(".csv", is_new=True)
    key_file.check_file(is_new=True)
    if key_file.path == sheet.path:
        raise ValueError(f"`key` must not be the same file as the sheet, got {settings.key}")
    return sheet, key_file


def _check_request(settings: PreferencesSettings) -> None:
    systems, criteria = settings.systems, settings.criteria
    if len(set(systems)) < 2 or len(set(systems)) < len(systems):
        raise ValueError(
            "`--systems` must name two different systems or more for a new sheet, got "
            f"{keyed.listed(list(systems))}"
        )
    if settings.n < 1:
        raise ValueError(f"`n` must be at least 1, got {settings.n}")
    taken = [name for name in criteria if name in SHEET_COLUMNS or criteria.count(name) > 1]
    if taken or not criteria:
        raise ValueError(
            f"`criteria` must be different names, none of {', '.join(SHEET_COLUMNS)}, "
            f"got {keyed.listed(list(criteria))}"
        )


def _texts_by_document(
    corpus: str, systems: Sequence[str], columns: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """Read the systems' texts of every document for which all have one, sorted by document."""
    files = keyed.files_of(corpus)
    where = keyed.place(files)
    lazy = keyed.scan_files(files, columns)
    if "candidate" not in lazy.collect_schema():
        raise ValueError(
            f"column `candidate` is missing in {where}; name it with `--columns candidate=NAME`"
        )
    frame = keyed.collect(lazy.select(*KEYS, pl.col("candidate").cast(pl.String)), where)
    for system in systems:
        if system not in frame["system_id"]:
            raise ValueError(
                f"`systems` must be in {where}, got `{system}`; there are "
                f"{keyed.listed(frame['system_id'].drop_nulls().unique().sort().to_list())}"
            )
    frame = frame.filter(
        pl.col("system_id").is_in(list(systems)),
        pl.col("document_id").is_not_null(),
        pl.col("candidate").str.strip_chars() != "",
    )
    keyed.check_unique(frame, KEYS, where, "keep one row of each")
    texts: dict[str, dict[str, str]] = {}
    for document, system, candidate in frame.sort("document_id").iter_rows():
        texts.setdefault(document, {})[system] = candidate
    return {
        document: by_system
        for document, by_system in texts.items()
        if len(by_system) == len(systems)
    }


def _drawn(
    texts: Mapping[str, object], systems: Sequence[str], n_documents: int, rng: np.random.Generator
) -> tuple[list[_Keyed], list[_Keyed]]:
    """Draw the rows of the sheet; return them in its order, and in the order of the pairs.

    The key is in the latter: a reader then takes systems as they were named.
    """
    documents = [list(texts)[i] for i in rng.permutation(len(texts))[:n_documents]]
    rows = [
        row for pair in itertools.combinations(systems, 2) for row in _rows(pair, documents, rng)
    ]
    order = rng.permutation(len(rows))
    drawn = _keyed(rows, order)
    return drawn, [drawn[turn] for turn in np.argsort(order)]


def _rows(
    pair: tuple[str, str], documents: Sequence[str], rng: np.random.Generator
) -> list[tuple[str, str, str, str]]:
    """Return document, both systems and the one on the left, which each is in half of the rows."""
    a, b = pair if rng.integers(2) else pair[::-1]
    n_left = len(documents) // 2
    lefts = rng.permutation([a] * n_left + [b] * (len(documents) - n_left)).tolist()
    return [(document, *pair, left) for document, left in zip(documents, lefts, strict=True)]


def _keyed(rows: Sequence[tuple[str, str, str, str]], order: np.ndarray) -> list[_Keyed]:
    """Put rows in this order and number them, with a tag of the sheet's own.

    The tag keeps a sheet from being read with another sheet's key.
    """
    tag = hashlib.blake2b(repr(rows).encode(), digest_size=_TAG_BYTES).hexdigest()
    width = len(str(len(rows)))
    return [(f"{tag}-{turn:0{width}}", *rows[i]) for turn, i in enumerate(order, 1)]


def _sheet_row(
    row: _Keyed,
    texts: Mapping[str, Mapping[str, str]],
    criteria: Sequence[str],
) -> dict[str, str | None]:
    item, document, a, b, left = row
    right = b if left == a else a
    shown = (texts[document][left], texts[document][right])
    blank = {name: None for name in ("judge", *criteria, "comment")}
    return {"item": item, **dict(zip(SIDES, shown, strict=True)), **blank}
