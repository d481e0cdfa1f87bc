"""TAC 2010, guided summarisation: document sets, models, peers, manual scores."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pipelines.datasets.files import Member, members
from pipelines.datasets.nist import MODEL, PEER, Collection, document_text, plain_text, system_of
from pipelines.datasets.rows import BOTH, DataSource, Numbers, Row, pass_over

NAME = "tac2010"
TAKES = (
    "TAC2010_Summarization_Documents.tgz and GuidedSumm2010_eval.tgz, or the folders "
    "GuidedSumm10_test_docs_files, ROUGE/models, ROUGE/peers and manual"
)

_DOCUMENTS = re.compile(r"(D\d+)[A-Z]-([AB])")
_SUMMARY = re.compile(r"(D\d+)-([AB])\.M\.\d+\.\w+\.(\w+)")
_MANUAL = re.compile(r"manual\.(model|peer)\.[AB]")
_N_COLUMNS = {MODEL: 8, PEER: 10}
# Columns counted from 0. A person's summary has no pyramid score of its own: it made the pyramid.
_COLUMNS = {
    MODEL: {"pyramid_jackknife": 5, "linguistic_quality": 6, "overall": 7},
    PEER: {"pyramid": 2, "pyramid_jackknife": 7, "linguistic_quality": 8, "overall": 9},
}


def read(paths: Sequence[str]) -> Iterator[Row]:
    """Read the collection; a task is a document set, A (initial) or B (update): `D1001-A`."""
    collection = Collection()
    for member in members(paths):
        if found := _DOCUMENTS.fullmatch(member.folder):
            of_task = collection.sources.setdefault(f"{found[1]}-{found[2]}", {})
            of_task[member.name] = document_text(member)
        elif (found := _SUMMARY.fullmatch(member.name)) and _is_original(member):
            kind = MODEL if member.folder == "models" else PEER
            text = plain_text(member, kind)
            collection.add_summary(kind, f"{found[1]}-{found[2]}", found[3], text)
        elif found := _MANUAL.fullmatch(member.name):
            yield from _scores(member, found[1])
        else:
            pass_over(member, NAME, TAKES)
    yield from collection.candidates()


def _is_original(member: Member) -> bool:
    """Say whether a summary is not the copy that was cut up for Basic Elements."""
    return "BE" not in member.parts


def _scores(member: Member, kind: str) -> Iterator[Numbers]:
    for number, line in member.lines():
        columns = line.split()
        if not columns:
            continue
        where = f"{member.path}, line {number}"
        if len(columns) != _N_COLUMNS[kind]:
            raise ValueError(f"{where} must have {_N_COLUMNS[kind]} columns, got {len(columns)}")
        try:
            values = {aspect: float(columns[i]) for aspect, i in _COLUMNS[kind].items()}
        except ValueError as error:
            raise ValueError(f"{where} must have numbers in its columns: {error}") from error
        yield Numbers(
            kind="ratings",
            document_id=columns[0],
            system_id=system_of(columns[1]),
            values=values,
        )


SOURCE = DataSource(
    name=NAME,
    title="TAC 2010 guided summarisation",
    gives=BOTH,
    takes=TAKES,
    origin="tac.nist.gov/data, on request",
    licence="NIST's agreements, one for the organisation and one for each person",
    paper="Owczarzak and Dang 2010",
    read=read,
    note="Experimental: not tried on NIST's own files. The initial (A) and "
    "update (B) tasks both; Bao et al. use A. `pyramid` is null for people's summaries, "
    "`pyramid_jackknife` is the modified score of Bao et al.",
)
