"""What is known of shards when a run goes on."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.history import read_history
from cluster.manifest import read_manifest, write_manifest
from tests.pipelines.corpora import rows_of
from tests.pipelines.corpora import score as corpus_scored
from tests.row_files import write_rows


@pytest.fixture
def score(tmp_path):
    """Score five shards of two rows, one with a status."""
    rows = [*rows_of(9), {"document_id": "d9", "system_id": "s1"}]
    path = write_rows(tmp_path / "corpus.parquet", rows)
    return lambda: corpus_scored(path, tmp_path / "out", metrics=["length"])


# shards whose scores files are lost, shards that `run.json` tells of
ALL = {0, 1, 2, 3, 4}
HISTORIES = [
    (set(), ALL),
    (set(), {0, 1, 3}),  # the driver was killed before it wrote `run.json` again
    (set(), set()),
    ({3}, {0, 3}),  # `run.json` tells of a shard that is gone
]


@pytest.mark.parametrize(("lost", "told"), HISTORIES)
def test_scores_files_say_which_shards_are_done_and_run_json_how(score, lost, told):
    run = score()
    manifest = read_manifest(run.out)
    records = [record for record in manifest.result["shards"] if record["index"] in told]
    write_manifest(run.out, replace(manifest, result={"shards": records}))
    for i in lost:
        Path(f"{run.scores}/part-00000{i}-{manifest.fingerprint[:12]}.parquet").unlink()
    found = read_history(run.out, manifest, read_manifest(run.out).result)
    assert (found.n_rows, found.n_done) == (10 - 2 * len(lost), 5 - len(lost))
    known = {record["index"] for record in found.records() if record["node"]}
    assert known == told - lost
    again = score()
    assert (again.means, again.statuses) == (run.means, {"candidate:null": 1})
    assert again.n_new_shards == len(lost)
    written = json.loads(Path(run.out, "run.json").read_text())["result"]["shards"]
    timed = {record["index"] for record in written if record["seconds"]}
    assert timed == told | lost
