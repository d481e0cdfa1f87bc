"""Signatures: one string per column that says what its numbers are, built from the settings."""

from __future__ import annotations

import re
from importlib import metadata

from sms.encoders.base import Encoder

LIBRARIES = (
    *("numpy", "torch", "transformers", "tokenizers", "sentencex", "regex", "nltk"),
    "rouge-score-rs",
    *("sacrebleu", "sentence-transformers", "tensorflow"),
    *("rjieba", "SudachiPy", "sudachidict-small"),
)
"""Distributions whose version may change a score."""

TEXT_FORM = "norm:nfc+unmarked"
"""In what form texts are read: `text.composed`, and without the marks of `sentences`."""

_HASH_LENGTH = 12
_CONTENT = re.compile(r"\|(?:hash|weights):[0-9a-f]+|@[0-9a-f]{40}(?![^|])")
_VERSION = re.compile(r"[-:]\d+(?:\.\d+){2,}")


def version() -> str:
    """Return the installed version of this project."""
    try:
        return metadata.version("assay")
    except metadata.PackageNotFoundError:
        return "0+source"


def library_versions() -> dict[str, str]:
    """Return the versions of this project and of the libraries that may change a score."""
    versions = {"assay": version()}
    for name in LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "none"
    return versions


def without_content(signature: str) -> str:
    """Return a signature without hashes of weights, vectors and commits: what was asked for."""
    return _CONTENT.sub("", signature)


def without_versions(signature: str) -> str:
    """Return a signature without the versions of this project and of libraries.

    >>> without_versions("rouge1_f|rouge-score-rs:0.2.1|split:lines1+sentencex-1.0.32|v:0.1.0")
    'rouge1_f|rouge-score-rs|split:lines1+sentencex|v'
    """
    return _VERSION.sub("", signature)


def encoder_part(encoder: Encoder) -> str:
    """Name an encoder and, as names of files and models repeat, the beginning of its hash."""
    content = f"|hash:{encoder.content_hash[:_HASH_LENGTH]}" if encoder.content_hash else ""
    return f"enc:{encoder.signature}{content}"


def cut_part(source_tokens: int | None) -> str:
    """Say how much of each source is read."""
    return f"first:{'all' if source_tokens is None else source_tokens}"
