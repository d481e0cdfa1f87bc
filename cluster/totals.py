"""What all scores of a run come to: means, statuses and repeated keys, asked of its scores files.

Nothing of this is kept anywhere else. Files are read batch by batch, several at a time, so that the
memory needed does not grow with the run.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from threading import Lock
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cluster.parts import STATUS
from cluster.schema import IDS, SYSTEM_ID
from cluster.scores_files import check_rows, fields_of, open_parquet
from cluster.store import reads_again

_BATCH_ROWS = 1 << 16
_READERS = 8
"""So many scores files are read at a time."""
_PART_BITS = 35
_UNIT_BITS = 2 * _PART_BITS
"""A score is cut into what is before the binary point, and twice 35 bits behind it. The sum of such
a part over a batch is a whole number below 2**53 (if no score is above 2**37), which a float holds
exactly, and so Python adds whole numbers."""
_N_KEY_FILES = 128
"""Of the hashes of keys; each must fit in memory: a billion keys are 125 MB in each."""
_IN_MEMORY = 1 << 20
"""Bytes of such a file that are not written to the disk."""
_ODD = np.uint64(0x9E3779B97F4A7C15)


class ScoreTotals:
    """Sums and counts of scores. They are exact, so every plan and every order gives the same."""

    def __init__(self) -> None:
        self.n_rows = 0
        self.statuses: Counter[str] = Counter()  # rows by status; rows that are fine have none
        # Pairs of document_id and system_id that several rows have; rows that lack one have no key.
        self.n_repeated_keys = 0
        # By system, then by column. Rows without a system are of system "".
        self._sums: dict[str, dict[str, float]] = {}  # in units of 2**-70, see `exact_sums`
        self._counts: dict[str, dict[str, int]] = {}

    def add_rows(self, rows: pa.RecordBatch, fields: Sequence[str]) -> None:
        """Add the scores and statuses of some rows."""
        self.n_rows += len(rows)
        self.statuses.update(rows[STATUS].drop_null().to_pylist())
        systems = pc.fill_null(rows[SYSTEM_ID], "").dictionary_encode()
        names, codes = systems.dictionary.to_pylist(), systems.indices.to_numpy()
        for field in fields:
            codes_there = codes[np.asarray(rows[field].is_valid())]
            counts = np.bincount(codes_there, minlength=len(names)).tolist()
            sums = exact_sums(rows[field].drop_null().to_numpy(), codes_there, len(names))
            for name, count, total in zip(names, counts, sums, strict=True):
                self._add(name, field, count, total)

    def add_totals(self, other: ScoreTotals) -> None:
        """Add those of other files."""
        self.n_rows += other.n_rows
        self.statuses.update(other.statuses)
        for system, of_system in other._sums.items():
            for field, total in of_system.items():
                self._add(system, field, other._counts[system][field], total)

    def _add(self, system: str, field: str, count: int, total: float) -> None:
        counts, sums = self._counts.setdefault(system, {}), self._sums.setdefault(system, {})
        counts[field] = counts.get(field, 0) + count
        sums[field] = sums.get(field, 0) + total

    def means(self) -> dict[str, dict[str, float]]:
        """Average the scores of each system, rounding once; NaN of none. Systems are sorted."""
        return {
            system: {
                field: self._sums[system][field] / (n << _UNIT_BITS) if n else math.nan
                for field, n in counts.items()
            }
            for system, counts in sorted(self._counts.items())
        }

    def counts(self) -> dict[str, dict[str, int]]:
        """Count the scores of each system; systems are sorted."""
        return dict(sorted(self._counts.items()))


def exact_sums(scores: np.ndarray, codes: np.ndarray, n_codes: int) -> list[float]:
    """Sum the scores of each code, as whole numbers of units of 2**-70; smaller bits are cut off.

    A score that is not finite makes the sum so.

    >>> [total / 2**70 for total in exact_sums(np.array([0.5, 0.25, 3.0]), np.array([0, 0, 1]), 2)]
    [0.75, 3.0]
    """
    parts, rest = [], scores
    with np.errstate(invalid="ignore"):  # infinity less infinity
        for _ in range(3):
            whole = np.trunc(rest)
            parts.append(np.bincount(codes, weights=whole, minlength=n_codes).tolist())
            rest = (rest - whole) * 2.0**_PART_BITS
    return [
        (int(a) << _UNIT_BITS) + (int(b) << _PART_BITS) + int(c) if math.isfinite(a) else a
        for a, b, c in zip(*parts, strict=True)
    ]


def total_scores(paths: Sequence[str]) -> ScoreTotals:
    """Ask scores files what their scores come to; each is opened once.

    Keys are counted by their hashes, which are dealt out to temporary files (of 16 bytes a row) so
    that equal ones meet in one file, which is small enough to sort. Raises `ValueError` if a file
    is damaged.
    """
    totals, lock = ScoreTotals(), Lock()

    def add_file(path: str) -> None:
        of_file, hashes = _totals_and_hashes(path)
        with lock:
            totals.add_totals(of_file)
            _deal_out(hashes, key_files)

    with ExitStack() as stack:
        new_file = partial(tempfile.SpooledTemporaryFile, _IN_MEMORY)
        key_files = [stack.enter_context(new_file()) for _ in range(_N_KEY_FILES)]
        with ThreadPoolExecutor(_READERS) as pool:
            list(pool.map(add_file, paths))  # raises what a thread has raised
        totals.n_repeated_keys = sum(map(_n_repeated, key_files))
    return totals


@reads_again
def _totals_and_hashes(path: str) -> tuple[ScoreTotals, np.ndarray]:
    totals, hashes = ScoreTotals(), [np.empty((0, 2), np.uint64)]
    with open_parquet(path) as file:
        fields = fields_of(file)
        columns = [*IDS, *fields, STATUS]
        for rows in file.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
            totals.add_rows(rows, fields)
            hashes.append(_hashes_of(rows.select(list(IDS)).drop_null()))
        check_rows(totals.n_rows, file.metadata.num_rows)
    return totals, np.concatenate(hashes)


def _deal_out(hashes: np.ndarray, files: Sequence[IO[bytes]]) -> None:
    places = (hashes[:, 0] % len(files)).astype(np.uint8)
    hashes = hashes[np.argsort(places, kind="stable")]
    ends = np.cumsum(np.bincount(places, minlength=len(files)))
    for file, some in zip(files, np.split(hashes, ends[:-1]), strict=True):
        file.write(some.tobytes())


def _n_repeated(file: IO[bytes]) -> int:
    """Count the hashes in a file that are there more than once."""
    file.seek(0)
    hashes = np.frombuffer(file.read(), np.uint64).reshape(-1, 2)
    # By half of their bits, which is faster: equal ones are neighbours, but for one pair in 2**64.
    hashes = hashes[np.argsort(hashes[:, 0])]
    is_again = (hashes[1:] == hashes[:-1]).all(axis=1)
    is_third_or_later = is_again[1:] & is_again[:-1]
    return int(is_again.sum() - is_third_or_later.sum())


def _hashes_of(keys: pa.RecordBatch) -> np.ndarray:
    """Hash keys by 128 bits, the same in one process: uint64, shape (n, 2)."""
    import polars as pl  # takes a moment, which workers and the start of a run do without

    # Series by series: what polars does with whole tables needs threads, which forks lack.
    document, system = (pl.Series(pl.from_arrow(column)) for column in keys.columns)
    hashes = [document.hash(seed) * _ODD + system.hash(seed).to_numpy() for seed in (1, 2)]
    return np.stack(hashes, axis=1)
