"""A pool of Ray actors, as many as were asked for or as the cluster has room for.

Ray never starts one again by itself: the driver starts another one in its stead.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

from cluster import ray_cluster  # noqa: F401  (sets what Ray reads when it is imported)

import ray  # isort: skip
from ray.exceptions import RayError  # isort: skip

from dataclasses import replace

from cluster.children import sendable, worker_environment
from cluster.parts import Job, ShardReport
from cluster.ray_cluster import HeadWatch, resources_of_nodes
from cluster.ray_metrics import ShardMetrics
from cluster.ray_options import Needs
from cluster.serving import Ended, News, Ready, Setup, Unfinished, Worker
from cluster.shards import Shard
from sms.urls import redacted

MOST_WAITING = 100
"""So many further actors at a time wait for a cluster to grow."""

logger = logging.getLogger(__name__)


class Actor:
    """A worker, and what Prometheus is told of it."""

    def __init__(self, setup: Setup, job: Job | None) -> None:
        self._worker, self._job = Worker(setup), job
        self._metrics, self._counting = ShardMetrics(), threading.Lock()

    def make_ready(self) -> Ready:
        """Make the scorer."""
        ready = self._worker.make_ready()
        return replace(ready, failure=ready.failure and sendable(ready.failure))

    def score(self, shard: Shard) -> ShardReport | Unfinished:
        """Score a shard, and count what that was."""
        assert self._job is not None  # noqa: S101  (no shard is sent without one)
        answer = self._worker.score(shard, self._job)
        if isinstance(answer, ShardReport):
            with self._counting:  # with a GPU two threads score
                self._metrics.count(answer)
        return answer

    def live(self) -> None:
        """Never return: that this fails shows that the actor has ended, whatever it does."""
        threading.Event().wait()


class RayPool:
    """Actors by number; `n_workers` of them, or where that is None as many as fit."""

    actor_class: type = Actor

    def __init__(self, setup: Setup, needs: Needs, n_workers: int | None) -> None:
        self._setup, self._needs, self._n_workers = setup, needs, n_workers
        self._job: Any = None
        self._threads = 2
        self._head = HeadWatch()
        self._room: int | None = None
        self._actors: dict[int, Any] = {}
        self._coming: dict[Any, int] = {}
        """What an actor is asked, and its number."""

    def begin(self, job: Job) -> None:
        """Learn what is the same for every shard."""
        self._job = ray.put(job)
        self._threads = job.shards_at_once + 1

    def room(self) -> tuple[int, int]:
        """As many as were asked for; else as many as fit, and more while shards wait.

        An actor that waits for room makes a cluster that scales itself start a node. Unlike
        `request_resources` it is a request of this run alone, and is gone with the driver.
        """
        if self._head.check():
            room = sum(map(self._needs.room_on, resources_of_nodes()))
            if room == 0 and self._room is None:
                logger.warning("no node has room for a worker of %s; waiting for one", self._needs)
            self._room = room
        if self._n_workers is not None:
            return self._n_workers, 0
        return self._room or 0, MOST_WAITING

    def start(self, worker: int) -> None:
        """Start an actor where there is room, or once there is."""
        actor: Any = ray.remote(self.actor_class).options(
            num_cpus=self._needs.cpus,
            num_gpus=self._needs.gpus,
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=self._threads,
            runtime_env={"env_vars": worker_environment(self._needs.cpus, is_local=False)},
        )
        handle = actor.remote(self._setup, self._job)
        self._actors[worker] = handle
        self._coming[handle.make_ready.remote()] = worker
        self._coming[handle.live.remote()] = worker

    def send(self, worker: int, shard: Shard) -> None:
        """Have an actor score a shard."""
        self._coming[self._actors[worker].score.remote(shard)] = worker

    def kill(self, worker: int) -> None:
        """End an actor, and forget what it was asked."""
        self._coming = {asked: n for asked, n in self._coming.items() if n != worker}
        if handle := self._actors.pop(worker, None):
            ray.kill(handle)

    def news(self, timeout_s: float) -> Iterator[tuple[int, News]]:
        """Wait for the next answer; without a timeout, return all there are."""
        asked = list(self._coming)
        if not asked:
            time.sleep(timeout_s)
            return
        n_most = 1 if timeout_s else len(asked)
        done, _ = ray.wait(asked, num_returns=n_most, timeout=timeout_s)
        for answer in done:
            if answer in self._coming:  # it may have been killed meanwhile
                worker = self._coming.pop(answer)
                try:
                    yield worker, ray.get(answer)
                except RayError as error:
                    self.kill(worker)
                    yield worker, Ended(_cause(error))

    def close(self) -> None:
        """End all actors; without a head node that cannot be done, and they end by themselves."""
        if not self._head.is_lost:
            for worker in [*self._actors]:
                self.kill(worker)


def _cause(error: RayError) -> str:
    """Say in one line why an actor has ended.

    The cause comes last; Ray's numbers of nodes and owners follow its first sentence.
    """
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return redacted(lines[-1].strip().partition(". ")[0].rstrip("."))
