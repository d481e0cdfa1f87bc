"""Lets a file that a run writes say whether it is still what was written, every bit of it.

A Parquet file has its seal right before its footer, where no reader looks; a JSON file has it as
the last key. A seal is a hash: it finds damage and edits, and stops nobody who makes another one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from cluster.store import base_name, open_input, parquet_footer, read_whole, reads_again

_SEAL_BYTES = 32
_BLOCK_BYTES = 1 << 20
_LAST_KEY = b',\n "seal": "'


def sealed_parquet(data: bytes, name: str) -> tuple[bytes, str]:
    """Put the seal into the bytes of a Parquet file; return them, and the seal in hexadecimal.

    The `name` that the file will have is part of what is sealed, so that files cannot be exchanged.
    """
    body, footer = _cut(data)
    seal = _seal(name, [body], footer)
    return body + seal + footer, seal.hex()


@reads_again
def read_sealed_parquet(path: str) -> tuple[bytes, str]:
    """Read all of a sealed Parquet file; return it and its seal as `sealed_parquet` does.

    Raises `FileNotFoundError` if there is no such file; `ValueError` if it is not what was written
    under this name.
    """
    with open_input(path) as stream:
        data: bytes = stream.read()
    before, footer = _cut(data)
    body, seal = before[:-_SEAL_BYTES], before[-_SEAL_BYTES:]
    _check_seal(path, seal, _seal(base_name(path), [body], footer))
    return data, seal.hex()


@reads_again
def check_sealed_parquet(path: str) -> tuple[bytes, str]:
    """Check a sealed Parquet file as `read_sealed_parquet` does, with only its footer in memory.

    Returns the footer and the seal.
    """
    with open_input(path) as stream:
        footer = parquet_footer(stream)
        end = max(0, stream.size() - len(footer) - _SEAL_BYTES)
        blocks = (
            stream.read_at(min(_BLOCK_BYTES, end - begin), begin)
            for begin in range(0, end, _BLOCK_BYTES)
        )
        expected = _seal(base_name(path), blocks, footer)
        _check_seal(path, stream.read_at(_SEAL_BYTES, end), expected)
    return footer, expected.hex()


def sealed_json(text: str, kind: str) -> bytes:
    """Put the seal into a JSON object that is not empty; bytes that are not Unicode stay.

    `kind` is what it tells, which is part of what is sealed: the name of its file or folder.
    """
    head = text.encode("utf-8", "surrogateescape").rstrip().removesuffix(b"}").rstrip()
    return head + _end_of_json(head, kind)


def read_sealed_json(path: str, kind: str, remedy: str) -> dict[str, Any]:
    """Read a sealed JSON object that should tell what `sealed_json` calls `kind`.

    Raises `FileNotFoundError` if there is no such file; `ValueError` if it is not what was written,
    with the `remedy`.
    """
    data = read_whole(path)
    head = data[: data.rfind(_LAST_KEY)]
    if data != head + _end_of_json(head, kind):
        raise ValueError(
            f"{path} is damaged (or was changed, or written by another version of assay); {remedy}"
        )
    return json.loads(data.decode("utf-8", "surrogateescape"))


def _cut(data: bytes) -> tuple[bytes, bytes]:
    """Cut a Parquet file before its footer; any other file is cut somewhere."""
    footer = parquet_footer(pa.BufferReader(data))
    return data[: len(data) - len(footer)], footer


def _seal(name: str, body: Iterable[bytes], footer: bytes = b"") -> bytes:
    digest = hashlib.sha256(f"{name}\n".encode("utf-8", "surrogateescape"))
    for part in body:
        digest.update(part)
    digest.update(footer)
    return digest.digest()


def _check_seal(path: str, seal: bytes, expected: bytes) -> None:
    if seal != expected:
        raise ValueError(
            f"scores file {path} is damaged (or was changed after it was written); delete it to "
            "have its rows scored again by the same `assay score`"
        )


def _end_of_json(head: bytes, kind: str) -> bytes:
    return _LAST_KEY + _seal(kind, [head]).hex().encode() + b'"\n}\n'
