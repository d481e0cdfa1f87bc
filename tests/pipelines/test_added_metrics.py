"""Metrics that are added to a finished run; ids that may be absent, columns that are kept."""

import json

import pytest

import pipelines.score as MODULE
from cluster.manifest import read_manifest
from pipelines.score import score_corpus
from pipelines.settings.score import ScoreSettings
from pipelines.tables.scores import find_scores
from sms.scoring import SummaryScorer
from tests.pipelines.corpora import files_of

ALL = ["rougeL", "wms@tiny", "length", "novelty", "cosine@tiny:source"]
"""Asked for at once; some of them are there before."""
ROWS = [
    {"candidate": "cats sat on mats", "reference": "cats sat", "source": "cats ran"},
    {"candidate": None, "reference": "cats sat", "source": "cats ran"},
    {"candidate": "cats sat", "reference": None, "source": "..."},
    {"candidate": "", "reference": "...", "source": None},
    {"candidate": "unheard of", "reference": "cats", "source": "cats"},
]


@pytest.fixture
def corpus(tmp_path):
    """Ten rows, of which one cannot be read."""
    rows = [{"document_id": f"d{i}", "system_id": "s", **ROWS[i % 5]} for i in range(10)]
    lines = [json.dumps(row) for row in rows]
    path = tmp_path / "corpus.jsonl"
    path.write_text("\n".join([*lines[:7], "{broken", *lines[7:]]), encoding="utf-8")
    return path


@pytest.fixture
def encoders(tmp_path):
    path = tmp_path / "tiny.txt"
    path.write_text("cats 1.0 2.0\nmats 2.0 1.0\nsat 0.5 3.0\nran 1.5 0.5\n")
    return {"tiny": f"glove:{path}"}


@pytest.fixture
def score(corpus, encoders):
    def score(out, metrics, **more):
        more = {"encoders": encoders, "local": True, "workers": 1, "rows_per_shard": 3, **more}
        return score_corpus(corpus, ScoreSettings(out=out, metrics=metrics, **more))

    return score


@pytest.fixture
def at_once(score, tmp_path):
    return score(tmp_path / "whole", ALL)


@pytest.mark.parametrize("first", [["length"], ["rougeL", "novelty"]])
def test_added_metrics_equal_those_of_one_run(score, tmp_path, at_once, first, monkeypatch):
    """And nothing that is there is computed again."""
    out, computed = tmp_path / "out", set()

    class Watched(SummaryScorer):
        def compare(self, batch):
            computed.update(self.score_fields)
            return super().compare(batch)

    score(out, first, rows_per_shard=4)
    monkeypatch.setattr("pipelines.fetched.SummaryScorer", Watched)
    done = score(out, ALL, rows_per_shard=None)  # goes on with shards of the same size
    assert not computed & {*first}
    assert done.to_arrow().equals(at_once.to_arrow())
    for what in ("means", "statuses", "signatures"):
        assert getattr(done, what) == getattr(at_once, what)
    mark = read_manifest(str(out)).fingerprint[:12]
    assert files_of(out) == {"run.json", "_SUCCESS", *(n for n in files_of(out) if mark in n)}
    assert score(out, ALL, rows_per_shard=None).n_new_shards == 0
    assert find_scores(out).signatures == done.signatures


def test_coverage_is_that_of_all_metrics_of_an_encoder(score, tmp_path):
    metrics = ["wms@tiny", "cosine@tiny:source", "sms@tiny"]
    score(tmp_path / "out", metrics[:1])
    with pytest.raises(ValueError, match="`known_words@tiny` would now be computed in another"):
        score(tmp_path / "out", metrics[:2])  # of sources, too
    at_once = score(tmp_path / "whole", metrics)
    score(tmp_path / "out", metrics[:2], fresh=True)
    done = score(tmp_path / "out", metrics)
    assert (done.signatures, done.to_arrow()) == (at_once.signatures, at_once.to_arrow())


def test_adding_that_was_interrupted_goes_on(score, tmp_path, at_once, monkeypatch):
    out = tmp_path / "out"
    score(out, ["length", "novelty"])
    before = files_of(out)
    batches = iter((False, False, True))

    class Stops(SummaryScorer):
        def prepare(self, rows):
            if next(batches):
                raise KeyboardInterrupt
            return super().prepare(rows)

    with monkeypatch.context() as patch:
        patch.setattr("pipelines.fetched.SummaryScorer", Stops)
        with pytest.raises(MODULE.RunInterrupted):
            score(out, ALL)
    parts = {name for name in before if name.startswith("scores/")}
    assert parts < files_of(out)
    assert not (out / "_SUCCESS").exists()
    assert read_manifest(str(out)).base["metrics"] == ["length", "novelty"]
    last = max(out.glob("scores/part-*"))  # of a shard that is still to do
    lost = last.rename(tmp_path / last.name)
    with pytest.raises(ValueError, match=r"has lost the scores .* rows 8 to 10 .*; put"):
        score(out, ALL)
    lost.rename(last)
    done = score(out, ALL)
    assert 0 < done.n_earlier_rows < done.n_rows
    assert done.to_arrow().equals(at_once.to_arrow())
    assert not parts & files_of(out)
    assert read_manifest(str(out)).base == {}


def test_other_settings_are_refused_with_more_metrics_too(score, tmp_path):
    out = tmp_path / "out"
    score(out, ["rougeL"])
    before = files_of(out)
    for metrics, keep, name in ((["rougeL", "length"], ["source"], "keep"),
                                (["length", "novelty"], [], "metrics")):  # fmt: skip
        with pytest.raises(ValueError, match=f"holds another run: .*`{name}` was"):
            score(out, metrics, keep=keep)
    assert files_of(out) == before
    next((out / "scores").iterdir()).unlink()
    with pytest.raises(ValueError, match="metrics can only be added to a finished run"):
        score(out, ["rougeL", "novelty"])


def test_what_has_changed_is_refused_with_more_metrics_too(score, tmp_path, corpus):
    out = tmp_path / "out"
    score(out, ["wms@tiny"])
    with (tmp_path / "tiny.txt").open("a") as file:
        file.write("heard 1.0 1.0\n")
    with pytest.raises(ValueError, match="the vectors of encoder `tiny` have changed"):
        score(out, ["wms@tiny", "length"])
    score(out, ["length"], fresh=True)
    corpus.write_text(corpus.read_text() + '\n{"candidate": "more"}')
    with pytest.raises(ValueError, match="input file changed"):
        score(out, ["length", "novelty"])
