"""Pairs of one side, dealt into buckets that fit into memory, each a file.

A document's bucket goes by a hash of its group, so documents that share a text are in the same
one, every bucket is a random sample of its side, and neither depends on the order of the input.
What looks at other documents (cross pairs, neighbours) looks at those of the same bucket.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from reffree.hashing import hash64, mixed
from reffree.pairs import PAIR_SCHEMA, SIDES

BUCKET_PAIRS = 1 << 15
"""Pairs that a bucket holds on average; more where there would be too many files."""
BUCKET_CHARACTERS = 256 << 20
"""Text that a bucket holds on average, as well."""
MAX_FILES = 512
"""Files open at the same time, for all sides."""

_ROW_PAIRS = 1 << 32
"""More pairs than a row has."""

_BUCKET_SALT = hash64("bucket")  # no seed that a user would give: the split hashes the same keys


@dataclass(frozen=True, slots=True)
class Bucket:
    """Pairs of one side, sorted by document, each once."""

    stored: pa.Table
    """Columns of `PAIR_SCHEMA`, as they lie in the file: in any order, some pairs perhaps twice.
    Mapped, so that the texts are not in memory unless it is free."""
    rows: np.ndarray
    """Where in `stored` each pair is, int64, (n_pairs,)."""
    numbers: np.ndarray
    """Tells apart the pairs of one document, int64, (n_pairs,): the place of each among those of
    its row, and a number beyond all such places where another row has the same name and place."""
    groups: np.ndarray
    """Documents that share a text have the same; uint64, (n_pairs,)."""
    n_repeated: int
    """Pairs that were there more than once and are there once."""

    def __len__(self) -> int:
        return self.rows.size

    @property
    def pairs(self) -> pa.Table:
        """The pairs in their order; a copy, as large as all their texts."""
        return self.stored.take(pa.array(self.rows))

    def text(self, column: str, row: int) -> str:
        """Return one text of one pair."""
        return self.stored.column(column)[int(self.rows[row])].as_py()

    def other_than(self, row: int, rng: np.random.Generator) -> int | None:
        """Draw a pair of another group, each with the same chance; None if there is none."""
        is_other = self.groups != self.groups[row]
        if not is_other.any():
            return None
        while not is_other[drawn := int(rng.integers(len(self)))]:
            pass
        return drawn


class BucketWriter:
    """Deals pairs into bucket files of a folder, given how many there are and how much text."""

    def __init__(self, folder: Path, n_pairs: int, n_characters: int) -> None:
        n_needed = math.ceil(max(n_pairs / BUCKET_PAIRS, n_characters / BUCKET_CHARACTERS))
        self._n_files = max(1, min(MAX_FILES // len(SIDES), n_needed))
        self._folder = folder
        self._writers: dict[int, pa.RecordBatchFileWriter] = {}
        self.n_written: Counter[str] = Counter()
        """Pairs by side."""

    def add(self, pairs: pa.Table, sides: np.ndarray) -> None:
        """Write pairs, with the columns of `PAIR_SCHEMA`, to buckets of their places in `SIDES`."""
        keys = mixed(pairs.column("group").to_numpy(), _BUCKET_SALT)
        cells = sides.astype(np.int64) * self._n_files
        cells += (keys % np.uint64(self._n_files)).astype(np.int64)
        for cell in np.unique(cells).tolist():
            side, number = SIDES[cell // self._n_files], cell % self._n_files
            if cell not in self._writers:
                path = self._folder / f"{side}-{number:03}.arrow"
                self._writers[cell] = pa.ipc.new_file(path, PAIR_SCHEMA)
            dealt = pairs.take(pa.array(np.flatnonzero(cells == cell)))
            self._writers[cell].write_table(dealt)
            self.n_written[side] += dealt.num_rows

    def close(self) -> None:
        """Finish the files."""
        for writer in self._writers.values():
            writer.close()


def bucket_paths(folder: Path, side: str) -> list[Path]:
    """List the files of a side's buckets."""
    return sorted(folder.glob(f"{side}-*.arrow"))


def neighbours_path(bucket: Path) -> Path:
    """Name the file of a bucket's neighbours: `neighbours.nearest_others` of its pairs."""
    return bucket.with_suffix(".neighbours.npy")


def read_bucket(path: Path) -> Bucket:
    """Read a bucket."""
    with pa.memory_map(str(path)) as source:
        return bucket_of(pa.ipc.open_file(source).read_all())


def count_pairs(folder: Path, side: str) -> tuple[int, int]:
    """Count the pairs of a side, each once, and how many more were there twice."""
    n = n_repeated = 0
    for bucket in map(read_bucket, bucket_paths(folder, side)):
        n, n_repeated = n + len(bucket), n_repeated + bucket.n_repeated
    return n, n_repeated


def bucket_of(pairs: pa.Table) -> Bucket:
    """Make a bucket of pairs in any order."""
    keys, numbers = pairs.column("key").to_numpy(), pairs.column("number").to_numpy()
    contents = _contents(pairs)
    order = np.lexsort((numbers, contents, keys))
    rows = order[_is_new(keys[order], contents[order])]
    rows = rows[np.lexsort((contents[rows], numbers[rows], keys[rows]))]
    # Of pairs of one document and number, which are of several rows, the first keeps the number.
    is_new = _is_new(keys[rows], numbers[rows])
    places = np.arange(rows.size)
    n_before = places - np.maximum.accumulate(np.where(is_new, places, 0))
    return Bucket(
        stored=pairs,
        rows=rows,
        numbers=numbers[rows].astype(np.int64) + n_before * _ROW_PAIRS,
        groups=pairs.column("group").to_numpy()[rows],
        n_repeated=order.size - rows.size,
    )


def _is_new(*columns: np.ndarray) -> np.ndarray:
    """Say which rows differ from the one before; bool, (n,)."""
    is_new = np.ones(columns[0].size, dtype=bool)
    is_new[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return is_new


def _contents(pairs: pa.Table) -> np.ndarray:
    """Hash both texts of every pair, uint64."""
    columns: tuple[Any, Any] = (pairs.column("source"), pairs.column("reference"))
    hashes = (
        hash64(f"{len(source.as_py())}:{source}{reference}")
        for source, reference in zip(*columns, strict=True)
    )
    return np.fromiter(hashes, dtype=np.uint64, count=pairs.num_rows)
