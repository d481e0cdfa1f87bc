"""What NIST's collections have in common: marked-up texts, document sets, human and machine peers.

A collection is a few thousand short texts that lie in many files in any order, so all of it is
held until it has been read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

from pipelines.datasets.files import Member
from pipelines.datasets.rows import Candidate, LeftOut, differing, human

MODEL, PEER = "model", "peer"

_OLD = "latin-1"  # never fails; newswire of the nineties has a few such bytes

# Not by the parser: in one file of DUC 2001 the tag lacks its closing bracket.
_SUMMARY = re.compile(
    r"""<SUM\b((?:\s+\w+\s*=\s*(?:"[^"]*"|'[^']*'))*)\s*>?(.*?)</SUM>""", re.DOTALL | re.IGNORECASE
)
_TITLE = re.compile(r"<title>.*?</title>", re.DOTALL | re.IGNORECASE)
_DOCREF = re.compile(r"""\bDOCREF\s*=\s*["']([^"']*)["']""", re.IGNORECASE)


def document_text(member: Member) -> str:
    """Read what a newswire document says: its lead paragraph and text, without headline or date.

    Raises
    ------
    ValueError
        If it has neither.
    """
    text = " ".join(_texts(member.text(otherwise=_OLD), ("leadpara", "lp", "text")))
    if not text:
        raise ValueError(f"{member.path} must be a document with <TEXT>, got none")
    return text


def model_summaries(member: Member) -> Iterator[tuple[str | None, str]]:
    """Read `<SUM>` elements: the document each is about (None for a document set), and its text.

    Raises
    ------
    ValueError
        If there are none.
    """
    found = _SUMMARY.findall(member.text(otherwise=_OLD))
    if not found:
        raise ValueError(f"{member.path} must have <SUM> elements, got none")
    for attributes, marked in found:
        reference = _DOCREF.search(attributes)
        yield (reference.group(1).strip() if reference else None), plain(marked)


def see_sentences(member: Member) -> str:
    """Read a page that was made for the judging program SEE: its `<a id=...>` are sentences.

    A page without any text is the summary of a system that wrote nothing.

    Raises
    ------
    ValueError
        If it has a text, but not as such sentences.
    """
    page = member.text(otherwise=_OLD)
    text = " ".join(_texts(page, ("a",), with_attribute="id"))
    if not text and plain(_TITLE.sub("", page)):
        raise ValueError(f"{member.path} must have sentences in <a id=...>, got none")
    return text


def plain_text(member: Member, kind: str) -> str:
    """Read a summary that is a file of its own; that of a system may be empty.

    Raises
    ------
    ValueError
        If it is a person's and empty.
    """
    text = plain(member.text(otherwise=_OLD))
    if kind == MODEL and not text:
        raise ValueError(f"{member.path} must have a text, got none")
    return text


def plain(marked: str) -> str:
    r"""Drop tags, undo entities, make every run of white space one space.

    Examples
    --------
    >>> plain("<s num='1'> AT&amp;T\n  rose.</s>")
    'AT&T rose.'
    """
    parser = _Parser((), None)
    parser.feed(marked)
    parser.close()
    return " ".join("".join(parser.all_text).split())


@dataclass
class Collection:
    """Texts of a collection; a document set or document to summarise is a `task`."""

    sources: dict[str, dict[str, str]] = field(default_factory=dict)
    """Document texts by task and document, where the task is one of them or all of them."""
    models: dict[str, dict[str, str]] = field(default_factory=dict)
    """People's summaries by task and writer."""
    peers: dict[str, dict[str, str]] = field(default_factory=dict)
    """Machines' summaries by task and system."""

    n_differing: int = 0
    """Second summaries of a task by one writer, which are not those that are kept."""

    def add_summary(self, kind: str, task: str, writer: str, text: str) -> None:
        """Take a model or peer; NIST calls people by letters and machines by numbers."""
        texts = self.models if kind == MODEL or writer.isalpha() else self.peers
        kept = texts.setdefault(task, {}).setdefault(writer.upper(), text)
        self.n_differing += kept != text

    def candidates(self) -> Iterator[Candidate | LeftOut]:
        """Make a row per summary: machines against all people, each person against the others."""
        for _ in range(self.n_differing):
            yield LeftOut(reason=differing("texts"))
        for task in sorted({*self.models, *self.peers}):
            models = dict(sorted(self.models.get(task, {}).items()))
            sources = self.sources.get(task)
            if self.sources and not sources:
                yield LeftOut(reason="sources: a summary's documents are not among the files")
            texts = [sources[name] for name in sorted(sources)] if sources else None
            for writer, candidate in sorted(self.peers.get(task, {}).items(), key=_by_number):
                yield _candidate(task, writer, candidate, models.values(), texts)
            for writer, candidate in models.items():
                others = [text for name, text in models.items() if name != writer]
                yield _candidate(task, human(writer), candidate, others, texts)


def system_of(writer: str) -> str:
    """Name the system of a summary after NIST's letter (a person) or number (a machine)."""
    return human(writer.upper()) if writer.isalpha() else writer


def _by_number(item: tuple[str, str]) -> tuple[int, str]:
    return (int(item[0]) if item[0].isdigit() else 0, item[0])


def _candidate(
    task: str, system_id: str, text: str, references: Iterable[str], sources: list[str] | None
) -> Candidate:
    return Candidate(
        document_id=task,
        system_id=system_id,
        candidate=text,
        references=list(references) or None,
        sources=sources,
    )


def _texts(marked: str, tags: tuple[str, ...], with_attribute: str | None = None) -> list[str]:
    parser = _Parser(tags, with_attribute)
    parser.feed(marked)
    parser.close()
    found = (" ".join("".join(text).split()) for text in parser.texts)
    return [text for text in found if text]


class _Parser(HTMLParser):
    """Collects the text inside some tags; an element that is never closed ends at the next one."""

    def __init__(self, tags: tuple[str, ...], attribute: str | None) -> None:
        super().__init__(convert_charrefs=True)
        self._tags = tags
        self._attribute = attribute
        self._open: str | None = None
        self.texts: list[list[str]] = []
        self.all_text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self._tags and (self._attribute is None or self._attribute in dict(attrs)):
            self._open = tag
            self.texts.append([])

    def handle_endtag(self, tag: str) -> None:
        if tag == self._open:
            self._open = None

    def handle_data(self, data: str) -> None:
        self.all_text.append(data)
        if self._open:
            self.texts[-1].append(data)
