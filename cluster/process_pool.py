"""A pool of processes of this machine, which start in a second; each may have a share of the GPUs.

They end when this process does. What GPUs torch sees is said by `CUDA_VISIBLE_DEVICES`, which its
builds for AMD read as well.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait

from cluster.children import sendable, start_child, worker_environment
from cluster.facts import Facts
from cluster.parts import Job
from cluster.serving import Ended, News, Ready, Setup, Worker
from cluster.shards import Shard
from cluster.worker import node_name

_DEVICES = "CUDA_VISIBLE_DEVICES"


class ProcessPool:
    """So many processes at most; `n_gpus` of this machine are dealt out among them."""

    def __init__(
        self, setup: Setup, n_workers: int, *, n_gpus: int = 0, gpus_per_worker: float = 0.0
    ) -> None:
        self._job: Job | None = None
        self._n_workers, self._threads = n_workers, setup.threads
        self._gpus = gpu_shares(n_gpus, gpus_per_worker, os.environ)
        try:
            self._work = pickle.dumps(setup)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise _not_sent(error) from error
        self._processes: dict[int, _Process] = {}

    def begin(self, job: Job) -> None:
        """Learn what is the same for every shard."""
        self._job = job

    def room(self) -> tuple[int, int]:
        """As many as were asked for."""
        return self._n_workers, 0

    def start(self, worker: int) -> None:
        """Start a process, which begins to load the scorer."""
        environment = worker_environment(self._threads, is_local=True)
        if self._gpus:
            environment[_DEVICES] = self._gpus[worker % len(self._gpus)]
        self._processes[worker] = process = _Process(environment)
        process.send(self._work)

    def send(self, worker: int, shard: Shard) -> None:
        """Have a process score a shard; with its first one it learns the job."""
        process = self._processes[worker]
        process.send(pickle.dumps((shard, None if process.knows_job else self._job)))
        process.knows_job = True

    def kill(self, worker: int) -> None:
        """End a process."""
        if process := self._processes.pop(worker, None):
            process.kill()

    def news(self, timeout_s: float) -> Iterator[tuple[int, News]]:
        """Wait for processes that say something, or have ended."""
        by_connection = {process.connection: n for n, process in self._processes.items()}
        for connection in wait(list(by_connection), timeout_s):
            worker = by_connection[connection]  # type: ignore[index]  # they are what went in
            if process := self._processes.get(worker):
                yield from ((worker, answer) for answer in process.answers())

    def close(self) -> None:
        """End all processes."""
        for worker in [*self._processes]:
            self.kill(worker)


def gpu_shares(n_gpus: int, share: float, environment: Mapping[str, str]) -> list[str]:
    """Return which GPUs the workers see, in turns; several share one if a share is below 1.

    >>> gpu_shares(4, 2, {}), gpu_shares(2, 0.5, {"CUDA_VISIBLE_DEVICES": "5,7"})
    (['0,1', '2,3'], ['5', '7'])
    """
    if not (n_gpus and share):
        return []
    named = environment.get(_DEVICES, "")
    names = named.split(",") if named else [str(number) for number in range(n_gpus)]
    size = max(1, round(share))
    return [",".join(names[i : i + size]) for i in range(0, n_gpus - size + 1, size)]


def _not_sent(error: Exception) -> ValueError:
    """Say that workers cannot have what only the program that runs has."""
    return ValueError(
        f"workers cannot load what this program itself defines ({error}); put it into an "
        "installed package, or leave out `--workers`"
    )


class _Process:
    """A process that scores."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.knows_job = False
        self._process, self.connection = start_child(
            "cluster.process_pool:work",
            environment,
            stdin=subprocess.PIPE,  # closed by the end of this process, whatever ends it
        )

    def send(self, message: bytes) -> None:
        """Send something; a process that has ended shows it when its answer is read."""
        with suppress(ConnectionError):
            self.connection.send_bytes(message)

    def answers(self) -> Iterator[News]:
        """Read what the process has said, and last how it has ended."""
        try:
            yield pickle.loads(self.connection.recv_bytes())
            while not self.connection.closed and self.connection.poll():
                yield pickle.loads(self.connection.recv_bytes())
        except (EOFError, ConnectionError):
            yield Ended(self.kill())

    def kill(self) -> str:
        """End the process; say how it ended."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self.connection.close()
        status = self._process.returncode
        return f"ended by {signal.Signals(-status).name}" if status < 0 else f"status {status}"


# In the process


def work(connection: Connection) -> None:
    """Say what the scorer is, then answer each shard that is sent."""
    lock = threading.Lock()

    def say(news: News) -> None:
        with lock:
            connection.send_bytes(pickle.dumps(news))

    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        worker = Worker(pickle.loads(connection.recv_bytes()))
    except (ImportError, AttributeError, ValueError) as error:
        say(Ready(facts=Facts(node=node_name()), failure=_not_sent(error)))
        return
    ready = worker.make_ready()
    say(replace(ready, failure=ready.failure and sendable(ready.failure)))
    threads = ThreadPoolExecutor()
    job: Job | None = None
    while True:
        shard, new_job = pickle.loads(connection.recv_bytes())
        job = new_job or job
        assert job is not None  # noqa: S101  (it comes with the first shard)
        if job.shards_at_once == 1:
            say(worker.score(shard, job))
        else:
            threads.submit(_answer, say, worker, shard, job)


def _answer(say: Callable[[News], None], worker: Worker, shard: Shard, job: Job) -> None:
    """Score a shard in a thread; where that cannot be told, the process is of no use."""
    try:
        say(worker.score(shard, job))
    except BaseException:  # noqa: BLE001
        os._exit(1)


def _end_with_parent() -> None:
    """Wait for the end of standard input, which the driver holds open as long as it lives."""
    sys.stdin.buffer.read()
    os._exit(1)
