"""The result of a run of `assay score`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from cluster.store import join, read_whole
from pipelines.runs.manifest import SUCCESS_FILE
from sms.naming import ABOUT_ROWS, is_precision_or_recall

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
    """Rows among `n_rows` that lack a score, or whose score comes with a remark."""
    statuses: Mapping[str, int]
    """Rows by status."""
    n_duplicate_keys: int
    """Pairs of document_id and system_id that more than one row has."""
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

    def __fspath__(self) -> str:
        """Return its folder: a run is given to the other functions as its path is."""
        return self.out

    def to_arrow(self) -> pa.Table:
        """Read the scores, in the order of the input; a run that lacks shards has none to read."""
        if self.failed_shards:
            raise RuntimeError(f"{len(self.failed_shards)} shards failed; score again first")
        parts = read_whole(join(self.out, SUCCESS_FILE)).decode().split()
        files = (pa.BufferReader(read_whole(join(self.out, part))) for part in parts)
        # Threads of `pq.read_table` may abort a script that ends right after it.
        return pa.concat_tables(pq.ParquetFile(file).read(use_threads=False) for file in files)

    def to_polars(self) -> pl.DataFrame:
        """Read the scores, as `to_arrow`."""
        import polars as pl

        return pl.DataFrame(self.to_arrow())

    def to_pandas(self) -> pd.DataFrame:
        """Read the scores, as `to_arrow`."""
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
