"""Scores files: damage and files in the place of others are found; each shard is read by itself."""

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster import Job, Piece, Shard, committed, part_path, reports_from_file, score_shard
from cluster.parts import write_scores
from cluster.scores_files import check_part, read_scores, read_shard
from cluster.totals import total_scores
from tests.cluster.toy_scorer import CountCharacters

N_ROWS = 100
READERS = [read_scores, lambda path: total_scores([path])]


@pytest.fixture
def write(tmp_path):
    """Write the scores file of a shard and return its path."""

    def write(index=0, fingerprint="0123456789abcdef"):
        rng = Random(index)
        scores = {
            "document_id": [f"d{i}" for i in range(N_ROWS)],
            "system_id": [f"s{i % 3}" for i in range(N_ROWS)],
            "sms": [rng.random() for _ in range(N_ROWS)],
            "status": pa.nulls(N_ROWS, pa.string()),
            "unreadable": pa.nulls(N_ROWS, pa.string()),
        }
        piece = Piece(path="/data/a.parquet", first_row=0, n_rows=N_ROWS)
        job = Job(out=str(tmp_path), fingerprint=fingerprint)
        write_scores(pa.table(scores), ["sms"], Shard(index=index, pieces=(piece,)), job)
        return part_path(tmp_path, index, fingerprint)

    return write


def scores_of(path):
    """What a reader gets who checks nothing; None if it cannot be read at all."""
    try:
        return pq.read_table(path, columns=["sms"])
    except (OSError, pa.ArrowException):
        return None


def test_every_flipped_bit_that_changes_a_number_is_found(write):
    """In every second byte of the page of scores."""
    path = write()
    group = pq.read_metadata(path).row_group(0)
    column = next(c for c in map(group.column, range(7)) if c.path_in_schema == "sms")
    begin = column.dictionary_page_offset or column.data_page_offset
    data, sound = Path(path).read_bytes(), scores_of(path)
    n_changed = 0
    for at in range(begin, begin + column.total_compressed_size, 2):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        Path(path).write_bytes(changed)
        if scores_of(path) == sound:
            continue
        n_changed += 1
        for read in READERS:
            with pytest.raises(ValueError, match=r"scores file .* is damaged .*delete it"):
                read(path)
    assert n_changed > 300


@pytest.mark.parametrize("end", [-1, 0, 4, 500])
def test_file_that_is_cut_is_found(write, end):
    path = write()
    Path(path).write_bytes(Path(path).read_bytes()[:end])
    for check in (check_part, reports_from_file, *READERS):
        with pytest.raises(ValueError, match=r"scores file .* is damaged .*delete it"):
            check(path)


@pytest.mark.parametrize("other", [{"index": 1}, {"fingerprint": "ffffffffffffffff"}])
def test_file_in_the_place_of_another_is_found(write, other):
    """That of another shard, or of another run."""
    path = write()
    Path(path).write_bytes(Path(write(**other)).read_bytes())
    for check in (check_part, reports_from_file, *READERS):
        with pytest.raises(ValueError, match=r"damaged \(it is not the file that its name says\)"):
            check(path)


def test_shard_is_read_alone(write):
    path = write(7)
    assert read_shard(path, 7).equals(pq.read_table(path))
    assert [(report.index, report.n_rows) for report in reports_from_file(path)] == [(7, N_ROWS)]


def test_report_from_file_is_of_the_same_rows(plan, job):
    shard = plan[0]
    report = score_shard(shard, CountCharacters(), job)
    (later,) = reports_from_file(part_path(job.out, shard.index, job.fingerprint))
    assert (later.index, later.n_rows, later.error) == (report.index, report.n_rows, None)
    assert set(report.stage_seconds) == {"read", "prepare", "compare", "write"}
    assert report.seconds > 0
    assert report.cpu_seconds > 0


def test_report_from_another_file_rejected():
    with pytest.raises(ValueError, match="`path` must be a scores file"):
        reports_from_file("scores/stray.parquet")


def test_only_whole_files_of_this_run_count_as_committed(plan, job):
    assert committed(job.out, plan, job.fingerprint) == set()
    score_shard(plan[2], CountCharacters(), job)
    scores = Path(job.out, "scores")
    (scores / "part-000001-0123456789ab.parquet.77.partial").write_bytes(b"PAR1")
    (scores / "part-000003-ffffffffffff.parquet").write_bytes(b"another run")
    (scores / "part-000099-0123456789ab.parquet").write_bytes(b"not in the plan")
    assert committed(job.out, plan, job.fingerprint) == {2}
