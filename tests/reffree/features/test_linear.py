"""Scorers of features: weights against scikit-learn, comparisons by hand, folders."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from reffree.features import WORD_FEATURES, FeatureConfig
from reffree.features.aspects import (
    DIRECTIONS,
    GENERAL_HEADS,
    NEWS_HEADS,
    Heads,
    comparisons_of,
    rated_comparisons,
)
from reffree.features.linear import BOUND, PENALTIES, Comparisons, fit_linear, fit_weights
from reffree.negatives import KINDS, POSITIVES, NegativesConfig
from reffree.scorers.fitting import LinearRecipe, fit_heads, fit_scorer, judge_heads, texts_of
from reffree.scorers.scorer import LearnedScorer, load_scorer
from reffree.training_pairs.examples import Example

TABLE = {"one": ("delete", "repeat"), "two": ("repeat", "swap")}
HEADS = Heads(positives=("reference", "lead"), kinds=TABLE, features={}, composed={})
THREE = FeatureConfig(names=("length", "density", "order"))


def example(kind, label, *, document="d", base="reference", **more):
    return Example(document, 0, kind, 0, "source", f"{kind} {label}", label, 0, base, **more)


def test_positive_is_compared_with_its_own_negatives_only():
    rows = [
        example("positive", 1.0), example("delete", 0.5), example("repeat", 0.9),
        example("positive", 1.0, base="lead"), example("repeat", 0.2, base="lead"),
        example("swap", 0.3, base="lead"),
    ]  # fmt: skip
    found = comparisons_of(rows, TABLE)
    assert {
        head: list(zip(compared.better, compared.worse, strict=True))
        for head, compared in found.items()
    } == {
        "one": [(0, 1), (0, 2), (3, 4)],
        "two": [(0, 2), (3, 4), (3, 5)],
    }
    # both kinds count the same, and so do their rows
    np.testing.assert_allclose(found["one"].weights, [1, 1 / 2, 1 / 2])
    assert found["one"].groups.tolist() == [1, 1, 0]  # one kind of positive is left out in turn


def test_aspect_and_weight_of_a_row_win():
    rows = [
        example("positive", 1.0),
        example("delete", 0.5, aspect="mine, two", weight=3.0),
        example("mine", 0.5),
    ]
    found = comparisons_of(rows, TABLE)
    assert set(found) == {"two", "mine", "overall"}
    assert found["mine"].weights.tolist() == [3.0]


def test_without_a_positive_all_are_compared_by_their_labels_inside_documents():
    rows = [example("", label) for label in (2.0, 1.0, 2.0)]
    (compared,) = comparisons_of(rows, TABLE).values()
    assert list(zip(compared.better, compared.worse, strict=True)) == [(0, 1), (2, 1)]
    found = rated_comparisons(np.array([0, 0, 0, 1, 1]), np.array([3.0, 1.0, 3.0, 2.0, np.nan]))
    assert list(zip(found.better, found.worse, strict=True)) == [(0, 1), (2, 1)]


def drawn(n=600, seed=0):
    """Comparisons that follow the model of Bradley and Terry with weights 1.5, -1 and 0."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(2 * n, 3))
    gap = (values[:n] - values[n:]) @ [1.5, -1.0, 0.0]
    wins = rng.random(n) < 1 / (1 + np.exp(-gap))
    first, second = np.arange(n), np.arange(n, 2 * n)
    compared = Comparisons(
        better=np.where(wins, first, second), worse=np.where(wins, second, first),
        weights=np.ones(n), groups=first % 50,
    )  # fmt: skip
    return values, compared


def test_weights_are_at_the_optimum():
    values, compared = drawn(200)
    weights = fit_weights(values, compared)
    x = values[compared.better] - values[compared.worse]
    slope = -(x / (1 + np.exp(x @ weights))[:, None]).sum(axis=0)  # of the loss, unpenalised
    strengths = -slope / weights  # 1 / C, the same for every weight
    np.testing.assert_allclose(strengths, strengths[0], rtol=1e-2)
    assert min(abs(np.log10(1 / strengths[0]) - np.log10(c)) for c in PENALTIES) < 1e-2


def test_scores_are_standardised_and_contributions_add_up():
    values, compared = drawn()
    model = fit_linear(THREE, values, {"a": compared})
    scores = model.scores(values)[:, 0]
    assert scores.mean() == pytest.approx(0, abs=1e-9)
    assert scores.std() == pytest.approx(1)
    parts = model.contributions(values, "a").sum(axis=1)
    np.testing.assert_allclose(parts - parts.mean(), scores, atol=1e-9)
    far = model.scores(np.full((1, 3), 1e9))[0, 0]
    assert abs(far) <= BOUND
    odd = np.array([[np.nan] * 3, [np.nan, 0.0, 0.0]])
    assert np.isnan(model.scores(odd)[:, 0]).tolist() == [True, False]


def test_feature_that_would_count_the_wrong_way_counts_nothing():
    values, compared = drawn()

    def weights(**directions):
        model = fit_linear(THREE, values, {"a": compared}, {"a": directions})
        return np.array(model.heads["a"].weights)

    free = weights(length=0, density=0, order=0)
    plain = fit_linear(THREE, values, {"a": compared}).heads["a"].weights
    np.testing.assert_array_equal(free, plain)
    assert free[0] > 0 > free[1]
    np.testing.assert_array_equal(weights(length=1, density=-1, order=0), free)
    alone = weights(length=1, density=1, order=0)
    assert alone[1] == 0
    np.testing.assert_allclose(alone, weights(length=0, order=0))  # as if it were not read
    assert weights(length=-1, density=1).tolist() == [0, 0, 0]


def test_composed_feature_spreads_as_much_as_what_is_fitted():
    values, compared = drawn()

    def fitted(*composed):
        read = {"length": 0, "density": 0}
        return fit_linear(THREE, values, {"a": compared}, {"a": read}, {"a": composed})

    plain, model = np.array(fitted().heads["a"].weights), fitted("order")
    weights = np.array(model.heads["a"].weights)
    np.testing.assert_array_equal(weights[:2], plain[:2])
    assert plain[2] == 0
    good = model.scaled(values)[compared.better]
    assert (good[:, 2] * weights[2]).std() == pytest.approx((good @ plain).std())
    values[:, 2] = 1.0  # tells nothing apart
    assert fitted("order").heads["a"].weights[2] == 0


@pytest.mark.parametrize("metrics", [(), ("sms:source",)])
def test_coherence_reads_metrics_or_the_copy_model_as_equal_parts(metrics):
    rng = np.random.default_rng(0)
    config = FeatureConfig(names=(*WORD_FEATURES, *metrics))
    rows = [
        example(kind, float(kind == "positive"), document=str(k), aspect="coherence")
        for k in range(20)
        for kind in ("positive", "repeat")
    ]
    values = rng.random((40, len(config.names)))
    model = fit_heads(rows, values, config)
    weights = dict(zip(config.names, model.heads["coherence"].weights, strict=True))
    read = {name for name in ("copy_mean", *metrics) if weights[name] > 0}
    assert read == set(metrics or ("copy_mean",))


def test_one_document_rejected():
    values, compared = drawn(10)
    alone = replace(compared, groups=np.zeros(10, dtype=np.int64))
    with pytest.raises(ValueError, match=r"head `a` must have .* at least 2 documents, got 1; add"):
        fit_linear(THREE, values, {"a": alone})


NOTHING = [
    [],
    [("", 1.0)],
    [("", 1.0), ("", 1.0)],
    [("positive", 1.0), ("positive", 1.0)],
    [("swap", 0.0), ("swap", 0.0)],
]


@pytest.mark.parametrize("rows", NOTHING, ids=str)
def test_nothing_to_compare_rejected(rows):
    made = [example(*row, document=f"d{k}") for k in range(3) for row in rows]
    with pytest.raises(ValueError, match=f"nothing to compare in {len(made)} training rows: a doc"):
        fit_scorer(made, FeatureConfig())


@pytest.mark.parametrize(("scorer", "heads"), [("news", NEWS_HEADS), ("general", GENERAL_HEADS)])
def test_heads_read_what_there_is_and_nothing_of_length(scorer, heads):
    assert set(heads.all_kinds) <= set(KINDS)
    assert set(heads.positives) <= set(POSITIVES)
    assert list(heads.kinds) == ["coherence", "consistency", "fluency", "relevance"]
    assert set(DIRECTIONS) == set(WORD_FEATURES)
    assert heads.directions_of("mine") is None
    model = load_scorer(scorer)._pairs.model
    for head, fitted in model.heads.items():
        names, composed = set(heads.directions_of(head)), set(heads.composed[head])
        assert names <= set(WORD_FEATURES) - {"length", "sentence_length", "compression"}
        assert not composed & names
        for name, weight in zip(model.features.names, fitted.weights, strict=True):
            assert weight == 0 or (weight * DIRECTIONS[name] >= 0 and name in names | composed)


GOOD = "Anna Bell opened the old bridge. It had been closed since May."
SOURCE = f"{GOOD} Carl Dunn sang three songs. The weather was fine that day. People went home."


@pytest.fixture(scope="module")
def pairs():
    """Fit the heads of `TABLE` to mistakes that are easy to tell."""
    made = []
    for i in range(12):
        good, source = (text.replace("Bell", f"Bell{i}") for text in (GOOD, SOURCE))
        rows = [("positive", good), ("repeat", f"{good} {good}"), ("swap", f"Bell Anna{i} the")]
        made += [
            Example(f"d{i}", 0, kind, 0, source, text, float(kind == "positive"), 0, base)
            for base in ("reference", "lead")
            for kind, text in rows
        ]
    config = LinearRecipe(negatives=NegativesConfig(kinds=("repeat",))).feature_config
    return fit_scorer(made, config, heads=HEADS)[0], made


def test_heads_learn_their_kinds(pairs):
    scorer, made = pairs
    groups = [made[k : k + 3] for k in range(0, len(made), 3)]
    found = judge_heads(groups, scorer, HEADS)
    assert set(found) == {"one: repeat", "two: repeat", "two: swap"}
    assert {figures.preferred for figures in found.values()} == {1.0}
    assert {figures.accuracy for figures in found.values()} == {None}


def test_folder_gives_the_same_scores_by_head_and_as_their_mean(pairs, tmp_path):
    scorer, made = pairs
    signature = scorer.save(tmp_path / "s", trained_on={}, held_out={}, versions={})
    texts = texts_of(made[:6])
    before = scorer.score(*texts).scores
    loaded = load_scorer(tmp_path / "s")
    np.testing.assert_array_equal(loaded.score(*texts).scores, before.mean(axis=1))
    one = load_scorer(f"{tmp_path}/s.two")
    np.testing.assert_array_equal(one.score(*texts).scores, before[:, 1])
    assert loaded.signature == signature == one.signature
    assert "|heads:one+two|" in signature
    assert isinstance(loaded, LearnedScorer)
    with pytest.raises(ValueError, match="no head `three` in the scorer; there are one, two"):
        load_scorer(f"{tmp_path}/s.three")


def test_changed_weights_are_noticed(pairs, tmp_path):
    pairs[0].save(tmp_path / "s", trained_on={}, held_out={}, versions={})
    path = tmp_path / "s" / "scorer.json"
    settings = json.loads(path.read_text())
    settings["model"]["heads"]["one"]["weights"][0] += 1
    path.write_text(json.dumps(settings))
    with pytest.raises(ValueError, match="must have the signature of what is in the folder"):
        load_scorer(tmp_path / "s")


def test_another_version_of_a_library_is_said_and_in_the_signature(pairs, tmp_path, caplog):
    """Who installs Assay later has other versions than those that a scorer was trained with."""
    pairs[0].save(tmp_path / "s", trained_on={}, held_out={}, versions={})
    path = tmp_path / "s" / "scorer.json"
    settings = json.loads(path.read_text())
    kept = settings["signature"]
    settings["signature"] = re.sub(r"sentencex-[\d.]+", "sentencex-0.9.1", kept)
    path.write_text(json.dumps(settings))
    loaded = load_scorer(tmp_path / "s")
    assert loaded.signature == kept
    assert "sentencex-0.9.1, this is" in caplog.text
