"""Writes corpora and scores as a test set of mt-metrics-eval (`mt_metrics_eval` has the files)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from pipelines.datasets.export_inputs import ExportInputs
from pipelines.datasets.lines import write_lines
from pipelines.datasets.mt_metrics_eval import (
    MISSING,
    NO_TEXT,
    PAIR,
    SEGMENT_SCORES,
    SYSTEM_SCORES,
    human_score_file_name,
    score_file_name,
)
from pipelines.datasets.rows import Candidate, is_human
from pipelines.tables.keyed import KEYS

_DOMAIN = "all"


def write_test_set(inputs: ExportInputs, folder: Path) -> tuple[int, int]:
    """Write texts in the order of the documents, one per line, and score files in that order.

    The corpus is held in memory: its rows come in any order, the format wants one file per system.

    Raises
    ------
    ValueError
        If a name has spaces, or a system lacks a document or a score: the format counts lines.
        Only ratings may be missing.
    """
    documents, systems, n_candidates = _write_texts(inputs, folder)
    if inputs.numbers is None:
        return n_candidates, 0
    if not documents:
        documents, systems = (
            inputs.numbers[key].unique(maintain_order=True).to_list() for key in KEYS
        )
        _write_documents(folder, documents)
    _check_names([*documents, *systems])
    grid = pl.DataFrame({"system_id": systems}).join(
        pl.DataFrame({"document_id": documents}), how="cross"
    )
    unknown = inputs.numbers.join(grid, on=KEYS, how="anti")
    if unknown.height:
        document_id, system_id = unknown.select(KEYS).row(0)
        raise ValueError(
            f"scores must be of candidates of the corpus, got document {document_id}, system "
            f"{system_id}, which it has not; name the corpus they belong to"
        )
    frame = grid.join(inputs.numbers, on=KEYS, how="left", maintain_order="left")
    for name in [name for name in frame.columns if name not in KEYS]:
        if name in inputs.rated:
            stem = Path(folder, "human-scores", human_score_file_name(name))
            _write_scores(stem, _of_rated_systems(frame, name), name)
        else:
            _check_complete(frame, name)
            stem = Path(folder, "metric-scores", PAIR, score_file_name(name))
            _write_scores(stem, frame, name)
    return n_candidates, frame.height


def _of_rated_systems(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """Leave out systems without any rating: those of the others may be missing, but not a block."""
    return frame.filter(pl.col(name).is_not_null().any().over("system_id"))


def _check_complete(frame: pl.DataFrame, metric: str) -> None:
    missing = frame.filter(pl.col(metric).is_null())
    if missing.height:
        document_id, system_id = missing.select("document_id", "system_id").row(0)
        raise ValueError(
            f"mt-metrics-eval needs a score of every system for every document, got none of "
            f"`{metric}` for document {document_id}, system {system_id}; leave the document out"
        )


def _write_scores(stem: Path, frame: pl.DataFrame, name: str) -> None:
    rows = frame.select("system_id", name).iter_rows()
    write_lines(_with(stem, SEGMENT_SCORES), (_score_line(*row) for row in rows))
    means = frame.group_by("system_id", maintain_order=True).agg(pl.col(name).mean()).iter_rows()
    write_lines(_with(stem, SYSTEM_SCORES), (_score_line(*row) for row in means))


def _score_line(system: str, value: float | None) -> str:
    return f"{system}\t{MISSING if value is None else repr(value)}\n"


def _with(stem: Path, suffix: str) -> Path:
    return stem.with_name(f"{stem.name}{suffix}")  # not `with_suffix`: a metric may have a dot


def _write_texts(inputs: ExportInputs, folder: Path) -> tuple[list[str], list[str], int]:
    rows = list(inputs.candidates())
    documents = list(dict.fromkeys(row.document_id for row in rows))
    systems = list(dict.fromkeys(row.system_id for row in rows))
    if not rows:
        return documents, systems, 0
    _check_names([*documents, *systems])
    by_key = {(row.document_id, row.system_id): row for row in rows}
    if len(by_key) != len(rows) or len(rows) != len(documents) * len(systems):
        raise ValueError(
            f"mt-metrics-eval needs every system's text on every document, once, got {len(rows)} "
            f"rows of {len(systems)} systems and {len(documents)} documents; leave documents out"
        )
    _write_documents(folder, documents)
    for system in systems:
        file = Path(folder, "system-outputs", PAIR, f"{system}.txt")
        write_lines(file, (_one_line(by_key[name, system].candidate) for name in documents))
    _write_references(folder, documents, rows)
    return documents, systems, len(rows)


def _write_references(folder: Path, documents: Sequence[str], rows: Sequence[Candidate]) -> None:
    """Write sources and references: a document has one set of them, whoever is judged."""
    references = _of_documents(rows, "references")
    sources = _of_documents(rows, "sources")
    names = [f"ref{i + 1}" for i in range(max(map(len, references.values())))]
    if taken := sorted({*names} & {row.system_id for row in rows}):
        raise ValueError(
            f"mt-metrics-eval takes a system named like a reference for the person who wrote it, "
            f"got {taken[0]!r}; rename it"
        )
    for i, reference in enumerate(names):
        texts = (references[name] for name in documents)
        lines = (_one_line(text[i] if i < len(text) else NO_TEXT) for text in texts)
        write_lines(Path(folder, "references", f"{PAIR}.{reference}.txt"), lines)
    lines = (_one_line(" ".join(sources[name])) for name in documents)
    write_lines(Path(folder, "sources", f"{PAIR}.txt"), lines)


def _of_documents(rows: Sequence[Candidate], name: str) -> Mapping[str, Sequence[str]]:
    """Return the references (or sources) of each document.

    They are those of the systems. A person's text has only some, as it is itself one of them;
    where people wrote all texts, they are those of all people together.

    Raises
    ------
    ValueError
        If two texts on a document are compared with different ones.
    """
    found: dict[str, Sequence[str]] = {}
    by_people: dict[str, dict[str, None]] = {}
    for row in sorted(rows, key=lambda row: is_human(row.system_id)):
        texts = list(getattr(row, name) or ())
        if not is_human(row.system_id):
            is_same = found.setdefault(row.document_id, texts) == texts
        elif row.document_id in found:
            is_same = {*texts} <= {*found[row.document_id]}
        else:
            by_people.setdefault(row.document_id, {}).update(dict.fromkeys(texts))
            continue
        if not is_same:
            raise ValueError(
                f"mt-metrics-eval has one set of {name} for all texts on a document, got others "
                f"for document {row.document_id}, system {row.system_id}; leave the document out"
            )
    return found | {document_id: list(texts) for document_id, texts in by_people.items()}


def _write_documents(folder: Path, documents: Sequence[str]) -> None:
    lines = (f"{_DOMAIN}\t{name}\n" for name in documents)
    write_lines(Path(folder, "documents", f"{PAIR}.docs"), lines)


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if not name or name.split() != [name] or "/" in name:
            raise ValueError(
                f"mt-metrics-eval needs ids without spaces and slashes, got {name!r}; rename it"
            )


def _one_line(text: str) -> str:
    return f"{' '.join(text.split())}\n"
