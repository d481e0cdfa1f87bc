"""Untrained metrics as inputs: values, first weights, and the model they are added to."""

from itertools import chain

import numpy as np
import pytest
import torch

from reffree.building import build
from reffree.features import (
    PENALTY,
    FeatureScale,
    PairFeatures,
    WithFeatures,
    _logistic_regression,
)
from reffree.scorer import LearnedScorer, load_scorer
from tests.reffree.conftest import model_config
from tests.reffree.test_scorer import ATOL, CANDIDATES, SOURCES, save
from tests.reffree.tiny_bert import make_groups, write_tiny_bert

EXAMPLES = list(chain.from_iterable(make_groups(30)))


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return f"hf:{write_tiny_bert(tmp_path_factory.mktemp('tiny'))}"


@pytest.fixture(params=["bert", "sentence", "features"])
def config(request, encoder):
    features = ("length", "coverage", "sms:source")
    if request.param == "features":
        return model_config(scorer="features", encoder=encoder, features=features)
    if request.param == "bert":
        return model_config(encoder=encoder, max_pieces=16, n_hidden=8, features=features)
    return model_config(
        scorer="sentence", encoder=encoder, document_length=5, summary_length=2, features=features
    )


def test_values_by_hand(encoder):
    features = PairFeatures(("length", "coverage", "novelty"), encoder)
    found = features.values(["one two three four"] * 2, ["one two five", "one"])
    np.testing.assert_allclose(found[0], [np.log(4), 2 / 3, 1 / 2], rtol=1e-6)
    np.testing.assert_allclose(found[1], [np.log(2), 1, np.nan], rtol=1e-6)  # no bigram


def test_movers_are_distances(encoder):
    from sms.scoring import score_texts

    found = PairFeatures(("sms:source",), encoder).values(SOURCES, CANDIDATES)[:, 0]
    table = score_texts(
        CANDIDATES, sources=SOURCES, metrics=("sms:source",), encoders={"tiny": encoder}
    )
    np.testing.assert_allclose(np.exp(found), table["sms:source"].to_numpy(), rtol=1e-5)


def test_first_weights_match_scikit_learn():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    values = rng.normal(size=(400, 3))
    labels = (values @ [2.0, -1.0, 0.0] + rng.normal(size=400) > 0.5).astype(float)
    weights, bias = _logistic_regression(values, labels)
    expected = LogisticRegression(C=1 / (2 * PENALTY * 400), tol=1e-8).fit(values, labels)
    np.testing.assert_allclose(weights, expected.coef_[0], atol=1e-3)
    assert bias == pytest.approx(expected.intercept_[0], abs=1e-3)


def test_logit_is_the_models_and_the_weighted_sum():
    class Half(torch.nn.Module):
        def forward(self, pairs):
            return pairs / 2

    scale = FeatureScale(np.array([1.0, 0.0]), np.array([2.0, 1.0]), np.array([3.0, 5.0]), -1.0)
    model = WithFeatures(Half(), scale)
    features = torch.tensor([[5.0, 1.0], [np.nan, 100.0]])
    logits = model(features=features, pairs=torch.tensor([4.0, 0.0])).tolist()
    assert logits == pytest.approx([4 / 2 + 3 * 2 + 5 * 1 - 1, 5 * 4 - 1])  # cut at 4


def test_loaded_scorer_scores_as_the_saved_one(config, tmp_path):
    built = build(config, examples=EXAMPLES, seed=3)
    signature = save(built, tmp_path)
    loaded = load_scorer(tmp_path)
    before = LearnedScorer(built, "", {}).score(SOURCES, CANDIDATES)
    after = loaded.score(SOURCES, CANDIDATES)
    np.testing.assert_array_equal(before.scores, after.scores)
    assert "|features:length+coverage+sms:source|" in signature
    alone = [loaded.score([s], [c]).scores[0] for s, c in zip(SOURCES, CANDIDATES, strict=True)]
    np.testing.assert_allclose(after.scores, alone, rtol=0, atol=ATOL)


def test_pair_without_a_feature_has_no_score(encoder):
    config = model_config(scorer="features", encoder=encoder, features=("sms:source", "novelty"))
    scorer = LearnedScorer(build(config, examples=EXAMPLES), "", {})
    found = scorer.score(SOURCES[:1] * 3, [CANDIDATES[0], "word1", "the"])  # no bigram in two
    assert np.isnan(found.scores).tolist() == [False, False, True]
    assert found.reasons == {2: ("features:undefined",)}


def test_scorer_of_features_alone(encoder):
    config = model_config(scorer="features", encoder=encoder, features=("coverage", "length"))
    scorer = LearnedScorer(build(config, examples=EXAMPLES), "", {})
    copied, other = scorer.score(SOURCES[:1] * 2, [SOURCES[0], "nothing of it"]).scores
    assert copied > other
    with pytest.raises(ValueError, match="`features` must name the metrics of the scorer"):
        model_config(scorer="features")
    with pytest.raises(ValueError, match="`head` must be fc for the scorer features"):
        model_config(scorer="features", head="cnn", features=("length",))


@pytest.mark.parametrize(
    ("names", "rule"),
    [
        (("sms",), "`features` must read no reference, got sms; sms:source compares"),
        (("rouge1",), "`features` must read no reference, got rouge1; rouge1:source"),
    ],
)
def test_wrong_features_rejected(names, rule):
    with pytest.raises(ValueError, match=rule):
        model_config(features=names)
