"""ASAP-SAS: graded answers of tenth graders; Clark et al. (2019) use question 3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipelines.datasets.files import Record, members, records
from pipelines.datasets.rows import (
    BOTH,
    Candidate,
    DataSource,
    LeftOut,
    Row,
    pass_over,
    ratings_of_raters,
)

NAME = "asap-sas"
TAKES = "train.tsv or train_rel_2.tsv, and perhaps the sample answer as one *.txt file"

_QUESTION = "3"
_SCORES = ("Score1", "Score2")


def read(paths: Sequence[str]) -> Iterator[Row]:
    """Read the answers to question 3, each by a "system" named after the answer's id."""
    references = _sample_answers(paths)
    for member in members(paths):
        if not member.name.endswith(".tsv"):
            if not member.name.endswith(".txt"):
                pass_over(member, NAME, TAKES)
            continue
        for record in records(member):
            yield from _rows(record, references)


def _rows(record: Record, references: Sequence[str] | None) -> Iterator[Row]:
    question = record.identifier("EssaySet")
    if question != _QUESTION:
        yield LeftOut(reason=f"answers to other questions than {_QUESTION}")
        return
    document_id, system_id = f"question-{question}", record.identifier("Id")
    yield Candidate(
        document_id=document_id,
        system_id=system_id,
        candidate=record.text("EssayText").strip(),
        references=references,
    )
    yield from ratings_of_raters(
        document_id, system_id, "rater", [{"score": record.number(name)} for name in _SCORES]
    )


def _sample_answers(paths: Sequence[str]) -> list[str] | None:
    answers = []
    for member in members(paths):
        if member.name.endswith(".txt"):
            text = member.text().strip()
            if not text:
                raise ValueError(f"{member.path} must have a sample answer, got none")
            answers.append(text)
    return answers or None


SOURCE = DataSource(
    name=NAME,
    title="ASAP short answers, question 3",
    gives=BOTH,
    takes=TAKES,
    origin="kaggle.com/c/asap-sas",
    licence="the competition's rules",
    paper="Clark et al. 2019, section 4.2",
    read=read,
    note="Score1 (rater-1) is the grade, Score2 a second rater's. The reference of Clark et al. is "
    "the sample answer with the top score, in Data_Set_Descriptions (and in their appendix A.2): "
    "save it as a text file. The columns are on the competition's page; that quotes in the answers "
    "are plain characters is not.",
)
