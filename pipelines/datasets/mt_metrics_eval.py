"""mt-metrics-eval's folders: texts line by line, and score files of people and metrics.

`documents/PAIR.docs` has a line "DOMAIN DOCUMENT" per segment; `sources/PAIR.txt`,
`references/PAIR.NAME.txt` and `system-outputs/PAIR/SYSTEM.txt` have a text per line, in the same
order; where they are .jsonl, in the fields `source`, `target` and `hypothesis`.
`human-scores/PAIR.NAME.seg.score` and `metric-scores/PAIR/NAME-REF.seg.score` have lines
"SYSTEM SCORE", a block of segments per system. PAIR is a pair of languages.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, repeat
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote

from pipelines.datasets.files import bounded_lines, json_record, shown
from pipelines.datasets.rows import Candidate, LeftOut, Numbers, Row, human, is_human
from pipelines.datasets.source import DataSource

NAME = "mt-metrics-eval"
TAKES = "the folder of a test set (or its documents/PAIR.docs, where it has several pairs)"
PAIR = "en-en"
"""The pair of languages of what we write: summaries are in the language of their documents."""
MISSING = "None"
NO_TEXT = "[No translation supplied]"
"""Stands for a text there is none of."""
SEGMENT_SCORES, SYSTEM_SCORES = ".seg.score", ".sys.score"
ALL_REFERENCES, NO_REFERENCE = "all", "src"

_COUNTED = re.compile(r"([^0-9]*)([0-9]*)")
_LINES_AT_ONCE = 1_000
_TEXT_FILES = (".txt", ".jsonl")

_Blocks = Mapping[str, Sequence[float]]  # scores by system, NaN = missing


def read(paths: Sequence[str]) -> Iterator[Row]:
    """Read texts, people's segment scores as ratings and metrics' segment scores as scores."""
    for path in paths:
        for documents in _document_files(Path(path)):
            yield from _test_set(documents)


def score_file_name(metric: str) -> str:
    """Name a metric's score file, without its level: `NAME-REF`, as in `cosine-src`.

    What has no place in a file name is written %XX; `read` undoes it.

    Examples
    --------
    >>> score_file_name("rougeL_f"), score_file_name("reffree@runs/news:source")
    ('rougeL_f-all', 'reffree@runs%2Fnews%3Asource-src')
    """
    reference = NO_REFERENCE if metric.endswith(":source") else ALL_REFERENCES
    return f"{quote(metric, safe='@+ ')}-{reference}"


def human_score_file_name(aspect: str) -> str:
    """Name a file of ratings, without its level, as `score_file_name` does."""
    return f"{PAIR}.{quote(aspect, safe='@+ ')}"


def _document_files(path: Path) -> list[Path]:
    if path.name.endswith(".docs"):
        return [path]
    found = sorted(Path(path, "documents").glob("*.docs"))
    if len(found) != 1:
        raise ValueError(
            f"`FILES` of {NAME} must be {TAKES}, got {path} with {len(found)} *.docs files"
        )
    return found


def _test_set(documents: Path) -> Iterator[Row]:
    folder, pair = documents.parents[1], documents.name.removesuffix(".docs")
    ids = _segment_ids(documents)
    references = {
        name.removeprefix(f"{pair}."): file
        for name, file in sorted(
            _text_files(Path(folder, "references"), f"{pair}.*").items(), key=_counted
        )
    }
    outputs = _text_files(Path(folder, "system-outputs", pair), "*")
    # Scores of a reference may be there although it is no output.
    systems = {name: name for name in outputs} | {name: human(name) for name in references}
    sources = list(_text_files(Path(folder, "sources"), pair).values())
    yield from _candidates(ids, systems, outputs, references, sources)
    human_files = {
        unquote(file.name.removeprefix(f"{pair}.").removesuffix(SEGMENT_SCORES)): file
        for file in sorted(Path(folder, "human-scores").glob(f"{pair}.*{SEGMENT_SCORES}"))
    }
    yield from _numbers("ratings", human_files, ids, systems)
    metric_files = {
        _metric_name(file): file
        for file in sorted(Path(folder, "metric-scores", pair).glob(f"*{SEGMENT_SCORES}"))
    }
    yield from _numbers("scores", metric_files, ids, systems)


def _segment_ids(documents: Path) -> list[str]:
    """Name segments by their document, with a number where a document has several."""
    names = []
    for number, line in enumerate(_lines(documents), start=1):
        fields = line.split()
        if len(fields) != 2:
            raise ValueError(
                f"{documents}, line {number} must be `DOMAIN DOCUMENT`, got {shown(line)}"
            )
        names.append(fields[1])
    n_segments, seen = Counter(names), Counter[str]()
    ids = []
    for name in names:
        seen[name] += 1
        ids.append(name if n_segments[name] == 1 else f"{name}:{seen[name]}")
    if repeated := [name for name, n_lines in Counter(ids).items() if n_lines > 1]:
        raise ValueError(
            f"{documents} must give its segments different names, got `{repeated[0]}` for a "
            "document and for a segment of another; rename the document"
        )
    return ids


def _candidates(
    ids: Sequence[str],
    systems: Mapping[str, str],
    outputs: Mapping[str, Path],
    references: Mapping[str, Path],
    sources: Sequence[Path],
) -> Iterator[Candidate | LeftOut]:
    for file in (*outputs.values(), *references.values(), *sources):
        _check_length(file, len(ids))
    source_lines = _texts(sources[0], "source") if sources else repeat(None)
    texts = {name: _texts(file, "hypothesis") for name, file in outputs.items()}
    models = {name: _texts(file, "target") for name, file in references.items()}
    for document_id in ids:
        source = next(source_lines)
        by_reference = {name: next(lines) for name, lines in models.items()}
        for name, lines in texts.items():
            candidate = next(lines)
            if candidate is None:
                yield LeftOut(reason="texts: the system wrote none for the document")
                continue
            yield Candidate(
                document_id=document_id,
                system_id=systems[name],
                candidate=candidate,
                references=_other_texts(systems[name], name, candidate, by_reference),
                sources=[source] if source else None,
            )


def _other_texts(
    system_id: str, name: str, candidate: str, references: Mapping[str, str | None]
) -> list[str] | None:
    """Return the references of a candidate: for a person's text, those of the others."""
    by_others = (text for reference, text in references.items() if reference != name)
    is_own = is_human(system_id)
    return [text for text in by_others if text and not (is_own and text == candidate)] or None


def _text_files(folder: Path, stem: str) -> dict[str, Path]:
    """Find files by their names without .txt or .jsonl."""
    found: dict[str, Path] = {}
    for file in sorted(file for suffix in _TEXT_FILES for file in folder.glob(f"{stem}{suffix}")):
        if found.setdefault(file.stem, file) != file:
            raise ValueError(
                f"{folder} must have the texts of `{file.stem}` once, got {found[file.stem].name} "
                f"and {file.name}"
            )
    return found


def _counted(item: tuple[str, Path]) -> list[tuple[str, int]]:
    """Sort ref2 before ref10."""
    return [(word, int(number or 0)) for word, number in _COUNTED.findall(item[0])]


def _texts(file: Path, field: str) -> Iterator[str | None]:
    """Read a text per line, None where it says that there is none."""
    for number, line in enumerate(_lines(file), start=1):
        if file.suffix == ".jsonl":
            yield json_record(line, f"{file}, line {number}").text(field)
        else:
            yield None if line.strip() == NO_TEXT else line


def _check_length(file: Path, n_expected: int) -> None:
    n_lines = sum(1 for _ in _lines(file))
    if n_lines != n_expected:
        raise ValueError(f"{file} must have {n_expected} lines, one per document, got {n_lines}")


def _lines(file: Path) -> Iterator[str]:
    """Read a file a block at a time: it is closed between, as a test set may have 1,000 systems."""
    position, encoding = 0, "utf-8-sig"
    while True:
        with file.open("rb") as stream:
            stream.seek(position)
            block = list(islice(bounded_lines(stream, str(file)), _LINES_AT_ONCE))
            position = stream.tell()
        if not block:
            return
        for line in block:
            try:
                text = line.decode(encoding)
            except UnicodeDecodeError as error:
                raise ValueError(f"{file} must be UTF-8, got {error}") from error
            encoding = "utf-8"
            yield text.rstrip("\r\n")


def _metric_name(file: Path) -> str:
    """Return `NAME-REF` of a file, or the plain name of a metric that we wrote."""
    name, _, reference = file.name.removesuffix(SEGMENT_SCORES).rpartition("-")
    metric = unquote(name)
    return metric if score_file_name(metric) == f"{name}-{reference}" else f"{metric}-{reference}"


def _numbers(
    kind: Literal["ratings", "scores"],
    files: Mapping[str, Path],
    ids: Sequence[str],
    systems: Mapping[str, str],
) -> Iterator[Numbers]:
    columns = {name: _blocks(file, len(ids)) for name, file in files.items()}
    for name in dict.fromkeys(name for blocks in columns.values() for name in blocks):
        for i, document_id in enumerate(ids):
            yield Numbers(
                kind=kind,
                document_id=document_id,
                system_id=systems.get(name, name),
                values={
                    metric: _none_if_missing(blocks[name][i]) if name in blocks else None
                    for metric, blocks in columns.items()
                },
            )


def _blocks(file: Path, n_expected: int) -> _Blocks:
    """Read a score file: a block of scores per system, in the order of the documents."""
    found: dict[str, array[float]] = {}
    for number, line in enumerate(_lines(file), start=1):
        fields = line.split()
        try:
            system, score = fields
            value = float("nan") if score == MISSING else float(score)
        except ValueError as error:
            raise ValueError(
                f"{file}, line {number} must be `SYSTEM SCORE`, got {shown(line)}"
            ) from error
        found.setdefault(system, array("d")).append(value)
    for system, block in found.items():
        if len(block) != n_expected:
            raise ValueError(
                f"{file} must have {n_expected} scores of `{system}`, as many as documents, got "
                f"{len(block)}"
            )
    return found


def _none_if_missing(value: float) -> float | None:
    return None if math.isnan(value) else value


SOURCE = DataSource(
    name=NAME,
    title="mt-metrics-eval's test sets and score files",
    gives="corpus, ratings, scores",
    takes=TAKES,
    origin="github.com/google-research/mt-metrics-eval",
    licence="of the data inside; the tool is Apache-2.0",
    paper="Freitag et al. 2022 (the metrics shared tasks)",
    read=read,
    note="A segment is a document here, named after its document and number in it. Only "
    "*.seg.score is read; other levels follow from it. A reference that is also a system is marked "
    "as human. `assay export mt-metrics-eval` writes the format.",
)
