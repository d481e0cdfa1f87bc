"""DUC 2001 and 2002: document sets, people's and systems' summaries, SEE judgements."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pipelines.datasets.files import Member, members
from pipelines.datasets.nist import (
    MODEL,
    PEER,
    Collection,
    document_text,
    model_summaries,
    see_sentences,
    system_of,
)
from pipelines.datasets.rows import BOTH, DataSource, LeftOut, Numbers, Row, pass_over

# d04a: the documents that assessor a chose; d04ab: their summaries by assessor b.
_DOCUMENTS = re.compile(r"(d\d+)[a-z]")
_MODELS = re.compile(r"(d\d+)[a-z]([a-z])")
_PEER = re.compile(r"(D\d+)\.([MP])\.(\d+)\.\w+\.(\w+)(?:\.(.+))?\.html", re.IGNORECASE)
_LENGTHS = frozenset({"10", "50", "100", "200", "400"})
_PER_DOCUMENT = "perdocs"
_TRAINING = "/data/training/"  # of 2001: its documents are not read, as nothing is judged there
_TABLES = ("results.table", "results_table.txt", "results1_table.txt", "results2_table.txt")
_EXTRACTS = "extracts."  # begins the name of another table, which judges what we do not read
_NO_TEXT = "models without a text"
_TABLE_ROW = re.compile(r"D\d+\s+[MP]\s")

_Ratings = dict[str, float | None]


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a year's table of judgements is laid out, in columns counted from 0."""

    peer: int
    ratings: Callable[[list[str]], _Ratings]
    """Columns of a row to values; raises ValueError or IndexError where they do not fit."""


def _ratings_2001(columns: list[str]) -> _Ratings:
    """Read three grades, and the mean coverage over the units of the model (0 none to 4 all)."""
    n_units = int(columns[14])
    coverage = [float(columns[18 + 3 * unit]) for unit in range(n_units)]
    if len(columns) != 17 + 3 * n_units:
        raise ValueError(f"{17 + 3 * n_units} columns for {n_units} model units")
    return {
        "coverage": sum(coverage) / n_units if n_units else None,
        **{f"quality_{i + 1}": _number(columns[8 + i]) for i in range(3)},
    }


def _ratings_2002(columns: list[str]) -> _Ratings:
    """Read coverage (0 to 1) and the twelve questions on how well it is written."""
    if len(columns) != 33:
        raise ValueError("33 columns")
    return {
        "coverage": _number(columns[27]),
        "coverage_median": _number(columns[28]),
        "length_adjusted_coverage": _number(columns[30]),
        "length_adjusted_coverage_median": _number(columns[31]),
        **{f"question_{i + 1}": _number(columns[10 + i]) for i in range(12)},
    }


_LAYOUTS = {
    2001: _Layout(peer=7, ratings=_ratings_2001),
    2002: _Layout(peer=8, ratings=_ratings_2002),
}


def read(year: int, paths: Sequence[str]) -> Iterator[Row]:
    """Read one year's collection.

    A task is called after the document set, M (the set) or P (one document), and the length or
    the document: `d061.M.050`, `d061.P.AP880911-0016`.
    """
    collection = Collection()
    documents: dict[str, dict[str, str]] = {}
    for member in members(paths):
        if member.name.endswith("~"):
            continue  # an editor's copy of a document, which NIST left in a set of 2001
        if found := _DOCUMENTS.fullmatch(member.folder):
            name = member.name.removesuffix(".S")
            documents.setdefault(found[1], {})[name] = document_text(member)
        elif found := _MODELS.fullmatch(member.folder):
            if _TRAINING in f"/{'/'.join(member.parts)}":
                yield LeftOut(reason="models of training sets, which no system summarised")
            else:
                yield from _add_models(collection, member, found[1], found[2])
        elif found := _PEER.fullmatch(member.name):
            if found[2] in "Pp" and not found[5]:
                raise ValueError(
                    f"{member.path} must name its document, as D061.P.100.J.1.AP880911-0016.html"
                )
            task = _task(found[1], found[2], found[5] if found[2] in "Pp" else found[3])
            text = see_sentences(member)
            if text or not found[4].isalpha():
                collection.add_summary(PEER, task, found[4], text)
            else:
                yield LeftOut(reason=_NO_TEXT)
        elif member.name.endswith(_TABLES) and not member.name.startswith(_EXTRACTS):
            yield from _judgements(member, _LAYOUTS[year])
        else:
            pass_over(member, f"duc{year}", _TAKES)
    for task in {*collection.models, *collection.peers}:
        collection.sources[task] = _sources(task, documents)
    yield from collection.candidates()


def _add_models(
    collection: Collection, member: Member, document_set: str, writer: str
) -> Iterator[LeftOut]:
    if member.name in _LENGTHS:
        for _, text in model_summaries(member):
            if text:
                task = _task(document_set, "M", member.name)
                collection.add_summary(MODEL, task, writer, text)
            else:
                yield LeftOut(reason=_NO_TEXT)
    elif member.name == _PER_DOCUMENT:
        for document, text in model_summaries(member):
            if not text:
                yield LeftOut(reason=_NO_TEXT)
            elif document is None:
                yield LeftOut(reason="models in perdocs that do not name their document")
            else:
                task = _task(document_set, "P", document)
                collection.add_summary(MODEL, task, writer, text)


def _task(document_set: str, kind: str, item: str) -> str:
    name = f"{int(item):03d}" if kind in "Mm" else item
    return f"{document_set.lower()}.{kind.upper()}.{name}"


def _sources(task: str, documents: dict[str, dict[str, str]]) -> dict[str, str]:
    document_set, kind, item = task.split(".", 2)
    found = documents.get(document_set, {})
    if kind == "M":
        return found
    return {item: found[item]} if item in found else {}


def _judgements(member: Member, layout: _Layout) -> Iterator[Numbers]:
    """Read the rows of a table of judgements; what is above them explains the columns."""
    for number, line in member.lines():
        if not _TABLE_ROW.match(line):
            continue
        columns = line.split()
        try:
            item = columns[3] if columns[1] == "M" else columns[2]
            yield Numbers(
                kind="ratings",
                document_id=_task(columns[0], columns[1], item),
                system_id=system_of(columns[layout.peer]),
                values=layout.ratings(columns),
            )
        except (ValueError, IndexError) as error:
            raise ValueError(
                f"{member.path}, line {number} must be a judgement of this year's layout, got "
                f"{len(columns)} columns ({error})"
            ) from error


def _number(column: str) -> float | None:
    return None if column == "-" else float(column)


_TAKES = (
    "document sets (folders such as d061j), people's summaries (folders such as d061ji), systems' "
    "summaries (D061.M.050.J.19.html) and short.results.table, in folders or tar archives"
)
_NIST = "duc.nist.gov/data.html, on request"
_LICENCE = "NIST's agreements, one for the organisation and one for each person"

DUC2001 = DataSource(
    name="duc2001",
    title="DUC 2001 summaries and SEE judgements",
    gives=BOTH,
    takes=_TAKES.replace("short.results.table", "results1_table.txt"),
    origin=_NIST,
    licence=_LICENCE,
    paper="Over and Yen 2001",
    read=functools.partial(read, 2001),
    note="Experimental: not tried on NIST's own files. `coverage` "
    "is the mean over model units (0 to 4). quality_1 to quality_3 are the three grades in their "
    "order (grammaticality, cohesion and organisation, in an order we could not check). The "
    "training sets are left out. A document that models call by a mistyped name is another task, "
    "without documents.",
)
DUC2002 = DataSource(
    name="duc2002",
    title="DUC 2002 summaries and SEE judgements",
    gives=BOTH,
    takes=_TAKES,
    origin=_NIST,
    licence=_LICENCE,
    paper="Over and Liggett 2002",
    read=functools.partial(read, 2002),
    note="Experimental: not tried on NIST's own files. Abstracts only, not the "
    "extracts (200e, 400e). question_1 to question_12 count faults: lower is better. A "
    "document that models call by a mistyped name is another task, without documents.",
)
