"""Corpora of every format, for the tests of `cluster`."""

import logging
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster import (
    Job,
    RayOptions,
    committed,
    list_inputs,
    plan_shards,
    run_local,
    run_processes,
    run_ray,
    start_processes,
    with_content,
    with_file_facts,
)
from cluster.children import import_path
from cluster.reading import parquet_copy, read_files
from cluster.schema import Wanted
from cluster.serving import no_description
from tests.cluster.raylets import cluster, run_joined  # noqa: F401  (fixtures)
from tests.cluster.toy_scorer import MakeScorer
from tests.object_stores import bucket, proxy, server  # noqa: F401  (fixtures)
from tests.row_files import write_rows

FORMATS = ["parquet", "jsonl", "csv"]


def planned(paths, folder, rows_per_shard=20_000, limit=None):
    """Plan files of any format, as a run does."""
    listed = with_content(list_inputs(paths))
    wanted = Wanted(needed=("candidate",))
    files = [parquet_copy(file, str(folder), wanted, limit) for file in listed]
    return with_file_facts(plan_shards(files, rows_per_shard, limit), files)


def read_rows(path, needed, batch_rows=1_000, columns=None, **more):
    """Read all of a file as rows of the canonical table."""
    wanted = Wanted(needed=needed, columns=columns or {}, **more)
    tables = read_files(list_inputs([str(path)]), wanted, batch_rows=batch_rows)
    return [row for table in tables for row in table.to_pylist()]


def rows_of(n):
    """Rows whose candidates need quoting in CSV; candidate i begins with its number."""
    return [
        {
            "document_id": f"d{i // 3}",
            "system_id": f"s{i % 3}",
            "candidate": f'{i} says "yes",\nthen é{"x" * (i % 7)}',
        }
        for i in range(n)
    ]


def parts_of(out):
    """The scores files of a run, by name."""
    return {path.name: path.read_bytes() for path in Path(out, "scores").iterdir()}


POISON = rows_of(48)[20]["candidate"]
"""In the third of six shards."""


@pytest.fixture
def write_corpus(tmp_path):
    """Write rows as one file and return its path."""

    def write(rows, format="parquet", name="corpus", row_group_size=None):
        return str(write_rows(tmp_path / f"{name}.{format}", rows, row_group_size))

    return write


@pytest.fixture
def make_plan(write_corpus):
    """Plan a file of rows, by so many a shard."""

    def make(rows_per_shard=8, n_rows=48):
        path = write_corpus(rows_of(n_rows), row_group_size=rows_per_shard)
        return plan_shards(list_inputs([path]), rows_per_shard)

    return make


@pytest.fixture
def plan(make_plan):
    """Six shards of eight rows."""
    return make_plan()


@pytest.fixture
def job(tmp_path):
    return Job(
        out=str(tmp_path / "out"),
        fingerprint="0123456789abcdef",
        metadata={"signature": "characters|v:1"},
        batch_rows=4,
    )


@pytest.fixture
def read_scores():
    """All scores of a run, shard after shard."""

    def read(out):
        parts = sorted(Path(out, "scores").glob("part-*.parquet"))
        return pa.concat_tables([pq.read_table(part) for part in parts])

    return read


@pytest.fixture
def check_scores(read_scores, job):
    """Check that a run has the scores of all rows, but for those of failed shards."""

    def check(*, but=range(0)):
        rows = [row for i, row in enumerate(rows_of(48)) if i not in but]
        expected = [float(len(row["candidate"])) for row in rows]
        assert read_scores(job.out)["characters"].to_pylist() == expected

    return check


@pytest.fixture
def check_resumed(check_scores, job):
    """Check that what a run has left to do can be scored here; return it."""

    def check(plan):
        done = committed(job.out, plan, job.fingerprint)
        left = [shard for shard in plan if shard.index not in done]
        run_local(left, MakeScorer(), job)
        check_scores()
        return left

    return check


@contextmanager
def started_ray(**settings):
    """A cluster that the runs of a module share: a run uses the connection it finds."""
    from cluster import ray_cluster  # sets the environment before Ray is imported

    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.ERROR}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", import_path())  # nodes can import the toys
        ray_cluster.ray.init(address="local", **quiet, **settings)
        yield ray_cluster.ray
        ray_cluster.ray.shutdown()


@pytest.fixture
def address(monkeypatch):
    """Of a cluster with two cores, which ends with the test."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", import_path())
    node = {"num_cpus": 2, "object_store_memory": 80_000_000, "include_dashboard": False}
    started = Cluster(initialize_head=True, head_node_args=node)
    yield started.address
    started.shutdown()


@pytest.fixture(scope="module")
def started():
    """Ray itself, with two cores and what it takes for a GPU."""
    with started_ray(num_cpus=2, num_gpus=1) as ray:
        yield ray


@pytest.fixture
def run_on_ray(started):
    def run(plan, make, job, on_report=None, describe=no_description, expected=None, **options):
        how = {"describe": describe, "expected": expected}
        return run_ray(plan, make, job, on_report, options=RayOptions(**options), **how)

    return run


def run_in_a_process(plan, make, job, describe=no_description, expected=None, **more):
    workers = start_processes(make, 1, describe=describe, expected=expected)
    return run_processes(plan, workers, job, **more)


@pytest.fixture(
    params=[
        "here",
        "in a process",
        pytest.param("on Ray", marks=[pytest.mark.slow, pytest.mark.ray]),
    ]
)
def run(request):
    """Every runner, with one scorer at a time."""
    if request.param == "here":
        return run_local
    if request.param == "in a process":
        return run_in_a_process
    return partial(request.getfixturevalue("run_on_ray"), workers=1)


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """A working directory with packages called as ours, which leave a mark if they are run."""
    for package in ("cluster", "sms", "pipelines", "reffree", "tests", "ray", "logging"):
        (tmp_path / package).mkdir()
        code = f"open({str(tmp_path / 'run')!r}, 'a').write(__name__ + ' ')\nraise SystemExit(7)\n"
        (tmp_path / package / "__init__.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert not (tmp_path / "run").exists(), (tmp_path / "run").read_text()
