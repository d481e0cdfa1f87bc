"""Workers and drivers on one machine are killed, frozen and made to fail, at random moments.

Every round starts a run in several processes, breaks something, resumes until the run is complete,
and holds the files against those of an undisturbed run in one process.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from cluster import Job, committed, list_inputs, plan_shards, run_local
from tests.cluster.conftest import parts_of, rows_of
from tests.cluster.drivers import marked_processes
from tests.cluster.toy_scorer import MakeScorer

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("ASSAY_PROCESS_ROUNDS", "5"))
N_ROWS, ROWS_PER_SHARD, N_WORKERS = 200, 4, 3
PATIENCE_S = 120

DRIVER = """
import sys
from pathlib import Path
from cluster import Job, committed, driver, list_inputs, plan_shards, runners
from tests.torture.test_process_faults import N_WORKERS, ROWS_PER_SHARD, Breakable
from tests.cluster.toy_scorer import MakeScorer

corpus, folder = sys.argv[1:]
runners.SLOW_AFTER_S, driver.LOOK_AROUND_EVERY_S = 0.2, 0.5  # a limit of four seconds
plan = plan_shards(list_inputs([corpus]), ROWS_PER_SHARD)
job = Job(out=f"{folder}/out", fingerprint="0123456789abcdef")
left = [s for s in plan if s.index not in committed(job.out, plan, job.fingerprint)]
make = MakeScorer(Breakable(Path(folder)))
workers = runners.start_processes(make, N_WORKERS)
reports = runners.run_processes(left, workers, job)
sys.exit(any(report.error for report in reports))
"""


class Breakable:
    """Takes a moment, and fails in processes that a file names."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, rows):
        time.sleep(0.05)
        if (self.folder / f"bad-{os.getpid()}").exists():
            raise OSError("this process is broken")


def kill(pid, folder):
    os.kill(pid, signal.SIGKILL)


def freeze(pid, folder):
    os.kill(pid, signal.SIGSTOP)


def freeze_for_a_while(pid, folder):
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.5)
    os.kill(pid, signal.SIGCONT)


def make_fail(pid, folder):
    (folder / f"bad-{pid}").touch()


def kill_driver(pid, folder):
    os.kill(psutil.Process(pid).ppid(), signal.SIGKILL)


FAULTS = [kill, freeze, freeze_for_a_while, make_fail, kill_driver]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A corpus, and the files of a run of it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("undisturbed")
    corpus = folder / "corpus.parquet"
    pq.write_table(pa.Table.from_pylist(rows_of(N_ROWS)), corpus)
    job = Job(out=str(folder / "out"), fingerprint="0123456789abcdef")
    run_local(plan_shards(list_inputs([corpus]), ROWS_PER_SHARD), MakeScorer(), job)
    return str(corpus), parts_of(job.out)


def workers_of(folder, driver):
    return sorted(set(marked_processes(folder)) - {driver.pid})


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_files_are_those_of_an_undisturbed_run(undisturbed, tmp_path, seed):
    corpus, expected = undisturbed
    rng = random.Random(seed)
    command = [sys.executable, "-c", DRIVER, corpus, str(tmp_path)]
    how = {
        "cwd": Path(__file__).parents[2],
        "env": {**os.environ, "ASSAY_TEST_MARK": str(tmp_path)},
    }
    # each fault comes first in turn; the others are any
    faults = [FAULTS[seed % len(FAULTS)], *rng.choices(FAULTS, k=2)]
    todo, n_starts, status = [*faults], 0, None
    while status != 0:
        n_starts += 1
        assert n_starts <= 5
        driver = subprocess.Popen(command, **how)
        deadline = time.monotonic() + PATIENCE_S
        while driver.poll() is None:
            assert time.monotonic() < deadline, faults
            time.sleep(0.05)
            if todo and (tmp_path / "out" / "scores").is_dir() and rng.random() < 0.2:
                alive = workers_of(tmp_path, driver)
                if alive:
                    with suppress(ProcessLookupError, psutil.NoSuchProcess):
                        todo.pop(0)(rng.choice(alive), tmp_path)
        status = driver.wait()
        while workers_of(tmp_path, driver) and time.monotonic() < deadline:
            for pid in workers_of(tmp_path, driver):  # one that is frozen ends when it goes on
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            time.sleep(0.05)
        assert not workers_of(tmp_path, driver)
    named = ", ".join(fault.__name__ for fault in faults)
    said = "round %d: %s; %d left undone; started %d times"
    logging.getLogger(__name__).info(said, seed, named, len(todo), n_starts)
    plan = plan_shards(list_inputs([corpus]), ROWS_PER_SHARD)
    assert committed(tmp_path / "out", plan, "0123456789abcdef") == set(range(len(plan)))
    assert whole(parts_of(tmp_path / "out")) == expected


def whole(parts):
    """Leave out what a process that was killed had begun to write."""
    return {name: content for name, content in parts.items() if not name.endswith(".partial")}
