"""Whatever is loaded from a file: a pickle or code in it that would run a program runs nothing.

That no module of ours imports a loader of pickles is checked by ruff (pyproject.toml).
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from pipelines.cli.app import run
from reffree.neural.checkpoint import CHECKPOINT_FILE, read_checkpoint
from reffree.scorers.scorer import load_scorer
from sms.encoders import EncoderRuntime
from sms.encoders.hugging_face import load_hf
from sms.encoders.infersent import load_infersent
from sms.encoders.sentence_transformer import load_st
from tests.torture.sound import score, sound_lines, sound_models, write_vectors

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("sms", "reffree", "cluster", "pipelines", "reinforce")
TRUSTING = re.compile(
    r"weights_only=(?!True)|allow_pickle=(?!False)|trust_remote_code=(?!False)|autoescape=(?!True)"
)
RUNTIME = EncoderRuntime(device="cpu")
LOADERS = {"hf": load_hf, "st": load_st}


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
    return sound_models(tmp_path_factory.mktemp("models"))


@pytest.fixture
def model(models, tmp_path):
    """A function that copies a model of a kind and returns its folder."""
    return lambda kind: Path(shutil.copytree(models / kind, tmp_path / "model"))


def plain_pickle(mark):
    return pickle.dumps({"weight": Payload(mark)}, protocol=2)  # as torch.save writes


def saved_by_torch(value, **how):
    stream = io.BytesIO()
    torch.save(value, stream, **how)
    return stream.getvalue()


def torch_zip(mark):
    """A state dict that looks right, with the payload behind it."""
    sound = {"embeddings.word_embeddings.weight": torch.zeros(2, 2)}
    return saved_by_torch(sound | {"x": Payload(mark)})


def torch_legacy(mark):
    return saved_by_torch({"weight": Payload(mark)}, _use_new_zipfile_serialization=False)


def numpy_objects(mark):
    stream = io.BytesIO()
    np.save(stream, np.array([Payload(mark)], dtype=object), allow_pickle=True)
    return stream.getvalue()


each_pickle = pytest.mark.parametrize("data", [plain_pickle, torch_zip, torch_legacy])


def trust_torch(data):
    return torch.load(io.BytesIO(data), weights_only=False)


@pytest.mark.parametrize(
    ("data", "load"),
    [
        (plain_pickle, pickle.loads),
        (torch_zip, trust_torch),
        (torch_legacy, trust_torch),
        (numpy_objects, lambda data: np.load(io.BytesIO(data), allow_pickle=True)),
    ],
)
def test_payload_runs_where_pickles_are_trusted(tmp_path, data, load):
    load(data(tmp_path / "mark"))
    assert (tmp_path / "mark").exists()


def test_no_loader_is_told_to_trust_a_file():
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    assert not [file for file in files if TRUSTING.search(file.read_text("utf-8"))]


def change_json(path, change):
    values = json.loads(path.read_text("utf-8")) if path.exists() else {}
    change(values)
    path.write_text(json.dumps(values), encoding="utf-8")


def weights(folder):
    (folder / "model.safetensors").unlink()
    return folder / "pytorch_model.bin"


def shard_of_weights(folder):
    shard = weights(folder).with_name("pytorch_model-00001-of-00001.bin")
    listed = {"metadata": {}, "weight_map": {"embeddings.word_embeddings.weight": shard.name}}
    change_json(folder / "pytorch_model.bin.index.json", lambda index: index.update(listed))
    return shard


def add_module(folder, kind):
    """Add a third module to a model of sentence-transformers; return its folder."""
    third = {"idx": 2, "name": "2", "path": "own", "type": kind}
    change_json(folder / "modules.json", lambda modules: modules.append(third))
    (folder / "own").mkdir()
    return folder / "own"


def later_module(folder):
    module = add_module(folder, "sentence_transformers.models.Dense")
    activation = {"activation_function": "torch.nn.modules.activation.Tanh"}
    sizes = {"in_features": 32, "out_features": 4, "bias": True}
    change_json(module / "config.json", lambda settings: settings.update(sizes | activation))
    return module / "pytorch_model.bin"


@each_pickle
@pytest.mark.parametrize(
    ("kind", "place"),
    [("hf", weights), ("st", weights), ("hf", shard_of_weights), ("st", later_module)],
)
def test_model(model, mark, kind, place, data):
    folder = model(kind)
    place(folder).write_bytes(data(mark))
    with pytest.raises(ValueError, match="must hold a model that"):
        LOADERS[kind](str(folder), runtime=RUNTIME)


def own_classes(folder):
    classes = {"AutoModel": "own.Model", "AutoConfig": "own.Config"}
    strange = {"model_type": "strange", "auto_map": classes}
    change_json(folder / "config.json", lambda settings: settings.update(strange))


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("hf", own_classes),
        ("st", lambda folder: add_module(folder, "own.Model")),
        ("st", lambda folder: add_module(folder, "os.system")),
    ],
)
def test_code_beside_a_model(model, mark, kind, change):
    folder = model(kind)
    change(folder)
    code = f"open({str(mark)!r}, 'w').close()\nclass Model: pass\nclass Config: pass\n"
    (folder / "own.py").write_text(code, encoding="utf-8")
    with pytest.raises(ValueError, match="must hold a "):
        LOADERS[kind](str(folder), runtime=RUNTIME)


@each_pickle
def test_infersent(tmp_path, mark, data):
    (tmp_path / "infersent1.pkl").write_bytes(data(mark))
    vectors = str(write_vectors(tmp_path / "vectors.txt"))
    with pytest.raises(ValueError, match="hold nothing but tensors"):
        load_infersent(str(tmp_path / "infersent1.pkl"), runtime=RUNTIME, vectors=vectors)


@each_pickle
def test_checkpoint_of_training(tmp_path, mark, data):
    (tmp_path / CHECKPOINT_FILE).write_bytes(data(mark))
    with pytest.raises(ValueError, match="must be a whole checkpoint"):
        read_checkpoint(tmp_path, "0")


@each_pickle
def test_weights_of_a_scorer(model, mark, data):
    folder = model("scorer")
    (folder / "weights.safetensors").write_bytes(data(mark))
    digest = hashlib.blake2b(data(mark), digest_size=16).hexdigest()
    change_json(  # as its author would
        folder / "scorer.json",
        lambda settings: settings["hashes"].update({"weights.safetensors": digest}),
    )
    with pytest.raises(ValueError, match=r"weights.safetensors` must fit the model"):
        load_scorer(folder, device="cpu")


@pytest.mark.parametrize("data", [plain_pickle, numpy_objects])
def test_embedding_cache(models, tmp_path, mark, data):
    (tmp_path / "corpus.jsonl").write_bytes(sound_lines(1)[0])
    asked = {"encoder": f"hf:{models / 'hf'}", "metrics": "sms"}
    asked |= {"embedding_cache": tmp_path / "cache"}
    assert run(score(tmp_path / "corpus.jsonl", out=tmp_path / "first", **asked)) == 0
    (cache,) = (tmp_path / "cache").iterdir()
    cache.write_bytes(data(mark))
    assert run(score(tmp_path / "corpus.jsonl", out=tmp_path / "second", **asked)) == 2


def zipped_pickle(mark):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("data.pkl", plain_pickle(mark))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("kind", "name", "data"),
    [
        ("glove", "vectors.npy", numpy_objects),
        ("word2vec", "vectors.bin", plain_pickle),
        ("fasttext", "vectors.bin", plain_pickle),
        ("fasttext", "vectors.zip", zipped_pickle),
    ],
)
def test_word_vectors(tmp_path, mark, capsys, kind, name, data):
    path = tmp_path / name
    path.write_bytes(data(mark))
    (tmp_path / "corpus.jsonl").write_bytes(sound_lines(1)[0])
    options = {"encoder": f"{kind}:{path}", "metrics": "sms", "out": tmp_path / "out"}
    assert run(score(tmp_path / "corpus.jsonl", **options)) == 2
    assert str(path) in capsys.readouterr().err
