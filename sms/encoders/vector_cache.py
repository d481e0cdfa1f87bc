"""Sentence vectors on disk, shared by runs and by processes that run at once.

A folder holds segments: files with the vectors of some thousand sentences each, in fp32, written
whole under another name and then renamed. Nobody changes a segment, so processes need no lock,
and a killed one leaves at most a file that nobody reads. That works on network file systems too,
where sqlite's write-ahead log and lmdb do not: workers on several machines share the folder, which
is why neither was taken. Two processes may write the same sentence twice; either copy will do.

In memory there are 24 bytes per sentence on disk, up to `MAX_INDEXED`, and what waits to be
written. Every entry carries a checksum: a damaged one is not found, and so encoded and written
again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

logger = logging.getLogger(__name__)

SentenceVectors = tuple[np.ndarray, np.ndarray]
"""Vectors of a sentence's kept words, float32 (n_kept, d), and its own, float32 (d_pooled,)."""

FORMAT = 1
"""Part of every folder's name: another format finds nothing rather than something wrong."""
FLUSH_BYTES = 64 << 20
"""A segment is written once so much waits for it, ..."""
FLUSH_SENTENCES = 512
"""... or so many sentences wait at the end of a batch, ..."""
FLUSH_SECONDS = 20.0
"""... or the first of it has waited so long by then. A killed run loses what still waits."""
MAX_INDEXED = 10_000_000
"""Sentences that can be found; a process begins with the newest segments."""
KEY_BYTES = 16
_PARTIAL_SECONDS = 86_400.0
"""An unfinished file older than this is a killed run's and is removed."""


def key_of(rules: str, sentence: str) -> bytes:
    """Return what a sentence is filed under: a hash of the text rules' signature and of it."""
    return hashlib.blake2b(f"{rules}\n{sentence}".encode(), digest_size=KEY_BYTES).digest()


class VectorCache:
    """Vectors of one encoder, by key.

    Parameters
    ----------
    folder : str
        Shared by encoders; made if it is not there.
    owner : str
        The encoder's signature and content hash.
    dimension, pooled_dimension : int
        Of word vectors and of sentences' own vectors.

    Raises
    ------
    ValueError
        If the folder cannot be made or written to.
    """

    def __init__(self, folder: str, *, owner: str, dimension: int, pooled_dimension: int) -> None:
        name = hashlib.blake2b(f"{FORMAT}\n{owner}".encode(), digest_size=KEY_BYTES).hexdigest()
        self._folder = Path(folder).expanduser() / name
        self._index = _Index(self._folder, dimension, pooled_dimension)
        self._waiting = _Waiting(self._folder)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / "encoder.txt").write_text(f"{owner}\n", encoding="utf-8")
        except OSError as error:
            raise ValueError(
                f"embedding cache {folder!r} must be a folder that can be written to, got "
                f"{error.strerror or error}"
            ) from error
        _remove_old_partials(self._folder)
        # runs at the latest when the process ends
        self._at_exit = weakref.finalize(self, self._waiting.flush)

    def read(self, keys: Sequence[bytes], n_words: np.ndarray) -> dict[int, SentenceVectors]:
        """Return the vectors that are there, by place in `keys`.

        Parameters
        ----------
        keys : sequence of bytes
            By `key_of`.
        n_words : ndarray of int64, shape (n_keys,)
            How many word vectors each must have.
        """
        self._index.refresh()
        found = {}
        for place, key in enumerate(keys):
            entry = self._waiting.entries.get(key)
            if entry is not None and len(entry[0]) == n_words[place]:
                found[place] = entry
        wanted = [place for place in range(len(keys)) if place not in found]
        found.update(self._index.read(wanted, keys, n_words))
        return found

    def write(self, entries: Mapping[bytes, SentenceVectors]) -> None:
        """Take vectors to write them, at once or with later ones."""
        self._waiting.add(entries)

    def flush(self) -> None:
        """Write what waits."""
        self._waiting.flush()


class _Waiting:
    """Entries that are not written yet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.entries: dict[bytes, SentenceVectors] = {}
        self._bytes = 0
        self._since = 0.0

    def add(self, entries: Mapping[bytes, SentenceVectors]) -> None:
        if not self.entries:
            self._since = time.monotonic()
        for key, (words, own) in entries.items():
            # whole arrays are not to be kept for the sake of a slice
            self.entries[key] = (words.copy(), own.copy())
            self._bytes += words.nbytes + own.nbytes
            if self._bytes >= FLUSH_BYTES:
                self.flush()
        waited = time.monotonic() - self._since
        if len(self.entries) >= FLUSH_SENTENCES or waited >= FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write a segment; a full or lost disk costs the cache, not the run."""
        if not self.entries or not self._folder.is_dir():  # deleted by whoever had it made
            return
        try:
            _write_segment(self._folder, self.entries)
        except OSError as error:
            logger.warning("embedding cache %s: %s; going on without", self._folder, error)
        self.entries = {}
        self._bytes = 0


def _write_segment(folder: Path, entries: Mapping[bytes, SentenceVectors]) -> None:
    keys = sorted(entries)
    pairs = [entries[key] for key in keys]
    payload = save(
        {
            "keys": np.frombuffer(b"".join(keys), np.uint8).reshape(-1, KEY_BYTES),
            "ends": np.cumsum([len(words) for words, _ in pairs]),
            "words": np.concatenate([words for words, _ in pairs]),
            "own": np.stack([own for _, own in pairs]),
            "checksums": np.array(
                [_checksum(key, *pair) for key, pair in zip(keys, pairs, strict=True)], np.uint64
            ),
        }
    )
    partial = folder / f"{uuid4().hex}.partial"
    with partial.open("wb") as file:
        file.write(payload)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(partial.with_suffix(".safetensors"))


def _checksum(key: bytes, words: np.ndarray, own: np.ndarray) -> int:
    digest = hashlib.blake2b(key, digest_size=8)
    digest.update(words.tobytes())
    digest.update(own.tobytes())
    return int.from_bytes(digest.digest(), "little")


@dataclass(frozen=True, slots=True)
class _Places:
    """Where each key's vectors are, in the segments taken in so far."""

    segments: Mapping[str, _Segment | None]
    """By file; None for a damaged one."""
    heads: np.ndarray
    """First 8 bytes of every key, ascending; big-endian uint64, (n_keys,)."""
    segment: np.ndarray
    """Which segment each is in, by its place in `segments`; int32, (n_keys,)."""
    row: np.ndarray
    """And its row there, int32, (n_keys,)."""


class _Index:
    """Finds vectors on disk, as far as this process has looked."""

    def __init__(self, folder: Path, dimension: int, pooled_dimension: int) -> None:
        self._folder = folder
        self._shape = (dimension, pooled_dimension)
        nowhere = np.empty(0, dtype=np.int32)
        self._places = _Places({}, np.empty(0, dtype=">u8"), nowhere, nowhere)

    def refresh(self) -> None:
        """Take in the segments that were written since, all together or, if that fails, none."""
        with suppress(OSError):
            names = [
                ((self._folder / name).stat().st_mtime_ns, name)
                for name in os.listdir(self._folder)
                if name.endswith(".safetensors") and name not in self._places.segments
            ]
            fresh: dict[str, tuple[_Segment | None, np.ndarray]] = {}
            n_indexed = self._places.heads.size
            for _, name in sorted(names, reverse=True):
                if n_indexed >= MAX_INDEXED:
                    break
                fresh[name] = self._opened(name)
                n_indexed += fresh[name][1].size
            if fresh:
                self._places = _merged(self._places, fresh)

    def _opened(self, name: str) -> tuple[_Segment | None, np.ndarray]:
        """Open a segment; return it and the heads of its keys, none if it is damaged."""
        try:
            segment = _Segment(self._folder / name, *self._shape)
            return segment, segment.heads()
        except (OSError, SafetensorError, ValueError, KeyError) as error:
            logger.warning("embedding cache: %s is damaged and not used (%s)", name, error)
            return None, np.empty(0, dtype=">u8")

    def read(
        self, places: Sequence[int], keys: Sequence[bytes], n_words: np.ndarray
    ) -> dict[int, SentenceVectors]:
        """Return the undamaged vectors of the keys at some places, by place."""
        known = self._places
        segments = [*known.segments.values()]
        heads = np.frombuffer(b"".join(keys[place][:8] for place in places), dtype=">u8")
        starts = np.searchsorted(known.heads, heads, side="left")
        ends = np.searchsorted(known.heads, heads, side="right")
        found = {}
        for place, start, end in zip(places, starts.tolist(), ends.tolist(), strict=True):
            for at in range(start, end):  # more than one if two processes wrote it
                segment = segments[known.segment[at]]
                if segment is None:
                    continue
                vectors = segment.vectors(int(known.row[at]), keys[place], int(n_words[place]))
                if vectors is not None:
                    found[place] = vectors
                    break
        return found


def _merged(known: _Places, fresh: Mapping[str, tuple[_Segment | None, np.ndarray]]) -> _Places:
    """Return the places with those in further segments, which come with the heads of their keys."""
    segments = {name: segment for name, (segment, _) in fresh.items()}
    sizes = [heads.size for _, heads in fresh.values()]
    first = len(known.segments)
    numbers = np.arange(first, first + len(fresh), dtype=np.int32)
    rows = [np.arange(size, dtype=np.int32) for size in sizes]
    heads = np.concatenate([known.heads, *(heads for _, heads in fresh.values())])
    order = np.argsort(heads, kind="stable")
    return _Places(
        {**known.segments, **segments},
        heads[order],
        np.concatenate([known.segment, np.repeat(numbers, sizes)])[order],
        np.concatenate([known.row, *rows])[order],
    )


class _Segment:
    """A file of vectors, read piece by piece.

    Raises
    ------
    OSError, SafetensorError, KeyError, ValueError
        If it is not whole or not of this encoder.
    """

    def __init__(self, path: Path, dimension: int, pooled_dimension: int) -> None:
        self._file = safe_open(path, framework="numpy")
        self._words = self._file.get_slice("words")
        self._own = self._file.get_slice("own")
        self._keys = self._file.get_slice("keys")
        self._checksums = self._file.get_slice("checksums")
        self._ends = self._file.get_tensor("ends")
        self._dimension = dimension
        n = self._ends.size
        if (
            list(self._keys.get_shape()) != [n, KEY_BYTES]
            or list(self._checksums.get_shape()) != [n]
            or list(self._own.get_shape()) != [n, pooled_dimension]
            or self._words.get_shape()[1:] != [dimension]
        ):
            raise ValueError("its tables are of other shapes")

    def heads(self) -> np.ndarray:
        """Return the first 8 bytes of every key, big-endian."""
        keys = self._keys[:]
        return np.ascontiguousarray(keys[:, :8]).view(">u8").ravel()

    def vectors(self, row: int, key: bytes, n_words: int) -> SentenceVectors | None:
        """Return a row's vectors if they are the key's, as many as they must be, and undamaged."""
        end = int(self._ends[row])
        start = int(self._ends[row - 1]) if row else 0
        if end - start != n_words or not 0 <= start <= end <= self._words.get_shape()[0]:
            return None
        own = self._own[row : row + 1][0]
        words = np.empty((0, self._dimension), dtype=np.float32)
        if n_words:  # the library refuses to slice nothing at the end
            words = self._words[start:end]
        if int(self._checksums[row : row + 1][0]) != _checksum(key, words, own):
            return None
        return words, own


def _remove_old_partials(folder: Path) -> None:
    oldest = time.time() - _PARTIAL_SECONDS
    for partial in folder.glob("*.partial"):
        with suppress(OSError):
            if partial.stat().st_mtime < oldest:
                partial.unlink()
