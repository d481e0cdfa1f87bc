"""The data sets that can be imported, and how their files are read.

`sources.toml` says what each is and which files it has; here is what becomes of these. To add one,
describe it there, and write its reader.
"""

from __future__ import annotations

import html
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path

from pipelines.datasets.files import Record, files_in, records, text_of
from sms.naming import nearest

Files = Sequence[Path]


# What an imported file becomes


@dataclass(frozen=True, slots=True)
class Pair:
    """A document and the summary that belongs to it: for training, nothing is judged."""

    document_id: str
    source: str
    reference: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A text to judge; None stands for what the data have none of."""

    document_id: str
    system_id: str
    candidate: str
    references: Sequence[str] | None = None
    source: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rating:
    """What one rater said of a candidate, by aspect."""

    document_id: str
    system_id: str
    rater: str
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One thing that was read and is in no output."""

    reason: str
    """Completes "Left out: 3, ..."."""


Row = Pair | Candidate | Rating | LeftOut


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSource:
    """A data set, in the format its owner gives it out in."""

    name: str
    title: str
    gives: str
    """`pairs`, `corpus, ratings`, or what else there is."""
    takes: str
    """The files, for a person."""
    suffixes: Sequence[str]
    """What their names end with."""
    origin: str
    """Where they come from."""
    licence: str
    paper: str
    note: str = ""
    """What to know."""

    def read(self, paths: Sequence[str]) -> Iterator[Row]:
        """Read files and folders.

        Raises ValueError, naming file and line, where a file is not of the format.
        """
        found = files_in(paths, self.suffixes, f"those of {self.name}: {self.takes}")
        return _READERS[self.name](found)


# Pairs


def _pairs(found: Files, document_ids: Sequence[str], source: str, reference: str) -> Iterator[Row]:
    """Read documents with their summaries; the first id that a file has is the document's."""
    for file in found:
        for record in [_story(file)] if file.suffix == ".story" else records(file):
            document_id = next((n for n in document_ids if n in record.cells), document_ids[0])
            # Of a page that could not be extracted, Newsroom has null.
            source_text, reference_text = (
                "" if record.cells.get(name, "") is None else record.text(name)
                for name in (source, reference)
            )
            if source_text.strip() and reference_text.strip():
                yield Pair(record.identifier(document_id), source_text, reference_text)
            else:
                yield LeftOut("pairs without a document or without a summary")


_HIGHLIGHT = re.compile(r"^[ \t]*@highlight.*$", re.MULTILINE)
_ENDS = (".", "!", "?", "'", "`", '"', "\u2019", "\u201d", ")")


def _story(file: Path) -> Record:
    """Read a story as the hub did: paragraphs in one line, a line per highlight.

    A line without a full stop (headlines, most highlights) gets one, so that it ends a sentence.
    """
    texts = [
        [line if line.endswith(_ENDS) else f"{line} ." for line in map(str.strip, lines) if line]
        for lines in (part.split("\n") for part in _HIGHLIGHT.split(text_of(file)))
    ]
    if not texts[1:]:
        raise ValueError(f"{file} must be a story with `@highlight` lines, got none")
    highlights = "\n".join(line for text in texts[1:] for line in text)
    cells = {"article": " ".join(texts[0]), "highlights": highlights, "id": file.stem}
    return Record(str(file), cells)


# Judged summaries


def _rating(of: Candidate, rater: str, values: Mapping[str, float]) -> Rating:
    return Rating(document_id=of.document_id, system_id=of.system_id, rater=rater, values=values)


_SUMMEVAL_ASPECTS = ("coherence", "consistency", "fluency", "relevance")


def _summeval(found: Files) -> Iterator[Row]:
    """Read summaries with eleven references and eight ratings each."""
    names = {file.name.removesuffix(".gz") for file in found}
    for file in found:
        if f"{file.name.removesuffix('.gz').removesuffix('.jsonl')}.paired.jsonl" in names:
            continue  # pair_data.py writes the file with articles beside the one without
        for record in records(file):
            candidate = Candidate(
                document_id=record.identifier("id"),
                system_id=record.identifier("model_id"),
                candidate=record.text("decoded"),
                references=record.texts("references"),
                source=[record.text("text")] if "text" in record.cells else None,
            )
            yield candidate
            for rater in ("expert", "turker"):
                annotations = record.inner_list(f"{rater}_annotations")
                for number, each in enumerate(annotations, start=1):
                    values = {aspect: each.number(aspect) for aspect in _SUMMEVAL_ASPECTS}
                    yield _rating(candidate, f"{rater}-{number}", values)


_QUESTION = "3"


def _asap_sas(found: Files) -> Iterator[Row]:
    """Read the answers to question 3, each by a "system" named after the answer's id."""
    answers = {file: text_of(file).strip() for file in found if file.suffix == ".txt"}
    if empty := [file for file, answer in answers.items() if not answer]:
        raise ValueError(f"{empty[0]} must have a sample answer, got none")
    for file in found:
        for record in records(file) if file.suffix == ".tsv" else ():
            question = record.identifier("EssaySet")
            if question != _QUESTION:
                yield LeftOut(f"answers to other questions than {_QUESTION}")
                continue
            candidate = Candidate(
                document_id=f"question-{question}",
                system_id=record.identifier("Id"),
                candidate=record.text("EssayText").strip(),
                references=list(answers.values()) or None,
            )
            yield candidate
            for number in (1, 2):
                values = {"score": record.number(f"Score{number}")}
                yield _rating(candidate, f"rater-{number}", values)


_NEWSROOM_ASPECTS = ("coherence", "fluency", "informativeness", "relevance")
_BREAKS = re.compile(r"\s*(?:</?(?:p|br)\s*/?>\s*)+", re.IGNORECASE)


def _newsroom_human(found: Files) -> Iterator[Row]:
    """Read summaries and ratings; a reference is found by the article's title."""
    ratings = [file for file in found if file.suffix == ".csv"]
    rows = [record for file in ratings for record in records(file)]
    titles = {_title(row.text("ArticleTitle")) for row in rows} - {""}
    by_title = _references([file for file in found if file.suffix != ".csv"], titles)
    n_ratings: Counter[tuple[str, str]] = Counter()
    for record in rows:
        title = _title(record.text("ArticleTitle"))
        candidate = Candidate(
            document_id=record.identifier("ArticleID"),
            system_id=record.identifier("System"),
            candidate=_plain(record.text("SystemSummary")),
            references=[by_title[title]] if title in by_title else None,
            source=[_plain(record.text("ArticleText"))],
        )
        key = candidate.document_id, candidate.system_id
        if not n_ratings[key]:
            if len(found) > len(ratings) and title not in by_title:
                yield LeftOut("references: no article of Newsroom has the title")
            yield candidate
        n_ratings[key] += 1
        values = {name: record.number(f"{name.title()}Rating") for name in _NEWSROOM_ASPECTS}
        yield _rating(candidate, f"rater-{n_ratings[key]}", values)


def _references(articles: Files, wanted: set[str]) -> dict[str, str]:
    by_title: dict[str, str] = {}
    for record in (record for file in articles for record in records(file)):
        if record.cells.get("title") and record.cells.get("summary"):
            title = _title(record.text("title"))
            if title in wanted:
                by_title.setdefault(title, record.text("summary"))
    return by_title


def _plain(text: str) -> str:
    """Undo what was done to the texts for the page the raters saw."""
    return html.unescape(_BREAKS.sub("\n", text)).strip()


def _title(text: str) -> str:
    return " ".join(_plain(text).casefold().split())


_READERS: Mapping[str, Callable[[Files], Iterator[Row]]] = {
    "cnn-dailymail": partial(_pairs, document_ids=["id"], source="article", reference="highlights"),
    "newsroom": partial(
        _pairs, document_ids=["archive", "url"], source="text", reference="summary"
    ),
    "bigpatent": partial(
        _pairs, document_ids=["publication_number"], source="description", reference="abstract"
    ),
    "newsroom-human": _newsroom_human,
    "asap-sas": _asap_sas,
    "summeval": _summeval,
}
SOURCES = {
    name: DataSource(name=name, **entry)
    for name, entry in tomllib.loads(
        files(__package__).joinpath("sources.toml").read_text("utf-8")
    ).items()
}
"""The data sets that can be imported, by name."""


def find_source(name: str) -> DataSource:
    """Find a data set by its name; a `ValueError` has the nearest name."""
    if name not in SOURCES:
        raise ValueError(f"unknown data set `{name}`; {nearest(name, SOURCES)}")
    return SOURCES[name]
