"""Counts keys that occur more than once over all scores files, in memory that does not grow.

Keys become two hashes, which are sorted into files by the first bits; equal keys meet in the same
file, and one file after the other is small enough to sort.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cluster.inputs import READERS
from cluster.schema import IDS
from cluster.store import is_url, open_input, reads_again
from cluster.worker import one_line

N_FILES = 256
"""Of hashes; each must fit in memory: a billion keys are 64 MB in each."""
ROWS_AT_ONCE = 100_000
"""So many are sorted into files together; a shard has too few for 256 files."""
_READERS = 8
_SEEDS = (1, 2)


def count_duplicate_keys(parts: Sequence[str]) -> int:
    """Count the pairs of document_id and system_id that more than one row has.

    Only the two columns are read. Rows without one of the ids have no key. Two keys are the same
    if 128 bits of hashes are. Takes 16 bytes a row of the folder for temporary files.
    """
    with tempfile.TemporaryDirectory(prefix="assay-keys-") as name:
        paths = [Path(name, f"{i:03}") for i in range(N_FILES)]
        for hashes in _gathered(_hashed(parts)):
            places = (hashes[:, 0] >> np.uint64(56)).astype(np.int64)
            order = np.argsort(places, kind="stable")
            ends = np.cumsum(np.bincount(places, minlength=N_FILES))
            for path, some in zip(paths, np.split(hashes[order], ends[:-1]), strict=True):
                if len(some):
                    with path.open("ab") as file:
                        some.tofile(file)
        return sum(_repeated(np.fromfile(path, np.uint64)) for path in paths if path.exists())


def _hashed(parts: Sequence[str]) -> Iterator[np.ndarray]:
    """Hash the keys of every file: uint64, shape (n, 2)."""
    n_readers = READERS if parts and is_url(parts[0]) else _READERS
    with ThreadPoolExecutor(n_readers) as pool:
        for first in range(0, len(parts), n_readers):
            yield from pool.map(_hashes, parts[first : first + n_readers])


def _gathered(hashes: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    held: list[np.ndarray] = []
    for some in hashes:
        held.append(some)
        if sum(map(len, held)) >= ROWS_AT_ONCE:
            yield np.concatenate(held)
            held = []
    if held:
        yield np.concatenate(held)


def _hashes(part: str) -> np.ndarray:
    try:
        hashes = _read_hashes(part)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise ValueError(
            f"scores file {part} is damaged ({one_line(error)}); delete it to have its rows "
            "scored again"
        ) from error
    return np.concatenate(hashes) if hashes else np.empty((0, len(_SEEDS)), dtype=np.uint64)


@reads_again
def _read_hashes(part: str) -> list[np.ndarray]:
    """Hash the ids of each row group."""
    import polars as pl

    hashes = []
    with open_input(part) as stream:
        file = pq.ParquetFile(stream)
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=list(IDS))
            table.validate(full=True)  # polars panics at text that is none, in metadata, too
            keys = pl.DataFrame({name: pl.from_arrow(table[name]) for name in IDS}).drop_nulls()
            hashes.append(np.stack([keys.hash_rows(seed).to_numpy() for seed in _SEEDS], axis=1))
    return hashes


def _repeated(hashes: np.ndarray) -> int:
    """Count the distinct rows that occur more than once."""
    pairs = hashes.reshape(-1, 2)
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    is_same = (pairs[1:] == pairs[:-1]).all(axis=1)
    # The first of a run of equal rows: same as the next, but not as the one before.
    is_first = is_same & ~np.concatenate([[False], is_same[:-1]])
    return int(is_first.sum())
