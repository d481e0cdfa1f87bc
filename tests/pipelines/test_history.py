"""What is known of shards when a run goes on, and sums that depend on no order or grouping."""

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import history as module
from cluster.history import ScoreSums, read_history
from cluster.manifest import read_manifest, write_manifest
from tests.pipelines.test_score_corpus import rows_of, write_rows
from tests.pipelines.test_score_corpus import score as corpus_scored


@pytest.fixture
def score(tmp_path):
    """Score five shards of two rows, one with a status."""
    rows = [*rows_of(9), {"document_id": "d9", "system_id": "s1"}]
    path = write_rows(tmp_path / "corpus.parquet", rows)
    return lambda: corpus_scored(path, tmp_path / "out", metrics=["length"])


# shards whose scores files are lost, shards that `run.json` tells of; scores files that are read
ALL = {0, 1, 2, 3, 4}
HISTORIES = [
    (set(), ALL, []),
    (set(), {0, 1, 3}, [2, 4]),  # the driver was killed before it wrote `run.json` again
    (set(), set(), [0, 1, 2, 3, 4]),
    ({3}, {0, 3}, [0, 1, 2, 4]),  # the sums have a shard that is gone
]


@pytest.mark.parametrize(("lost", "told", "expected"), HISTORIES)
def test_scores_are_read_only_where_nothing_else_tells(
    score, tmp_path, monkeypatch, lost, told, expected
):
    run, seen, real = score(), [], module.reports_from_file
    manifest = read_manifest(run.out)
    part = {i: f"{run.scores}/part-00000{i}-{manifest.fingerprint[:12]}.parquet" for i in ALL}
    sums = ScoreSums()
    for i in told:
        (report,) = real(part[i])
        for system, by_column in report.sums.items():
            sums.add(system, "length", report.counts[system]["length"], by_column.values())
    records = [record for record in manifest.result["shards"] if record["index"] in told]
    write_manifest(run.out, replace(manifest, result={"shards": records, "sums": sums.totals}))
    for i in lost:
        Path(part[i]).unlink()
    monkeypatch.setattr(module, "reports_from_file", lambda path: seen.append(path) or real(path))
    found = read_history(run.out, manifest, read_manifest(run.out).result)
    assert seen == [part[i] for i in expected]
    assert (found.n_rows, found.n_done) == (10 - 2 * len(lost), 5 - len(lost))
    known = {record["index"] for record in found.records() if record["node"]}
    assert known == told - lost
    again = score()
    assert (again.means, again.statuses) == (run.means, {"candidate:null": 1})
    assert again.n_new_shards == len(lost)


NUMBERS = st.lists(st.floats(-1e12, 1e12), max_size=30)


def sums_of(numbers):
    made = ScoreSums()
    for number in numbers:
        made.add("s", "sms", 1, [number])
    return made


def test_mean_by_hand():
    """In floating point 1e16 + 1 is 1e16."""
    assert sums_of([1e16, 1.0, -1e16, 1.0]).means() == {"s": {"sms": 0.5}}
    assert sums_of([1.0, math.inf, 2.0]).means() == {"s": {"sms": math.inf}}


def test_systems_are_sorted_and_a_number_may_stand_for_several():
    sums = ScoreSums()
    sums.add("b", "sms", 3, [6.0])
    sums.add("b", "sms", 1, [0.0])
    sums.add("a", "sms", 0, [])
    (a, of_a), (b, of_b) = sums.means().items()
    assert (a, b, of_b) == ("a", "b", {"sms": 1.5})
    assert math.isnan(of_a["sms"])


@given(NUMBERS, st.integers(0, 30), st.randoms())
def test_sum_is_exact_whatever_the_order_the_grouping_and_json(numbers, cut, random):
    whole, shuffled = sums_of([0.0, *numbers]), numbers.copy()
    count, *parts = whole.totals["s"]["sms"]
    assert count == len(numbers) + 1
    assert sum(map(Fraction, parts)) == sum(map(Fraction, numbers))
    random.shuffle(shuffled)
    grouped, rest = sums_of([0.0, *shuffled[:cut]]), sums_of([0.0, *shuffled[cut:]]).totals
    n, *values = json.loads(json.dumps(rest))["s"]["sms"]
    grouped.add("s", "sms", n - 1, values)
    assert repr(grouped.means()) == repr(whole.means())
