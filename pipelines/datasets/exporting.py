"""Writes corpora and scores in the formats of other tools; the opposite of importing them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster.output import Output
from pipelines.datasets.export_inputs import ExportInputs, export_inputs
from pipelines.datasets.export_mt_metrics_eval import write_test_set
from pipelines.datasets.lines import write_lines
from pipelines.datasets.mt_metrics_eval import NAME as MT_METRICS_EVAL
from pipelines.datasets.sacrerouge import (
    METRICS_FILE,
    SUMMARIES_FILE,
    candidate_line,
    numbers_line,
)
from pipelines.datasets.sacrerouge import NAME as SACREROUGE
from sms.naming import AnyPath, OneOrMore, nearest, several


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRun:
    """What was written."""

    out: str
    files: Sequence[str]
    """Relative to `out`, sorted."""
    n_candidates: int
    n_scored: int
    """Candidates with scores."""


def export_data(name: str, paths: OneOrMore, out: AnyPath) -> ExportRun:
    """Write a corpus, scores or ratings in the format of another tool.

    Parameters
    ----------
    name : str
        `sacrerouge` or `mt-metrics-eval`.
    paths : path or sequence of paths
        Files with a column `candidate` are corpora; others, and folders of `assay score`, are
        numbers about candidates.
    out : path
        Folder or URL to make. Its files appear when all of them have been written.

    Raises
    ------
    ValueError
        If the format is not known or cannot hold the data, or `out` exists.
    """
    if name not in _WRITERS:
        raise ValueError(f"unknown format `{name}`; {nearest(name, _WRITERS)}")
    output = Output.named("--out", out)
    output.check_folder(is_new=True)
    inputs = export_inputs(several(paths))
    with output.filled() as folder:
        n_candidates, n_scored = _WRITERS[name](inputs, folder)
        files = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    return ExportRun(out=output.path, files=files, n_candidates=n_candidates, n_scored=n_scored)


def _write_sacrerouge(inputs: ExportInputs, folder: Path) -> tuple[int, int]:
    lines = (candidate_line(row) for row in inputs.candidates())
    n_candidates = write_lines(folder / SUMMARIES_FILE, lines)
    lines = (numbers_line(row) for row in inputs.number_rows())
    return n_candidates, write_lines(folder / METRICS_FILE, lines)


_WRITERS: Mapping[str, Callable[[ExportInputs, Path], tuple[int, int]]] = {
    SACREROUGE: _write_sacrerouge,
    MT_METRICS_EVAL: write_test_set,
}
