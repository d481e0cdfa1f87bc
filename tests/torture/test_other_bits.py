"""Runs whose vectors are not the same twice, as in bf16 with AMX or on GPUs: that is harmless."""

from pathlib import Path

import pytest
import torch

import cluster.worker
from cluster.manifest import read_manifest
from pipelines.explain import open_explainer
from pipelines.score import score_corpus
from pipelines.settings.explain import ExplainSettings
from pipelines.settings.score import ScoreSettings
from sms.encoders import SCORE_TOLERANCE, packed_model
from tests.pipelines.corpora import rows_of
from tests.row_files import write_rows

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
    path = tmp_path_factory.mktemp("corpus") / "corpus.parquet"
    return write_rows(path, rows_of(12), 3)


def score(corpus, out):
    options = {"precision": "bf16", "device": "cpu", "local": True, "workers": 1}
    return score_corpus(
        corpus, ScoreSettings(out=out, metrics=METRICS, rows_per_shard=3, **options)
    )


@pytest.fixture
def finished(corpus, tmp_path):
    return score(corpus, tmp_path / "out")


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
    expected = finished.to_arrow().to_pylist()
    for part in sorted(Path(finished.scores).iterdir())[1:3]:
        part.unlink()
    again = score(corpus, finished.out)
    assert (again.n_new_shards, again.n_rows, again.is_complete) == (2, 12, True)
    assert_near(again.to_arrow().to_pylist(), expected)


def test_resuming_on_another_processor_is_not_refused(corpus, finished, monkeypatch):
    sorted(Path(finished.scores).iterdir())[2].unlink()
    monkeypatch.setattr(cluster.worker, "processor_kind", lambda: "another kind (amx_bf16)")
    assert score(corpus, finished.out).is_complete
    shards = read_manifest(finished.out).result["shards"]
    kinds = [shard["processor"] for shard in shards]
    assert kinds[2] == "another kind (amx_bf16)"
    assert kinds[0] == kinds[1] == kinds[3] != kinds[2]


@pytest.mark.parametrize("metric", ["wms", "cosine"])
def test_scores_agree_with_the_folder_they_are_explained_for(finished, metric):
    explainer = open_explainer((), ExplainSettings(document="", metric=metric, scores=finished))
    for system in explainer.explain({"d5": []})["d5"]:
        assert system.explanation.score != system.recorded
        assert system.explanation.score == pytest.approx(system.recorded, rel=TOLERANCE)
