"""Chaganty et al. (2018): summaries of CNN/DailyMail by four systems, rated by crowd workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from pipelines.datasets.files import Record
from pipelines.datasets.rows import (
    BOTH,
    Candidate,
    DataSource,
    Row,
    human,
    ratings_of_raters,
    records_of,
)

NAME = "chaganty2018"
TAKES = "articles.jsonl, data.tar.gz (its lqual.jsonl), and the lqual.jsonl of their process.py"

_REFERENCE = "reference"
_ASPECTS = ("overall", "grammar", "redundancy", "hter")


def read(paths: Sequence[str]) -> Iterator[Row]:
    """Read summaries, the human ones too, with every worker's ratings.

    The collection is small and its parts come in any order: texts are held until all are read.
    """
    texts = _Texts()
    for record in records_of(paths, NAME, TAKES):
        if "prompts" in record.cells:
            yield from _ratings(record)
        elif "input" in record.cells:
            # data.tar.gz holds other collections of tasks too, whose inputs have no systems.
            texts.add_summary(record.inner("input").inner("contents"))
        else:
            texts.articles[record.identifier("id")] = record.text("text")
    yield from texts.candidates()


@dataclass
class _Texts:
    """Articles, and what each system wrote about them."""

    articles: dict[str, str] = field(default_factory=dict)
    summaries: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Systems and texts by article."""

    def add_summary(self, contents: Record) -> None:
        """Take a summary; several systems that wrote the same text share a record."""
        if "system" not in contents.cells:
            return
        of_article = self.summaries.setdefault(contents.identifier("id"), [])
        for system in contents.identifier("system").split(";"):
            of_article.append((system, contents.text("text")))

    def candidates(self) -> Iterator[Candidate]:
        """Make the rows, in the order in which the articles turned up."""
        for document_id, summaries in self.summaries.items():
            article = self.articles.get(document_id)
            reference = dict(reversed(summaries)).get(_REFERENCE)
            for system, text in summaries:
                is_own = system == _REFERENCE
                yield Candidate(
                    document_id=document_id,
                    system_id=_system(system),
                    candidate=text,
                    references=None if is_own or reference is None else [reference],
                    sources=None if article is None else [article],
                )


def _ratings(record: Record) -> Iterator[Row]:
    prompts = record.inner("prompts")
    by_aspect = [prompts.inner(aspect).numbers("human") for aspect in _ASPECTS]
    yield from ratings_of_raters(
        record.identifier("id"),
        _system(record.identifier("system")),
        "worker",
        [dict(zip(_ASPECTS, values, strict=True)) for values in zip_longest(*by_aspect)],
    )


def _system(name: str) -> str:
    return human(name) if name == _REFERENCE else name


SOURCE = DataSource(
    name=NAME,
    title="Chaganty et al., CNN/DailyMail summaries with crowd ratings",
    gives=BOTH,
    takes=TAKES,
    origin="worksheets.codalab.org, bundles 0x8dabd3 (articles), 0x6c5366 (data), 0x57d766 (lqual)",
    licence="none stated; the articles belong to CNN and the Daily Mail",
    paper="Chaganty, Mussmann and Liang 2018",
    read=read,
    note="Experimental: not tried on the authors' own files. The human "
    "summary is the system human-reference. Workers are numbered in the order of the file and are "
    "not the same persons for every summary; an aspect fewer workers rated is null. hter is an "
    "edit rate: lower is better.",
)
