"""The Universal Sentence Encoder and ELMo, from tiny models in their formats, built here."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from sms import score_texts
from sms.encoders import EncoderRuntime, tf_hub
from sms.encoders.registry import load_encoder
from sms.scoring import ScoringConfig, SummaryScorer, to_rows
from tests.sms.encoders.conftest import as_they_are, word_vectors

pytestmark = pytest.mark.extra

ATOL = 2e-6
"""Of vectors of norm 1, and values within (-1, 1)."""
NEIGHBOUR_ATOL = 1e-6
D, HALF, BUCKETS = 16, 3, 64
URL = "https://tfhub.dev/google/universal-sentence-encoder/4"
LAYERS = ("word_emb", "lstm_outputs1", "lstm_outputs2", "elmo")

SENTENCES = ["The cat sat on the mat.", "A dog barked", "Rain fell all night in Wales .", "Yes"]
# words of each sentence; those that count are upper-case here and lower-case in the text
MARKED = ["the CAT SAT on the MAT .", "DOGS BARKED", "RAIN FELL all NIGHT in WALES .", "YES"]
TEXTS = [sentence.lower() for sentence in MARKED]


@pytest.fixture(scope="module")
def tf():
    pytest.importorskip("tensorflow_hub", reason="needs TensorFlow; pip install 'assay[tfhub]'")
    import tensorflow

    return tensorflow


def load(path, **options):
    return tf_hub.load_use(str(path), runtime=EncoderRuntime(device="cpu"), **options)


def load_elmo(path, **options):
    return tf_hub.load_elmo(str(path), runtime=EncoderRuntime(device="cpu"), **options)


def pooled(encoder, texts: list[str]) -> np.ndarray:
    return encoder.encode(as_they_are(texts)).pooled


def vectors_of_words(encoder, texts: list[str]) -> list[np.ndarray]:
    encoded = encoder.encode(as_they_are(texts))
    return [word_vectors(encoded, k) for k in range(len(texts))]


# The Universal Sentence Encoder


def averaging(tf, output: Callable | None = None, limit: int | None = None):
    """A tiny deep averaging network: hashed words, summed by the square root of their number."""
    rng = np.random.default_rng(3)

    class Averaging(tf.Module):
        def __init__(self):
            super().__init__()
            self.table = tf.Variable(rng.normal(size=(BUCKETS, D)).astype(np.float32))
            self.dense = tf.Variable(rng.normal(size=(D, D)).astype(np.float32))

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def __call__(self, inputs):
            words = tf.strings.split(inputs)[:, :limit]
            buckets = tf.strings.to_hash_bucket_fast(words.flat_values, BUCKETS)
            rows = tf.nn.embedding_lookup(self.table, buckets)
            sums = tf.math.unsorted_segment_sum(rows, words.value_rowids(), words.nrows())
            roots = tf.sqrt(tf.cast(words.row_lengths(), tf.float32))[:, None]
            vectors = tf.math.l2_normalize(tf.tanh(sums / roots @ self.dense), 1)
            return output(vectors) if output else vectors

    return Averaging()


def save_with_signature(tf, path, name, argument="inputs", output="outputs"):
    """Save a model that can be called through a signature only."""
    model, outer = averaging(tf), tf.Module()
    outer.inner = [model.table, model.dense]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name=argument)])
    def serve(texts):
        return {output: model(texts)}

    tf.saved_model.save(outer, path, signatures={name: serve})


@pytest.fixture(scope="module")
def saved(tf, tmp_path_factory) -> dict[str, Path]:
    """The model as it can be published, by format."""
    folder = tmp_path_factory.mktemp("use")
    tf.saved_model.save(averaging(tf), folder / "callable")
    save_with_signature(tf, folder / "signature", "serving_default")
    save_with_signature(tf, folder / "module", "default", "text", "default")
    return {path.name: path for path in folder.iterdir()}


@pytest.mark.parametrize("form", ["callable", "signature", "module"])
def test_vectors_match_the_plain_call(form, saved, tf):
    expected = tf.saved_model.load(saved["callable"])(SENTENCES).numpy()
    encoded = load(saved[form]).encode(as_they_are(SENTENCES))
    np.testing.assert_allclose(encoded.pooled, expected, rtol=0, atol=ATOL)
    np.testing.assert_array_equal(encoded.sentence_points, encoded.pooled)
    assert encoded.weights.tolist() == [3, 2, 4, 1]  # Rain fell night Wales
    assert encoded.pooled_weights.tolist() == [7, 3, 7, 1]  # with punctuation and stop words


PIECES = ["<unk>", "<s>", "</s>", "▁the", "▁cat", "▁a", "▁sat", "▁", "c", "at", "s", "T", "he"]
PIECES += "Dadegnort</>"
"""Of a lite module, the likeliest first."""
CUT = {
    "The cat sat.": "▁ T he ▁cat ▁sat <unk>",
    "a  cat\nsat": "▁a ▁cat ▁sat",
    "Dogs 犬犬 ran": "▁ D o g s ▁ <unk> ▁ r a n",
    "a </s> cat<s>": "▁a ▁ < / s > ▁cat < s >",
}


def test_lite_module_reads_the_likeliest_pieces(tf, tmp_path):
    from transformers.convert_slow_tokenizer import import_protobuf

    v1, table = tf.compat.v1, np.random.default_rng(3).normal(size=(len(PIECES), D)).astype("f4")
    kinds = {"values": [None], "indices": [None, 2], "dense_shape": [2]}
    with tf.Graph().as_default(), v1.Session() as session:  # as TensorFlow 1 saves a module
        given = {name: v1.placeholder(tf.int64, shape) for name, shape in kinds.items()}
        rows = tf.nn.embedding_lookup(v1.get_variable("t", initializer=table), given["values"])
        vectors = tf.math.segment_mean(rows, given["indices"][:, 0])
        session.run(v1.global_variables_initializer())
        info = v1.saved_model.build_tensor_info
        signature = v1.saved_model.build_signature_def(
            {name: info(tensor) for name, tensor in given.items()}, {"default": info(vectors)}
        )
        builder = v1.saved_model.Builder(str(tmp_path))
        builder.add_meta_graph_and_variables(session, [], {"default": signature})
        builder.save()
    (tmp_path / "tfhub_module.pb").write_bytes(b"\x08\x03")  # format 3
    written = import_protobuf().ModelProto()
    written.trainer_spec.unk_id = 0
    for k, piece in enumerate(PIECES):
        kind = written.SentencePiece.CONTROL if piece in ("<s>", "</s>") else None
        written.pieces.add(piece=piece, score=-float(k), type=kind)
    vocabulary = tmp_path / "assets" / "pieces.model"
    vocabulary.parent.mkdir(exist_ok=True)
    vocabulary.write_bytes(written.SerializeToString())
    expected = [table[[*map(PIECES.index, x.split())]].mean(axis=0) for x in CUT.values()]
    np.testing.assert_allclose(load(tmp_path).embed([*CUT]), expected, atol=ATOL)
    vocabulary.write_bytes(b"\xff")
    with pytest.raises(ValueError, match=r"must hold its SentencePiece .*, got DecodeError"):
        load(tmp_path)
    vocabulary.unlink()
    with pytest.raises(ValueError, match=r"one `assets/\*.model`, got ValueError: not enough"):
        load(tmp_path)


def test_whole_texts_are_one_input(saved, tf):
    candidate, *reference = SENTENCES[1:]
    texts = [candidate, " ".join(reference)]
    encoder = f"use:{saved['callable']},unit=text"
    scorer = SummaryScorer(ScoringConfig(metrics=("cosine",), encoders={"use": encoder}))
    found = scorer.score(to_rows(texts[:1], texts[1:]))["cosine"].to_pylist()
    one, other = tf.saved_model.load(saved["callable"])(texts).numpy().astype(np.float64)
    cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    assert found == [pytest.approx(cosine, abs=ATOL)]
    assert "unit:text" in load_encoder(encoder).signature
    texts = ["It rained. We left.", "It rained.  We left."]  # they differ in space alone
    once, twice = scorer.score(to_rows(texts, ["Rain fell."] * 2))["cosine"].to_pylist()
    assert once == twice
    with pytest.raises(ValueError, match="'sms@use' compares sentences, but encoder `use` reads"):
        score_texts(["A."], ["B."], encoders={"use": "use:x,unit=text"}, metrics=["sms@use"])


def test_sentence_without_words_is_read_too(saved, tf):
    texts = ["\u200b", "Yes"]  # a space of no width
    expected = tf.saved_model.load(saved["callable"])(texts).numpy()
    assert expected[0].any()
    np.testing.assert_allclose(pooled(load(saved["callable"]), texts), expected, atol=ATOL)


def test_sentences_that_the_model_cuts_are_counted(tf, tmp_path):
    tf.saved_model.save(averaging(tf, limit=6), tmp_path / "short")
    config = ScoringConfig(metrics=("sms",), encoders={"use": f"use:{tmp_path / 'short'}"})
    for n_from_disk in (0, 3):
        scorer = SummaryScorer(config, cache_folder=str(tmp_path / "kept"))
        table = scorer.score(to_rows(SENTENCES[:2], ["Yes"] * 2))  # of 7, 3 and 1 words
        assert table["status"].to_pylist() == ["candidate:cut@use", None]
        state = scorer.encoders["use"].state()
        assert (state["truncated"], state["from_disk"]) == (1, n_from_disk)


def test_names_and_hashes(saved, tmp_path, monkeypatch):
    encoder = load(saved["callable"])
    assert encoder.signature == "use-callable|pool:mean"
    # tensorflow.org/hub/caching: a folder named by the SHA-1 of the URL
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path))
    folder = tmp_path / hashlib.sha1(URL.encode()).hexdigest()
    shutil.copytree(saved["callable"], folder)
    cached = load(URL)
    assert cached.signature == "use-google/universal-sentence-encoder/4|pool:mean"
    assert cached.content_hash == encoder.content_hash
    (folder / "assets" / "vocabulary.txt").write_text("the\n")
    assert load(folder).content_hash != encoder.content_hash


# ELMo


def save_elmo(tf, path: Path, width: int = HALF, names: tuple[str, ...] = LAYERS) -> Path:
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
def elmo(tf, tmp_path_factory) -> Path:
    return save_elmo(tf, tmp_path_factory.mktemp("elmo") / "3")


@pytest.fixture(scope="module")
def plain(elmo, tf):
    """Layers of one sentence from the module itself, without padding."""
    signature = tf.saved_model.load(elmo).signatures["tokens"]

    def call(words: list[str]) -> dict[str, np.ndarray]:
        lengths = tf.constant([len(words)], tf.int32)
        layers = signature(tokens=tf.constant([words]), sequence_len=lengths)
        return {name: layer.numpy()[0] for name, layer in layers.items()}

    return call


def concatenated(layers: dict[str, np.ndarray]) -> np.ndarray:
    """The plain layers side by side; the lowest counts as if written twice."""
    low = layers["word_emb"]
    return np.hstack([low, low, layers["lstm_outputs1"], layers["lstm_outputs2"]])


@pytest.mark.parametrize(
    ("layers", "join"), [("mean", lambda layers: layers["elmo"]), ("concat", concatenated)]
)
def test_word_vectors_are_the_published_ones(layers, join, elmo, plain):
    for marked, text, vectors in zip(
        MARKED, TEXTS, vectors_of_words(load_elmo(elmo, layers=layers), TEXTS), strict=True
    ):
        kept = [place for place, word in enumerate(marked.split()) if word.isupper()]
        np.testing.assert_allclose(vectors, join(plain(text.split()))[kept], rtol=0, atol=ATOL)


@pytest.mark.parametrize(("pooling", "pool"), [("mean", np.mean), ("max", np.max)])
def test_pooled_is_over_all_words(pooling, pool, elmo, plain, monkeypatch):
    encoder = load_elmo(elmo, pooling=pooling)
    encoded = encoder.encode(as_they_are([*TEXTS, "\u00ad"]))
    expected = [pool(plain(text.split())["elmo"], axis=0) for text in TEXTS]
    expected.append(np.zeros(2 * HALF))  # a lone soft hyphen is a chunk without words
    np.testing.assert_allclose(encoded.pooled, expected, rtol=0, atol=ATOL)
    assert encoded.pooled_weights.tolist() == [7, 2, 7, 1, 0]
    # a long sentence is read in windows
    monkeypatch.setattr(tf_hub, "ELMO_BATCH_WORDS", 3)
    words = ["red", "green", "blue", "black", "white", "brown", "grey", "pink"]
    expected = np.concatenate([plain(words[at : at + 3])["elmo"] for at in (0, 3, 6)])
    encoder = load_elmo(elmo, pooling=pooling)
    np.testing.assert_allclose(
        vectors_of_words(encoder, [" ".join(words), "dogs barked"])[0], expected, rtol=0, atol=ATOL
    )
    found = pooled(encoder, [" ".join(words)])[0]
    np.testing.assert_allclose(found, pool(expected, axis=0), rtol=0, atol=ATOL)


def test_elmo_of_clark_and_of_sun(elmo, plain):
    """As the papers have it: Clark's words by `wms`, Sun's largest of three layers by cosine."""
    [scores] = score_texts(
        ["cats"],
        ["dogs barked"],
        encoders={"clark": f"elmo:{elmo}", "elmo-m": f"elmo:{elmo},layers=concat,pooling=max"},
        metrics=("wms@clark", "cosine@elmo-m"),
    ).to_pylist()
    one, other = (plain(words)["elmo"] for words in (["cats"], ["dogs", "barked"]))
    distance = np.linalg.norm(one - other, axis=1).mean()
    assert scores["wms@clark"] == pytest.approx(np.exp(-distance), abs=ATOL)
    one, other = (concatenated(plain(x)).max(axis=0) for x in (["cats"], ["dogs", "barked"]))
    cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    assert scores["cosine@elmo-m"] == pytest.approx(cosine, abs=ATOL)
    encoder = load_elmo(elmo, layers="concat", pooling="max")
    assert (encoder.signature, encoder.dimension) == ("elmo-3|layers:concat|pool:max", 18)


# Both


@pytest.mark.parametrize("budget", [1, 7, 4096])
def test_vectors_do_not_depend_on_neighbours(budget, saved, elmo, monkeypatch):
    monkeypatch.setattr(tf_hub, "USE_BATCH_WORDS", budget)
    monkeypatch.setattr(tf_hub, "ELMO_BATCH_WORDS", max(budget, 7))
    for made, vectors in (
        (partial(load, saved["callable"]), pooled),
        (partial(load_elmo, elmo), vectors_of_words),
    ):
        together = vectors(made(), TEXTS)
        for text, found in zip(TEXTS, together, strict=True):
            (alone,) = vectors(made(), [text])
            np.testing.assert_allclose(found, alone, rtol=0, atol=NEIGHBOUR_ATOL)


# Bad input


def test_without_tensorflow_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(ValueError, match=r"encoder `use` needs TensorFlow .*'assay\[tfhub\]'"):
        load_encoder(f"use:{tmp_path}")


@pytest.mark.usefixtures("tf")
@pytest.mark.parametrize("name", ["none", "model.tar.gz"])
def test_not_a_folder_of_a_saved_model_rejected(name, tmp_path):
    (tmp_path / "model.tar.gz").write_bytes(b"\x1f\x8b")
    message = f"`{tmp_path / name}` must be a SavedModel folder, got none .*; download .*{URL}"
    with pytest.raises(ValueError, match=message):
        load(tmp_path / name)


@pytest.mark.usefixtures("tf")
def test_offline_says_what_to_download(tmp_path, monkeypatch):
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    url = "http://127.0.0.1:9/model/1"  # nobody listens
    with pytest.raises(ValueError, match=f"`{url}` could not be downloaded, got URLError") as info:
        load(url)
    said = f"download {url}?tf-hub-format=compressed, unpack it and write `use:FOLDER`"
    assert said in str(info.value)


def test_damaged_model_rejected(saved, tmp_path):
    folder = shutil.copytree(saved["module"], tmp_path / "damaged")
    content = (folder / "saved_model.pb").read_bytes()
    (folder / "saved_model.pb").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=f"`{folder}` must be a whole SavedModel, got") as info:
        load(folder)
    assert "\n" not in str(info.value)


# the model, message after the path
OTHERS = {
    "1-d": (lambda x: x[0], "must turn 2 texts into 2 vectors, got shape (16,)"),
    "nan": (lambda x: x[0, 0] / 0 * x, "must turn texts into vectors as finite float32 values, "),
    "list": (lambda x: [x, x], "must turn texts into vectors, got AttributeError"),
    "question": ("question", "must have one of the signatures serving_default, default, got quest"),
    "tokens": ("default", "must have the signature tokens, got default; ELMo is https://tfhub.dev"),
    "layers": (
        {"names": ("word_emb", "lstm_outputs2")},
        "must give word_emb, lstm_outputs1, lstm_outputs2 for tokens and sequence_len, got KeyErr",
    ),
    "width": (
        {"width": 2 * HALF},
        "must give word_emb, lstm_outputs1, lstm_outputs2 for tokens and sequence_len, the lowest "
        "half as wide as the others, got shapes (2, 2, 6), (2, 2, 6), (2, 2, 6) for 2 sentences",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_model_rejected(name, tf, tmp_path):
    made, message = OTHERS[name]
    if isinstance(made, dict):
        save_elmo(tf, tmp_path / "odd", **made)
    elif isinstance(made, str):
        save_with_signature(tf, tmp_path / "odd", made)
    else:
        tf.saved_model.save(averaging(tf, made), tmp_path / "odd")
    with pytest.raises(ValueError, match=re.escape(f"odd` {message}")):
        (load_elmo if name in ("tokens", "layers", "width") else load)(tmp_path / "odd")


@pytest.mark.slow
def test_fresh_process_is_quiet_and_follows_threads(saved):
    code = f"""
import sys
from sms.encoders import EncoderRuntime
from sms.encoders.registry import load_encoder
assert "tensorflow" not in sys.modules
load_encoder({f"use:{saved['callable']}"!r}, EncoderRuntime(device="cpu", threads=3))
import tensorflow as tf
print(tf.config.threading.get_intra_op_parallelism_threads())
print("still there", file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert (done.stdout.split(), done.stderr) == (["3"], "still there\n")
