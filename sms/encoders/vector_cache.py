"""Vectors that were made before: of recent texts in memory, and on disk for later runs.

On disk there is one SQLite database per encoder, in a folder. Processes of one machine may share
it; it must not be on a network file system, where SQLite's locks do not work. A batch is written in
one transaction, so a killed run loses what it was computing and nothing else. A lost disk costs the
cache, not the run.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from sms.naming import user_path

V = TypeVar("V")
SentenceVectors = tuple[np.ndarray, np.ndarray]
"""What is kept of a sentence's words, (n_rows, d), and its own vector, float32 (d,)."""

FORMAT = 4
"""Part of every file's name: another format finds nothing rather than something wrong."""
LIBRARIES = (
    "assay",
    "torch",
    "transformers",
    "tokenizers",
    "sentence-transformers",
    "tensorflow",
    "tensorflow-hub",
)
"""Distributions that make the vectors; with another version they are made anew."""
_TABLE = "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vectors BLOB, checksum BLOB)"
_TIMEOUT_S = 60  # until another process has written its batch

logger = logging.getLogger(__name__)


class Recent(Generic[V]):
    """Values by text, arrays or tuples with arrays; those not used for longest go first.

    `extra_bytes` are those of a value in addition to its arrays. A pickle brings no values along.
    """

    def __init__(self, extra_bytes: int = 0) -> None:
        self._extra_bytes = extra_bytes
        self._values: OrderedDict[str, V] = OrderedDict()
        self.n_bytes = 0

    def __getitem__(self, text: str) -> V:
        self._values.move_to_end(text)
        return self._values[text]

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return Recent, (self._extra_bytes,)

    def _size_of(self, value: V) -> int:
        parts = value if isinstance(value, tuple) else (value,)
        return self._extra_bytes + sum(getattr(part, "nbytes", 0) for part in parts)

    def missing(self, texts: Iterable[str]) -> list[int]:
        """Return the places of the texts that have no value."""
        return [place for place, text in enumerate(texts) if text not in self._values]

    def add(self, fresh: Mapping[str, V], most: int) -> None:
        """Add values of texts that are not there; keep at most so many bytes."""
        for text, value in fresh.items():
            self._values[text] = value
            self.n_bytes += self._size_of(value)
        while self.n_bytes > most:
            _, oldest = self._values.popitem(last=False)
            self.n_bytes -= self._size_of(oldest)


def key_of(rules: str, sentence: str) -> bytes:
    """Return what a sentence is filed under: a hash of the text rules' signature and of it."""
    return _hash(f"{rules}\n{sentence}".encode(), 16)


class BlobCache:
    """Bytes by key in a file of a folder, which processes of one machine may share.

    `owner` says what they are of: another owner finds nothing. Raises `ValueError` if the folder
    cannot be made or written to.
    """

    def __init__(self, folder: str, *, owner: str) -> None:
        text = f"{FORMAT}\n{owner}"
        self._path = Path(user_path(folder)) / f"{_hash(text.encode(), 16).hex()}.sqlite"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._connected()) as database, database:
                database.execute(_TABLE)
        except (OSError, sqlite3.Error) as error:
            raise ValueError(
                f"embedding cache {folder!r} must be a folder that can be written to, got {error}"
            ) from error

    def read(self, keys: Sequence[bytes]) -> dict[int, bytes]:
        """Return the undamaged blobs that are there, by place in `keys`."""
        blobs = {}
        query = "SELECT vectors, checksum FROM vectors WHERE key = ?"
        try:
            with closing(self._connected()) as database:
                for place, key in enumerate(keys):
                    row = database.execute(query, (key,)).fetchone()
                    if row is not None and row[1] == _hash(key + row[0], 8):
                        blobs[place] = row[0]
        except sqlite3.Error as error:
            logger.warning("embedding cache %s cannot be read (%s); delete it", self._path, error)
        return blobs

    def write(self, blobs: Mapping[bytes, bytes]) -> None:
        """Write some blobs, all of them or none."""
        rows = ((key, blob, _hash(key + blob, 8)) for key, blob in blobs.items())
        try:
            with closing(self._connected()) as database, database:
                database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
        except sqlite3.Error as error:
            logger.warning("embedding cache %s: %s; continuing without it", self._path, error)

    def _connected(self) -> sqlite3.Connection:
        """Open the file: a connection is of no use to another thread or a forked process."""
        return sqlite3.connect(self._path, timeout=_TIMEOUT_S)


class VectorCache:
    """Vectors of one encoder, by key, in a folder that encoders share.

    `owner` is the encoder's signature and content hash; versions of libraries count as well. What
    is kept of words is of the type `dtype`. Raises `ValueError` if the folder cannot be made or
    written to.
    """

    def __init__(
        self, folder: str, *, owner: str, dimension: int, dtype: type = np.float32
    ) -> None:
        self._blobs = BlobCache(folder, owner="\n".join([*map(_version_of, LIBRARIES), owner]))
        self._dimension, self._dtype = dimension, np.dtype(dtype)

    def read(self, keys: Sequence[bytes], n_rows: np.ndarray) -> dict[int, SentenceVectors]:
        """Return the undamaged vectors of so many rows that are there, by place in `keys`."""
        width = self._dimension * self._dtype.itemsize
        vectors = {}
        for place, blob in self._blobs.read(keys).items():
            n_bytes = int(n_rows[place]) * width
            if len(blob) == n_bytes + self._dimension * 4:
                words = np.frombuffer(blob[:n_bytes], self._dtype)
                sentence_vector = np.frombuffer(blob[n_bytes:], np.float32)
                vectors[place] = words.reshape(-1, self._dimension), sentence_vector
        return vectors

    def write(self, entries: Mapping[bytes, SentenceVectors]) -> None:
        """Write the vectors of a batch, all of them or none."""
        self._blobs.write(
            {
                key: words.tobytes() + sentence_vector.tobytes()
                for key, (words, sentence_vector) in entries.items()
            }
        )


@cache
def _version_of(library: str) -> str:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "none"


def _hash(content: bytes, n_bytes: int) -> bytes:
    return hashlib.blake2b(content, digest_size=n_bytes).digest()
