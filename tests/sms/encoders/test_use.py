"""The Universal Sentence Encoder, from tiny models in its formats built by TensorFlow here."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest

from sms import score_texts
from sms.encoders import EncoderRuntime, tf_hub
from sms.encoders.registry import load_encoder
from sms.encoders.tf_hub import UseEncoder, load_use
from sms.scoring import ScoringConfig, SummaryScorer, to_rows
from sms.text import Segmenter

ATOL = 2e-6
"""Of vectors of norm 1."""
NEIGHBOUR_ATOL = 1e-6
RUNTIME = EncoderRuntime(device="cpu")
D, BUCKETS = 16, 64
URL = "https://tfhub.dev/google/universal-sentence-encoder/4"

SENTENCES = ["The cat sat on the mat.", "A dog barked", "Rain fell all night in Wales .", "Yes"]


# Models


def averaging(tf: ModuleType, output: Callable | None = None, limit: int | None = None):
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


@pytest.fixture(scope="module")
def saved(tf, tmp_path_factory) -> dict[str, Path]:
    """The model as it can be published, by format."""
    folder = tmp_path_factory.mktemp("use")
    model = averaging(tf)
    tf.saved_model.save(model, folder / "callable")
    save_with_signature(tf, model, folder / "signature")
    rng = np.random.default_rng(5)

    def looked_up(text):
        table = rng.normal(size=(BUCKETS, D)).astype("f4")
        table = tf.compat.v1.get_variable("table", initializer=table)
        return tf.nn.embedding_lookup(table, tf.strings.to_hash_bucket_fast(text, BUCKETS))

    save_old_module(tf, folder / "module", looked_up, text=(tf.string, [None]))
    return {path.name: path for path in folder.iterdir()}


def save_with_signature(tf, model, path, name="serving_default"):
    """Save a model that can be called through a signature only."""
    outer = tf.Module()
    outer.inner = [model.table, model.dense]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
    def serve(inputs):
        return {"outputs": model(inputs)}

    tf.saved_model.save(outer, path, signatures={name: serve})


def save_old_module(tf, path, outputs_of, **inputs):
    """Save what makes vectors of some placeholders as a module of the older format."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        given = {name: v1.placeholder(*kind) for name, kind in inputs.items()}
        vectors = outputs_of(**given)
        session.run(v1.global_variables_initializer())
        info = v1.saved_model.build_tensor_info
        signature = v1.saved_model.build_signature_def(
            {name: info(own) for name, own in given.items()}, {"default": info(vectors)}
        )
        builder = v1.saved_model.Builder(str(path))
        builder.add_meta_graph_and_variables(session, [], {"default": signature})
        builder.save()
    (path / "tfhub_module.pb").write_bytes(b"\x08\x03")  # format 3


@pytest.fixture(scope="module")
def encoder(saved) -> UseEncoder:
    return load(saved["callable"])


def load(path) -> UseEncoder:
    return load_use(str(path), runtime=RUNTIME)


def pooled(encoder: UseEncoder, sentences: list[str]) -> np.ndarray:
    """The sentences' vectors, through `encode`."""
    cut = Segmenter().segment(pa.array(sentences))
    assert len(cut.text_sentences.values) == len(sentences)
    return encoder.encode(cut).pooled[cut.text_sentences.values]


# Vectors


@pytest.mark.parametrize("form", ["callable", "signature", "module"])
def test_vectors_match_the_plain_call(form, saved, tf):
    expected = tf.saved_model.load(saved["callable"])(SENTENCES).numpy()
    if form == "module":
        plain = tf.compat.v1.saved_model.load_v2(str(saved["module"]), tags=[])
        expected = plain.signatures["default"](text=tf.constant(SENTENCES))["default"].numpy()
    found = pooled(load(saved[form]), SENTENCES)
    np.testing.assert_allclose(found, expected, rtol=0, atol=ATOL)


@pytest.mark.parametrize("budget", [1, 4096])
def test_vectors_do_not_depend_on_neighbours(budget, saved, monkeypatch):
    monkeypatch.setattr(tf_hub, "USE_BATCH_WORDS", budget)
    together = pooled(load(saved["callable"]), SENTENCES)
    for sentence, vector in zip(SENTENCES, together, strict=True):
        alone = pooled(load(saved["callable"]), [sentence])
        np.testing.assert_allclose([vector], alone, rtol=0, atol=NEIGHBOUR_ATOL)


def test_scores_by_hand(saved, tf):
    candidate, *reference = SENTENCES[1:]
    scores = score_texts(
        [candidate],
        [" ".join(reference)],
        encoders={"use": f"use:{saved['callable']}"},
        metrics=("cosine@use", "sms@use"),
    ).to_pydict()
    one, *others = tf.saved_model.load(saved["callable"])(SENTENCES[1:]).numpy().astype(np.float64)
    text = 7 * others[0] + others[1]  # by words, with punctuation
    cosine = one @ text / np.linalg.norm(text)
    assert scores["cosine@use"] == [pytest.approx(cosine, abs=ATOL)]
    distance = [4 / 5, 1 / 5] @ np.linalg.norm(one - others, axis=1)  # Rain fell night Wales; Yes
    assert scores["sms@use"] == [pytest.approx(np.exp(-distance), abs=ATOL)]


def test_whole_texts_are_one_input(saved, tf, tmp_path):
    candidate, *reference = SENTENCES[1:]
    texts = [candidate, " ".join(reference)]
    encoder = f"use:{saved['callable']},unit=text"
    config = ScoringConfig(metrics=("cosine",), encoders={"use": encoder})
    scorer = SummaryScorer(config, cache_folder=str(tmp_path))
    found = scorer.score(to_rows(texts[:1], texts[1:]))["cosine"].to_pylist()
    one, other = tf.saved_model.load(saved["callable"])(texts).numpy().astype(np.float64)
    cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    assert found == [pytest.approx(cosine, abs=ATOL)]
    assert "unit:text" in load_encoder(encoder).signature
    texts = ["It rained. We left.", "It rained.  We left."]  # they differ in space alone
    once, twice = scorer.score(to_rows(texts, ["Rain fell."] * 2))["cosine"].to_pylist()
    assert once == twice


def test_whole_texts_have_no_sentences_to_move():
    with pytest.raises(ValueError, match="'sms@use' compares sentences, but encoder `use` reads"):
        score_texts(["A."], ["B."], encoders={"use": "use:x,unit=text"}, metrics=["sms@use"])


def test_sentences_that_the_model_cuts_are_counted(tf, tmp_path):
    tf.saved_model.save(averaging(tf, limit=6), tmp_path / "short")
    config = ScoringConfig(metrics=("sms",), encoders={"use": f"use:{tmp_path / 'short'}"})
    for n_from_disk in (0, 3):
        scorer = SummaryScorer(config, cache_folder=str(tmp_path / "kept"))
        table = scorer.score(to_rows(SENTENCES[:2], ["Yes"] * 2))  # of 7, 3 and 1 words
        assert table["status"].to_pylist() == ["candidate:cut@use", None]
        state = scorer.encoders["use"].state()
        assert (state["truncated"], state["from_disk"]) == (1, n_from_disk)


# Names and hashes


def test_url_is_read_from_the_cache(saved, encoder, tmp_path, monkeypatch):
    # tensorflow.org/hub/caching: a folder named by the SHA-1 of the URL
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path))
    shutil.copytree(saved["callable"], tmp_path / hashlib.sha1(URL.encode()).hexdigest())
    cached = load(URL)
    assert cached.signature == "use-google/universal-sentence-encoder/4|pool:mean"
    assert cached.content_hash == encoder.content_hash
    assert encoder.signature == "use-callable|pool:mean"


def test_hash_follows_every_file(encoder, saved, tmp_path):
    folder = shutil.copytree(saved["callable"], tmp_path / "copy")
    assert load(folder).content_hash == encoder.content_hash
    (folder / "assets" / "vocabulary.txt").write_text("the\n")
    assert load(folder).content_hash != encoder.content_hash


# Bad input


def test_other_signature_rejected(tf, tmp_path):
    save_with_signature(tf, averaging(tf), tmp_path / "odd", "question")
    with pytest.raises(ValueError, match=r"odd` must have one of the signatures .* got question"):
        load(tmp_path / "odd")


def test_without_tensorflow_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(ValueError, match=r"encoder `use` needs TensorFlow .*'assay\[tfhub\]'"):
        load_encoder(f"use:{tmp_path}")


@pytest.mark.usefixtures("tf")
@pytest.mark.parametrize("name", ["none", "empty", "model.tar.gz"])
def test_not_a_folder_of_a_saved_model_rejected(name, tmp_path):
    (tmp_path / "empty").mkdir()
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
    assert f"download {url}?tf-hub-format=compressed, unpack it and write `use:FOLDER`" in str(
        info.value
    )


@pytest.mark.parametrize("damaged", ["variables/variables.data-00000-of-00001", "saved_model.pb"])
def test_damaged_model_rejected(damaged, saved, tmp_path):
    folder = shutil.copytree(saved["module"], tmp_path / "damaged")
    content = (folder / damaged).read_bytes()
    (folder / damaged).write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=f"`{folder}` must be a whole SavedModel, got") as info:
        load(folder)
    assert "\n" not in str(info.value)


# what the model makes of its vectors, message after the path
OUTPUTS = [
    pytest.param(lambda x: x[0], r"must turn 2 texts into 2 vectors, got shape \(16,\)", id="1-d"),
    pytest.param(
        lambda x: x[0, 0] / 0 * x, "must turn .* as finite float32 values, got float32", id="nan"
    ),
    pytest.param(lambda x: [x, x], "must turn texts into vectors, got AttributeError", id="list"),
]


@pytest.mark.parametrize(("output", "message"), OUTPUTS)
def test_model_without_vectors_rejected(output, message, tf, tmp_path):
    tf.saved_model.save(averaging(tf, output), tmp_path / "odd")
    with pytest.raises(ValueError, match=rf"odd` {message}"):
        load(tmp_path / "odd")


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
    assert done.stdout.split() == ["3"]
    assert done.stderr == "still there\n"
