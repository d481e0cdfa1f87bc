"""The encoders there are, and how a name becomes one of them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sms.encoders import Encoder


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderKind:
    """One kind of encoder."""

    kind: str
    """What a specification starts with."""
    spec: str
    """How it is written on the command line."""
    summary: str
    """One line for people."""
    vectors: tuple[str, ...]
    """`words`, `sentences` or both."""


ENCODERS = {
    kind.kind: kind
    for kind in (
        EncoderKind(
            kind="minilm",
            spec="minilm",
            summary="all-MiniLM-L6-v2, weights installed with assay; 384 dimensions",
            vectors=("words", "sentences"),
        ),
        EncoderKind(
            kind="glove",
            spec="glove:PATH",
            summary="GloVe text file, no header line",
            vectors=("words",),
        ),
        EncoderKind(
            kind="word2vec",
            spec="word2vec:PATH",
            summary="word2vec file with a header, text or binary",
            vectors=("words",),
        ),
        EncoderKind(
            kind="fasttext",
            spec="fasttext:PATH",
            summary="fastText .vec text file with a header",
            vectors=("words",),
        ),
    )
}
"""Every kind of encoder by name."""


def parse_spec(spec: str) -> tuple[EncoderKind, str]:
    """Split `kind:path` and check that both are there.

    Raises
    ------
    ValueError
        If the kind is unknown (naming the nearest) or a path is missing or superfluous.
    """
    kind, _, path = spec.partition(":")
    if kind not in ENCODERS:
        near = difflib.get_close_matches(kind, ENCODERS, n=1)
        hint = f"did you mean `{ENCODERS[near[0]].spec}`?" if near else "see `assay encoders`"
        raise ValueError(f"unknown encoder {spec!r}; {hint}")
    found = ENCODERS[kind]
    if (":" in found.spec) != bool(path):
        raise ValueError(f"encoder {spec!r} must be written `{found.spec}`")
    return found, path


def load_encoder(spec: str, *, pooling: str = "mean", zero_unknown: bool = False) -> Encoder:
    """Load an encoder by its specification.

    Parameters
    ----------
    spec : str
        As in `ENCODERS`, for example `glove:vectors/glove.6B.300d.txt`.
    pooling : {"mean", "max"}
        How static word vectors become one text vector.
    zero_unknown : bool
        Keep words without a static vector as zero vectors (preset `clark2019`).

    Raises
    ------
    ValueError
        If the name is unknown or a file is missing or damaged, with its path and line.
    """
    kind, path = parse_spec(spec)
    if kind.kind == "minilm":
        from sms.encoders.bert import load_minilm

        return load_minilm()
    from sms.encoders.static import load_static

    return load_static(Path(path), kind.kind, pooling=pooling, zero_unknown=zero_unknown)
