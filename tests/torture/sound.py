"""What is sound: rows whose scores are known, word vectors, models, command lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

_TEXT = (
    "the a man near boston sells snow online council raised parking fees ship is to buyers cat sat "
    "mat dog ran fast hello world was and of it in on for with not river bridge harbour"
)
WORDS = _TEXT.split()
SOUND = (
    ("A man near Boston sells snow online.", "A Boston man ships snow to buyers."),
    ("The council raised parking fees. It was not the river.", "The council raised fees."),
    ("The cat sat on the mat.", "The cat sat on the mat."),
)
"""Candidates and references of the rows whose scores are known, in turn."""
SOURCE = "The dog ran fast. A man near Boston sells snow. The council raised parking fees."
COLUMNS = ("document_id", "system_id", "candidate", "reference", "source")
METRICS = "sms,wms,s+wms,cosine:source,rouge1_f,density,novelty"


def write_vectors(path: Path) -> Path:
    """Write word vectors that all cases share."""
    rng = Random(7)
    lines = [f"{word} {' '.join(f'{rng.gauss(0, 1):.4f}' for _ in range(8))}\n" for word in WORDS]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def command(name: str, *files: object, **options: object) -> list[str]:
    """Return a command line; an option that is True is a flag."""
    given = [
        f"--{option.replace('_', '-')}" + ("" if value is True else f"={value}")
        for option, value in options.items()
    ]
    return [name, *given, "--", *map(str, files)]


def score(*files: object, **options: object) -> list[str]:
    """Return the command line of `assay score` that most cases use."""
    return command("score", *files, **{"local": True, "quiet": True, "metrics": METRICS} | options)


def sound_row(number: int) -> dict[str, object]:
    """Return a row whose scores are known."""
    candidate, reference = SOUND[number % len(SOUND)]
    texts = {"candidate": candidate, "reference": reference, "source": SOURCE}
    return {"document_id": f"sound-{number}", "system_id": "s"} | texts


def sound_lines(n_rows: int, start: int = 0) -> tuple[bytes, list[str]]:
    """Return the lines of a sound JSONL file, and its documents."""
    rows = [sound_row(number) for number in range(start, start + n_rows)]
    return encoded(rows, "jsonl"), [str(row["document_id"]) for row in rows]


def encoded(
    rows: Sequence[dict[str, object]],
    suffix: str,
    *,
    names: Sequence[str] = COLUMNS,
    line_end: str = "\n",
) -> bytes:
    """Return rows as the bytes of a file; `names` are the columns of one without rows."""
    if suffix == "jsonl":
        return "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    names = list(dict.fromkeys(name for row in rows for name in row)) or list(names)
    if suffix == "csv":
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, names, lineterminator=line_end)
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue().encode()
    # without statistics: the footer says nothing about the texts
    sink = io.BytesIO()
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    pq.write_table(table, sink, 3, compression="none", write_statistics=False)
    return sink.getvalue()


@cache
def sound_models(folder: Path) -> Path:
    """Write one sound model of every kind."""
    import torch
    from sentence_transformers import SentenceTransformer

    from reffree.neural.building import build
    from reffree.scorers.folder import save_scorer
    from tests.reffree.conftest import model_config
    from tests.reffree.tiny_bert import write_tiny_bert
    from tests.sms.encoders.library_modules import Transformer, pooling

    bert = str(write_tiny_bert(folder / "hf"))
    parts = [layer := Transformer(bert), pooling(layer.auto_model.config.hidden_size, "mean")]
    SentenceTransformer(modules=parts, device="cpu").save(str(folder / "st"))
    (folder / "infersent").mkdir()
    lstm = torch.nn.LSTM(8, 6, bidirectional=True)
    state = {f"enc_lstm.{name}": tensor for name, tensor in lstm.state_dict().items()}
    torch.save(state, folder / "infersent" / "state.pkl")
    figures = {"n": 4, "accuracy": 0.75, "auc": 0.8, "mse": 0.1, "pearson": None}
    save_scorer(
        folder / "scorer",
        build(model_config(encoder=f"hf:{bert}", max_pieces=48)),
        loss="bce",
        trained_on={"documents": 12},
        held_out={"cross-pair": figures},
        versions={"assay": "0"},
    )
    return folder
