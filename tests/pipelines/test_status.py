"""`assay status`: complete, going, dead, stopped; on storage alone."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from cluster import InputFile, Job, Piece, Shard, part_path, write_whole
from cluster.live import LiveRun
from cluster.manifest import Manifest, write_manifest
from cluster.parts import write_scores
from cluster.progress import SCORING, Progress
from pipelines.cli import app as cli
from pipelines.status import run_status
from tests.cluster.drivers import elsewhere

PIECES = [
    Piece(path="/data/a.parquet", first_row=10 * i, n_rows=10, row_groups=(i, i + 1))
    for i in range(5)
]
MANIFEST = Manifest(
    **{key: {} for key in ("configuration", "signatures", "encoders", "versions")},
    inputs=[InputFile("/data/a.parquet", 1, "ab")],
    shards=[Shard(index=i, pieces=(piece,)) for i, piece in enumerate(PIECES)],
)
BEGINNING = Progress(stage=SCORING, n_rows=50)


def commit(out, *indices):
    for index in indices:
        names = ("document_id", "system_id", "status", "unreadable")
        scores = pa.table({name: pa.nulls(10, pa.string()) for name in names})
        job = Job(out=out, fingerprint=MANIFEST.fingerprint)
        write_scores(scores, [], MANIFEST.shards[index], job)


@pytest.fixture
def out(tmp_path):
    write_manifest(str(tmp_path), MANIFEST)
    return str(tmp_path)


def test_run_that_goes_on_by_hand(out, capsys):
    """One shard done, one given up, two at work on two nodes, one left."""
    with LiveRun(out) as live:
        live.begin(MANIFEST.fingerprint, BEGINNING)
        for index, node in ((0, "gpu-0"), (1, "gpu-1"), (2, "gpu-0"), (3, "gpu-1")):
            live.started(index, node)
        commit(out, 0)
        live.reported(0, None, replace(BEGINNING, n_done=10))
        error = "OSError: gone [rows 10 to 19]"
        live.reported(1, error, replace(BEGINNING, n_done=10, n_failed_shards=1))
        live.write()
        found = run_status(out)
        assert cli.run(["status", out]) == 1
    shown = capsys.readouterr().out
    assert "\nRows:    10 of 50 done (20%), " in shown
    assert "\nShards:  1 done, 2 running, 1 failed, 1 left\nOldest:  shard 2 on gpu-0, " in shown
    assert "\nLast errors:\n  shard 1: OSError: gone [rows 10 to 19]\n" in shown
    assert (found.state, found.n_rows, found.n_done_rows) == ("running", 50, 10)
    assert (found.n_done, found.n_failed, found.n_left) == (1, 1, 1)
    assert [(shard.index, shard.node) for shard in found.running] == [(2, "gpu-0"), (3, "gpu-1")]
    assert found.errors == ["shard 1: OSError: gone [rows 10 to 19]"]
    assert found.rows_per_s > 0
    assert str(os.getpid()) in found.driver
    assert not found.is_well


def test_end_in_good_order_leaves_no_progress(out):
    """Shard 2 failed, and so did shard 0, which somebody else has scored since."""
    with LiveRun(out) as live:
        live.begin(MANIFEST.fingerprint, BEGINNING)
    assert set(os.listdir(out)) == {"run.json"}
    failed = [{"index": index, "error": "OSError: gone"} for index in (0, 2)]
    write_manifest(out, replace(MANIFEST, result={"shards": failed}))
    commit(out, 0)
    found = run_status(out)
    assert (found.state, found.n_done, found.n_left, found.driver) == ("stopped", 1, 3, None)
    assert (found.n_failed, found.errors) == (1, ["shard 2: OSError: gone"])
    assert not found.is_well


def test_driver_on_another_machine_is_alive_if_its_progress_moves(out):
    """Its clock is an hour slow, so only a change tells."""
    live = LiveRun(out)
    live.begin(MANIFEST.fingerprint, BEGINNING)
    elsewhere(out, time=time.time() - 3600)
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 3:
            elsewhere(out, time=time.time() - 3595)

    assert run_status(out, sleep).state == "running"
    assert len(slept) == 3
    assert run_status(out, slept.append).state == "died"
    assert 20 <= sum(slept) < 60


def test_complete_run_is_stopped_if_it_has_lost_a_file_or_one_is_damaged(out, capsys):
    commit(out, *range(4))
    write_whole(f"{out}/_SUCCESS", b"")
    found = run_status(out)
    assert (found.state, found.n_done, found.is_well) == ("stopped", 4, False)
    commit(out, 4)
    found = run_status(out)
    assert (found.state, found.n_done, found.is_well) == ("complete", 5, True)
    path = part_path(out, 3, MANIFEST.fingerprint)
    write_whole(path, os.urandom(Path(path).stat().st_size))
    found = run_status(out)
    assert (found.state, found.n_done, found.n_failed) == ("stopped", 4, 1)
    assert found.errors[0].startswith(f"shard 3: scores file {path} is damaged")
    assert cli.run(["status", out]) == 1
    assert "delete it to have its rows scored again" in capsys.readouterr().out


@pytest.mark.parametrize("damage", [b'{"fingerprint": 1}', None])
def test_no_run_and_damaged_progress_are_named(out, tmp_path, capsys, damage):
    assert cli.run(["status", str(tmp_path / "none")]) == 2
    assert "has no run.json" in capsys.readouterr().err
    LiveRun(out).begin(MANIFEST.fingerprint, BEGINNING)
    path = Path(out, "progress.json")
    path.write_bytes(path.read_bytes()[:-9] if damage is None else damage)
    assert cli.run(["status", out]) == 2
    assert f"{path} is damaged" in capsys.readouterr().err
    path.unlink()
    assert cli.run(["status", out]) == 1
