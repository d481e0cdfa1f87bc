"""Scorers in folders: what comes back is what was saved; damage is said in one line."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from reffree.building import build
from reffree.models import ModelConfig
from reffree.scorer import LearnedScorer, load_scorer, model_card, save_scorer
from sms.reward import Reward
from tests.reffree.tiny_bert import make_groups, write_tiny_bert

ATOL = 1e-6
FIGURES = {"n": 4, "accuracy": 0.75, "auc": 0.8, "mse": 0.1, "pearson": None}
SOURCES = [group[0].source for group in make_groups(9)]
CANDIDATES = [group[0].candidate for group in make_groups(9)]


def save(built, folder):
    return save_scorer(
        folder,
        built,
        loss="bce",
        trained_on={"documents": 12},
        held_out={"cross-pair": FIGURES},
        versions={"assay": "0"},
    )


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = write_tiny_bert(tmp_path_factory.mktemp("tiny"))
    return ModelConfig(encoder=f"hf:{folder}", max_pieces=16, n_hidden=8)


@pytest.fixture(params=["bert", "sentence", "word"])
def config(request, bert, tmp_path):
    if request.param == "bert":
        return bert
    lengths = {"document_length": 5, "summary_length": 2}
    if request.param == "sentence":
        return ModelConfig(scorer="sentence", encoder=bert.encoder, head="match", **lengths)
    rng = np.random.default_rng(0)
    lines = [f"word{i} {' '.join(map(str, rng.normal(size=6).round(3)))}" for i in range(40)]
    (tmp_path / "vectors.txt").write_text("\n".join(lines) + "\n")
    encoder = f"glove:{tmp_path / 'vectors.txt'}"
    return ModelConfig(scorer="word", encoder=encoder, head="cnn", **lengths)


def test_loaded_scorer_scores_as_the_saved_one(config, tmp_path):
    built = build(config, seed=3)
    signature = save(built, tmp_path / "scorer")
    loaded = load_scorer(tmp_path / "scorer")
    before = LearnedScorer(built, "", {}).score(SOURCES, CANDIDATES)
    after = loaded.score(SOURCES, CANDIDATES)
    np.testing.assert_array_equal(before.scores, after.scores)
    assert np.ptp(after.scores) > 100 * ATOL
    assert loaded.signature == signature
    assert f"scorer:{config.scorer}|" in signature


def test_loaded_scorer_is_a_reward(config, tmp_path):
    signature = save(build(config, seed=3), tmp_path / "scorer")
    scorer = load_scorer(str(tmp_path / "scorer"))
    reward = Reward(scorer)
    assert (reward.bounds, reward.signature) == ((0.0, 1.0), signature)
    found = reward([*CANDIDATES, "", None, "..."], sources=[*SOURCES, *SOURCES[:3]])
    np.testing.assert_allclose(found[:9], scorer.score(SOURCES, CANDIDATES).scores, atol=ATOL)
    assert found[9:] == [0.0, 0.0, 0.0]
    both = reward(CANDIDATES[:1], sources=[[SOURCES[0], "", SOURCES[1]]])
    first, second = scorer.score(SOURCES[:2], [CANDIDATES[0]] * 2).scores
    assert both == pytest.approx([(first + second) / 2], abs=ATOL)
    assert reward(["word1"], sources=[None]) == [0.0]


def test_scores_do_not_depend_on_the_batch(config):
    scorer = LearnedScorer(build(config), "", {})
    together = scorer.score(SOURCES, CANDIDATES).scores
    alone = [scorer.score([s], [c]).scores[0] for s, c in zip(SOURCES, CANDIDATES, strict=True)]
    np.testing.assert_allclose(together, alone, rtol=0, atol=ATOL)
    turned = scorer.score(SOURCES[::-1], CANDIDATES[::-1]).scores[::-1]
    np.testing.assert_allclose(together, turned, rtol=0, atol=ATOL)


def test_score_is_the_sigmoid_of_the_librarys_first_state(bert):
    built = build(bert)
    found = LearnedScorer(built, "", {}).score(["word1 word2"], ["word3"]).scores
    ids = built.tokenizer.encode("word1 word2", "word3")
    with torch.inference_mode():
        states = built.model.transformer(
            input_ids=torch.tensor([ids.ids]), token_type_ids=torch.tensor([ids.type_ids])
        )
        logit = built.model.head(states.last_hidden_state[:, 0])
    np.testing.assert_allclose(found, torch.sigmoid(logit)[0].numpy(), rtol=0, atol=ATOL)


def test_relative_of_roberta_reads_fewer_pieces_than_it_has_places(tmp_path):
    from transformers import RobertaConfig, RobertaModel

    write_tiny_bert(tmp_path)
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    RobertaModel(
        RobertaConfig(vocab_size=200, pad_token_id=0, max_position_embeddings=20, **size)
    ).save_pretrained(tmp_path)
    longest = ModelConfig(encoder=f"hf:{tmp_path}", max_pieces=19)
    found = LearnedScorer(build(longest), "", {}).score(["word1 " * 30], ["word2"])
    assert np.isfinite(found.scores).all()
    with pytest.raises(ValueError, match=r"at most what .* reads, 19, got 20"):
        build(replace(longest, max_pieces=20))


def test_several_sources_give_the_mean(bert):
    scorer = LearnedScorer(build(bert), "", {})
    found = scorer.score_against_all([SOURCES[:2], SOURCES[2:3], []], CANDIDATES[:3])
    first = scorer.score(SOURCES[:2], [CANDIDATES[0]] * 2).scores.mean()
    second = scorer.score(SOURCES[2:3], [CANDIDATES[1]]).scores[0]
    np.testing.assert_allclose(found.scores, [first, second, np.nan], rtol=0, atol=ATOL)


def test_text_of_which_nothing_is_seen_has_no_score(config):
    scorer = LearnedScorer(build(config), "", {})
    unseen = "Zyx of the qwv." if config.scorer == "word" else ""
    found = scorer.score([SOURCES[0], SOURCES[0], unseen], [CANDIDATES[0], unseen, CANDIDATES[0]])
    assert np.isnan(found.scores).tolist() == [False, True, True]
    reason = "no_words" if config.scorer == "bert" else "no_known_words"
    assert found.reasons == {1: (f"candidate:{reason}",), 2: (f"source:{reason}",)}
    several = scorer.score_against_all([[unseen, SOURCES[0]], [unseen]], [CANDIDATES[0]] * 2)
    np.testing.assert_allclose(several.scores, [found.scores[0], np.nan], rtol=0, atol=ATOL)
    assert several.reasons == {1: (f"source:{reason}",)}


def test_cut_rows_are_marked(bert):
    scorer = LearnedScorer(build(bert), "", {})
    found = scorer.score(["word1 " * 11, "word1 " * 12], ["word2 word3", "word2 word3"])
    assert found.is_cut.tolist() == [False, True]


def test_nothing_to_score(bert):
    assert LearnedScorer(build(bert), "", {}).score([], []).scores.shape == (0,)


def test_unequal_numbers_rejected(bert):
    with pytest.raises(ValueError, match="`sources` must be as many as candidates, got 1 and 2"):
        LearnedScorer(build(bert), "", {}).score(["a"], ["b", "c"])


def test_frozen_layers_have_no_gradient_but_types_have(bert):
    model = build(ModelConfig(encoder=bert.encoder, max_pieces=16, frozen_layers=1)).model
    trained = {name for name, p in model.transformer.named_parameters() if p.requires_grad}
    assert not any(name.startswith("encoder.layer.0.") for name in trained)
    assert any(name.startswith("encoder.layer.1.") for name in trained)
    assert [name for name in trained if "embeddings" in name] == [
        "embeddings.token_type_embeddings.weight"
    ]


def test_low_rank_updates_are_trained_saved_and_loaded(bert, tmp_path):
    pytest.importorskip("peft", reason="needs peft; pip install 'assay[train]'")
    built = build(ModelConfig(encoder=bert.encoder, max_pieces=16, n_hidden=8, lora_rank=2))
    trained = {name for name, p in built.model.transformer.named_parameters() if p.requires_grad}
    assert all("lora" in name or "token_type" in name for name in trained)
    with torch.no_grad():
        for name, parameter in built.model.named_parameters():
            if "lora_B" in name:  # zero at first
                parameter.fill_(0.5)
    save(built, tmp_path)
    before = LearnedScorer(built, "", {}).score(SOURCES, CANDIDATES).scores
    np.testing.assert_array_equal(load_scorer(tmp_path).score(SOURCES, CANDIDATES).scores, before)
    whole = build(bert)
    whole.model.head.load_state_dict(built.model.head.state_dict())
    others = LearnedScorer(whole, "", {}).score(SOURCES, CANDIDATES).scores
    assert np.abs(others - before).max() > 100 * ATOL


def test_model_card_has_the_figures(bert, tmp_path):
    save(build(bert), tmp_path)
    assert "| cross-pair | 4 | 0.750 | 0.800 | 0.100 | – |" in (tmp_path / "README.md").read_text()


def test_model_card_says_what_there_was_for_people():
    trained_on = {
        "left_out": {},
        "negatives": {"kinds": ["add", "delete"], "proportions": None, "is_balanced": False},
        "validation_loss": 0.123456,
    }
    model = {"scorer": "bert"}
    card = model_card(
        {"signature": "s", "trained_on": trained_on, "held_out": {}, "model": model}
    ).splitlines()
    assert card[6:9] == [
        "- left out: none",
        "- negatives: kinds add, delete, proportions none, is balanced no",
        "- validation loss: 0.1235",
    ]


# what is done to a scorer's folder, what is said
DAMAGES = [
    pytest.param(lambda f: (f / "scorer.json").unlink(), "must be a scorer's folder", id="none"),
    pytest.param(lambda f: (f / "scorer.json").write_text("{"), "must be JSON", id="not-json"),
    pytest.param(lambda f: change(f, format=9), "must have format 1, got 9", id="format"),
    pytest.param(
        lambda f: change(f, signature="reffree|other|v:1"),
        "must have the signature",
        id="signature",
    ),
    pytest.param(
        lambda f: (f / "weights.safetensors").unlink(), "weights.*got none", id="no-weights"
    ),
    pytest.param(
        lambda f: flip_a_byte(f / "weights.safetensors"), "weights.*got another file", id="weights"
    ),
    pytest.param(
        lambda f: (f / "tokenizer.json").write_text("{}"), "tokenizer.*another file", id="tokenizer"
    ),
    pytest.param(
        lambda f: change(f, drop="model"), "must have all its keys, got none of model", id="keys"
    ),
    pytest.param(
        lambda f: change(f, model={"scorer": "bert", "n_heads": 2}),
        "must have no settings that this version of assay does not know, got n_heads; load it with",
        id="newer",
    ),
    *[
        pytest.param(
            lambda f, values=values: change(f, **values),
            r"scorer\.json` must be as it was written, got a value of another kind .*copy the",
            id=name,
        )
        for name, values in (
            ("version", {"versions": {"torch": 2}}),
            ("versions", {"versions": []}),
            ("length", {"model": {"scorer": "bert", "max_pieces": []}}),
            ("features", {"model": {"scorer": "bert", "features": 5}}),
        )
    ],
]


def change(folder, *, drop=None, **values):
    settings = json.loads((folder / "scorer.json").read_text()) | values
    settings.pop(drop, None)
    (folder / "scorer.json").write_text(json.dumps(settings))


def flip_a_byte(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(("damage", "rule"), DAMAGES)
def test_damaged_folder_rejected(damage, rule, bert, tmp_path):
    save(build(bert), tmp_path)
    damage(tmp_path)
    with pytest.raises(ValueError, match=rule) as caught:
        load_scorer(tmp_path)
    assert "\n" not in str(caught.value)


def test_other_version_of_a_library_is_said(bert, tmp_path, caplog):
    save(build(bert), tmp_path)
    load_scorer(tmp_path)
    assert not caplog.messages
    change(tmp_path, versions={"torch": "1.9.0", "transformers": None})
    load_scorer(tmp_path)
    (message,) = caplog.messages
    assert "was trained with torch 1.9.0, this is" in message


def test_other_encoder_rejected(bert, tmp_path):
    config = ModelConfig(
        scorer="sentence", encoder=bert.encoder, document_length=3, summary_length=1
    )
    save(build(config), tmp_path)
    change(tmp_path, encoder_content="0")
    with pytest.raises(ValueError, match=r"must be the one that the scorer .* was trained with"):
        load_scorer(tmp_path)


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"scorer": "tree"}, "`scorer` must be one of bert, sentence, word, features, got 'tree'"),
        ({"head": "cnn"}, "`head` must be fc for the scorer bert"),
        ({"max_pieces": 3}, "`max_pieces` must be at least 5"),
        ({"encoder": "glove:x.txt"}, "`encoder` must be minilm or hf:PATH"),
        (
            {"scorer": "sentence", "encoder": "use:x,unit=text"},
            "`encoder` must read sentences for the scorer sentence, got use:x,unit=text",
        ),
        ({"max_pieces": 600}, "`max_pieces` must be at most what .* reads, 512"),
        ({"frozen_layers": 7}, "`frozen_layers` must be at most the encoder's 6 layers"),
    ],
)
def test_wrong_model_rejected(fields, rule):
    with pytest.raises(ValueError, match=rule):
        build(ModelConfig(**fields))
