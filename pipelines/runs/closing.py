"""The end of a run: what became of all shards, and the files that a complete run consists of."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from cluster.merging import is_large, merge_parts
from cluster.parts import SCORES_FOLDER
from cluster.scores_files import committed_parts, is_merged
from cluster.store import base_name, delete_file, join
from pipelines.runs.corpus import check_unchanged
from pipelines.runs.duplicate_keys import count_duplicate_keys
from pipelines.runs.history import History
from pipelines.runs.manifest import (
    SUCCESS_FILE,
    Manifest,
    delete_other_files,
    write_manifest,
    write_success,
)
from pipelines.runs.progress import Progress
from pipelines.runs.score_run import ScoreRun


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
    there = {index: part for index, part in parts.items() if index not in history.errors}
    run = ScoreRun(
        out=out,
        scores=join(out, SCORES_FOLDER),
        n_rows=history.n_rows,
        n_planned_rows=sum(shard.n_rows for shard in manifest.shards),
        n_earlier_rows=before[0],
        n_with_status=history.statuses.total(),
        statuses=dict(sorted(history.statuses.items())),
        n_duplicate_keys=count_duplicate_keys(list(dict.fromkeys(there.values()))),
        means=history.sums.means(),
        metrics=tuple(manifest.configuration["metrics"]),
        signatures=manifest.signatures,
        counters=dict(history.counters),
        n_shards=len(manifest.shards),
        n_new_shards=history.n_done - before[1],
        failed_shards=dict(sorted(history.errors.items())),
        seconds=time.monotonic() - started,
        is_strict=is_strict,
    )
    told = ("n_rows", "n_with_status", "statuses", "n_duplicate_keys", "counters")
    means = {
        system: {name: None if math.isnan(mean) else mean for name, mean in by_column.items()}
        for system, by_column in run.means.items()
    }
    result = {**{name: getattr(run, name) for name in told}, "means": means, **history.to_json()}
    base = manifest.base if run.failed_shards else {}
    write_manifest(out, replace(manifest, result=result, base=base))
    if not run.failed_shards:
        _succeed(manifest, run, history, parts, tell)
    return run


def _succeed(
    manifest: Manifest,
    run: ScoreRun,
    history: History,
    parts: Mapping[int, str],
    tell: Callable[[Progress], None],
) -> None:
    """Check that nothing is missing, merge the files of a large run, and write `_SUCCESS`."""
    out = run.out
    if run.n_new_shards:
        check_unchanged(manifest)
    if run.n_rows != run.n_planned_rows or len(parts) != run.n_shards:
        raise RuntimeError(
            f"{out} must have {run.n_planned_rows} rows in {run.n_shards} files, got "
            f"{run.n_rows} in {len(parts)}; was something deleted meanwhile?"
        )
    sizes = {record["index"]: record["n_bytes"] for record in history.records()}
    if is_large(sizes) and not all(map(is_merged, parts.values())):
        tell(Progress(stage="merging the scores files"))
        delete_file(join(out, SUCCESS_FILE))  # it lists files that are about to go
        merge_parts(out, manifest.fingerprint, parts, sizes)
        parts = committed_parts(out, manifest.shards, manifest.fingerprint)
    names = list(dict.fromkeys(map(base_name, parts.values())))
    write_success(out, (f"{SCORES_FOLDER}/{name}" for name in names))
    delete_other_files(out, manifest.fingerprint, names)
