"""Scores files that are merged at the end of a large run: whole, in order, whatever happens."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster import merging
from cluster.manifest import read_manifest, write_manifest
from cluster.scores_files import committed_parts, read_shard
from pipelines.runs import score_run
from pipelines.score import score_corpus
from pipelines.settings.score import ScoreSettings
from pipelines.status import run_status
from pipelines.tables.scores import find_scores, read_scores

N_ROWS = 47


@pytest.fixture
def corpus(tmp_path):
    """A corpus of twelve shards in two files, whose column `year` is kept as numbers of texts."""
    for number in range(2):
        rows = range(number * 24, min(N_ROWS, number * 24 + 24))
        columns = {
            "document_id": pa.array([f"d{i}" for i in rows]),
            "system_id": pa.array(["ab"[i % 2] for i in rows]),
            "candidate": pa.array([None if i == 30 else f"some{' words' * i}" for i in rows]),
            "reference": pa.array([f"some words {i}" for i in rows]),
            "year": pa.array([f"20{i:02}" for i in rows]).dictionary_encode(),
        }
        (tmp_path / "corpus").mkdir(exist_ok=True)
        path = tmp_path / "corpus" / f"{number}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=4)
    return str(tmp_path / "corpus")


@pytest.fixture
def score(corpus):
    def score(out, metrics=("length", "rougeL_f")):
        options = {"local": True, "workers": 1, "rows_per_shard": 4}
        return score_corpus(corpus, ScoreSettings(out=out, metrics=list(metrics), **options))

    return score


@pytest.fixture
def large(monkeypatch):
    """Runs of five shards and more are large, and their files of some three shards."""
    monkeypatch.setattr(merging, "MOST_FILES", 4)
    monkeypatch.setattr(merging, "MERGED_BYTES", 18_000)
    monkeypatch.setattr(merging, "ROWS_PER_GROUP", 6)


@pytest.fixture
def plain(score, tmp_path):
    """The scores of a run that was not merged."""
    return score(tmp_path / "plain").to_arrow()


def names(out):
    return sorted(path.name for path in Path(out, "scores").iterdir())


def counted(out):
    return sorted(Path(part).name for part in Path(out, "_SUCCESS").read_text().split())


def shards_of(out):
    """The scores of each shard, read out of whatever file has them."""
    manifest = read_manifest(str(out))
    parts = committed_parts(str(out), manifest.shards, manifest.fingerprint)
    return [read_shard(path, index) for index, path in parts.items()]


def test_files_of_a_large_run_are_merged_in_order(score, large, plain, tmp_path):
    out = tmp_path / "out"
    assert score(out).to_arrow().equals(plain)
    assert names(out) == counted(out)
    assert 2 <= len(names(out)) <= 5
    assert names(out)[0].startswith("part-000000-0000")
    assert pl.read_parquet(out / "scores" / "part-*.parquet").equals(pl.DataFrame(plain))
    found = [file.path for file in find_scores(out).files]
    assert [Path(path).name for path in found] == names(out)
    sizes = [shard.n_rows for shard in read_manifest(str(out)).shards]
    assert [table.num_rows for table in shards_of(out)] == sizes
    assert pa.concat_tables(shards_of(out)).equals(plain)


def test_metrics_are_added_to_merged_files(score, large, tmp_path):
    metrics, out = ["length", "rougeL_f", "rouge2_f", "rouge1_f"], tmp_path / "out"
    score(out)
    for n in (3, 4):  # the second time to a run that had metrics added before
        together = score(tmp_path / f"whole-{n}", metrics[:n]).to_arrow()
        assert score(out, metrics[:n]).to_arrow().equals(together)
        assert names(out) == counted(out)


class Killed(BaseException):
    """Stands for a process that ends at once."""


def killed_at(monkeypatch, call):
    """Let the merge die right before, or after, one of its changes on storage."""
    left = [call]

    def dying(real):
        def wrapped(*arguments):
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            real(*arguments)
            if left[0] == 0:
                raise Killed
            left[0] -= 1

        return wrapped

    for module, name in (
        (merging, "write_whole"),
        (merging, "delete_file"),
        (score_run, "delete_other_files"),
        (score_run, "write_whole"),
    ):
        monkeypatch.setattr(module, name, dying(getattr(module, name)))


@pytest.mark.parametrize("call", [0, 1, 2, 5, 13, 29, 31])
def test_no_row_is_lost_or_doubled_by_a_kill(score, large, plain, tmp_path, monkeypatch, call):
    out = str(tmp_path / "out")
    with monkeypatch.context() as patch:
        killed_at(patch, call)
        with pytest.raises(Killed):
            score(out)
    assert pa.concat_tables(shards_of(out)).equals(plain)
    run = score(out)
    assert run.n_new_shards == 0
    assert run.to_arrow().equals(plain)
    assert names(out) == counted(out)


def test_no_list_names_files_that_are_about_to_go(score, plain, tmp_path, monkeypatch, request):
    out = tmp_path / "plain"  # of a run that was small then
    request.getfixturevalue("large")
    with monkeypatch.context() as patch:
        killed_at(patch, 3)
        with pytest.raises(Killed):
            score(out)
    assert not Path(out, "_SUCCESS").exists()
    assert score(out).to_arrow().equals(plain)


def test_shards_of_a_deleted_file_are_scored_again(score, large, plain, tmp_path):
    out = tmp_path / "out"
    first = score(out)
    Path(out, "scores", names(out)[1]).unlink()
    assert run_status(out).state == "stopped"
    run = score(out)
    assert 2 <= run.n_new_shards < 12
    assert (run.means, run.n_rows) == (first.means, N_ROWS)
    assert run.to_arrow().equals(plain)
    assert names(out) == counted(out)


def test_damaged_merged_file_is_named(score, large, plain, tmp_path):
    out = tmp_path / "out"
    score(out)
    path = Path(out, "scores", names(out)[1])
    data, lengths = bytearray(path.read_bytes()), pq.read_metadata(path).row_group(0).column(2)
    data[lengths.dictionary_page_offset + lengths.total_compressed_size - 1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=rf"{path.name} is damaged .*delete it"):
        score(out)
    inputs, keys = [find_scores(out)], ["document_id", "system_id"]
    with pytest.raises(ValueError, match=rf"{path.name} is damaged"):
        read_scores(inputs, pl.DataFrame(plain).select(keys).unique().sort(keys), columns={})


def test_totals_come_from_merged_files_where_the_history_is_lost(score, large, tmp_path):
    out = str(tmp_path / "out")
    run = score(out)
    manifest = read_manifest(out)
    write_manifest(out, replace(manifest, result={}))
    again = score(out)
    assert (again.n_rows, again.n_new_shards, again.means) == (N_ROWS, 0, run.means)
    assert again.statuses == run.statuses


def test_file_of_a_late_worker_does_not_count(score, large, plain, tmp_path):
    """A frozen worker's copy of a shard, written after all others were merged."""
    out = tmp_path / "out"
    score(out)
    manifest = read_manifest(str(out))
    late = out / "scores" / f"part-000003-{manifest.fingerprint[:12]}.parquet"
    pq.write_table(plain.slice(0, 4), late)
    assert sum(len(pq.read_table(file.path)) for file in find_scores(out).files) == N_ROWS
    score(out)
    assert not late.exists()


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([1] * 4, [[0, 1, 2, 3]]),
        ([50] * 8, [[0, 1], [2, 3], [4, 5], [6, 7]]),
        ([10, 300, 10], [[0, 1], [2]]),
        ([0, 0], [[0, 1]]),
    ],
)
def test_groups_are_neighbours_of_about_the_same_size(sizes, expected, monkeypatch):
    monkeypatch.setattr(merging, "MERGED_BYTES", 100)
    assert list(merging._groups(dict(enumerate(sizes)))) == expected
