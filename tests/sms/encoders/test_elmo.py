"""ELMo, from a tiny module with its signatures and outputs built by TensorFlow here."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest

from sms import score_texts
from sms.encoders import EncodedSentences, EncoderRuntime, tf_hub
from sms.encoders.tf_hub import ElmoEncoder, load_elmo
from sms.text import Segmenter

ATOL = 2e-6
"""Of values within (-1, 1)."""
NEIGHBOUR_ATOL = 1e-6
RUNTIME = EncoderRuntime(device="cpu")
HALF, BUCKETS = 3, 64
WIDTH = 2 * HALF
LAYERS = ("word_emb", "lstm_outputs1", "lstm_outputs2", "elmo")

# words of each sentence; those that count are upper-case here and lower-case in the text
SENTENCES = ["the CAT SAT on the MAT .", "DOGS BARKED", "RAIN FELL all NIGHT in WALES .", "YES"]
TEXTS = [sentence.lower() for sentence in SENTENCES]


# The model


def save(tf: ModuleType, path: Path, width: int = HALF, names: tuple[str, ...] = LAYERS) -> Path:
    """Save two layers of running sums from the left and from the right, without padding.

    Some outputs are under the signature `tokens`; `elmo` is the published module's sum of layers,
    with its weights as they begin.
    """
    rng = np.random.default_rng(3)
    model = tf.Module()
    model.table = tf.Variable(rng.normal(size=(BUCKETS, width)).astype(np.float32))
    model.turns = [tf.Variable(rng.normal(size=(HALF, HALF)).astype("f4")) for _ in "abcd"]

    def both_ways(states, lengths, turns):
        back = tf.reverse_sequence(states[..., -HALF:], lengths, seq_axis=1)
        left = tf.tanh(tf.cumsum(states[..., :HALF], axis=1) @ turns[0] / 4)
        right = tf.tanh(tf.cumsum(back, axis=1) @ turns[1] / 4)
        return tf.concat([left, tf.reverse_sequence(right, lengths, seq_axis=1)], axis=-1)

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.string, name="tokens"),
            tf.TensorSpec([None], tf.int32, name="sequence_len"),
        ]
    )
    def tokens(tokens, sequence_len):
        buckets = tf.strings.to_hash_bucket_fast(tokens, BUCKETS)
        low = tf.tanh(tf.nn.embedding_lookup(model.table, buckets))
        first = both_ways(low, sequence_len, model.turns[:2])
        second = both_ways(first, sequence_len, model.turns[2:])
        layers = {"word_emb": low, "lstm_outputs1": first, "lstm_outputs2": second}
        if width == HALF:
            layers["elmo"] = (tf.concat([low, low], axis=-1) + first + second) / 3
        return {name: layer for name, layer in layers.items() if name in names}

    tf.saved_model.save(model, path, signatures={"tokens": tokens})
    return path


@pytest.fixture(scope="module")
def saved(tf, tmp_path_factory) -> Path:
    return save(tf, tmp_path_factory.mktemp("elmo") / "3")


@pytest.fixture(scope="module")
def plain(saved, tf):
    """Layers of one sentence from the module itself, without padding."""
    signature = tf.saved_model.load(saved).signatures["tokens"]

    def call(words: list[str]) -> dict[str, np.ndarray]:
        lengths = tf.constant([len(words)], tf.int32)
        layers = signature(tokens=tf.constant([words]), sequence_len=lengths)
        return {name: layer.numpy()[0] for name, layer in layers.items()}

    return call


def load(saved: Path, **options) -> ElmoEncoder:
    return load_elmo(str(saved), runtime=RUNTIME, **options)


def encode(encoder: ElmoEncoder, texts: list[str]) -> tuple[EncodedSentences, np.ndarray]:
    """Encode texts of one sentence each; the second value is the number of each."""
    cut = Segmenter().segment(pa.array(texts))
    assert cut.text_sentences.lengths.tolist() == [1] * len(texts)
    return encoder.encode(cut), cut.text_sentences.values


def word_vectors(encoder: ElmoEncoder, texts: list[str]) -> list[np.ndarray]:
    encoded, order = encode(encoder, texts)
    return [encoded.word_points[encoded.sentence_words[k]] for k in order.tolist()]


def kept(sentence: str) -> list[int]:
    return [place for place, word in enumerate(sentence.split()) if word.isupper()]


def concatenated(layers: dict[str, np.ndarray]) -> np.ndarray:
    """The plain layers side by side; the lowest counts as if written twice."""
    low = layers["word_emb"]
    return np.hstack([low, low, layers["lstm_outputs1"], layers["lstm_outputs2"]])


# Vectors


@pytest.mark.parametrize(
    ("layers", "join"), [("mean", lambda layers: layers["elmo"]), ("concat", concatenated)]
)
def test_word_vectors_are_the_published_ones(layers, join, saved, plain):
    encoder = load(saved, layers=layers)
    assert encoder.dimension == WIDTH * (3 if layers == "concat" else 1)
    for sentence, text, vectors in zip(SENTENCES, TEXTS, word_vectors(encoder, TEXTS), strict=True):
        expected = join(plain(text.split()))[kept(sentence)]
        np.testing.assert_allclose(vectors, expected, rtol=0, atol=ATOL)


@pytest.mark.parametrize(("pooling", "pool"), [("mean", np.mean), ("max", np.max)])
def test_pooled_is_over_all_words(pooling, pool, saved, plain):
    encoded, order = encode(load(saved, pooling=pooling), TEXTS)
    expected = [pool(plain(text.split())["elmo"], axis=0) for text in TEXTS]
    np.testing.assert_allclose(encoded.pooled[order], expected, rtol=0, atol=ATOL)
    assert encoded.pooled_weights[order].tolist() == [7, 2, 7, 1]


@pytest.mark.parametrize("budget", [7, 1024])
def test_vectors_do_not_depend_on_neighbours(budget, saved, monkeypatch):
    monkeypatch.setattr(tf_hub, "ELMO_BATCH_WORDS", budget)
    together = word_vectors(load(saved), TEXTS)
    for text, vectors in zip(TEXTS, together, strict=True):
        (alone,) = word_vectors(load(saved), [text])
        np.testing.assert_allclose(vectors, alone, rtol=0, atol=NEIGHBOUR_ATOL)


@pytest.mark.parametrize(("pooling", "pool"), [("mean", np.mean), ("max", np.max)])
def test_long_sentence_is_read_in_windows(pooling, pool, saved, plain, monkeypatch):
    monkeypatch.setattr(tf_hub, "ELMO_BATCH_WORDS", 3)
    words = ["red", "green", "blue", "black", "white", "brown", "grey", "pink"]
    expected = np.concatenate([plain(words[at : at + 3])["elmo"] for at in (0, 3, 6)])
    encoded, (long, _) = encode(load(saved, pooling=pooling), [" ".join(words), "dogs barked"])
    vectors = encoded.word_points[encoded.sentence_words[long]]
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=ATOL)
    np.testing.assert_allclose(encoded.pooled[long], pool(expected, axis=0), rtol=0, atol=ATOL)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_sentence_without_words(pooling, saved):
    # a lone soft hyphen is a chunk without words
    encoded, (empty, _) = encode(load(saved, pooling=pooling), ["\u00ad", "dogs barked"])
    assert not encoded.pooled[empty].any()
    assert encoded.weights[empty] == 0
    assert encoded.pooled_weights[empty] == 0


# Through the registry and the metrics


def test_scores_by_hand(saved, plain):
    table = score_texts(
        ["cats"],
        ["dogs barked"],
        encoders={
            "clark": f"elmo:{saved}",
            "elmo-m": f"elmo:{saved},layers=concat,pooling=max",
        },
        metrics=("wms@clark", "sms@clark", "cosine@elmo-m"),
    )
    [scores] = table.to_pylist()
    one, other = (plain(words)["elmo"] for words in (["cats"], ["dogs", "barked"]))
    distance = np.linalg.norm(one - other, axis=1).mean()
    assert scores["wms@clark"] == pytest.approx(np.exp(-distance), abs=ATOL)
    distance = np.linalg.norm(one[0] - other.mean(axis=0))
    assert scores["sms@clark"] == pytest.approx(np.exp(-distance), abs=ATOL)
    one, other = (concatenated(plain(x)).max(axis=0) for x in (["cats"], ["dogs", "barked"]))
    cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    assert scores["cosine@elmo-m"] == pytest.approx(cosine, abs=ATOL)
    signature = load(saved, layers="concat", pooling="max").signature
    assert signature == "elmo-3|layers:concat|pool:max"


# Bad input


def test_model_without_tokens_rejected(tf, tmp_path):
    model = tf.Module()
    model.same = tf.function(lambda x: x, input_signature=[tf.TensorSpec([None], tf.string)])
    tf.saved_model.save(model, tmp_path / "odd", signatures={"default": model.same})
    message = r"odd` must have the signature tokens, got default; ELMo is https://tfhub.dev/google"
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "odd")


def test_other_layers_rejected(tf, tmp_path):
    path = save(tf, tmp_path / "odd", names=("word_emb", "lstm_outputs2"))
    message = r"odd` must give word_emb, lstm_outputs1, .* got KeyError: 'lstm_outputs1'"
    with pytest.raises(ValueError, match=message):
        load(path)
    path = save(tf, tmp_path / "wide", width=WIDTH)
    message = r"lowest half as wide as the others, got shapes \(2, 2, 6\), \(2, 2, 6\), \(2, 2, 6\)"
    with pytest.raises(ValueError, match=message):
        load(path)
