"""Tables of word vectors that the processes of a machine have in memory once.

A table is written into the cache folder by the first process that reads its text file, as
arrays that every process maps into its memory. The kernel then holds each page once, however many
workers there are.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import numpy as np
from filelock import FileLock

from sms.file_hashes import hash_of_files
from sms.naming import cache_folder

_FORMAT = 1
"""Part of every folder's name: another format finds nothing rather than something wrong."""
_ARRAYS = ("vectors", "keys", "rows")
_KEY_BYTES = 16

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WordTable:
    """The vectors of words, and where each word's vector is."""

    vectors: np.ndarray
    """Shape (n_words + 1, d); the last row is the zero vector of unknown words."""
    keys: np.ndarray
    """Hashes of the distinct words, sorted, bytes."""
    rows: np.ndarray
    """Where the vector of each key is, int64; of words that occur twice, the first."""

    @classmethod
    def of(cls, words: Sequence[str], vectors: np.ndarray) -> WordTable:
        """Make a table of words and their vectors, shape (n_words, d)."""
        keys, rows = np.unique(_keys_of(words), return_index=True)
        nothing = np.zeros((1, vectors.shape[1]), vectors.dtype)
        return cls(np.concatenate([vectors, nothing]), keys, rows.astype(np.int64))

    def rows_of(self, words: Sequence[str]) -> np.ndarray:
        """Return the row of each word's vector, -1 where there is none; int64."""
        if not self.keys.size:
            return np.full(len(words), -1, dtype=np.int64)
        keys = _keys_of(words)
        places = np.minimum(np.searchsorted(self.keys, keys), self.keys.size - 1)
        return np.where(self.keys[places] == keys, self.rows[places], -1)


def shared_table(name: str, read: Callable[[], tuple[list[str], np.ndarray]]) -> WordTable:
    """Return a table that this process shares with others, out of the cache folder.

    The `name` is of the content: a hash of the file, and how it is read. `read`, which returns the
    words and their vectors, is called where the folder has no such table.
    """
    folder = cache_folder() / "vectors" / f"{name}-{_FORMAT}"
    try:
        if not _is_whole(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{folder}.lock"):  # one process reads the text, the others wait
                if not _is_whole(folder):
                    _write(WordTable.of(*read()), folder)
        # Copy on write: nobody writes, so no page is copied; and compiled code needs no second
        # variant for arrays that are read-only.
        return WordTable(
            *(np.asarray(np.load(folder / f"{name}.npy", mmap_mode="c")) for name in _ARRAYS)
        )
    except OSError as error:
        logger.warning(
            "every worker keeps its own copy of the word vectors, since %s cannot be used (%s); "
            "set ASSAY_CACHE to a folder with room for them",
            folder.parent,
            error,
        )
    return WordTable.of(*read())


def _write(table: WordTable, folder: Path) -> None:
    """Write a table to a temporary folder, then rename it, so that nobody sees half a table."""
    aside = folder.with_name(f"{folder.name}.{uuid4().hex}.partial")
    try:
        aside.mkdir()
        for name in _ARRAYS:
            np.save(aside / f"{name}.npy", getattr(table, name))
        (aside / "sum").write_text(_sum_of(aside))
        shutil.rmtree(folder, ignore_errors=True)  # it is damaged if it is there
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _is_whole(folder: Path) -> bool:
    with suppress(FileNotFoundError):
        return (folder / "sum").read_text() == _sum_of(folder)
    return False


def _sum_of(folder: Path) -> str:
    return hash_of_files([folder / f"{name}.npy" for name in _ARRAYS])


def _keys_of(words: Sequence[str]) -> np.ndarray:
    keys = [
        hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=_KEY_BYTES).digest()
        for word in words
    ]
    return np.array(keys, dtype=f"S{_KEY_BYTES}")
