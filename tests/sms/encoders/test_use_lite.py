"""The lite Universal Sentence Encoder: a tiny module in its format, and the published weights."""

from __future__ import annotations

import base64
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

from sms.encoders import EncoderRuntime
from sms.encoders.use import load_use
from sms.encoders.use_lite import read_pieces

RUNTIME = EncoderRuntime(device="cpu")
D = 16
TEXTS = ["The cat sat.", "a  cat\nsat on it", "Dogs 犬 ran", "x", "a </s> cat<s>"]
CONTROLS = {"<s>", "</s>"}
PIECES = (
    [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0)]
    + [
        (piece, -float(k + 1))
        for k, piece in enumerate(
            ["▁the", "▁cat", "▁a", "▁sat", "▁", "c", "at", "s", "T", "he", "D"]
        )
    ]
    + [(letter, -12.0) for letter in "abdefgimnoprstx.</>"]
)


def segmented(text, pieces=PIECES):
    """Numbers of the likeliest pieces by dynamic programming; 0 for what is unknown, once."""
    text = "▁" + "▁".join(text.split())
    numbers = {piece: k for k, (piece, _) in enumerate(pieces) if piece not in CONTROLS}
    worst = min(score for _, score in pieces) - 10
    best = [(0.0, [])] + [(-math.inf, [])] * len(text)
    for end in range(1, len(text) + 1):
        for start in range(end):
            number = numbers.get(text[start:end], 0 if end - start == 1 else None)
            if number is None:
                continue
            score = best[start][0] + (worst if number == 0 else pieces[number][1])
            if score > best[end][0]:
                best[end] = (score, [*best[start][1], number])
    ids = best[-1][1]
    return [own for k, own in enumerate(ids) if own or not k or ids[k - 1]]


def write_pieces(path, pieces):
    from transformers.convert_slow_tokenizer import import_protobuf

    written = import_protobuf().ModelProto()
    for piece, score in pieces:
        kind = written.SentencePiece.CONTROL if piece in CONTROLS else None
        written.pieces.add(piece=piece, score=score, type=kind)
    written.trainer_spec.unk_id = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(written.SerializeToString())


def save_module(tf, folder, outputs_of):
    """Save what makes vectors of the placeholders `values` and `indices` as a module."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        values = v1.placeholder(tf.int64, [None], name="lite_values")
        indices = v1.placeholder(tf.int64, [None, 2], name="lite_indices")
        shape = v1.placeholder(tf.int64, [2], name="lite_shape")
        vectors = outputs_of(values, indices)
        session.run(v1.global_variables_initializer())
        info = v1.saved_model.build_tensor_info
        inputs = {"values": values, "indices": indices, "dense_shape": shape}
        signature = v1.saved_model.build_signature_def(
            {name: info(own) for name, own in inputs.items()}, {"default": info(vectors)}
        )
        builder = v1.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(session, [], {"default": signature})
        builder.save()
    (folder / "tfhub_module.pb").write_bytes(b"\x08\x03")  # format 3


@pytest.fixture(scope="module")
def module(tf, tmp_path_factory):
    folder = tmp_path_factory.mktemp("use") / "lite"
    table = np.random.default_rng(3).normal(size=(len(PIECES), D)).astype(np.float32)

    def mean(values, indices):
        return tf.math.segment_mean(tf.nn.embedding_lookup(table, values), indices[:, 0])

    save_module(tf, folder, mean)
    write_pieces(folder / "assets" / "pieces.model", PIECES)
    return folder, table


def test_pieces_are_the_likeliest(tmp_path):
    write_pieces(tmp_path / "pieces.model", PIECES)
    tokenizer = read_pieces(tmp_path / "pieces.model")
    for text in TEXTS:
        assert tokenizer.encode(text).ids == segmented(text)


def test_vectors_match_the_pieces_of_each_text(module):
    folder, table = module
    embed = load_use(str(folder), runtime=RUNTIME)._embed
    expected = [table[segmented(text)].mean(axis=0) for text in TEXTS]
    np.testing.assert_allclose(embed(TEXTS), expected, atol=1e-6)


def test_module_without_its_vocabulary_is_refused(module, tmp_path):
    import shutil

    folder = shutil.copytree(module[0], tmp_path / "lite")
    vocabulary = folder / "assets" / "pieces.model"
    vocabulary.write_bytes(b"\xff")
    with pytest.raises(ValueError, match=r"pieces.model` must be a SentencePiece unigram model"):
        load_use(str(folder), runtime=RUNTIME)
    vocabulary.unlink()
    with pytest.raises(ValueError, match=r"must hold its vocabulary, one file `assets/\*.model`"):
        load_use(str(folder), runtime=RUNTIME)


# The published weights, as TensorFlow.js has them


def graph_of(tf, folder):
    """Read a frozen graph: nodes in `model.json`, the values of constants in shards."""
    from google.protobuf import json_format

    model = json.loads((folder / "model.json").read_text())
    (manifest,) = model["weightsManifest"]
    data = b"".join((folder / name).read_bytes() for name in manifest["paths"])
    values, at = {}, 0
    for weight in manifest["weights"]:
        array = np.frombuffer(
            data, np.dtype(weight["dtype"]), count=math.prod(weight["shape"]), offset=at
        )
        values[weight["name"]] = array.reshape(weight["shape"])
        at += array.nbytes
    graph = tf.compat.v1.GraphDef()
    for node in model["modelTopology"]["node"]:
        own = graph.node.add()
        attributes = {
            name: {"s": base64.b64encode(bytes(v["s"])).decode()} if "s" in v else v
            for name, v in node["attr"].items()
            if name != "value"
        }
        node = {**node, "attr": attributes}
        json_format.ParseDict(node, own, ignore_unknown_fields=True)
        if own.op == "Const":
            # JavaScript has no 64 bits
            dtype = tf.dtypes.as_dtype(own.attr["dtype"].type)
            value = tf.make_tensor_proto(values[own.name].astype(dtype.as_numpy_dtype))
            own.attr["value"].tensor.CopyFrom(value)
    return graph


@pytest.mark.slow
def test_published_weights(tf, tmp_path):
    source = Path(os.environ.get("ASSAY_WEIGHTS", "weights")) / "use-lite"
    if not source.is_dir():
        pytest.skip(f"no weights at {source}; set ASSAY_WEIGHTS to the folder that has them")
    graph, v1 = graph_of(tf, source), tf.compat.v1
    # this export has lost the scores of pieces with a colon, which the texts below do without
    listed = json.loads((source / "vocab.json").read_text())
    pieces = [(piece, -99.0 if score is None else score) for piece, score in listed]

    def vectors(values, indices):
        given = {"values": values, "indices": indices}
        (found,) = tf.import_graph_def(graph, given, [f"{graph.node[-1].name}:0"], name="lite")
        return found

    save_module(tf, tmp_path / "lite", vectors)
    write_pieces(tmp_path / "lite" / "assets" / "pieces.model", pieces)
    texts = ["How old are you?", "What is your age?", "The harbour bridge was closed on Sunday."]
    texts.append("How</s> old are you?")
    embed = load_use(str(tmp_path / "lite"), runtime=RUNTIME)._embed
    found = embed(texts)
    with tf.Graph().as_default(), v1.Session() as session:
        (output,) = tf.import_graph_def(graph, {}, [f"{graph.node[-1].name}:0"], name="")
        for text, vector in zip(texts, found, strict=True):
            ids = segmented(text, pieces)
            feed = {"values:0": ids, "indices:0": [[0, k] for k in range(len(ids))]}
            np.testing.assert_allclose(session.run(output, feed), [vector], atol=1e-5)
    assert found.shape == (4, 512)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-4)
    similar = found @ found.T
    assert similar[0, 1] > similar[0, 2] + 0.3
