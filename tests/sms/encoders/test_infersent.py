"""InferSent from the published state-dict layout, held against torch one sentence at a time."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from sms.encoders import EncoderRuntime, infersent
from sms.encoders.infersent import InferSentEncoder, load_infersent
from tests.sms.encoders.conftest import as_they_are

ATOL = 2e-6
"""Of LSTM states, which lie within (-1, 1); both sides compute in float32."""
NEIGHBOUR_ATOL = 1e-6
D_IN, HIDDEN = 5, 6
WORDS = ["<s>", "</s>", "<p>", "</p>", "The", "the", "cat", "sat", "do", "don", "n't", "'t", "go",
         ".", ",", "U.S.", "mat", "on", "``", "''"]  # fmt: skip
# sentence, its tokens that have vectors in version 1, and in version 2
SENTENCES = [
    ("The cat sat on the mat.", "The cat sat on the mat .", "The cat sat on the mat ."),
    ("They don't go.", "do n't go .", "don 't go ."),
    ("the unicorn , the U.S. cat", "the , the U.S. cat", "the , the U.S. cat"),
    ('Cat said "go" .', "`` go '' .", "`` go '' ."),
    ("cat", "cat", "cat"),
]


def lstm() -> torch.nn.LSTM:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return torch.nn.LSTM(D_IN, HIDDEN, bidirectional=True)


def state_dict() -> dict[str, torch.Tensor]:
    return {f"enc_lstm.{name}": tensor for name, tensor in lstm().state_dict().items()}


def table() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(11)
    return {word: rng.normal(size=D_IN).round(4).astype(np.float32) for word in WORDS}


def write_vectors(path, vectors, head=""):
    lines = [f"{word} {' '.join(map(str, row))}\n" for word, row in vectors.items()]
    path.write_text(head + "".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def model(tmp_path):
    torch.save(state_dict(), tmp_path / "infersent1.pkl")
    return tmp_path / "infersent1.pkl"


@pytest.fixture
def vectors(tmp_path):
    return write_vectors(tmp_path / "glove.txt", table())


def load(model, vectors, version="1") -> InferSentEncoder:
    runtime = EncoderRuntime(device="cpu")
    return load_infersent(str(model), runtime=runtime, vectors=str(vectors), version=version)


def pooled(encoder: InferSentEncoder, *sentences: str) -> np.ndarray:
    return encoder.encode(as_they_are([*sentences])).pooled


def plain(tokens: str) -> np.ndarray:
    """The largest states of a plain LSTM over one sentence."""
    rows = torch.from_numpy(np.stack([table()[token] for token in tokens.split()]))
    with torch.no_grad():
        states, _ = lstm()(rows[:, None])
    return states[:, 0].max(dim=0).values.numpy()


@pytest.mark.parametrize(("version", "first", "last"), [("1", "<s>", "</s>"), ("2", "<p>", "</p>")])
def test_vectors_match_a_plain_lstm(version, first, last, model, vectors, tmp_path):
    expected = [plain(f"{first} {row[int(version)]} {last}") for row in SENTENCES]
    if version == "2":  # fastText's files have a header
        vectors = write_vectors(tmp_path / "crawl.vec", table(), f"{len(WORDS)} {D_IN}\n")
    encoder = load(model, vectors, version)
    found = pooled(encoder, *(row[0] for row in SENTENCES))
    np.testing.assert_allclose(found, expected, rtol=0, atol=ATOL)
    name = f"infersent{version}-infersent1|vectors:{vectors.stem}|oov:drop|pool:mean"
    assert encoder.signature == name


def test_markers_without_vectors_are_left_out(model, tmp_path):
    words = {word: row for word, row in table().items() if "s>" not in word}
    encoder = load(model, write_vectors(tmp_path / "unmarked.txt", words))
    np.testing.assert_allclose(pooled(encoder, "The cat")[0], plain("The cat"), rtol=0, atol=ATOL)


@pytest.mark.parametrize("budget", [1, 9, 4096])
def test_vectors_do_not_depend_on_neighbours(budget, model, vectors, monkeypatch):
    monkeypatch.setattr(infersent, "BATCH_WORDS", budget)
    sentences = [row[0] for row in SENTENCES]
    together = pooled(load(model, vectors), *sentences)
    alone = np.concatenate([pooled(load(model, vectors), sentence) for sentence in sentences])
    np.testing.assert_allclose(together, alone, rtol=0, atol=NEIGHBOUR_ATOL)


def test_sentence_without_known_words_does_not_count(model, vectors):
    texts = as_they_are(["Unicorns gambol", "The cat sat", "Aardvarks gambol"])
    encoded = load(model, vectors).encode(texts)
    assert encoded.weights.tolist() == [0, 2, 0]  # `the` is a stop word
    assert encoded.pooled_weights.tolist() == [0, 3, 0]
    assert encoded.pooled.any(axis=1).tolist() == [False, True, False]


def test_files_decide_the_hash_and_the_old_format_is_read(model, vectors, tmp_path):
    first, old, changed = load(model, vectors), tmp_path / "old.pkl", tmp_path / "changed.pkl"
    torch.save(state_dict(), old, _use_new_zipfile_serialization=False)  # as it is published
    np.testing.assert_array_equal(pooled(first, "The cat"), pooled(load(old, vectors), "The cat"))
    torch.save({name: x + 1 for name, x in state_dict().items()}, changed)
    more = write_vectors(tmp_path / "more.txt", table() | {"dog": table()["cat"]})
    hashes = [first, load(model, more), load(changed, vectors)]
    assert len({encoder.content_hash for encoder in hashes}) == 3


def cut_short(path):
    torch.save(state_dict(), path)
    path.write_bytes(path.read_bytes()[:-200])


def saves(**changes):
    changed = {f"enc_lstm.{name}": tensor for name, tensor in changes.items()}
    return lambda path: torch.save(state_dict() | changed, path)


# what is done with a state dict, message after the path
WRONG = {
    "truncated": (cut_short, "must be a whole state dict"),
    "other": (lambda path: torch.save({"weight_ih_l0": torch.ones(4, 2)}, path), "Missing key"),
    "superfluous": (saves(more=torch.ones(2, 3)), "Unexpected key.*more"),
    "shape": (saves(weight_hh_l0=torch.ones(24, 7)), "size mismatch for weight_hh_l0"),
    "not-finite": (saves(bias_ih_l0=torch.ones(24) / 0), "finite values, but `bias_ih_l0` has"),
}


@pytest.mark.parametrize(("save", "message"), WRONG.values(), ids=WRONG)
def test_wrong_state_dict_rejected(save, message, vectors, tmp_path):
    path = tmp_path / "wrong.pkl"
    save(path)
    with pytest.raises(ValueError, match=rf"`{re.escape(str(path))}` .*{message}") as info:
        load(path, vectors)
    assert "\n" not in str(info.value)


def test_missing_or_narrow_files_rejected(model, vectors, tmp_path):
    narrow = write_vectors(tmp_path / "narrow.txt", {"cat": [1, 2, 3]})
    for given, message in (
        ((model, narrow), r"narrow.txt` must hold vectors of 5 values .* got 3"),
        ((tmp_path / "none.pkl", vectors), r"no state dict at `.*none.pkl`; download one to that"),
        ((model, tmp_path / "none.txt"), r"no vector file at `.*none.txt`; .*after `vectors=`"),
    ):
        with pytest.raises(ValueError, match=message):
            load(*given)
