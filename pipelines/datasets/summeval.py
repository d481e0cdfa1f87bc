"""SummEval: 1,600 summaries of CNN/DailyMail with ratings (Fabbri et al. 2021)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipelines.datasets.files import COMPRESSED, Record, members, records
from pipelines.datasets.rows import BOTH, Candidate, DataSource, Row, pass_over, ratings_of_raters

NAME = "summeval"
TAKES = "model_annotations.aligned.paired.jsonl (or model_annotations.aligned.jsonl)"

_ASPECTS = ("coherence", "consistency", "fluency", "relevance")
_RATERS = {"expert": "expert_annotations", "turker": "turker_annotations"}


def read(paths: Sequence[str]) -> Iterator[Row]:
    """Read summaries with eleven references and eight ratings each."""
    names = {member.name.removesuffix(COMPRESSED) for member in members(paths)}
    for member in members(paths):
        if not member.name.endswith((".jsonl", ".jsonl.gz")):
            pass_over(member, NAME, TAKES)
            continue
        if f"{member.name.removesuffix(COMPRESSED).removesuffix('.jsonl')}.paired.jsonl" in names:
            continue  # pair_data.py writes the file with articles beside the one without
        for record in records(member):
            yield from _rows(record)


def _rows(record: Record) -> Iterator[Row]:
    document_id, system_id = record.identifier("id"), record.identifier("model_id")
    yield Candidate(
        document_id=document_id,
        system_id=system_id,
        candidate=record.text("decoded"),
        references=record.texts("references"),
        sources=[record.text("text")] if "text" in record.cells else None,
    )
    for rater, column in _RATERS.items():
        ratings = [
            {aspect: annotation.number(aspect) for aspect in _ASPECTS}
            for annotation in record.inner_list(column)
        ]
        yield from ratings_of_raters(document_id, system_id, rater, ratings)


SOURCE = DataSource(
    name=NAME,
    title="SummEval",
    gives=BOTH,
    takes=TAKES,
    origin="github.com/Yale-LILY/SummEval, Human annotations",
    licence="MIT for the annotations; the articles belong to CNN and the Daily Mail",
    paper="Fabbri et al. 2021",
    read=read,
    note="The first reference is the CNN/DailyMail highlight, the other ten are crowd workers'. "
    "The file to download has no articles: their script pair_data.py adds them. Raters are "
    "numbered in the order of the file.",
)
