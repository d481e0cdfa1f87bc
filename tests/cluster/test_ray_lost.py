"""A cluster of our own whose servers are killed: what is said of it, and that nothing is left."""

import os
import signal
import time
from pathlib import Path

import pytest

from cluster import RayOptions, committed, list_inputs, plan_shards, run_local, run_ray
from tests.cluster.toy_scorer import HeldBy

pytestmark = [
    pytest.mark.slow,
    pytest.mark.ray,
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="finds processes in /proc"),
]


def processes(mark):
    """Processes that have a variable in their environment, as all of a cluster inherit it."""
    found = {}
    for place in Path("/proc").iterdir():
        try:
            environment = place.joinpath("environ").read_bytes().split(b"\0")
            command = place.joinpath("cmdline").read_bytes().split(b"\0")[0].decode()
        except OSError:
            continue
        if f"ASSAY_TEST_MARK={mark}".encode() in environment and place.name != str(os.getpid()):
            found[int(place.name)] = command.rpartition("/")[2]
    return found


@pytest.fixture
def run(write_corpus, make_rows, make_scorer, job, check_scores, tmp_path, monkeypatch):
    """Start a run on a cluster of its own, and kill a server of it at the first report."""
    monkeypatch.setenv("ASSAY_TEST_MARK", str(tmp_path))
    make = make_scorer(HeldBy(tmp_path / "hold"))
    plan = plan_shards(list_inputs([write_corpus(make_rows(48), row_group_size=4)]), 4)
    killed = []

    def run(server):
        def kill(report):
            if not killed:
                killed.extend(pid for pid, name in processes(tmp_path).items() if name == server)
                for pid in killed:
                    os.kill(pid, signal.SIGKILL)

        return run_ray(plan, make, job, kill, options=RayOptions(workers=2))

    yield run
    assert len(killed) == 1
    deadline = time.monotonic() + 10  # a killed process takes a moment to end
    while processes(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes(tmp_path) == {}
    (tmp_path / "hold").unlink(missing_ok=True)
    left = [s for s in plan if s.index not in committed(job.out, plan, job.fingerprint)]
    run_local(left, make, job)
    check_scores(48)


def test_head_killed_in_a_run_that_can_be_finished(run):
    assert [report.error for report in run("gcs_server")] == [None] * 12


@pytest.mark.parametrize(
    ("server", "what"),
    [
        ("raylet", r"the Ray cluster was lost \(.*\)"),
        ("gcs_server", r"the head node of the Ray cluster at 127\S* no longer answers"),
    ],
)
def test_server_killed_in_a_run_that_cannot_be_finished(run, server, what, tmp_path):
    (tmp_path / "hold").touch()
    with pytest.raises(RuntimeError, match=f"^{what}; committed shards are kept: .*$"):
        run(server)
