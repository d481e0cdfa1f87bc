"""Says how far a run is, from what is on storage alone: no Ray, no question to its driver.

`_SUCCESS` says that a run is complete, the scores files which shards are done, `progress.json` what
the driver is doing, and `run.json` what became of the shards. Where no driver is at work, the
footers of the scores files are read to see that they are the ones of their shards.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from cluster import committed_parts
from cluster.inputs import READERS
from cluster.live import (
    FRESH_S,
    KEPT_ERRORS,
    DriverProgress,
    is_alive,
    read_progress,
    shard_error,
)
from cluster.manifest import RUN_FILE, SUCCESS_FILE, read_manifest
from cluster.scores_files import check_part
from cluster.store import absolute, list_names
from cluster.worker import node_name
from sms.naming import AnyPath

COMPLETE, STARTING, RUNNING, STOPPED, DIED = "complete", "starting", "running", "stopped", "died"
"""What a run may be: `stopped` came to its end in good order, but before every shard was scored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningShard:
    """A shard that is being scored, or was when the driver died."""

    index: int
    node: str
    seconds: float
    """Since it was handed out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """How far a run is."""

    out: str
    state: str
    """One of `complete`, `starting`, `running`, `stopped`, `died`."""
    driver: str | None
    """Who holds the folder, or held it; None if nobody does."""
    n_rows: int = 0
    n_done_rows: int = 0
    n_shards: int = 0
    n_done: int = 0
    n_failed: int = 0
    running: Sequence[RunningShard] = ()
    """The one that was begun first comes first."""
    rows_per_s: float | None = None
    """Of late; None if nothing is running, or nothing is known yet."""
    seconds_left: float | None = None
    errors: Sequence[str] = ()
    """Of the shards that failed last."""

    @property
    def n_left(self) -> int:
        """Shards that are neither done, nor running, nor given up."""
        return max(0, self.n_shards - self.n_done - self.n_failed - len(self.running))

    @property
    def is_well(self) -> bool:
        """Whether the run is complete, or goes on without a shard given up."""
        return self.state in (COMPLETE, STARTING, RUNNING) and not self.n_failed


def run_status(out: AnyPath, sleep: Callable[[float], None] = time.sleep) -> RunStatus:
    """Look at the folder of a run.

    Where neither this machine nor a fresh `progress.json` can tell whether the driver is alive, the
    folder is watched for some seconds.

    Raises ValueError if there is no run, or a file that tells of it is damaged.
    """
    out = absolute(os.fspath(out))
    live, manifest = read_progress(out), read_manifest(out)
    state = _state(out, live, sleep)
    driver = live.driver if live is not None and state != COMPLETE else None
    if manifest is None:
        if state in (STARTING, RUNNING):
            return RunStatus(out=out, state=STARTING, driver=driver)
        raise ValueError(f"{out} must be a folder of `assay score`, but has no {RUN_FILE}")
    parts = committed_parts(out, manifest.shards, manifest.fingerprint)
    damaged = {} if state in (STARTING, RUNNING) else _damaged(parts)
    done = parts.keys() - damaged.keys()
    if state == COMPLETE and len(done) < len(manifest.shards):  # some were deleted or damaged
        state = STOPPED
    failed = {
        record["index"]: record["error"]
        for record in manifest.result.get("shards", ())
        if record["error"] is not None and record["index"] not in done
    } | damaged
    errors = [shard_error(index, text) for index, text in failed.items()]
    n_failed, shards, speed = len(failed), [], {}
    if live is not None and live.fingerprint == manifest.fingerprint and state != COMPLETE:
        n_failed = live.n_failed_shards + len(damaged)
        errors = [*live.errors, *(shard_error(*one) for one in damaged.items())]
        shards = [
            RunningShard(index=index, node=node, seconds=live.time - since)
            for index, node, since in live.running
            if index not in done
        ]
        if state == RUNNING:
            speed = {"rows_per_s": live.rows_per_s, "seconds_left": live.seconds_left}
    return RunStatus(
        out=out,
        state=state,
        driver=driver,
        n_rows=sum(shard.n_rows for shard in manifest.shards),
        n_done_rows=sum(shard.n_rows for shard in manifest.shards if shard.index in done),
        n_shards=len(manifest.shards),
        n_done=len(done),
        n_failed=n_failed,
        running=sorted(shards, key=lambda shard: -shard.seconds),
        errors=errors[-KEPT_ERRORS:],
        **speed,
    )


def _state(out: str, live: DriverProgress | None, sleep: Callable[[float], None]) -> str:
    if SUCCESS_FILE in list_names(out):
        return COMPLETE
    if live is None:
        return STOPPED
    # A clock is trusted where a wrong one does no harm, for an answer at once.
    is_fresh = live.host != node_name() and abs(time.time() - live.time) < FRESH_S
    if not is_fresh and not is_alive(out, live, sleep):
        return DIED
    return RUNNING if live.fingerprint else STARTING


def _damaged(parts: Mapping[int, str]) -> dict[int, str]:
    """Read the footers of scores files and say, by shard, which are not sound, and why."""

    def check(path: str) -> str:
        try:
            check_part(path)
        except (ValueError, OSError) as error:
            return str(error)
        return ""

    paths = dict.fromkeys(parts.values())
    with ThreadPoolExecutor(READERS) as pool:
        wrong = dict(zip(paths, pool.map(check, paths), strict=True))
    return {index: wrong[path] for index, path in parts.items() if wrong[path]}
