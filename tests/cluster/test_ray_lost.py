"""A cluster of our own whose servers are killed: what is said of it, and that nothing is left."""

import os
import signal
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster import Job, RayOptions, committed, list_inputs, plan_shards, run_local, run_ray

pytestmark = [
    pytest.mark.slow,
    pytest.mark.ray,
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="finds processes in /proc"),
]

SCORER = """
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc


class Held:
    input_columns = ("candidate",)
    score_fields = ("characters",)

    def counters(self):
        return {{}}

    def prepare(self, rows):
        while Path({hold!r}).exists() and not rows["candidate"][0].as_py().startswith("0 says"):
            time.sleep(0.1)
        return rows["candidate"].combine_chunks()

    def compare(self, prepared):
        characters = pc.utf8_length(prepared).cast(pa.float64())
        status = pa.nulls(len(prepared), pa.string())
        return pa.table({{"characters": characters, "status": status}})


def make(threads):
    return Held()
"""


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
def run(write_corpus, make_rows, tmp_path, monkeypatch):
    """Start a run on a cluster of its own, and kill a server of it at the first report."""
    (tmp_path / "held_scorer.py").write_text(SCORER.format(hold=str(tmp_path / "hold")))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "held_scorer", raising=False)
    monkeypatch.setenv("ASSAY_TEST_MARK", str(tmp_path))
    from held_scorer import make

    plan = plan_shards(list_inputs([write_corpus(make_rows(48), row_group_size=4)]), 4)
    job = Job(out=str(tmp_path / "out"), fingerprint="0123456789abcdef", batch_rows=4)
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
    lengths = [float(len(row["candidate"])) for row in make_rows(48)]
    parts = sorted(Path(job.out, "scores").iterdir())
    scores = pa.concat_tables(map(pq.read_table, parts))
    assert scores["characters"].to_pylist() == lengths


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
    with pytest.raises(RuntimeError, match=f"^{what}; what is committed stays, .*$"):
        run(server)
