"""Texts of few words, and tables of them, for tests of scoring."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sms.encoders.base import Encoder
from sms.encoders.registry import ENCODERS, EncoderKind
from sms.scoring import to_rows

MOVERS = ("sms", "wms", "s+wms")
EMBEDDED = (*MOVERS, "cosine")
METRICS = (*EMBEDDED, "rougeL_f")
ALL_SIDES = (*EMBEDDED, "s+wms:source", "sms:source", "rougeL", "rougeLsum_f", "novelty", "density")

NOUNS = ["cat", "dog", "hen", "cow", "fox", "owl", "pig", "rat", "ant", "bee"]
VERBS = ["saw", "bit", "fed", "led", "met"]

GOOD = "The cat met a dog. A hen saw the fox!"
REFERENCE = "A dog bit the cat. The cow fed an owl."


def glove_file(path: Path, vectors: Mapping[str, Sequence[float]]) -> str:
    """Write a file of vectors; return the encoder that reads it."""
    rows = (f"{word} {' '.join(map(repr, vector))}\n" for word, vector in vectors.items())
    path.write_text("".join(rows), encoding="utf-8")
    return f"glove:{path}"


MADE: dict[str, Encoder] = {}


def made_kind(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> str:
    """Add a kind of encoder that gives this one, as a package adds its own; return its name."""
    vectors = ("words", "sentences")
    kind = EncoderKind(
        kind="made", summary="made by a test", vectors=vectors, loader=f"{__name__}:made_encoder"
    )
    monkeypatch.setitem(ENCODERS, "made", kind)
    monkeypatch.setitem(MADE, "made", encoder)
    return "made"


def made_encoder(_path: str, **_options: object) -> Encoder:
    return MADE["made"]


def values(table: pa.Table, column: str) -> np.ndarray:
    return table[column].to_numpy()


def random_text(rng: np.random.Generator, n_sentences: int) -> str:
    return " ".join(
        f"The {rng.choice(NOUNS)} {rng.choice(VERBS)} a {rng.choice(NOUNS)}."
        for _ in range(n_sentences)
    )


def random_rows(n: int, seed: int) -> pa.Table:
    """Rows whose texts share sentences, with one to three references and sources."""
    rng = np.random.default_rng(seed)

    def texts(longest: int) -> list[str]:
        return [random_text(rng, rng.integers(1, longest)) for _ in range(rng.integers(1, 4))]

    return to_rows(
        [random_text(rng, rng.integers(1, 5)) for _ in range(n)],
        [texts(4) for _ in range(n)],
        [texts(8) for _ in range(n)],
    )
