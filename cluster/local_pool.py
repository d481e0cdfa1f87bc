"""A pool of one worker, which is this process; with a GPU it scores two shards at a time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from cluster.parts import Job
from cluster.serving import News, Setup, Worker
from cluster.shards import Shard


class LocalPool:
    """Scores in this process; a worker that is replaced makes its scorer anew."""

    def __init__(self, setup: Setup) -> None:
        self._setup, self._worker = setup, Worker(setup)
        self._threads = ThreadPoolExecutor()
        self._coming: dict[Future[News], int] = {}

    def begin(self, job: Job) -> None:
        """Learn what is the same for every shard."""
        self._job = job

    def room(self) -> tuple[int, int]:
        """One."""
        return 1, 0

    def start(self, worker: int) -> None:
        """Make the scorer, here and now."""
        self._coming[_done(self._worker.make_ready())] = worker

    def send(self, worker: int, shard: Shard) -> None:
        """Begin to score a shard; without a GPU in this thread, which an interrupt reaches."""
        if self._job.shards_at_once > 1:
            coming: Future[News] = self._threads.submit(self._worker.score, shard, self._job)
        else:
            coming = _done(self._worker.score(shard, self._job))
        self._coming[coming] = worker

    def kill(self, worker: int) -> None:
        """Forget the scorer before another one is made: there may be no memory for two."""
        self._worker = Worker(self._setup)

    def news(self, timeout_s: float) -> Iterator[tuple[int, News]]:
        """Wait for a shard that is done."""
        for future in wait(self._coming, timeout_s, FIRST_COMPLETED).done:
            yield self._coming.pop(future), future.result()

    def close(self) -> None:
        """Wait for what is under way, which ends with its batch."""
        self._worker.spoil()
        self._threads.shutdown()


def _done(news: News) -> Future[News]:
    future: Future[News] = Future()
    future.set_result(news)
    return future
