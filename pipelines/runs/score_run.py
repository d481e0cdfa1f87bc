"""The end of a run of `assay score`: what came of it, and the files that a complete run has."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pyarrow as pa

from cluster.corpus import check_unchanged
from cluster.history import History
from cluster.manifest import SUCCESS_FILE, Manifest, delete_other_files, write_manifest
from cluster.merging import merge_parts, must_merge
from cluster.parts import SCORES_FOLDER
from cluster.progress import Progress
from cluster.scores_files import committed_parts, read_scores
from cluster.store import base_name, delete_file, file_sizes, join, read_whole, write_whole
from cluster.totals import total_scores
from sms.naming import ABOUT_ROWS, counted, is_precision_or_recall

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRun:
    """The result of a run."""

    out: str
    scores: str
    """Folder of the scores files; `_SUCCESS` lists those that count."""
    n_rows: int
    """Rows that have been scored, by this run and those before it."""
    n_planned_rows: int
    n_earlier_rows: int
    """Rows an earlier run had scored."""
    n_with_status: int
    """Those that lack a score, or whose score comes with a remark."""
    statuses: Mapping[str, int]
    """Rows by status."""
    n_duplicate_keys: int
    """Pairs of document_id and system_id that more than one row has; all their rows are scored."""
    means: Mapping[str, Mapping[str, float]]
    """By system, then by column; NaN where a system has no score."""
    metrics: Sequence[str]
    """As they were asked for."""
    signatures: Mapping[str, str]
    """By column."""
    n_shards: int
    n_new_shards: int
    """Shards that this run has scored; 0 if there was nothing left to do."""
    failed_shards: Mapping[int, str]
    """Why a shard failed, by its place in the plan."""
    counters: Mapping[str, int]
    """What the encoders counted over all shards, `ALIAS.NAME`: tokens, sentences, cached."""
    seconds: float
    """From the first check to the last file."""
    is_strict: bool
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Rows that have a score, over which the means are; by system, then by column."""
    n_corpus_rows: int | None = None
    """Rows of the whole corpus, of which a limited run scores the first; None if not known."""

    def __fspath__(self) -> str:
        """Return its folder: a run is given to the other functions as its path is."""
        return self.out

    def to_arrow(self) -> pa.Table:
        """Read the scores, in the order of the input; a run that lacks shards has none to read."""
        if self.failed_shards:
            failed = counted(len(self.failed_shards), "shard")
            raise RuntimeError(f"{failed} failed; score again first")
        parts = read_whole(join(self.out, SUCCESS_FILE)).decode().split()
        return pa.concat_tables(read_scores(join(self.out, part)) for part in parts)

    def to_polars(self) -> pl.DataFrame:
        """Read the scores, as `to_arrow`."""
        import polars as pl

        table = self.to_arrow()  # column by column: a whole table needs threads, which forks lack
        return pl.DataFrame({name: pl.from_arrow(table[name]) for name in table.column_names})

    def to_pandas(self) -> pd.DataFrame:
        """Read the scores, as `to_arrow`; raises `ImportError` where pandas is not installed."""
        if find_spec("pandas") is None:
            raise ImportError("`to_pandas` needs pandas; pip install pandas, or use `to_polars`")
        return self.to_arrow().to_pandas()

    @property
    def main_columns(self) -> list[str]:
        """Scores to show first: without counts, and without precision and recall by default."""
        names = next(iter(self.means.values()), {})
        return [
            name
            for name in names
            if name in self.metrics
            or not (is_precision_or_recall(name) or name.startswith(ABOUT_ROWS))
        ]

    def has_gaps(self, column: str) -> bool:
        """Whether means of a column are over different numbers of rows, system by system."""
        counts = {system: of_system[column] for system, of_system in self.counts.items()}
        if counts.get("") == 0:  # rows that cannot be read may have no system
            del counts[""]
        return len({*counts.values()}) > 1

    @property
    def is_complete(self) -> bool:
        """Whether every row of the corpus is scored."""
        return not self.failed_shards

    @property
    def is_accepted(self) -> bool:
        """Whether the run is complete and, if it is strict, no row has a status."""
        return self.is_complete and not (self.is_strict and self.n_with_status)

    @property
    def n_unreadable(self) -> int:
        """Rows that could not be read; `errors/` says where they are."""
        return sum(n for status, n in self.statuses.items() if status.startswith("unreadable"))


class RunInterrupted(KeyboardInterrupt):
    """A run was interrupted from the keyboard; what is committed stays."""

    def __init__(self, n_committed: int, n_shards: int) -> None:
        super().__init__(f"{n_committed} of {n_shards} shards are committed")
        self.n_committed = n_committed
        self.n_shards = n_shards


def close(
    out: str,
    manifest: Manifest,
    history: History,
    before: tuple[int, int],
    tell: Callable[[Progress], None],
    *,
    started: float,
    is_strict: bool,
) -> ScoreRun:
    """Sum up what became of all shards, and write `_SUCCESS` if nothing is missing.

    `before` are the rows and the shards that were scored before this run, which has `started` then.
    """
    parts = committed_parts(out, manifest.shards, manifest.fingerprint)
    there = dict.fromkeys(part for index, part in parts.items() if index not in history.errors)
    totals = total_scores([*there])
    run = ScoreRun(
        out=out,
        scores=join(out, SCORES_FOLDER),
        n_rows=totals.n_rows,
        n_planned_rows=sum(shard.n_rows for shard in manifest.shards),
        n_earlier_rows=before[0],
        n_with_status=totals.statuses.total(),
        statuses=dict(sorted(totals.statuses.items())),
        n_duplicate_keys=totals.n_repeated_keys,
        means=totals.means(),
        counts=totals.counts(),
        metrics=tuple(manifest.configuration["metrics"]),
        signatures=manifest.signatures,
        counters=dict(history.counters),
        n_shards=len(manifest.shards),
        n_new_shards=history.n_done - before[1],
        failed_shards=dict(sorted(history.errors.items())),
        seconds=time.monotonic() - started,
        is_strict=is_strict,
    )
    names = ("n_rows", "n_with_status", "statuses", "n_duplicate_keys", "counters")
    means = {
        system: {name: None if math.isnan(mean) else mean for name, mean in by_column.items()}
        for system, by_column in run.means.items()
    }
    result = {**{name: getattr(run, name) for name in names}, "means": means, **history.to_json()}
    base = manifest.base if run.failed_shards else {}
    write_manifest(out, replace(manifest, result=result, base=base))
    if run.is_complete:
        _succeed(manifest, run, parts, tell)
    return run


def _succeed(
    manifest: Manifest,
    run: ScoreRun,
    parts: Mapping[int, str],
    tell: Callable[[Progress], None],
) -> None:
    """Check that nothing is missing, merge the files of a large run, and write `_SUCCESS`."""
    out, fingerprint = run.out, manifest.fingerprint
    if run.n_new_shards:
        check_unchanged(manifest)
    if run.n_rows != run.n_planned_rows or len(parts) != run.n_shards:
        raise RuntimeError(
            f"{out} must have {run.n_planned_rows} rows in {run.n_shards} files, got "
            f"{run.n_rows} in {len(parts)}; some were deleted: run the same command again"
        )
    sizes = file_sizes(run.scores)
    if must_merge(parts, sizes):
        tell(Progress(stage="merging the scores files"))
        delete_file(join(out, SUCCESS_FILE))  # it lists files that are about to go
        merge_parts(out, fingerprint, parts, sizes)
        parts = committed_parts(out, manifest.shards, fingerprint)
    names = list(dict.fromkeys(map(base_name, parts.values())))
    lines = "".join(f"{SCORES_FOLDER}/{name}\n" for name in names)
    write_whole(join(out, SUCCESS_FILE), lines.encode())
    delete_other_files(out, fingerprint, names)
