"""Damaged encoders, scorers and caches: each is loaded by the code that loads a sound one."""

from __future__ import annotations

import json
import shutil
import struct
from functools import cache
from pathlib import Path

import numpy as np

from tests.fuzzing.cases import WORDS, Case
from tests.fuzzing.folder_cases import sound_lines
from tests.fuzzing.hostile import damaged, pick

D_IN, HIDDEN = 8, 6


def vectors_case(rng: np.random.Generator, folder: Path, vectors: Path) -> Case:
    """Read damaged word vectors of the three kinds."""
    kind = pick(rng, ("glove", "word2vec", "fasttext"))
    text = vectors.read_bytes()
    header = f"{len(WORDS)} 8\n".encode()
    data = text if kind == "glove" else header + text
    if kind == "word2vec" and rng.random() < 0.6:
        rows = [line.split(" ") for line in text.decode().splitlines()]
        data = header + b"".join(
            f"{row[0]} ".encode() + struct.pack("<8f", *map(float, row[1:])) + b"\n" for row in rows
        )
    path = folder / "vectors.bin"
    path.write_bytes(_odd_numbers(rng, data) if rng.random() < 0.3 else damaged(rng, data))
    return _scored(folder, f"--encoder={kind}:{path}", "--metrics=sms,wms,cosine")


def _odd_numbers(rng: np.random.Generator, data: bytes) -> bytes:
    numbers = (b"nan", b"inf", b"1e999", b"1e39", b"", b"x", b"1 2", b"-1", b"99999999999999999999")
    parts = data.split(b" ")
    parts[int(rng.integers(len(parts)))] = pick(rng, numbers)
    return b" ".join(parts)


def model_case(rng: np.random.Generator, folder: Path, vectors: Path) -> Case:
    """Damage one file of a model's folder, a scorer's folder or a cache."""
    kind = pick(rng, ("hf", "st", "infersent", "scorer", "cache"))
    sound = sound_models(vectors.parent / "models", vectors)
    copy = folder / "model"
    shutil.copytree(sound / ("hf" if kind == "cache" else kind), copy)
    options = {
        "hf": [f"--encoder=hf:{copy}", "--metrics=sms,cosine"],
        "st": [f"--encoder=st:{copy}", "--metrics=cosine"],
        "infersent": [
            f"--encoder=infersent:{copy}/state.pkl,vectors={vectors}",
            "--metrics=cosine",
        ],
        "scorer": [f"--metrics=reffree@{copy}"],
        "cache": [f"--encoder=hf:{copy}", "--metrics=sms", f"--embedding-cache={folder}/cache"],
    }[kind]
    if kind == "cache":

        def spoil() -> None:
            _spoil(rng, folder / "cache")

        return _scored(folder, *options, before=spoil)
    _spoil(rng, copy)
    return _scored(folder, *options)


def _spoil(rng: np.random.Generator, folder: Path) -> None:
    path = pick(rng, sorted(path for path in folder.rglob("*") if path.is_file()))
    way = rng.random()
    if way < 0.15:
        path.unlink()
    elif way < 0.5 and path.suffix == ".json":
        values = json.loads(path.read_text("utf-8"))
        if isinstance(values, dict) and values:
            key = pick(rng, sorted(values))
            values[key] = pick(rng, (None, -1, 0, 10**9, "x", [], {}, 1.5, True, [1], {"a": "b"}))
        path.write_text(json.dumps(values), encoding="utf-8")
    else:
        path.write_bytes(damaged(rng, path.read_bytes()))


def _scored(folder: Path, *options: str, before=None) -> Case:
    data, sound = sound_lines(4)
    (folder / "corpus.jsonl").write_bytes(data)
    arguments = [
        "score", "--local", "--quiet", *options, f"--out={folder / 'out'}",
        str(folder / "corpus.jsonl"),
    ]  # fmt: skip
    return Case(arguments=arguments, out=folder / "out", before=before, n_rows=len(sound))


@cache
def sound_models(folder: Path, vectors: Path) -> Path:
    """Write one sound model of every kind."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    from reffree.building import build
    from reffree.scorer_folder import save_scorer
    from tests.reffree.conftest import model_config
    from tests.reffree.tiny_bert import write_tiny_bert
    from tests.sms.encoders.conftest import write_model

    write_model("bert", folder / "hf")
    parts = Transformer(str(folder / "hf"))
    SentenceTransformer(
        modules=[parts, Pooling(parts.get_embedding_dimension())], device="cpu"
    ).save(str(folder / "st"))
    (folder / "infersent").mkdir()
    with torch.random.fork_rng():
        torch.manual_seed(7)
        lstm = torch.nn.LSTM(D_IN, HIDDEN, bidirectional=True)
    state = {f"enc_lstm.{name}": tensor for name, tensor in lstm.state_dict().items()}
    torch.save(state, folder / "infersent" / "state.pkl")
    encoder = write_tiny_bert(folder / "tiny")
    figures = {"n": 4, "accuracy": 0.75, "auc": 0.8, "mse": 0.1, "pearson": None}
    save_scorer(
        folder / "scorer",
        build(model_config(encoder=f"hf:{encoder}", max_pieces=48)),
        loss="bce",
        trained_on={"documents": 12},
        held_out={"cross-pair": figures},
        versions={"assay": "0"},
    )
    return folder
