"""What scores come to: by hand, against fractions, and the same for every plan and order."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import Job, Piece, Shard
from cluster.parts import part_path, write_scores
from cluster.totals import ScoreTotals, exact_sums, total_scores

SCORES = st.floats(-(2.0**36), 2.0**36)


def table_of(rows):
    """Rows of document, system, score and status, as a scorer returns them."""
    documents, systems, scores, statuses = zip(*rows, strict=True)
    return pa.table(
        {
            "document_id": pa.array(documents, pa.string()),
            "system_id": pa.array(systems, pa.string()),
            "sms": pa.array(scores, pa.float64()),
            "status": pa.array(statuses, pa.string()),
            "unreadable": pa.nulls(len(rows), pa.string()),
        }
    )


@pytest.fixture
def write(tmp_path):
    """Write a scores file for each table and return their paths."""

    def write(*tables):
        job = Job(out=str(tmp_path), fingerprint="0123456789abcdef")
        for index, table in enumerate(tables):
            piece = Piece(path="/data/a.parquet", first_row=0, n_rows=len(table))
            write_scores(table, ["sms"], Shard(index=index, pieces=(piece,)), job)
        return [part_path(job.out, index, job.fingerprint) for index in range(len(tables))]

    return write


def test_totals_by_hand(write):
    """Rows without a system are counted as such; a system without a score has no mean."""
    first = [("d0", "b", 0.25, None), ("d0", "a", 1.0, "cut"), ("d1", "b", 0.75, None)]
    second = [("d2", None, None, "unreadable"), ("d3", "c", None, "cut"), ("d4", "b", 3.5, None)]
    totals = total_scores(write(table_of(first), table_of(second)))
    means = totals.means()
    assert [*means] == ["", "a", "b", "c"]
    assert means["a"] == {"sms": 1.0}
    assert means["b"] == {"sms": 1.5}
    assert all(math.isnan(means[system]["sms"]) for system in ("", "c"))
    assert totals.counts() == {"": {"sms": 0}, "a": {"sms": 1}, "b": {"sms": 3}, "c": {"sms": 0}}
    assert (totals.n_rows, totals.statuses) == (6, {"cut": 2, "unreadable": 1})
    assert totals.n_repeated_keys == 0


def test_no_files_have_no_rows():
    totals = total_scores([])
    assert (totals.n_rows, totals.means(), totals.n_repeated_keys) == (0, {}, 0)


@given(st.lists(SCORES, max_size=40))
def test_sum_matches_fractions(scores):
    """In floating point 2**36 + 2**-20 is 2**36; what is below 2**-70 is cut off."""
    (total,) = exact_sums(np.array(scores), np.zeros(len(scores), int), 1)
    assert total == sum(int(Fraction(score) * 2**70) for score in scores)


@pytest.mark.parametrize("wrong", [math.inf, -math.inf, math.nan])
def test_score_that_is_not_finite_makes_its_sum_so(wrong):
    found = exact_sums(np.array([1.0, wrong, 2.0]), np.array([0, 0, 1]), 2)
    assert repr(found) == repr([wrong, 2 << 70])


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["d0", "d1", "d2", None]),
        st.sampled_from(["a", "b", None]),
        st.none() | SCORES,
        st.sampled_from(["cut", None]),
    ),
    min_size=1,
    max_size=30,
)


@given(ROWS, st.randoms(), st.integers(1, 30))
def test_means_are_the_same_for_every_order_and_grouping(rows, random, size):
    def added(rows, size):
        totals = ScoreTotals()
        for first in range(0, len(rows), size):
            some = ScoreTotals()
            for batch in table_of(rows[first : first + size]).to_batches():
                some.add_rows(batch, ["sms"])
            totals.add_totals(some)
        return totals

    shuffled = rows.copy()
    random.shuffle(shuffled)
    whole, cut = added(rows, len(rows)), added(shuffled, size)
    assert repr(whole.means()) == repr(cut.means())
    assert (whole.counts(), whole.statuses) == (cut.counts(), cut.statuses)
    for system, mean in whole.means().items():
        units = [
            int(Fraction(s) * 2**70)
            for _, of, s, _ in rows
            if (of or "") == system and s is not None
        ]
        expected = float(Fraction(sum(units), len(units) * 2**70)) if units else math.nan
        assert repr(mean["sms"]) == repr(expected)


def test_repeated_keys_match_a_count(write):
    """Keys of one to four rows, in several files; rows without an id have no key."""
    rng = np.random.default_rng(0)
    keys = [(f"d{i}", f"s{j}") for i in range(300) for j in range(3)]
    keys = [key for key in keys for _ in range(rng.integers(1, 5))]
    rng.shuffle(keys)
    keys += [("d0", None), ("d0", None), (None, "s0"), (None, "s0")]
    rows = [(document, system, 0.5, None) for document, system in map(tuple, keys)]
    tables = [table_of(rows[first : first + 500]) for first in range(0, len(rows), 500)]
    counts = Counter(map(tuple, keys[:-4]))
    n_repeated = sum(n > 1 for n in counts.values())
    assert 0 < n_repeated < len(counts)
    assert total_scores(write(*tables)).n_repeated_keys == n_repeated


def test_metadata_that_is_no_text_is_read(write):
    """Polars panics at it, which no `except Exception` sees."""
    (path,) = write(table_of([("d0", "a", 0.5, None), ("d1", "a", 0.5, None)]))
    table = pq.read_table(path)
    field = pa.field("document_id", pa.string(), metadata={"a": b"\xff\xfe"})
    pq.write_table(table.set_column(0, field, table["document_id"]), path)
    assert total_scores([path]).n_rows == 2
