"""Models of the transformers library, tiny ones in its own format, held against its own calls."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from sms.encoders import EncoderRuntime, hugging_face
from sms.encoders.hugging_face import load_hf
from sms.encoders.packed_model import PackedModel, PaddedModel
from sms.encoders.pretrained import NO_LIMIT, hash_of_model, most_tokens
from sms.text import SegmentedTexts, word_spans
from tests.sms.encoders.conftest import as_they_are, word_vectors

ATOL = 2e-6
CPU = EncoderRuntime(device="cpu")
PACKED = ("bert", "distilbert", "roberta", "xlm-roberta", "mpnet")
PADDED = ("modernbert", "deberta-v2")
SENTENCES = [
    "The committee met on Tuesday.",
    "it didn't cost $2,000.5 more in warmer U.S. states -- naïve",
    "Straßburg , Straßburg",
    "co\u00adoperate \ufeffhere",
    "東京 is in 日本。",
    "One",
    "The committee met on Tuesday again",
]


def states_and_spans(folder: Path, sentence: str) -> tuple[list[np.ndarray], list]:
    """Run the library on one sentence; every layer's states, and each token's characters."""
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(folder, dtype=torch.float64).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    given = {"return_offsets_mapping": True, "return_special_tokens_mask": True}
    tokens = tokenizer(sentence, return_tensors="pt", **given)
    spans = tokens.pop("offset_mapping")[0].tolist()
    mask = tokens.pop("special_tokens_mask")[0].tolist()
    ids, attended = tokens["input_ids"], tokens["attention_mask"]
    with torch.inference_mode():
        output = model(input_ids=ids, attention_mask=attended, output_hidden_states=True)
    layers = [states[0].numpy() for states in output.hidden_states[:-1]]
    spans = [None if special else span for span, special in zip(spans, mask, strict=True)]
    for k, piece in enumerate(ids[0].tolist()):
        # an unknown invisible character is no part of a word
        is_unknown = piece == tokenizer.unk_token_id and spans[k]
        if is_unknown and sentence[slice(*spans[k])].isprintable():
            spans[k] = (*spans[k], "unknown")
    return [*layers, output.last_hidden_state[0].numpy()], spans


def expected_words(
    cut: SegmentedTexts, sentence: int, states: np.ndarray, spans: list
) -> np.ndarray:
    """Average, for every kept word that is known, the tokens that share a character with it."""
    found = []
    words = cut.sentence_words[sentence]
    for word, (start, end) in zip(words, word_spans(cut, sentence), strict=True):
        if not cut.is_kept[word]:
            continue
        touching = (
            k for k, span in enumerate(spans) if span and max(span[0], start) < min(span[1], end)
        )
        rows = list(touching)
        assert rows
        if all(len(spans[k]) == 2 for k in rows):
            found.append(states[rows].mean(axis=0))
    return np.reshape(found, (-1, states.shape[1]))


def assert_matches(folder: Path, sentences: list[str], combine=lambda h: h[-1], pool=None, **given):
    """Hold word vectors and pooled vectors against those of the library."""
    options = {name: given.pop(name) for name in ("layers", "pooling") if name in given}
    cut = as_they_are(sentences, **given)
    encoder = load_hf(str(folder), runtime=CPU, **options)
    encoded = encoder.encode(cut)
    for k, sentence in enumerate(sentences):
        hidden, spans = states_and_spans(folder, sentence)
        states = combine(hidden)
        words = word_vectors(encoded, k)
        np.testing.assert_allclose(words, expected_words(cut, k, states, spans), rtol=0, atol=ATOL)
        pooled = states.mean(axis=0) if pool is None else pool(states)
        np.testing.assert_allclose(encoded.pooled[k], pooled, rtol=0, atol=ATOL)
    return encoder


# Against the library


@pytest.mark.parametrize("architecture", [*PACKED, *PADDED])
def test_vectors_match_transformers(architecture, tiny_model):
    encoder = assert_matches(tiny_model(architecture), SENTENCES)
    is_padded = architecture in PADDED
    assert isinstance(encoder._model, PaddedModel if is_padded else PackedModel)
    assert encoder._batches._is_padded == is_padded


@pytest.mark.parametrize(
    ("layers", "combine"),
    [
        ("first", lambda h: h[1]),
        ("all", lambda h: (h[1] + h[2] + h[3]) / 3),
        ("mean:0..-1", lambda h: sum(h) / 4),
        ("concat:-1,0", lambda h: np.concatenate([h[3], h[0]], axis=1)),
    ],
)
@pytest.mark.parametrize("architecture", ["bert", "mpnet", "modernbert"])
def test_layers_match_transformers(architecture, layers, combine, tiny_model):
    assert_matches(tiny_model(architecture), SENTENCES[:2], combine, layers=layers)


@pytest.mark.parametrize(
    ("pooling", "pool"), [("max", lambda s: s.max(axis=0)), ("cls", lambda s: s[0])]
)
def test_pooling_matches_transformers(pooling, pool, tiny_model):
    encoder = assert_matches(tiny_model("roberta"), SENTENCES, pool=pool, pooling=pooling)
    assert encoder.pooling == ("max" if pooling == "max" else "mean")


def test_words_across_pieces_and_of_other_rules_match_transformers(tiny_model):
    assert_matches(tiny_model("bert"), ["これは本です。", "東京は日本の首都です"], language="ja")
    sentence = "The committee didn't agree on $2,000 at 6.15pm."
    assert_matches(tiny_model("bert"), [sentence], words="clark2019")


# A sentence's vectors are its own


@pytest.mark.parametrize("architecture", ["roberta", "mpnet"])
def test_neighbours_change_no_bit(architecture, tiny_model):
    encoder = load_hf(str(tiny_model(architecture)), runtime=CPU)
    together = encoder.encode(as_they_are(SENTENCES))
    for k, sentence in enumerate(SENTENCES):
        alone = load_hf(str(tiny_model(architecture)), runtime=CPU).encode(as_they_are([sentence]))
        np.testing.assert_array_equal(word_vectors(alone, 0), word_vectors(together, k))
        np.testing.assert_array_equal(alone.pooled[0], together.pooled[k])


@pytest.mark.parametrize("architecture", ["roberta", "deberta-v2"])
@pytest.mark.parametrize("pooling", ["mean", "max", "cls"])
def test_long_sentence_is_windowed(architecture, pooling, tiny_model):
    encoder = load_hf(str(tiny_model(architecture)), runtime=CPU, pooling=pooling)
    # one of its words is longer than a window
    sentence = " ".join(["Tuesday"] * 300 + ["xq" * 300])
    encoded = encoder.encode(as_they_are([sentence, "Tuesday"]))
    assert len(word_vectors(encoded, 0)) == encoded.n_known[0] >= 300
    assert (np.abs(encoded.word_points).max(axis=1) > 0.1).all()
    assert np.isfinite(encoded.pooled).all()
    assert encoder.counts["tokens"] > 300
    assert encoder.state()["truncated"] == 0


# Bad input


@pytest.fixture
def broken(tiny_model, tmp_path) -> Path:
    folder = tmp_path / "broken"
    shutil.copytree(tiny_model("bert"), folder)
    return folder


def test_not_a_folder_rejected(broken):
    for path, message in (
        ("/no/such/folder", "no model folder at `/no/such/folder`; check the path"),
        (str(broken / "config.json"), "must be given a model's folder, got the file"),
    ):
        with pytest.raises(ValueError, match=message):
            load_hf(path, runtime=CPU)


def test_hub_is_out_of_reach_or_its_cache_is_read(tiny_model, tmp_path, monkeypatch):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match=r"hf download nobody/nothing --local-dir DIR") as caught:
        load_hf("nobody/nothing", runtime=CPU)
    assert "\n" not in str(caught.value)
    kept = tmp_path / "models--someone--tiny"
    shutil.copytree(tiny_model("bert"), kept / "snapshots" / ("0" * 40))
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text("0" * 40)
    download = partial(huggingface_hub.snapshot_download, cache_dir=tmp_path)
    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    encoder = load_hf("someone/tiny", runtime=CPU)
    assert encoder.signature == "tiny|layer:last|words:mean|oov:nfkc+drop|pool:mean"


def without(pattern: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        for file in folder.glob(pattern):
            file.unlink()

    return damage


def edited(name: str, **changes: object) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        settings = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(settings | changes))

    return damage


def cut_short(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])


def of_another(folder: Path) -> None:
    file = folder / "model.safetensors"
    weights = {f"other.{name}": tensor for name, tensor in load_file(file).items()}
    save_file(weights, file, {"format": "pt"})


without_first_token = edited("tokenizer.json", post_processor=None)

# what is done to a sound folder, what is asked for, message
DAMAGED = {
    "no-weights": (without("*.safetensors"), {}, "must hold weights"),
    "no-tokenizer": (without("tokenizer*"), {}, "must hold a tokenizer"),
    "no-config": (without("config.json"), {}, "got no config.json"),
    "truncated": (cut_short, {}, "must be a whole safetensors file, got"),
    "of-another": (of_another, {}, r"must hold all weights of a BertModel, but \d+ are"),
    "unknown-kind": (edited("config.json", model_type="bertolt"), {}, "bertolt"),
    "no-first-token": (without_first_token, {"pooling": "cls"}, "`pooling` must be mean or max"),
}


@pytest.mark.parametrize(("damage", "options", "message"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_model_rejected(damage, options, message, broken):
    damage(broken)
    with pytest.raises(ValueError, match=message) as caught:
        load_hf(str(broken), runtime=CPU, **options)
    assert "\n" not in str(caught.value)


class OtherModel(PackedModel):
    def states(self, ids: np.ndarray, lengths: np.ndarray) -> torch.Tensor:
        return super().states(ids, lengths) * 1.01


def test_difference_from_its_family_is_noticed(tiny_model, monkeypatch, caplog):
    folder = tiny_model("bert")
    expected = load_hf(str(folder), runtime=CPU).encode(as_they_are(SENTENCES))
    monkeypatch.setattr(hugging_face, "PackedModel", OtherModel)
    encoder = load_hf(str(folder), runtime=CPU)
    assert isinstance(encoder._model, PaddedModel)
    assert "model is unusual" in caplog.text
    found = encoder.encode(as_they_are(SENTENCES))
    np.testing.assert_allclose(found.word_points, expected.word_points, rtol=0, atol=ATOL)


# Limits


@pytest.mark.parametrize(
    ("kind", "settings", "expected"),
    [
        ("Bert", {}, 512),
        ("ModernBert", {}, 8192),  # its padding is a token above 1, its places are turned
        ("Roberta", {"max_position_embeddings": 514, "pad_token_id": 1}, 512),
        ("Longformer", {"max_position_embeddings": 514, "pad_token_id": 1}, 512),
        ("Bart", {"pad_token_id": 1}, 1024),  # has a table of 1,026
        ("OPT", {"pad_token_id": 1}, 2048),
        ("GPT2", {}, 1024),
        ("T5", {}, NO_LIMIT),
    ],
)
def test_most_tokens_of_every_kind_of_places(kind, settings, expected):
    import transformers

    config = getattr(transformers, f"{kind}Config")(**settings)
    with torch.device("meta"):
        model = transformers.AutoModel.from_config(config)
    for limit in (100, 10**30):
        assert most_tokens(model, SimpleNamespace(model_max_length=limit)) == min(limit, expected)


def test_sentence_without_tokens_is_zero(broken):
    without_first_token(broken)
    encoded = load_hf(str(broken), runtime=CPU).encode(as_they_are(["\u0301", "One"]))
    assert not encoded.pooled[0].any()
    assert encoded.pooled_weights[0] == 0
    assert encoded.pooled[1].any()


# Content


def test_content_hash_follows_what_decides_the_vectors(tmp_path):
    """Of every part: the last layer of a sentence-transformers model may be in the older format."""
    folder = tmp_path / "openvino" / "model"
    names = [
        *("model.safetensors", "pytorch_model.bin", "tokenizer.json", "README.md"),
        *("onnx/config.json", "2_Dense/pytorch_model.bin"),
    ]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("content")
    original, counts = hash_of_model(folder), []
    for name in names:
        (folder / name).write_text("other content")
        if hash_of_model(folder) != original:
            counts.append(name)
        (folder / name).write_text("content")
    assert counts == ["model.safetensors", "tokenizer.json", "2_Dense/pytorch_model.bin"]
    assert hash_of_model(shutil.copytree(folder, tmp_path / "elsewhere")) == original
