"""Newsroom's human evaluation: 60 articles, 7 systems, 3 ratings each (Grusky et al. 2018)."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pipelines.datasets import newsroom
from pipelines.datasets.files import Record, members, records
from pipelines.datasets.rows import BOTH, Candidate, DataSource, LeftOut, Numbers, Row, pass_over

NAME = "newsroom-human"
TAKES = "newsroom-human-eval.csv, and perhaps test.jsonl(.gz) of Newsroom for the references"

_ASPECTS = {
    "coherence": "CoherenceRating",
    "fluency": "FluencyRating",
    "informativeness": "InformativenessRating",
    "relevance": "RelevanceRating",
}
_BREAKS = re.compile(r"\s*(?:</?(?:p|br)\s*/?>\s*)+", re.IGNORECASE)


def read(paths: Sequence[str]) -> Iterator[Row]:
    """Read summaries and ratings; a reference is found by the article's title."""
    titles = {_title(row.text("ArticleTitle")) for row in _ratings(paths)} - {""}
    by_title = _references(paths, titles)
    n_ratings: Counter[tuple[str, str]] = Counter()
    for record in _ratings(paths):
        document_id, system_id = record.identifier("ArticleID"), record.identifier("System")
        if not n_ratings[document_id, system_id]:
            title = _title(record.text("ArticleTitle"))
            if by_title is not None and title not in by_title:
                yield LeftOut(reason="references: no article of Newsroom has the title")
            yield _candidate(record, (by_title or {}).get(title))
        n_ratings[document_id, system_id] += 1
        yield Numbers(
            kind="ratings",
            document_id=document_id,
            system_id=system_id,
            rater=f"rater-{n_ratings[document_id, system_id]}",
            values={aspect: record.number(column) for aspect, column in _ASPECTS.items()},
        )


def _candidate(record: Record, reference: str | None) -> Candidate:
    return Candidate(
        document_id=record.identifier("ArticleID"),
        system_id=record.identifier("System"),
        candidate=_plain(record.text("SystemSummary")),
        references=None if reference is None else [reference],
        sources=[_plain(record.text("ArticleText"))],
    )


def _ratings(paths: Sequence[str]) -> Iterator[Record]:
    for member in members(paths):
        if member.name.endswith(".csv"):
            yield from records(member)
        elif not member.name.endswith(newsroom.SUFFIXES):
            pass_over(member, NAME, TAKES)


def _references(paths: Sequence[str], wanted: set[str]) -> Mapping[str, str] | None:
    """Return summaries by title; None if no articles are among the files."""
    by_title: dict[str, str] | None = None
    for member in members(paths):
        if member.name.endswith(newsroom.SUFFIXES):
            by_title = {} if by_title is None else by_title
            for record in records(member):
                if not record.cells.get("title") or not record.cells.get("summary"):
                    continue
                title = _title(record.text("title"))
                if title in wanted:
                    by_title.setdefault(title, record.text("summary"))
    return by_title


def _plain(text: str) -> str:
    """Undo what was done to the texts for the page the raters saw."""
    return html.unescape(_BREAKS.sub("\n", text)).strip()


def _title(text: str) -> str:
    return " ".join(_plain(text).casefold().split())


SOURCE = DataSource(
    name=NAME,
    title="Newsroom's human evaluation",
    gives=BOTH,
    takes=TAKES,
    origin="github.com/lil-lab/newsroom, humaneval/newsroom-human-eval.csv",
    licence="as Newsroom: for research; the texts belong to their publishers",
    paper="Grusky, Naaman and Artzi 2018",
    read=read,
    note="The raters are not named: rater-1 to rater-3 number the ratings of one summary in the "
    "order of the file, and rater-1 is not one person. The file has no references; with test.jsonl "
    "they are found by title, equal but for case and spaces.",
)
