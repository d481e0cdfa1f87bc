r"""The bytes of a text file as UTF-8 with lines that end in ``\n``, however it was written.

Files may be packed (gzip, zstd, bzip2, told by their first bytes), in UTF-16 or UTF-32, with a
byte-order mark or without one, and have carriage returns alone as ends of lines.
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain
from typing import Any

import pyarrow as pa

from cluster.store import OnOpen, open_input

BLOCK_BYTES = 4 << 20
MAX_RECORD_BYTES = 64 << 20
"""A longer record is taken for a mistake."""

_LOOK_BYTES = 64 << 10
"""How much is looked at to tell how lines end."""
_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}
_MARKS = {
    codecs.BOM_UTF8: None,
    codecs.BOM_UTF32_LE: "utf-32-le",  # begins as that of UTF-16 does
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


@contextmanager
def opened_text(path: str, on_open: OnOpen | None = None) -> Iterator[Iterator[bytes]]:
    """Give out the text of a file, block by block.

    Raises `ValueError` if it is damaged; `FileNotFoundError` or `PermissionError` if it cannot be
    opened.
    """
    try:
        with open_input(path) as file:
            if on_open is not None:
                on_open(file)
            with _unpacked(file) as stream:
                yield _with_line_feeds(_in_utf8(_blocks_of(stream)))
    except (FileNotFoundError, PermissionError):
        raise
    except (pa.ArrowException, OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read {path}: {str(error).splitlines()[0]}") from error


def check_length(n_bytes: int, path: str) -> None:
    """Refuse a record that is too long to be one."""
    if n_bytes > MAX_RECORD_BYTES:
        raise ValueError(
            f"a record of {path} is longer than {MAX_RECORD_BYTES >> 20} MiB; is each on its own "
            "line?"
        )


def _unpacked(file: pa.NativeFile) -> AbstractContextManager[Any]:
    start = file.read_at(10, 0)
    file.seek(0)
    kind = next((kind for mark, kind in _PACKED.items() if start.startswith(mark)), None)
    if kind is None or (kind == "bz2" and start[4:] != b"1AY&SY"):
        return nullcontext(file)
    packed = pa.BufferedInputStream(file, BLOCK_BYTES)  # a store is not asked for every few KiB
    if kind == "gzip":  # Python's: it passes over zeros at the end, as gzip itself does
        return gzip.GzipFile(fileobj=packed)
    return pa.CompressedInputStream(packed, kind)


def _blocks_of(stream: Any) -> Iterator[bytes]:  # noqa: ANN401  (Arrow's or Python's)
    while block := stream.read(BLOCK_BYTES):
        yield block


def _in_utf8(blocks: Iterator[bytes]) -> Iterator[bytes]:
    start = b""
    for block in blocks:
        start += block
        if len(start) >= max(map(len, _MARKS)):
            break
    mark = next((mark for mark in _MARKS if start.startswith(mark)), b"")
    encoding = _MARKS[mark] if mark else _encoding_of(start)
    blocks = (block for block in chain([start[len(mark) :]], blocks) if block)
    if encoding is None:
        yield from blocks
        return
    decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")
    for block in chain(blocks, [b""]):
        if text := decoder.decode(block, final=not block):
            yield text.encode("utf-8", "surrogatepass")


def _encoding_of(start: bytes) -> str | None:
    r"""Tell UTF-16 without a mark by its first two characters, as RFC 4627 does for JSON.

    >>> _encoding_of(b"a\0b\0"), _encoding_of(b"\0a\0b"), _encoding_of(b"a,b\n")
    ('utf-16-le', 'utf-16-be', None)
    """
    is_zero = [byte == 0 for byte in start[:4]]
    if is_zero == [False, True, False, True]:
        return "utf-16-le"
    return "utf-16-be" if is_zero == [True, False, True, False] else None


def _with_line_feeds(blocks: Iterator[bytes]) -> Iterator[bytes]:
    looked_at: list[bytes] = []
    for block in blocks:
        looked_at.append(block)
        if sum(map(len, looked_at)) >= _LOOK_BYTES:
            break
    start = b"".join(looked_at)
    given: Iterable[bytes] = chain(looked_at, blocks)
    if b"\r" in start[:-1] and b"\n" not in start:  # as Macs once wrote, and some programs do
        given = (block.replace(b"\r", b"\n") for block in given)
    yield from given
