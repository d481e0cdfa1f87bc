"""Says how far a run is, from what is on storage alone: no Ray, no question to its driver.

`_SUCCESS` says that a run is complete, the scores files which shards are done, `progress.json` what
the driver is doing, and `run.json` with `history/` what became of the shards. Where no driver is at
work, the scores files are read to see that they are sound.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from cluster import committed_parts
from cluster.inputs import READERS
from cluster.scores_files import check_parts
from cluster.store import absolute, list_names
from cluster.worker import node_name
from pipelines.runs.history import last_errors, written_groups
from pipelines.runs.live import (
    BEAT_EVERY_S,
    KEPT_ERRORS,
    driver_of,
    is_running,
    read_progress,
    shows_life,
)
from pipelines.runs.manifest import RUN_FILE, SUCCESS_FILE, read_manifest
from sms.naming import AnyPath

COMPLETE, STARTING, RUNNING, STOPPED, DIED = "complete", "starting", "running", "stopped", "died"
"""What a run may be: `stopped` came to its end in good order, but before every shard was scored."""

_FRESH_S = 3 * BEAT_EVERY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """What one node has done; of a run that goes on, since its driver began."""

    node: str
    n_shards: int
    n_rows: int
    seconds: float
    """Of all its workers together."""
    n_failures: int
    n_running: int = 0

    @property
    def rows_per_s(self) -> float | None:
        """Rows per second of one of its workers."""
        return self.n_rows / self.seconds if self.seconds else None


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
    nodes: Sequence[NodeStatus] = ()
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
    live = read_progress(out)
    manifest = read_manifest(out)
    if manifest is None:
        if live is not None and _is_alive(out, live, sleep):
            return RunStatus(out=out, state=STARTING, driver=driver_of(live))
        raise ValueError(f"{out} must be a folder of `assay score`, but has no {RUN_FILE}")
    parts = committed_parts(out, manifest.shards, manifest.fingerprint)
    done = set(parts)
    state, driver = _state(out, live, sleep)
    if live is not None and live["fingerprint"] != manifest.fingerprint:
        live = None
    damaged = {} if state in (STARTING, RUNNING) else _damaged(parts)
    done -= damaged.keys()
    if state == COMPLETE and len(done) < len(manifest.shards):  # some have been deleted since
        state = STOPPED
    groups = [manifest.result, *written_groups(out, manifest.fingerprint)]
    errors = {i: text for i, text in last_errors(groups).items() if i not in done} | damaged
    shown = [f"shard {index}: {text}" for index, text in errors.items()][-KEPT_ERRORS:]
    n_failed = len(errors)
    if state in (RUNNING, DIED) and live is not None:
        shown, n_failed = live["errors"], live["n_failed_shards"]
    going = live if state == RUNNING else None
    return RunStatus(
        out=out,
        state=state,
        driver=driver,
        n_rows=sum(shard.n_rows for shard in manifest.shards),
        n_done_rows=sum(shard.n_rows for shard in manifest.shards if shard.index in done),
        n_shards=len(manifest.shards),
        n_done=len(done),
        n_failed=n_failed,
        running=_running(live, done) if state in (RUNNING, DIED) else [],
        rows_per_s=going["rows_per_s"] if going else None,
        seconds_left=going["seconds_left"] if going else None,
        nodes=_nodes_now(going) if going else _nodes(groups),
        errors=shown,
    )


def _state(
    out: str, live: Mapping[str, Any] | None, sleep: Callable[[float], None]
) -> tuple[str, str | None]:
    if SUCCESS_FILE in list_names(out):
        return COMPLETE, None
    if live is None:
        return STOPPED, None
    driver = driver_of(live)
    if not _is_alive(out, live, sleep):
        return DIED, driver
    return (RUNNING if live["fingerprint"] else STARTING), driver


def _damaged(parts: Mapping[int, str]) -> dict[int, str]:
    """Read the scores files of shards and say what is wrong with those that are not sound."""

    def check(path: str) -> tuple[str, str] | None:
        try:
            check_parts([path])
        except (ValueError, OSError) as error:
            return path, str(error)
        return None

    with ThreadPoolExecutor(READERS) as pool:
        checked = pool.map(check, dict.fromkeys(parts.values()))
        wrong = dict(one for one in checked if one is not None)
    return {index: wrong[path] for index, path in parts.items() if path in wrong}


def _is_alive(out: str, live: Mapping[str, Any], sleep: Callable[[float], None]) -> bool:
    if live["host"] == node_name() and not is_running(live["pid"]):
        return False
    return abs(time.time() - live["time"]) < _FRESH_S or shows_life(out, live, sleep)


def _running(live: Mapping[str, Any] | None, done: set[int]) -> list[RunningShard]:
    if live is None:
        return []
    shards = [
        RunningShard(index=r["shard"], node=r["node"], seconds=live["time"] - r["since"])
        for r in live["running"]
        if r["shard"] not in done
    ]
    return sorted(shards, key=lambda shard: -shard.seconds)


def _nodes_now(live: Mapping[str, Any]) -> list[NodeStatus]:
    n_running = Counter(shard["node"] for shard in live["running"])
    idle = {"n_shards": 0, "n_rows": 0, "seconds": 0.0, "n_failures": 0}
    return [
        NodeStatus(node=node, **live["nodes"].get(node, idle), n_running=n_running[node])
        for node in sorted({*live["nodes"], *n_running})
    ]


def _nodes(groups: Sequence[Mapping[str, Any]]) -> list[NodeStatus]:
    """Add up what is known of every shard."""
    latest = {r["index"]: r for group in groups for r in group.get("shards", [])}
    by_node: dict[str, list[Mapping[str, Any]]] = {}
    for record in latest.values():
        by_node.setdefault(record.get("node", ""), []).append(record)
    return [
        NodeStatus(
            node=node,
            n_shards=sum(r.get("error") is None for r in records),
            n_rows=sum(r["n_rows"] for r in records),
            seconds=sum(r.get("seconds", 0.0) for r in records if r.get("error") is None),
            n_failures=sum(r.get("error") is not None for r in records),
        )
        for node, records in sorted(by_node.items())
        if node
    ]
