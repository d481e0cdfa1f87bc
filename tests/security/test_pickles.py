"""Whatever is loaded from a file: a pickle in it that would run a program runs nothing."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import shutil
import zipfile

import numpy as np
import pytest
import torch
from tests.fuzzing.model_cases import sound_models

from reffree.checkpoint import CHECKPOINT_FILE, read_checkpoint
from reffree.scorer import load_scorer
from sms.encoders import EncoderRuntime
from sms.encoders.hugging_face import load_hf
from sms.encoders.infersent import load_infersent
from sms.encoders.sentence_transformer import load_st
from tests.fuzzing.sound import write_vectors
from tests.rare import run

RUNTIME = EncoderRuntime(device="cpu")


class Payload:
    """What a hostile pickle does on loading: it writes a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (exec, (f"open({self.path!r}, 'w').close()",))


@pytest.fixture
def mark(tmp_path):
    """A file that the payload writes; the test fails if it is there at the end."""
    path = tmp_path / "the payload ran"
    yield path
    assert not path.exists()


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return sound_models(folder / "models", write_vectors(folder / "vectors.txt"))


def plain_pickle(mark):
    return pickle.dumps({"weight": Payload(mark)}, protocol=2)  # as torch.save writes


def torch_zip(mark):
    stream = io.BytesIO()
    torch.save({"weight": Payload(mark)}, stream)
    return stream.getvalue()


def torch_zip_with_tensors(mark):
    """A state dict that looks right, with the payload behind it."""
    stream = io.BytesIO()
    torch.save({"embeddings.word_embeddings.weight": torch.zeros(2, 2), "x": Payload(mark)}, stream)
    return stream.getvalue()


def torch_legacy(mark):
    stream = io.BytesIO()
    torch.save({"weight": Payload(mark)}, stream, _use_new_zipfile_serialization=False)
    return stream.getvalue()


def numpy_objects(mark):
    stream = io.BytesIO()
    np.save(stream, np.array([Payload(mark)], dtype=object), allow_pickle=True)
    return stream.getvalue()


PICKLES = [plain_pickle, torch_zip, torch_zip_with_tensors, torch_legacy]


def test_payload_runs_where_pickles_are_trusted(tmp_path):
    mark = tmp_path / "mark"
    pickle.loads(plain_pickle(mark))
    assert mark.exists()
    for data in (torch_zip(mark), torch_zip_with_tensors(mark), torch_legacy(mark)):
        mark.unlink()
        torch.load(io.BytesIO(data), weights_only=False)
        assert mark.exists()
    mark.unlink()
    np.load(io.BytesIO(numpy_objects(mark)), allow_pickle=True)
    assert mark.exists()


@pytest.mark.parametrize("data", PICKLES)
@pytest.mark.parametrize("kind", ["hf", "st"])
def test_weights_of_transformers(models, tmp_path, mark, kind, data):
    folder = tmp_path / "model"
    shutil.copytree(models / kind, folder)
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(data(mark))
    load = load_hf if kind == "hf" else load_st
    with pytest.raises(ValueError, match="must hold a model that"):
        load(str(folder), runtime=RUNTIME)


@pytest.mark.parametrize("data", PICKLES)
def test_shards_of_weights(models, tmp_path, mark, data):
    folder = tmp_path / "model"
    shutil.copytree(models / "hf", folder)
    (folder / "model.safetensors").unlink()
    shard = "pytorch_model-00001-of-00001.bin"
    index = {"metadata": {}, "weight_map": {"embeddings.word_embeddings.weight": shard}}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index), encoding="utf-8")
    (folder / shard).write_bytes(data(mark))
    with pytest.raises(ValueError, match="must hold a model that"):
        load_hf(str(folder), runtime=RUNTIME)


@pytest.mark.parametrize("data", PICKLES)
def test_later_module_of_sentence_transformers(models, tmp_path, mark, data):
    folder = tmp_path / "model"
    shutil.copytree(models / "st", folder)
    modules = json.loads((folder / "modules.json").read_text("utf-8"))
    kind = "sentence_transformers.base.modules.dense.Dense"
    modules.append({"idx": 2, "name": "2", "path": "2_Dense", "type": kind})
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (folder / "2_Dense").mkdir()
    settings = {
        "in_features": 32,
        "out_features": 4,
        "bias": True,
        "activation_function": "torch.nn.modules.activation.Tanh",
    }
    (folder / "2_Dense" / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    (folder / "2_Dense" / "pytorch_model.bin").write_bytes(data(mark))
    with pytest.raises(ValueError, match="must hold a model that"):
        load_st(str(folder), runtime=RUNTIME)


def code(mark):
    return f"open({str(mark)!r}, 'w').close()\nclass Model: pass\nclass Config: pass\n"


def test_code_beside_the_weights(models, tmp_path, mark):
    folder = tmp_path / "model"
    shutil.copytree(models / "hf", folder)
    settings = json.loads((folder / "config.json").read_text("utf-8"))
    settings["model_type"] = "strange"
    settings["auto_map"] = {"AutoModel": "own.Model", "AutoConfig": "own.Config"}
    (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    (folder / "own.py").write_text(code(mark), encoding="utf-8")
    with pytest.raises(ValueError, match="must hold a "):
        load_hf(str(folder), runtime=RUNTIME)


@pytest.mark.parametrize("kind", ["own.Model", "os.system", "subprocess.Popen"])
def test_module_of_a_class_that_is_not_the_librarys(models, tmp_path, mark, kind):
    folder = tmp_path / "model"
    shutil.copytree(models / "st", folder)
    modules = json.loads((folder / "modules.json").read_text("utf-8"))
    modules.append({"idx": 2, "name": "2", "path": "own", "type": kind})
    (folder / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (folder / "own").mkdir()
    (folder / "own.py").write_text(code(mark), encoding="utf-8")
    with pytest.raises(ValueError, match="must hold a model that"):
        load_st(str(folder), runtime=RUNTIME)


@pytest.mark.parametrize("data", PICKLES)
def test_infersent(tmp_path, mark, data):
    path = tmp_path / "infersent1.pkl"
    path.write_bytes(data(mark))
    vectors = write_vectors(tmp_path / "vectors.txt")
    with pytest.raises(ValueError, match="hold nothing but tensors"):
        load_infersent(str(path), runtime=RUNTIME, vectors=str(vectors))


@pytest.mark.parametrize("data", PICKLES)
def test_checkpoint_of_training(tmp_path, mark, data):
    (tmp_path / CHECKPOINT_FILE).write_bytes(data(mark))
    with pytest.raises(ValueError, match="must be a whole checkpoint"):
        read_checkpoint(tmp_path, "0")


@pytest.mark.parametrize("data", PICKLES)
def test_weights_of_a_scorer(models, tmp_path, mark, data):
    folder = tmp_path / "scorer"
    shutil.copytree(models / "scorer", folder)
    (folder / "weights.safetensors").write_bytes(data(mark))
    settings = json.loads((folder / "scorer.json").read_text("utf-8"))
    digest = hashlib.blake2b(data(mark), digest_size=16).hexdigest()
    settings["hashes"]["weights.safetensors"] = digest  # as its author would
    (folder / "scorer.json").write_text(json.dumps(settings), encoding="utf-8")
    with pytest.raises(ValueError, match=r"weights.safetensors` must fit the model"):
        load_scorer(folder, device="cpu")


@pytest.mark.parametrize("data", [*PICKLES, numpy_objects])
def test_embedding_cache(models, tmp_path, mark, data):
    (tmp_path / "corpus.jsonl").write_text(
        '{"document_id": "d", "system_id": "s", "candidate": "A cat.", "reference": "A dog."}\n',
        encoding="utf-8",
    )
    arguments = [
        "score", "--local", "--quiet", f"--encoder=hf:{models / 'hf'}", "--metrics=sms",
        f"--embedding-cache={tmp_path / 'cache'}", str(tmp_path / "corpus.jsonl"),
    ]  # fmt: skip
    assert run([*arguments, f"--out={tmp_path / 'first'}"]) == 0
    (cache,) = (tmp_path / "cache").iterdir()
    cache.write_bytes(data(mark))
    assert run([*arguments, f"--out={tmp_path / 'second'}"]) == 2  # not a database


@pytest.mark.parametrize("name", ["vectors.bin", "vectors.npy", "vectors.zip"])
@pytest.mark.parametrize("kind", ["glove", "word2vec", "fasttext"])
def test_word_vectors(tmp_path, mark, capsys, kind, name):
    path = tmp_path / name
    path.write_bytes(numpy_objects(mark) if name.endswith("npy") else plain_pickle(mark))
    if name.endswith("zip"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("data.pkl", plain_pickle(mark))
    (tmp_path / "corpus.csv").write_text(
        "document_id,system_id,candidate,reference\nd,s,a cat,a dog\n", encoding="utf-8"
    )
    status = run(
        ["score", "--local", "--quiet", f"--encoder={kind}:{path}", "--metrics=sms",
         f"--out={tmp_path / 'out'}", str(tmp_path / "corpus.csv")]
    )  # fmt: skip
    assert status == 2
    assert str(path) in capsys.readouterr().err
