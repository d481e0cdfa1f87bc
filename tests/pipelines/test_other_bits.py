"""Runs whose vectors are not the same twice, as in bf16 with AMX or on GPUs: that is harmless."""

import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import cluster.worker
from pipelines.explain import open_explainer
from pipelines.score import score_corpus
from sms.encoders import SCORE_TOLERANCE, packed_model
from tests.pipelines.test_score_corpus import table_of

METRICS = ("sms", "wms", "cosine")
ROUNDING = 2.0**-8
"""Of a number in bf16, as a share of it."""
TOLERANCE = SCORE_TOLERANCE["bf16"]


@pytest.fixture(autouse=True, scope="module")
def unsteady():
    """Round every number in another way wherever a block has another number of tokens."""
    states = packed_model.PackedModel.states

    def rounded(self, ids, lengths):
        found = states(self, ids, lengths)
        noise = torch.rand(found.shape, generator=torch.Generator().manual_seed(ids.size))
        return found * (1 + ROUNDING * (noise - 0.5))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed_model.PackedModel, "states", rounded)
        yield


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Twelve rows of two systems; every sentence is in several shards."""
    words = ["bridge", "harbour", "mayor", "storm", "ferry", "school"]
    rows = [
        {
            "document_id": f"d{i // 2}",
            "system_id": f"s{i % 2}",
            "candidate": f"The {words[i // 2]} closed. It was the {words[i % 5]} again.",
            "reference": f"The {words[i // 2]} was closed on Monday, and nobody said why.",
        }
        for i in range(12)
    ]
    path = tmp_path_factory.mktemp("corpus") / "corpus.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=3)
    return path


def score(corpus, out, **options):
    usual = {"metrics": METRICS, "precision": "bf16", "device": "cpu", "local": True, "workers": 1}
    return score_corpus(corpus, out, **{**usual, "rows_per_shard": 3, **options})


@pytest.fixture(scope="module")
def once(corpus):
    out = corpus.parent / "out"
    return out, score(corpus, out)


@pytest.fixture
def finished(once, tmp_path):
    """A finished run, to do with as a test likes, and what came of it."""
    out = tmp_path / "out"
    shutil.copytree(once[0], out)
    return out, once[1]


def scores_of(out):
    return table_of(out).to_pylist()


def assert_near(rows, others):
    """Hold scores to the bound that the guide promises; they are not the same bits."""
    assert rows != others
    for row, other in zip(rows, others, strict=True):
        assert row["cosine"] == pytest.approx(other["cosine"], abs=TOLERANCE)
        for name in ("sms", "wms"):
            assert row[name] == pytest.approx(other[name], rel=TOLERANCE)
        for name in ("document_id", "system_id", "status"):
            assert row[name] == other[name]


def test_resumed_run_is_near_one_that_was_not_stopped(corpus, finished, tmp_path):
    out, _ = finished
    expected = scores_of(out)
    for part in sorted(out.glob("scores/*.parquet"))[1:3]:
        part.unlink()
    again = score(corpus, out)
    assert (again.n_new_shards, again.n_rows, again.is_complete) == (2, 12, True)
    assert_near(scores_of(out), expected)


def test_resuming_on_another_processor_is_not_refused(corpus, finished, monkeypatch):
    out, _ = finished
    next(out.glob("scores/part-000002-*.parquet")).unlink()
    monkeypatch.setattr(cluster.worker, "processor_kind", lambda: "another kind (amx_bf16)")
    assert score(corpus, out).is_complete
    shards = json.loads((out / "run.json").read_text(encoding="utf-8"))["result"]["shards"]
    kinds = [shard["processor"] for shard in shards]
    assert kinds[2] == "another kind (amx_bf16)"
    assert kinds[0] == kinds[1] == kinds[3] != kinds[2]


@pytest.mark.parametrize("metric", ["wms", "cosine"])
def test_scores_agree_with_the_folder_they_are_explained_for(once, metric):
    out, _ = once
    explainer = open_explainer(metric=metric, scores=out)
    for system in explainer.explain({"d1": []})["d1"]:
        assert system.explanation.score != system.recorded
        assert system.explanation.score == pytest.approx(system.recorded, rel=TOLERANCE)
