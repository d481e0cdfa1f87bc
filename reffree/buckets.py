"""Pairs of one side, dealt into buckets that fit into memory, each a file.

A document's bucket goes by a hash of its group, so documents that share a text are in the same
one, every bucket is a random sample of its side, and neither depends on the order of the input.
What looks at other documents (cross pairs, neighbours) looks at those of the same bucket.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from reffree.hashing import hash64, mixed
from reffree.pairs import PAIR_SCHEMA, SIDES

BUCKET_PAIRS = 1 << 15
"""Pairs that a bucket holds on average, at most."""
BUCKET_CHARACTERS = 256 << 20
"""Text that a bucket holds on average, at most."""
MAX_FILES = 512
"""Files open at the same time, for all sides; where more are needed, pairs are dealt twice."""

_ROW_PAIRS = 1 << 32
"""More pairs than a row has."""

# No seed that a user would give: the split hashes the same keys with that, and donors in its order
# would all lie in the slice of the hashes that is the side they are for.
_BUCKET_SALT = hash64("bucket")
_DONOR_SALT = hash64("donor")
_PART_SALT = hash64("part")


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
    donors: np.ndarray
    """The pairs by a hash of their document, int64, (n_pairs,); see `other_than`."""
    donor_hashes: np.ndarray
    """Those hashes, sorted; uint64, (n_pairs,)."""

    def __len__(self) -> int:
        return self.rows.size

    @property
    def pairs(self) -> pa.Table:
        """The pairs in their order; a copy, as large as all their texts."""
        return self.stored.take(pa.array(self.rows))

    def text(self, column: str, row: int) -> str:
        """Return one text of one pair."""
        found: str = self._cell(column, row)
        return found

    def number(self, row: int) -> int:
        """Return what tells one pair from the others of its document."""
        return int(self.numbers[row])

    def _cell(self, column: str, row: int) -> Any:  # noqa: ANN401  (text or number)
        return self.stored.column(column)[int(self.rows[row])].as_py()

    def other_than(self, row: int, point: int) -> int | None:
        """Return the pair of another group that a random number chooses; None if there is none.

        It is the first whose hash is not below `point`, going round. So a further document in
        the bucket changes the choice only for the numbers that now choose that document.
        """
        n = len(self)
        start = int(np.searchsorted(self.donor_hashes, np.uint64(point)))
        for step in range(n):
            other = int(self.donors[(start + step) % n])
            if self.groups[other] != self.groups[row]:
                return other
        return None


class BucketWriter:
    """Deals pairs into bucket files.

    Parameters
    ----------
    folder : Path
        Where the files are made.
    n_pairs, n_characters : int
        How many there are on all sides, and how much text.
    """

    def __init__(self, folder: Path, n_pairs: int, n_characters: int) -> None:
        n_needed = max(1, math.ceil(max(n_pairs / BUCKET_PAIRS, n_characters / BUCKET_CHARACTERS)))
        self._n_files = min(MAX_FILES // len(SIDES), n_needed)
        self._n_parts = math.ceil(n_needed / self._n_files)
        self._folder = folder
        self._writers: dict[Path, pa.RecordBatchFileWriter] = {}
        self.n_written: Counter[str] = Counter()
        """Pairs by side."""

    def add(self, pairs: pa.Table, sides: np.ndarray) -> None:
        """Write pairs to the buckets of their sides.

        Parameters
        ----------
        pairs : pyarrow.Table
            Columns of `PAIR_SCHEMA`.
        sides : ndarray of int8, shape (n,)
            Places in `SIDES`.
        """
        cells = sides.astype(np.int64) * self._n_files + _dealt(pairs, self._n_files, _BUCKET_SALT)
        for cell, dealt in _by_place(pairs, cells):
            side = SIDES[cell // self._n_files]
            self._writer(bucket_path(self._folder, side, cell % self._n_files)).write_table(dealt)
            self.n_written[side] += dealt.num_rows

    def close(self) -> None:
        """Finish the files; deal each once more where they are too few."""
        for writer in self._writers.values():
            writer.close()
        if self._n_parts > 1:
            for path in self._writers:
                _deal_again(path, self._n_parts)

    def _writer(self, path: Path) -> pa.RecordBatchFileWriter:
        if path not in self._writers:
            self._writers[path] = pa.ipc.new_file(path, PAIR_SCHEMA)
        return self._writers[path]


def _dealt(pairs: pa.Table, n_places: int, salt: int) -> np.ndarray:
    """Choose a place for every pair, by its group; int64."""
    groups = pairs.column("group").to_numpy()
    return (mixed(groups, salt) % np.uint64(n_places)).astype(np.int64)


def _by_place(pairs: pa.Table, places: np.ndarray) -> Iterator[tuple[int, pa.Table]]:
    """Give the pairs of every place there is."""
    for place in np.unique(places).tolist():
        yield place, pairs.take(pa.array(np.flatnonzero(places == place)))


def _deal_again(path: Path, n_parts: int) -> None:
    """Deal the pairs of a file into several, and delete it."""
    writers: dict[int, pa.RecordBatchFileWriter] = {}
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        for batch in map(reader.get_batch, range(reader.num_record_batches)):
            pairs = pa.Table.from_batches([batch])
            for part, dealt in _by_place(pairs, _dealt(pairs, n_parts, _PART_SALT)):
                if part not in writers:
                    name = path.with_name(f"{path.stem}-{part:02}{path.suffix}")
                    writers[part] = pa.ipc.new_file(name, PAIR_SCHEMA)
                writers[part].write_table(dealt)
    for writer in writers.values():
        writer.close()
    path.unlink()


def bucket_path(folder: Path, side: str, number: int) -> Path:
    """Name a bucket's file."""
    return folder / f"{side}-{number:03}.arrow"


def bucket_paths(folder: Path, side: str) -> list[Path]:
    """List the files of a side's buckets."""
    return sorted(folder.glob(f"{side}-*.arrow"))


def neighbours_path(bucket: Path) -> Path:
    """Name the file of a bucket's neighbours: `neighbours.nearest_others` of its pairs."""
    return bucket.with_suffix(".neighbours.npy")


def read_bucket(path: Path) -> tuple[Bucket, int]:
    """Read a bucket, and say how many pairs were there twice (and are now there once)."""
    with pa.memory_map(str(path)) as source:
        return bucket_of(pa.ipc.open_file(source).read_all())


def count_pairs(folder: Path, side: str) -> tuple[int, int]:
    """Count the pairs of a side, each once, and how many more were there twice."""
    n = n_repeated = 0
    for path in bucket_paths(folder, side):
        bucket, more = read_bucket(path)
        n, n_repeated = n + len(bucket), n_repeated + more
    return n, n_repeated


def bucket_of(pairs: pa.Table) -> tuple[Bucket, int]:
    """Make a bucket of pairs in any order, and say how many were there twice."""
    keys, numbers = pairs.column("key").to_numpy(), pairs.column("number").to_numpy()
    contents = _contents(pairs)
    order = np.lexsort((numbers, contents, keys))
    columns = (keys[order], contents[order])
    is_new = np.ones(order.size, dtype=bool)
    is_new[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    rows = order[is_new]
    rows = rows[np.lexsort((contents[rows], numbers[rows], keys[rows]))]
    hashes = mixed(keys[rows], _DONOR_SALT)
    donors = np.argsort(hashes, kind="stable")
    groups = pairs.column("group").to_numpy()[rows]
    own = _told_apart(keys[rows], numbers[rows])
    return Bucket(pairs, rows, own, groups, donors, hashes[donors]), int((~is_new).sum())


def _told_apart(keys: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Give every pair of a document another number.

    Sorted by document and then by place in the row. Of those with one number, which are of
    several rows, the first keeps it.
    """
    is_new = np.ones(keys.size, dtype=bool)
    is_new[1:] = (keys[1:] != keys[:-1]) | (numbers[1:] != numbers[:-1])
    places = np.arange(keys.size)
    n_before = places - np.maximum.accumulate(np.where(is_new, places, 0))
    found: np.ndarray = numbers.astype(np.int64) + n_before * _ROW_PAIRS
    return found


def _contents(pairs: pa.Table) -> np.ndarray:
    """Hash both texts of every pair, uint64."""
    columns: Sequence[pa.ChunkedArray] = (pairs.column("source"), pairs.column("reference"))
    hashes = (
        hash64(f"{len(source.as_py())}:{source}{reference}")
        for source, reference in zip(*columns, strict=True)
    )
    return np.fromiter(hashes, dtype=np.uint64, count=pairs.num_rows)
