"""`assay score --metrics pair@ALIAS`: pair models beside the other metrics."""

import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from pipelines.explain import open_explainer
from pipelines.score import score_corpus
from pipelines.settings.explain import ExplainSettings
from pipelines.settings.score import ScoreSettings
from reffree.judges.model import JudgeModel
from sms.scoring import ScoringConfig, SummaryScorer, to_rows
from tests.commands import page_of
from tests.reffree.judges.tiny_judges import NEWS, REFERENCE, SUMMARIES, write_classifier, write_t5


@pytest.fixture(scope="module")
def nli(tmp_path_factory):
    return write_classifier(tmp_path_factory.mktemp("models") / "nli")


@pytest.fixture(scope="module")
def unieval(tmp_path_factory):
    return write_t5(tmp_path_factory.mktemp("models") / "unieval")


def write_corpus(folder):
    ids = {"document_id": ["d"] * 3, "system_id": ["a", "b", "c"], "candidate": SUMMARIES}
    pl.DataFrame({**ids, "source": [NEWS] * 3}).write_parquet(folder / "c.parquet")
    return folder / "c.parquet"


def models_of(folder, **tables):
    return {alias: {"path": str(folder), **table} for alias, table in tables.items()}


def scored(rows, metrics, models, **options):
    scorer = SummaryScorer(ScoringConfig(metrics=metrics, models=models, **options))
    return scorer.score(rows), scorer


def test_scores_are_those_of_the_model(nli, tmp_path):
    settings = {"preset": "summac-zs", "max_tokens": 24}
    corpus, out, models = write_corpus(tmp_path), tmp_path / "out", models_of(nli, nli=settings)
    score_corpus(
        corpus, ScoreSettings(out=out, metrics=["pair@nli", "length"], models=models, local=True)
    )
    table = pl.read_parquet(out / "scores" / "*.parquet")
    judge = JudgeModel(str(nli), settings)
    expected = judge.score([NEWS] * 3, SUMMARIES)
    assert table["pair@nli"].to_list() == pytest.approx(expected.scores.tolist(), abs=1e-6)
    assert table["cut@nli"].to_list() == expected.is_cut.astype(float).tolist()
    assert 0 < expected.is_cut.sum() < 3
    cut = [
        "; ".join(np.array(["candidate:cut@nli", "source:cut@nli"])[cut_sides])
        for cut_sides in expected.cut
    ]
    assert table["status"].to_list() == [status or None for status in cut]
    run = json.loads((out / "run.json").read_text())
    assert run["signatures"]["pair@nli"].startswith(f"pair@nli|{judge.signature}|source:mean|")
    assert run["configuration"]["models"] == models
    assert score_corpus(
        corpus, ScoreSettings(out=out, metrics=["pair@nli", "length"], models=models, local=True)
    )


def test_aspects_read_what_they_are_about(unieval):
    aspects = ("coherence", "consistency", "fluency", "relevance")
    tables = {aspect: {"preset": "unieval", "aspect": aspect} for aspect in aspects}
    models = models_of(unieval, **tables)
    rows = to_rows(SUMMARIES, references=[REFERENCE] * 3, sources=[NEWS] * 3)
    table, scorer = scored(rows, [f"pair@{aspect}" for aspect in aspects], models)
    for aspect in aspects:
        other = REFERENCE if aspect == "relevance" else NEWS
        expected = JudgeModel(str(unieval), tables[aspect]).score([other] * 3, SUMMARIES).scores
        assert table[f"pair@{aspect}"].to_pylist() == pytest.approx(expected.tolist(), abs=1e-6)
    loaded = {id(model._answerer) for model in (metric.model for metric in scorer.metrics)}
    assert len(loaded) == 1, "one model serves all aspects"
    assert ScoringConfig(metrics=["pair@fluency"], models=models).input_columns == ("candidate",)


def test_a_text_that_cannot_be_split_has_a_status(nli, monkeypatch):
    scorer = SummaryScorer(
        ScoringConfig(metrics=["pair@nli"], models=models_of(nli, nli={"summary": "sentences"}))
    )

    def fail(text, language):
        if "BROKEN" in text:
            raise ValueError("on purpose")
        return [text]

    monkeypatch.setattr("reffree.judges.inputs.split_sentences", fail)
    rows = to_rows(["A BROKEN bridge.", SUMMARIES[0]], sources=[NEWS, NEWS])
    table = scorer.score(rows)
    assert [score is None for score in table["pair@nli"].to_pylist()] == [True, False]
    assert table["status"].to_pylist() == ["candidate:cannot_be_split@nli", None]


def test_given_sentences_are_the_pieces(nli):
    pieces = ["The committee met. It rained.", "Nobody agreed on the bridge."]
    models = models_of(nli, nli={"document": "sentences"})
    rows = to_rows([["The mayor."]], sources=[pieces], sentences="given")
    table, _ = scored(rows, ["pair@nli"], models, sentences="given")
    each = JudgeModel(str(nli)).score(pieces, ["The mayor."] * 2).scores
    assert table["pair@nli"].to_pylist() == [pytest.approx(each.max(), abs=1e-6)]


def test_an_explanation_names_the_deciding_pieces(nli, tmp_path):
    models = models_of(nli, nli={"preset": "summac-zs"})
    explainer = open_explainer(
        write_corpus(tmp_path), ExplainSettings(document="", metric="pair@nli", models=models)
    )
    ((system,),) = explainer.explain({"d": ["a"]}).values()
    (expected,) = JudgeModel(str(nli), {"preset": "summac-zs"}).evidence([NEWS], SUMMARIES[:1])
    assert system.explanation.evidence == expected
    page = page_of(explainer, "d")
    assert all(evidence.decided_by in page for evidence in expected)


@pytest.mark.slow
def test_the_door_knows_it_as_a_reward():
    told = (
        "import assay\ntry:\n    assay.Reward('pair@/none')\nexcept ValueError as e:\n    print(e)"
    )
    found = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert found.stdout.startswith("no model folder at `/none`")


@pytest.mark.parametrize(
    ("metric", "models", "message"),
    [
        ("pair@", {}, "must name a model: pair@MODEL"),
        ("pair", {}, "must name a model: pair@MODEL"),
        ("pair@:source", {}, "must name a model: pair@MODEL"),
        ("pair@nli:", {}, "must end in :reference or :source"),
        ("pair@nli:sources", {}, "must end in :reference or :source"),
        ("pair@nli", {"nli": "/no/such/folder"}, "no model folder at"),
        ("pair@nli", {"nli": {"path": "x", "over": 1}}, "unknown key `over` of a pair"),
    ],
)
def test_wrong_requests_are_refused(metric, models, message):
    with pytest.raises(ValueError, match=message):
        SummaryScorer(ScoringConfig(metrics=[metric], models=models))
