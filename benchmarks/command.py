"""Not a benchmark: runs `assay score` as a user does and reads what it left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from corpora import ROOT

_WATCH_EVERY_S = 0.2  # what a command needs at its end is there for half a second
QUIET = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "RAY_USAGE_STATS_ENABLED": "0"}


@dataclass(frozen=True, slots=True)
class Finished:
    """A run of `assay score`."""

    seconds: float
    """Wall clock, from the start of the process to its end."""
    out: Path
    result: Mapping[str, Any]
    """The part `result` of `run.json`."""

    @property
    def scores(self) -> pa.Table:
        """All rows, in the order of the corpus."""
        return pa.concat_tables(pq.read_table(p) for p in sorted(self.out.glob("scores/part-*")))

    def stage_seconds(self) -> dict[str, float]:
        """Seconds of every stage, added up over the shards."""
        total: dict[str, float] = {}
        for shard in self.result["shards"]:
            for stage, seconds in shard["stage_seconds"].items():
                total[stage] = total.get(stage, 0.0) + seconds
        return total

    def shard_seconds(self) -> float:
        """Seconds of the shards, added up."""
        return sum(shard["seconds"] for shard in self.result["shards"])


def assay_score(
    corpus: Path,
    out: Path,
    options: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    watch: Callable[[int], None] | None = None,
) -> Finished:
    """Score a corpus in a new process.

    Parameters
    ----------
    corpus, out : Path
    options : sequence of str
        Of the command.
    environment : mapping of str to str, optional
        Added to this process's.
    watch : callable, optional
        Called with the process id every fifth of a second.
    """
    command = [sys.executable, "-m", "pipelines.cli.app", "score", str(corpus), "--out", str(out)]
    started = time.perf_counter()
    process = subprocess.Popen(
        [*command, *options, "--fresh", "--quiet"],
        cwd=ROOT,
        env={**os.environ, **QUIET, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    while True:
        try:
            output, _ = process.communicate(timeout=_WATCH_EVERY_S if watch else None)
            break
        except subprocess.TimeoutExpired:
            watch(process.pid)
    seconds = time.perf_counter() - started
    if process.returncode:
        raise RuntimeError(f"`assay score` ended with status {process.returncode}:\n{output}")
    run = json.loads((out / "run.json").read_text())
    return Finished(seconds, out, run["result"])
