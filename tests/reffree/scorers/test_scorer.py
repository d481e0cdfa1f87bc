"""Scorers in folders: what comes back is what was saved; damage is said in one line."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from reffree.neural.building import build
from reffree.scorers.folder import save_scorer
from reffree.scorers.scorer import LearnedScorer, NeuralPairs, load_scorer
from sms.reward import Reward
from tests.reffree.conftest import model_config
from tests.reffree.tiny_bert import make_groups, write_tiny_bert

ATOL = 1e-6
SOURCES = [group[0].source for group in make_groups(9)]
CANDIDATES = [group[0].candidate for group in make_groups(9)]


def save(built, folder):
    return save_scorer(
        folder, built, loss="bce", trained_on={}, held_out={}, versions={"assay": "0"}
    )


def scorer_of(built):
    return LearnedScorer(NeuralPairs(built), "", {})


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = write_tiny_bert(tmp_path_factory.mktemp("tiny"))
    return model_config(encoder=f"hf:{folder}", max_pieces=16, n_hidden=8)


@pytest.fixture(params=["bert", "sentence", "word"])
def config(request, bert, tmp_path):
    if request.param == "bert":
        return bert
    lengths = {"document_length": 5, "summary_length": 2}
    if request.param == "sentence":
        return model_config(scorer="sentence", encoder=bert.encoder, head="lstm", **lengths)
    rng = np.random.default_rng(0)
    lines = [f"word{i} {' '.join(map(str, rng.normal(size=6).round(3)))}" for i in range(40)]
    (tmp_path / "vectors.txt").write_text("\n".join(lines) + "\n")
    encoder = f"glove:{tmp_path / 'vectors.txt'}"
    return model_config(scorer="word", encoder=encoder, head="cnn", **lengths)


def test_loaded_scorer_scores_as_the_saved_one_and_is_a_reward(config, tmp_path):
    built = build(config, seed=3)
    signature = save(built, tmp_path / "scorer")
    loaded = load_scorer(str(tmp_path / "scorer"))
    scores = loaded.score(SOURCES, CANDIDATES).scores
    np.testing.assert_array_equal(scorer_of(built).score(SOURCES, CANDIDATES).scores, scores)
    assert np.ptp(scores) > 100 * ATOL
    assert loaded.signature == signature
    assert f"scorer:{config.scorer}|" in signature
    reward = Reward(f"reffree@{tmp_path / 'scorer'}", device="cpu")
    assert reward.bounds == (0.0, 1.0)
    assert reward.signature.startswith(signature)
    found = reward([*CANDIDATES, "", None, "..."], sources=[*SOURCES, *SOURCES[:3]])
    np.testing.assert_allclose(found[:9], scores, atol=ATOL)
    assert found[9:] == [0.0, 0.0, 0.0]
    both = reward(CANDIDATES[:1], sources=[[SOURCES[0], "", SOURCES[1]]])
    first, second = loaded.score(SOURCES[:2], [CANDIDATES[0]] * 2).scores
    assert both == pytest.approx([(first + second) / 2], abs=ATOL)
    assert reward(["word1", "word1"], sources=["", None]) == [0.0, None]


def test_scores_do_not_depend_on_the_batch(config):
    scorer = scorer_of(build(config))
    together = scorer.score(SOURCES, CANDIDATES).scores
    alone = [scorer.score([s], [c]).scores[0] for s, c in zip(SOURCES, CANDIDATES, strict=True)]
    np.testing.assert_allclose(together, alone, rtol=0, atol=ATOL)
    turned = scorer.score(SOURCES[::-1], CANDIDATES[::-1]).scores[::-1]
    np.testing.assert_allclose(together, turned, rtol=0, atol=ATOL)


def test_score_is_the_sigmoid_of_the_librarys_first_state(bert):
    built = build(bert)
    found = scorer_of(built).score(["word1 word2"], ["word3"]).scores
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
    longest = model_config(encoder=f"hf:{tmp_path}", max_pieces=19)
    found = scorer_of(build(longest)).score(["word1 " * 30], ["word2"])
    assert np.isfinite(found.scores).all()
    with pytest.raises(ValueError, match=r"at most what .* reads, 19, got 20"):
        build(replace(longest, max_pieces=20))


def test_text_of_which_nothing_is_seen_has_no_score(config):
    scorer = scorer_of(build(config))
    unseen = "Zyx of the qwv." if config.scorer == "word" else ""
    found = scorer.score([SOURCES[0], SOURCES[0], unseen], [CANDIDATES[0], unseen, CANDIDATES[0]])
    assert np.isnan(found.scores).tolist() == [False, True, True]
    reason = "no_words" if config.scorer == "bert" else "no_known_words"
    assert found.reasons == {1: (("candidate", reason),), 2: (("source", reason),)}
    many = [[unseen, SOURCES[0]], [unseen], SOURCES[:2], []]
    several = scorer.score_against_all(many, [CANDIDATES[0]] * 4)  # the mean over those with one
    mean = scorer.score(SOURCES[:2], [CANDIDATES[0]] * 2).scores.mean()
    expected = [found.scores[0], np.nan, mean, np.nan]
    np.testing.assert_allclose(several.scores[:, 0], expected, rtol=0, atol=ATOL)
    assert several.reasons == {1: (("source", reason),)}


def test_cut_rows_are_marked_and_unequal_numbers_refused(bert):
    scorer = scorer_of(build(bert))
    sources = ["word1 " * 11, "word1 " * 12, "word1", "word1 " * 20]
    candidates = ["word2 word3", "word2 word3", "word2 " * 20, "word2 " * 20]
    found = scorer.score(sources, candidates)
    assert found.is_cut.tolist() == [False, True, True, True]
    candidate, source = found.cut.T.tolist()
    assert (candidate, source) == ([False, False, True, True], [False, True, False, True])
    with pytest.raises(ValueError, match="must be equally many, got 1 and 2"):
        scorer.score(["a"], ["b", "c"])
    with pytest.raises(TypeError, match="must be lists of texts, got a text"):
        scorer.score("a", "b")


# what is done to a scorer's folder, what is said
OURS = r"scorer\.json` must be as this version of assay writes it, "
DAMAGES = {
    "none": (lambda f: (f / "scorer.json").unlink(), "must be a scorer's folder"),
    "not-json": (lambda f: (f / "scorer.json").write_text("{"), "must be JSON"),
    "format": (lambda f: change(f, format=9), "must have format 2, got 9"),
    "signature": (lambda f: change(f, signature="reffree|other|v:1"), "must have the signature"),
    "no-weights": (lambda f: (f / "weights.safetensors").unlink(), "weights.*got none"),
    "weights": (lambda f: flip_a_byte(f / "weights.safetensors"), "weights.*got another file"),
    "tokenizer": (lambda f: (f / "tokenizer.json").write_text("{}"), "tokenizer.*another file"),
    "keys": (lambda f: change(f, drop="model"), "must have the keys model, got none"),
    "hashes": (lambda f: change(f, hashes={}), "must have a hash of weights"),
    "newer": (lambda f: change_model(f, n_heads=2), f"{OURS}.*n_heads.*load it with"),
    "versions": (lambda f: change(f, versions=[]), f"{OURS}.*copy the"),
    "length": (lambda f: change_model(f, max_pieces=[]), f"{OURS}.*copy the"),
}


def change(folder, *, drop=None, **values):
    settings = json.loads((folder / "scorer.json").read_text()) | values
    settings.pop(drop, None)
    (folder / "scorer.json").write_text(json.dumps(settings))


def change_model(folder, **values):
    settings = json.loads((folder / "scorer.json").read_text())
    change(folder, model=settings["model"] | values)


def flip_a_byte(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_folder_rejected(name, bert, tmp_path):
    damage, rule = DAMAGES[name]
    save(build(bert), tmp_path)
    damage(tmp_path)
    with pytest.raises(ValueError, match=rule) as caught:
        load_scorer(tmp_path)
    assert "\n" not in str(caught.value)


def test_other_version_of_a_library_is_said_and_another_encoder_refused(bert, tmp_path, caplog):
    lengths = {"document_length": 3, "summary_length": 1}
    save(build(model_config(scorer="sentence", encoder=bert.encoder, **lengths)), tmp_path)
    load_scorer(tmp_path)
    assert not caplog.messages
    change(tmp_path, versions={"torch": "1.9.0", "transformers": None})
    load_scorer(tmp_path)
    assert "was trained with torch 1.9.0, this is" in caplog.messages[0]
    change(tmp_path, encoder_content="0")
    with pytest.raises(ValueError, match=r"must be the one that the scorer .* was trained with"):
        load_scorer(tmp_path)


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"head": "cnn"}, "`head` must be fc for the scorer bert"),
        ({"max_pieces": 3}, "`max_pieces` must be at least 5"),
        ({"encoder": "glove:x.txt"}, "`encoder` must be minilm or hf:PATH"),
        ({"scorer": "sentence", "encoder": "use:x,unit=text"}, "must read sentences for the scor"),
        ({"max_pieces": 600}, "`max_pieces` must be at most what .* reads, 512"),
        ({"head": "match"}, "`head` must be one of fc, cnn, lstm, got 'match'"),
    ],
)
def test_wrong_model_rejected(fields, rule):
    with pytest.raises(ValueError, match=rule):
        build(model_config(**fields))
