"""Columns of metrics as features of a scorer: what it reads, keeps, signs, refuses and explains."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from reffree.features import WORD_FEATURES, FeatureConfig, PairFeatures
from reffree.features.linear import CLIPPED_AT, linear_model
from reffree.judges.model import JudgeModel
from reffree.likelihood.model import LanguageModel
from reffree.likelihood.settings import LikelihoodSettings
from reffree.negatives import NegativesConfig
from reffree.scorers.fitting import LinearRecipe, fit_scorer
from reffree.scorers.folder import read_settings
from reffree.scorers.naming import find_scorer
from reffree.scorers.scorer import load_scorer
from reffree.training_pairs.examples import Example
from sms.explaining import explain
from sms.scoring import ScoringConfig, SummaryScorer, to_rows
from tests.reffree.judges.tiny_judges import NEWS, SUMMARIES, write_classifier
from tests.reinforce.tiny_models import write_tiny_model

METRICS = ("likelihood@lm", "likelihood@low", "pair@nli")
JUDGE = {"preset": "summac-zs", "max_tokens": 24}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    lm = write_tiny_model(folder / "lm", "llama", [NEWS, *SUMMARIES])
    nli = str(write_classifier(folder / "nli"))
    return {
        "lm": {"path": lm}, "low": {"path": lm, "value": "low"}, "nli": {"path": nli, **JUDGE},
    }  # fmt: skip


def trained(folder, models, metrics=METRICS):
    """Fit a head of a table of its own, and one of ours, to summaries that end in the middle."""
    recipe = LinearRecipe(
        negatives=NegativesConfig(kinds=("break",)), metrics=metrics, models=models
    )
    examples = [
        Example(f"d{k}", 0, kind, 0, NEWS, f"{text} {k}", label, 0, aspect="mine, fluency")
        for k, text in enumerate(SUMMARIES)
        for kind, text, label in (("positive", text, 1.0), ("break", text[:-9], 0.0))
    ]
    pairs, *_ = fit_scorer(examples, recipe.feature_config)
    pairs.save(folder, trained_on={}, held_out={}, versions={})
    return folder


@pytest.fixture(scope="module")
def scorer(models, tmp_path_factory):
    return trained(tmp_path_factory.mktemp("scorers") / "mine", models)


def test_features_are_the_columns_of_a_run(models):
    config = FeatureConfig.of(METRICS, models)
    assert config.names == (*WORD_FEATURES, *METRICS)
    read = PairFeatures(config).read([NEWS] * 3, SUMMARIES)
    found = dict(zip(config.names, read.values.T, strict=True))
    log_p = LanguageModel.load(models["lm"]["path"]).log_probabilities([NEWS] * 3, SUMMARIES).log_p
    judged = JudgeModel(models["nli"]["path"], JUDGE).score([NEWS] * 3, SUMMARIES)
    for k in range(3):
        assert found["likelihood@lm"][k] == pytest.approx(log_p[k].mean(), abs=1e-6)
        assert found["likelihood@low"][k] == pytest.approx(np.quantile(log_p[k], 0.1), abs=1e-6)
    np.testing.assert_allclose(found["pair@nli"], judged.scores, atol=1e-6)
    of_judge = PairFeatures(FeatureConfig.of(["pair@nli"], models)).read([NEWS] * 3, SUMMARIES)
    assert of_judge.cut.tolist() == judged.cut.tolist()
    assert 0 < of_judge.cut.sum() < 6
    np.testing.assert_array_equal(
        read.values[:, : len(WORD_FEATURES)],
        PairFeatures(FeatureConfig()).read([NEWS] * 3, SUMMARIES).values,
    )


def test_metric_with_several_columns_gives_each_and_those_of_words_count_once():
    config = FeatureConfig.of(("rouge2:source", "length"))
    assert config.metrics == ("rouge2_p:source", "rouge2_r:source", "rouge2_f:source")
    read = PairFeatures(config).read([NEWS], SUMMARIES[:1])
    found = dict(zip(config.names, read.values[0], strict=True))
    assert found["rouge2_p:source"] == pytest.approx(found["rouge2_p"])


@pytest.mark.parametrize(
    ("metrics", "rule"),
    [
        (("likelyhood@lm",), "unknown metric 'likelyhood@lm'; did you mean `likelihood`"),
        (("sms",), "a feature must do without a reference, got 'sms'; write `sms:source`"),
        (("pair@nli:reference",), "got 'pair@nli:reference'; write `pair@nli:source`"),
        (("pair@nli", "pair@nli"), "must not give a column twice"),
    ],
)
def test_wrong_metrics_rejected(metrics, rule, models):
    with pytest.raises(ValueError, match=rule):
        FeatureConfig.of(metrics, models)


def test_folder_gives_the_same_scores_wherever_its_models_are(scorer, models, tmp_path):
    loaded = load_scorer(scorer)
    expected = loaded.score([NEWS] * 3, SUMMARIES)
    assert expected.is_cut.any()
    model = loaded.linear.model
    for name in METRICS:  # heads of our table read them in one direction
        place = model.features.names.index(name)
        assert model.heads["mine"].weights[place] != 0
        assert model.heads["fluency"].weights[place] >= 0
    shutil.copytree(models["nli"]["path"], tmp_path / "nli")
    shutil.copytree(scorer, tmp_path / "mine")
    file = tmp_path / "mine" / "scorer.json"
    settings = json.loads(file.read_text())
    settings["model"]["features"]["paths"]["pair@nli"] = str(tmp_path / "nli")
    file.write_text(json.dumps(settings))
    moved = load_scorer(tmp_path / "mine", cache_folder=tmp_path / "cache", threads=1)
    np.testing.assert_array_equal(moved.score([NEWS] * 3, SUMMARIES).scores, expected.scores)
    assert moved.signature == loaded.signature
    judge = JudgeModel(models["nli"]["path"], JUDGE).signature
    assert f"|pair@nli|{judge}|" in loaded.signature
    assert "|value:low|" in loaded.signature
    assert any((tmp_path / "cache").iterdir())


def test_missing_or_changed_model_is_one_line(models, tmp_path):
    shutil.copytree(models["nli"]["path"], tmp_path / "nli")
    folder = trained(tmp_path / "s", {"nli": {"path": str(tmp_path / "nli")}}, ("pair@nli",))
    shutil.rmtree(tmp_path / "nli")
    with pytest.raises(ValueError, match=f"the scorer {folder} cannot .* no model folder") as said:
        load_scorer(folder)
    assert "\n" not in str(said.value)
    write_classifier(tmp_path / "nli", noise=0.3)
    with pytest.raises(ValueError, match=r"\(pair@nli in .*\) must be those .* train again$"):
        load_scorer(folder)


def test_row_that_the_model_cannot_score_has_a_status(scorer, monkeypatch):
    def fail(text, language):
        if "BROKEN" in text:
            raise ValueError("on purpose")
        return [text]

    name = f"reffree@{scorer}"
    run = SummaryScorer(ScoringConfig(metrics=(name,)), device="cpu")
    monkeypatch.setattr("reffree.judges.inputs.split_sentences", fail)
    rows = to_rows([*SUMMARIES[:2], "A BROKEN bridge.", "!"], sources=[NEWS] * 4)
    table = run.score(rows)
    assert [score is None for score in table[name].to_pylist()] == [False, False, True, True]
    cut = f"source:cut@{scorer}"  # by the models among the features
    broken = f"candidate:cannot_be_split@{scorer}"
    whys = [f"candidate:cut@{scorer}; {cut}", cut, f"{broken}; {cut}", "candidate:no_words"]
    assert table["status"].to_pylist() == whys
    assert table[f"cut@{scorer}"].to_pylist()[0] == 1.0


def test_features_that_are_metrics_are_explained(scorer):
    name = f"reffree@{scorer}.mine"
    told = explain(SUMMARIES[0], source=NEWS, metric=name)
    assert sum(part.score for part in told.parts) == pytest.approx(told.score, abs=1e-9)
    meanings = {part.feature: part.meaning for part in told.parts}
    assert meanings["pair@nli"].startswith("a pretrained classifier")


# A scorer that takes the language model of the run

WITH_LM = "general+lm"


def language_model(folder, texts):
    """Write a tiny model that reads a chat and a document, and is not sure of anything.

    Likelihoods far from those of a real model would all count alike.
    """
    path = Path(write_tiny_model(folder, "llama", texts))
    config = json.loads((path / "config.json").read_text())
    config |= {"max_position_embeddings": 1024, "rms_norm_eps": 1.0}
    (path / "config.json").write_text(json.dumps(config))
    return str(path)


def test_general_scorer_with_a_language_model_adds_its_likelihood_to_every_head(tmp_path):
    path = language_model(tmp_path / "chat", [NEWS, *SUMMARIES])
    scorer, general = load_scorer(WITH_LM, models={"lm": path}), load_scorer("general").linear
    scores = scorer.score_against_all([[NEWS]] * 3, SUMMARIES).scores
    assert scorer.heads == general.heads

    read = scorer.linear.model
    prompt = read.features.models["lm"]["prompt"]
    likelihood = LanguageModel.load(path, LikelihoodSettings(prompt=prompt))
    log_p = likelihood.log_probabilities([NEWS] * 3, SUMMARIES).log_p
    means = np.array([log_p[k].mean() for k in range(3)])
    scaled = np.clip((means - read.means[-1]) / read.deviations[-1], -CLIPPED_AT, CLIPPED_AT)
    assert np.ptp(scaled) > 0
    of_words = general.model.scaled(general.features.read([NEWS] * 3, SUMMARIES).values)
    for column, name in enumerate(scorer.heads):
        head = read.heads[name]
        assert head.weights[-1] > 0
        sums = of_words @ np.array(head.weights[:-1]) + head.weights[-1] * scaled
        expected = (sums - head.mean) / head.deviation
        assert scores[:, column] == pytest.approx(expected, abs=1e-5)


def test_general_scorer_with_a_language_model_reads_the_features_as_without_it():
    with_lm, general = (
        linear_model(read_settings(find_scorer(name))["model"]) for name in (WITH_LM, "general")
    )
    for name in ("consistency", "fluency", "relevance"):
        ours, theirs = with_lm.heads[name].weights[:-1], general.heads[name].weights
        scale = max(ours, key=abs) / max(theirs, key=abs)
        assert ours == pytest.approx([scale * each for each in theirs])


def test_likelihood_is_no_reason_to_like_copying_in_coherence():
    with_lm = linear_model(read_settings(find_scorer(WITH_LM))["model"])
    weights = dict(zip(with_lm.features.names, with_lm.heads["coherence"].weights, strict=True))
    signs = {name: np.sign(weight) for name, weight in weights.items() if weight}
    assert signs == {"said": 1, "recalled": 1, "density": -1, "likelihood@lm": 1}


def test_language_model_of_the_run_is_read_and_in_the_signature(tmp_path):
    name, found = f"reffree@{WITH_LM}.fluency", []
    for texts in ([NEWS, *SUMMARIES], ["Another text of other words."]):
        path = language_model(tmp_path / str(len(texts)), texts)
        config = ScoringConfig(metrics=(name,), models={"lm": {"path": path, "value": "sum"}})
        scorer = SummaryScorer(config)
        scores, _ = scorer.scored(scorer.prepare(to_rows(SUMMARIES, sources=[NEWS] * 3)))
        found.append((scorer.signatures[name], *scores[name]))
        assert f"|model:{Path(path).name}|hash:" in scorer.signatures[name]
    assert all(one != another for one, another in zip(*found, strict=True))


def test_language_model_that_is_not_there_is_named_with_what_to_do(tmp_path):
    with pytest.raises(ValueError, match="for this scorer give `--models lm=FOLDER`"):
        load_scorer(WITH_LM, models={"lm": str(tmp_path)})


def test_scorer_trained_with_a_model_keeps_it(scorer, tmp_path):
    config = ScoringConfig(metrics=(f"reffree@{scorer}",), models={"lm": str(tmp_path)})
    assert SummaryScorer(config).signatures
