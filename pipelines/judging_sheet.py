"""Makes a sheet for judges: two texts a row without their authors, and the key to it apart.

As Clark et al. (2019, A.5), judges see the two texts and neither source nor reference.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from cluster.output import Output
from cluster.reading import Wanted, read_files
from cluster.schema import CANDIDATE, UNREADABLE
from pipelines.settings.preferences import PreferencesSettings
from pipelines.tables import keyed
from pipelines.tables.keyed import KEYS
from sms.naming import counted

logger = logging.getLogger(__name__)

KEY_COLUMNS = ("item", "document_id", "system_a", "system_b", "left")
"""Of the file that says which text of a sheet is whose; `left` names the system on the left."""
SHEET_COLUMNS = ("item", "judge", "left", "right", "comment")
"""Of a sheet; every other column is a criterion."""
SIDES = ("left", "right")
"""What a judge may write into a sheet besides a tie."""

_NO_ROWS = dict.fromkeys((*KEYS, CANDIDATE, UNREADABLE), pl.Series([], dtype=pl.String))


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


def make_sheet(settings: PreferencesSettings) -> JudgingSheet:
    """Draw documents and write every pair of systems on them in random order.

    Of each pair, either system stands on the left in half of the rows (one more of either if
    their number is odd). The sheet names no system and no document; its key does.
    """
    if not settings.out:
        raise ValueError("`--out` must name the new sheet, a .csv file, got none")
    sheet_file = Output.named("out", settings.out)
    key_file = sheet_file.beside("key", f"{os.path.splitext(sheet_file.name)[0]}.key.csv")
    sheet_file.check_file(".csv", is_new=True)
    key_file.check_file(is_new=True)
    _check_request(settings)
    texts = _texts_by_document(settings)
    if len(texts) < settings.n:
        raise ValueError(
            f"`n` must be at most {len(texts)}, the number of documents for which all of "
            f"{keyed.listed(list(settings.systems))} have a text, got {settings.n}"
        )
    key = _key(list(texts), settings)
    blank = dict.fromkeys(("judge", *settings.criteria, "comment"))
    sheet = []
    for item, document, system_a, system_b, left in key.sort("item").iter_rows():
        right = system_b if left == system_a else system_a
        shown = (texts[document][system] for system in (left, right))
        sheet.append({"item": item, **dict(zip(SIDES, shown, strict=True)), **blank})
    key_file.write(key.write_csv().encode())
    sheet_file.write(pl.DataFrame(sheet).write_csv().encode())
    counts = {"n_rows": len(sheet), "n_documents": settings.n, "n_eligible": len(texts)}
    return JudgingSheet(sheet=sheet_file.path, key=key_file.path, **counts)


def _check_request(settings: PreferencesSettings) -> None:
    systems, criteria = settings.systems, settings.criteria
    if settings.key is not None:
        raise ValueError("`--key` names the key of filled sheets; a new sheet's is SHEET.key.csv")
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


def _texts_by_document(settings: PreferencesSettings) -> dict[str, dict[str, str]]:
    """Read the systems' texts of every document for which all have one, sorted by document."""
    systems = settings.systems
    files = keyed.files_of(str(settings.make_sheet))
    where = keyed.place(files)
    wanted = Wanted(needed=(*KEYS, CANDIDATE), columns=settings.columns or {})
    tables = list(read_files(files, wanted))
    frame = pl.DataFrame(pl.from_arrow(pa.concat_tables(tables)) if tables else _NO_ROWS)
    if len(reasons := frame[UNREADABLE].drop_nulls()):
        n_rows = counted(len(reasons), "row")
        logger.warning("%s of %s cannot be read, such as: %s", n_rows, where, reasons[0])
    known = frame["system_id"].drop_nulls().unique().sort().to_list()
    if unknown := [system for system in systems if system not in known]:
        raise ValueError(
            f"`systems` must be in {where}, got `{unknown[0]}`; there are {keyed.listed(known)}"
        )
    frame = frame.filter(
        pl.col("system_id").is_in(list(systems)),
        pl.col("document_id").is_not_null(),
        pl.col("candidate").str.strip_chars() != "",
    )
    keyed.check_unique(frame, KEYS, where, "keep one row of each")
    texts: dict[str, dict[str, str]] = {}
    for document, system, candidate in frame.sort("document_id").drop(UNREADABLE).iter_rows():
        texts.setdefault(document, {})[system] = candidate
    return {
        name: of_systems for name, of_systems in texts.items() if len(of_systems) == len(systems)
    }


def _key(documents: Sequence[str], settings: PreferencesSettings) -> pl.DataFrame:
    """Draw documents, the one on the left, and the order of the sheet, by which items are numbered.

    The rows of a pair are together: a reader then takes systems as they were named. Items have a
    tag of the sheet's own, which keeps it from being read with another sheet's key.
    """
    rng = np.random.default_rng(settings.seed)
    drawn = [documents[i] for i in rng.permutation(len(documents))[: settings.n]]
    rows = []
    for pair in itertools.combinations(settings.systems, 2):
        a, b = pair if rng.integers(2) else pair[::-1]
        n_left = len(drawn) // 2
        lefts = rng.permutation([a] * n_left + [b] * (len(drawn) - n_left)).tolist()
        rows += [(document, *pair, left) for document, left in zip(drawn, lefts, strict=True)]
    turns = np.argsort(rng.permutation(len(rows))) + 1
    tag = hashlib.blake2b(repr(rows).encode(), digest_size=3).hexdigest()
    width = len(str(len(rows)))
    items = [(f"{tag}-{turn:0{width}}", *row) for turn, row in zip(turns, rows, strict=True)]
    return pl.DataFrame(items, KEY_COLUMNS, orient="row")
