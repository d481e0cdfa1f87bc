"""Counts keys that occur more than once over all scores files, in memory that does not grow.

Keys become two hashes, which are dealt out to files by the first one: equal keys meet in the same
file, and one file after the other is small enough to sort.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cluster.schema import IDS
from cluster.store import open_input, reads_again
from cluster.worker import one_line

N_FILES = 128
"""Of hashes; each must fit in memory: a billion keys are 125 MB in each."""
_READERS = 8
"""So many files' keys are in memory at a time."""


def count_duplicate_keys(parts: Sequence[str]) -> int:
    """Count the pairs of document_id and system_id that more than one row has.

    Rows without one of the ids have no key. Two keys are the same if 128 bits of hashes are. Takes
    16 bytes a row of the folder for temporary files.
    """
    n_repeated = 0
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(N_FILES)]
        pool = stack.enter_context(ThreadPoolExecutor(_READERS))
        for first in range(0, len(parts), _READERS):
            for hashes in pool.map(_hashes, parts[first : first + _READERS]):
                places = hashes[:, 0] % N_FILES
                for place in np.unique(places):
                    files[place].write(hashes[places == place].tobytes())
        for file in files:
            file.seek(0)
            pairs = np.frombuffer(file.read(), np.uint64).reshape(-1, 2)
            n_repeated += int((np.unique(pairs, axis=0, return_counts=True)[1] > 1).sum())
    return n_repeated


def _hashes(part: str) -> np.ndarray:
    """Hash the keys of a file: uint64, shape (n, 2)."""
    try:
        return _read_hashes(part)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise ValueError(
            f"scores file {part} is damaged ({one_line(error)}); delete it to have its rows "
            "scored again"
        ) from error


@reads_again
def _read_hashes(part: str) -> np.ndarray:
    import polars as pl

    hashes = [np.empty((0, 2), np.uint64)]
    with open_input(part) as stream:
        file = pq.ParquetFile(stream)
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, columns=list(IDS))
            table.validate(full=True)  # polars panics at text that is none, in metadata, too
            keys = pl.DataFrame({name: pl.from_arrow(table[name]) for name in IDS}).drop_nulls()
            hashes.append(np.stack([keys.hash_rows(seed).to_numpy() for seed in (1, 2)], axis=1))
    return np.concatenate(hashes)
