"""Writes corpora and scores in the formats of other tools; the opposite of importing them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster.store import is_url
from pipelines.importing.export_inputs import ExportInputs, export_inputs
from pipelines.importing.export_mt_metrics_eval import write_test_set
from pipelines.importing.lines import write_lines
from pipelines.importing.mt_metrics_eval import NAME as MT_METRICS_EVAL
from pipelines.importing.sacrerouge import (
    METRICS_FILE,
    SUMMARIES_FILE,
    candidate_line,
    numbers_line,
)
from pipelines.importing.sacrerouge import NAME as SACREROUGE
from sms.naming import nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRun:
    """What was written."""

    out: str
    files: Sequence[str]
    """Relative to `out`, sorted."""
    n_candidates: int
    n_scored: int
    """Candidates with scores."""


def export_data(
    name: str, paths: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]
) -> ExportRun:
    """Write a corpus, scores or ratings in the format of another tool.

    Parameters
    ----------
    name : str
        `sacrerouge` or `mt-metrics-eval`.
    paths : sequence of path
        Files with a column `candidate` are corpora; others, and folders of `assay score`, are
        numbers about candidates.
    out : path
        Folder to make. It appears when everything in it has been written.

    Raises
    ------
    ValueError
        If the format is not known or cannot hold the data, or `out` exists or is a URL.
    """
    if name not in _WRITERS:
        raise ValueError(f"unknown format `{name}`; {nearest(name, _WRITERS)}")
    if is_url(os.fspath(out)):
        raise ValueError(f"`--out` must be a folder on this machine, got {os.fspath(out)}")
    target = Path(out)
    if target.exists():
        raise ValueError(f"`--out` must not exist yet, got {target}; delete it or choose another")
    inputs = export_inputs([os.fspath(path) for path in paths])
    target.absolute().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        dir=target.absolute().parent, prefix=f".{target.name}."
    ) as work:
        folder = Path(work, "out")
        folder.mkdir()
        n_candidates, n_scored = _WRITERS[name](inputs, folder)
        files = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
        folder.rename(target)
    return ExportRun(out=str(target), files=files, n_candidates=n_candidates, n_scored=n_scored)


def _write_sacrerouge(inputs: ExportInputs, folder: Path) -> tuple[int, int]:
    lines = (candidate_line(row) for row in inputs.candidates())
    n_candidates = write_lines(folder / SUMMARIES_FILE, lines)
    lines = (numbers_line(row) for row in inputs.number_rows())
    return n_candidates, write_lines(folder / METRICS_FILE, lines)


_WRITERS: Mapping[str, Callable[[ExportInputs, Path], tuple[int, int]]] = {
    SACREROUGE: _write_sacrerouge,
    MT_METRICS_EVAL: write_test_set,
}
