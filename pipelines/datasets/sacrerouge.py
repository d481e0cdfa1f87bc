"""sacrerouge's JSON lines: summaries to judge, and what people and metrics said of them.

Every line has `instance_id`, `summarizer_id` and `summarizer_type` (`reference` for people's). A
line of summaries has `summary`, `reference` or `references`, `document` or `documents`; a line of
metrics has `metrics`, an object of numbers, lists of numbers, and objects of these; a line of
documents has an `instance_id` and documents only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pipelines.datasets.files import Record, records, shown
from pipelines.datasets.rows import HUMAN_PREFIX, Candidate, LeftOut, Numbers, Row

NAME = "sacrerouge"
SUMMARIES_FILE, METRICS_FILE = "summaries.jsonl", "metrics.jsonl"

_REFERENCE, _PEER = "reference", "peer"


def read(files: Sequence[Path]) -> Iterator[Row]:
    """Read instances and metrics; numbers are given out as ratings and as scores.

    The format does not say which numbers come from people.
    """
    documents = {
        record.identifier("instance_id"): _texts(record, "document", "documents") or []
        for record in _records(files)
        if "summarizer_id" not in record.cells
    }
    numbers: dict[tuple[str, str], dict[str, float | None]] = {}
    for record in _records(files):
        if "summary" in record.cells:
            yield _candidate(record, documents)
        if "metrics" in record.cells:
            # Lines of one candidate, perhaps in several files, may have different metrics.
            known = numbers.setdefault((record.identifier("instance_id"), _system(record)), {})
            for name, value in _flat(record.inner("metrics")).items():
                if known.get(name) is None:
                    known[name] = value
                elif value is not None and value != known[name]:
                    yield LeftOut("values of metrics that differ from the first, which is kept")
    for (document_id, system_id), values in numbers.items():
        for kind in ("ratings", "scores"):
            yield Numbers(kind=kind, document_id=document_id, system_id=system_id, values=values)


def candidate_line(row: Candidate) -> str:
    """Write a candidate as a line of instances; the opposite of what `read` does."""
    return _line(
        row,
        {
            "summary": {"text": row.candidate},
            "references": [{"text": text} for text in row.references or ()],
            "documents": [{"text": text} for text in row.source or ()],
        },
    )


def numbers_line(row: Numbers) -> str:
    """Write numbers as a line of metrics; missing ones are left out."""
    known = {name: value for name, value in row.values.items() if value is not None}
    return _line(row, {"metrics": known})


def _line(row: Candidate | Numbers, rest: Mapping[str, object]) -> str:
    by_person = row.system_id.startswith(HUMAN_PREFIX)
    name = row.system_id.removeprefix(HUMAN_PREFIX)
    for key in (row.document_id, name):
        if not key or key != key.strip():
            raise ValueError(
                "sacrerouge needs ids that are not empty and have no spaces around them, got "
                f"{key!r} for document {row.document_id}, system {row.system_id}; rename it"
            )
    cells = {
        "instance_id": row.document_id,
        "summarizer_id": name,
        "summarizer_type": _REFERENCE if by_person else _PEER,
        **rest,
    }
    return f"{json.dumps(cells, ensure_ascii=False)}\n"


def _records(files: Sequence[Path]) -> Iterator[Record]:
    return (record for file in files for record in records(file))


def _candidate(record: Record, documents: Mapping[str, list[str]]) -> Candidate:
    document_id = record.identifier("instance_id")
    own = _texts(record, "document", "documents")
    return Candidate(
        document_id=document_id,
        system_id=_system(record),
        candidate=_text(record.inner("summary")),
        references=_texts(record, "reference", "references"),
        source=own or documents.get(document_id) or None,
    )


def _system(record: Record) -> str:
    name, kind = record.identifier("summarizer_id"), record.text("summarizer_type")
    if kind == _REFERENCE:
        return f"{HUMAN_PREFIX}{name}"
    if name.startswith(HUMAN_PREFIX):
        raise ValueError(
            f"`summarizer_id` in {record.where} must not begin with `{HUMAN_PREFIX}` unless its "
            f"`summarizer_type` is `{_REFERENCE}`, got `{name}`; rename the system"
        )
    return name


def _texts(record: Record, one: str, several: str) -> list[str] | None:
    if one in record.cells:
        return [_text(record.inner(one))]
    if several in record.cells:
        return [_text(item) for item in record.inner_list(several)] or None
    return None


def _text(record: Record) -> str:
    """Return a text; one that was given as sentences, or as paragraphs of them, has line breaks."""
    return "\n".join(_sentences(record.cells.get("text"), record.where))


def _sentences(text: object, where: str) -> Iterator[str]:
    if isinstance(text, str):
        yield text
    elif isinstance(text, list):
        for item in text:
            yield from _sentences(item, where)
    else:
        raise ValueError(f"`text` in {where} must be text or lists of text, got {shown(text)}")


def _flat(metrics: Record) -> dict[str, float | None]:
    """Name inner numbers `OUTER_INNER` and average lists, as sacrerouge itself does.

    It writes NaN where a metric has no value.
    """
    by_name: dict[str, float | None] = {}
    for name, value in metrics.cells.items():
        if isinstance(value, dict):
            inner = _flat(metrics.inner(name))
            flat = {f"{name}_{rest}": number for rest, number in inner.items()}
        elif isinstance(value, list):
            numbers = metrics.numbers(name)
            flat = {name: _known(sum(numbers) / len(numbers)) if numbers else None}
        else:
            flat = {name: _known(metrics.number(name))}
        if shared := sorted({*by_name} & {*flat}):
            raise ValueError(
                f"{metrics.where} must have one number called `{shared[0]}`, got two, one of them "
                "an inner one"
            )
        by_name |= flat
    return by_name


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number
