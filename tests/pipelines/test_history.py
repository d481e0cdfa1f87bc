"""What is known of shards when a run goes on."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster import ShardReport, part_path
from pipelines.runs import history as module
from pipelines.runs.history import HistoryWriter, read_history
from pipelines.runs.manifest import read_manifest, write_manifest
from pipelines.score import score_corpus


@pytest.fixture
def finished(tmp_path):
    """A run of five shards of two rows, one with a status."""
    corpus, out = tmp_path / "corpus.parquet", tmp_path / "out"
    texts = [f"some{' words' * i}" for i in range(9)]
    ids = {"document_id": [f"d{i}" for i in range(10)], "system_id": ["a", "b"] * 5}
    pq.write_table(pa.table({**ids, "candidate": [*texts, None]}), corpus, row_group_size=2)
    run = score_corpus(corpus, out, metrics=["length"], local=True, workers=1, rows_per_shard=2)
    return str(out), run


@pytest.fixture
def reads(monkeypatch):
    """The scores files that are read."""
    seen = []

    def watched(path):
        seen.append(path.rsplit("/", 1)[-1][:11])
        return real(path)

    real = module.reports_from_file
    monkeypatch.setattr(module, "reports_from_file", watched)
    return seen


def as_killed(out, kept=()):
    """Undo what a run writes at its end, but for the history of some groups of shards."""
    manifest = read_manifest(out)
    records = {record["index"]: record for record in manifest.result["shards"]}
    write_manifest(out, replace(manifest, result={}))
    writer = HistoryWriter(out, manifest.fingerprint)
    for group in kept:
        for index in group:
            (report,) = module.reports_from_file(part_path(out, index, manifest.fingerprint))
            writer.add(replace(report, node=records[index]["node"], seconds=4.0))
        writer.write()
    return read_manifest(out)


def test_finished_run_is_known_without_reading_scores(finished, reads):
    out, run = finished
    manifest = read_manifest(out)
    found = read_history(out, manifest, manifest)
    assert reads == []
    assert found.sums.means() == run.means
    assert (found.n_rows, found.n_done, found.statuses) == (10, 5, {"candidate:null": 1})


def test_only_what_was_not_written_before_the_end_is_read(finished, reads):
    out, run = finished
    manifest = as_killed(out, kept=[(0, 3), (1,)])
    reads.clear()
    found = read_history(out, manifest, manifest)
    assert reads == ["part-000002", "part-000004"]
    assert (found.sums.means(), found.n_rows) == (run.means, 10)
    assert [record["seconds"] for record in found.records()] == [4.0, 4.0, 0.0, 4.0, 0.0]


def test_sums_with_a_shard_that_is_gone_do_not_count(finished, reads):
    out, run = finished
    manifest = as_killed(out, kept=[(0, 3), (1, 2, 4)])
    parts = [part_path(out, i, manifest.fingerprint) for i in range(5)]
    Path(parts[3]).unlink()
    reads.clear()
    found = read_history(out, manifest, manifest)
    assert reads == ["part-000000"]
    assert 3 not in found
    assert found.n_rows == 8
    again = score_corpus(
        f"{out}/../corpus.parquet", out, metrics=["length"], local=True, workers=1, rows_per_shard=2
    )
    assert (again.n_new_shards, again.means) == (1, run.means)
    assert not Path(out, "history").exists()


@pytest.mark.parametrize("damage", [b'{"fingerprint": 1}', None])
def test_damaged_file_of_the_history_named(finished, damage):
    out, _ = finished
    manifest = as_killed(out, kept=[(0, 3)])
    (path,) = Path(out, "history").iterdir()
    path.write_bytes(path.read_bytes().replace(b"n_rows", b"n_cows") if damage is None else damage)
    with pytest.raises(ValueError, match=rf"{path} is damaged .*delete it, and what it says is"):
        read_history(out, manifest, manifest)
    path.unlink()
    assert read_history(out, manifest, manifest).n_rows == 10


def test_long_run_writes_less_often(tmp_path, monkeypatch):
    """Eleven hours: every 10 s at first, at last every 400 s."""
    now, written = [0.0], []
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(module, "write_whole", lambda path, payload: written.append(now[0]))
    writer = HistoryWriter(str(tmp_path), "f")
    for second in range(5, 40_000, 5):
        now[0] = second
        writer.add(ShardReport(index=second))
        writer.write_if_due()
    assert written[:3] == [10, 20, 30]
    assert written[-1] - written[-2] > 380
    assert len(written) < 500
