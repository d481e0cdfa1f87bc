"""Pairs of one side, dealt into buckets that fit into memory, each a file.

A document's bucket goes by a hash of its group, so documents that share a text are in the same
one, every bucket is a random sample of its side, and neither depends on the order of the input.
What looks at other documents (cross pairs, neighbours) looks at those of the same bucket.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from reffree.hashing import hash64, mixed
from reffree.training_pairs.rows import PAIR_SCHEMA, SIDES

BUCKET_PAIRS = 1 << 15
"""Pairs that a bucket holds on average; more where there would be too many files."""
BUCKET_CHARACTERS = 256 << 20  # text that a bucket holds on average, as well
MAX_FILES = 512  # files open at the same time, for all sides

LEAD_CHARACTERS = 1_200  # a document counts by so much of its beginning (about 200 words)
NEAR_IDENTICAL = 0.8
"""Documents with a higher cosine tell the same story, so that the reference of one may be right
for the other; they are no neighbours."""

_SPARE = 16  # neighbours that may turn out to be of the same group
_NOTHING_SHARED = 1e-9  # cosine of texts without a common word, but for rounding
_ROW_PAIRS = 1 << 32  # more pairs than a row has
_ROWS_AT_ONCE = 1_000
_BUCKET_SALT = hash64("bucket")  # no seed that a user would give: the split hashes the same keys


@dataclass(frozen=True, slots=True)
class Bucket:
    """Pairs of one side, each once, sorted by the hashes of their documents."""

    pairs: pa.Table
    """Columns of `PAIR_SCHEMA`; mapped, so that texts are not in memory unless it is free."""
    groups: np.ndarray  # documents that share a text have the same; uint64, (n_pairs,)

    def __len__(self) -> int:
        return self.pairs.num_rows

    def text(self, column: str, row: int) -> str:
        """Return one text of one pair."""
        return self.pairs.column(column)[row].as_py()

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
        self._writers: dict[tuple[str, int], pa.RecordBatchFileWriter] = {}
        self.n_written: Counter[str] = Counter()  # pairs by side
        self.n_repeated: Counter[str] = Counter()
        """Pairs by side that were there more than once; after `close` they are there once."""

    def add(self, pairs: pa.Table, sides: np.ndarray) -> None:
        """Write pairs, with the columns of `PAIR_SCHEMA`, to buckets of their places in `SIDES`."""
        keys = mixed(pairs.column("group").to_numpy(), _BUCKET_SALT)
        cells = sides.astype(np.int64) * self._n_files
        cells += (keys % np.uint64(self._n_files)).astype(np.int64)
        for cell in np.unique(cells).tolist():
            side, number = SIDES[cell // self._n_files], cell % self._n_files
            if (side, number) not in self._writers:
                path = self._path(side, number)
                self._writers[side, number] = pa.ipc.new_file(path, PAIR_SCHEMA)
            self._writers[side, number].write_table(pairs.take(np.flatnonzero(cells == cell)))

    def close(self) -> None:
        """Finish the files: sort the pairs of each, and leave out those that are there twice."""
        for (side, number), writer in self._writers.items():
            writer.close()
            n_left, n_repeated = sort_bucket(self._path(side, number))
            self.n_written[side] += n_left
            self.n_repeated[side] += n_repeated

    def _path(self, side: str, number: int) -> Path:
        return self._folder / f"{side}-{number:03}.arrow"


def bucket_paths(folder: Path, side: str) -> list[Path]:
    """List the files of a side's buckets."""
    return sorted(folder.glob(f"{side}-*.arrow"))


def neighbours_path(bucket: Path) -> Path:
    """Name the file of a bucket's neighbours: `nearest_others` of its pairs."""
    return bucket.with_suffix(".neighbours.npy")


def read_bucket(path: Path) -> Bucket:
    """Read the bucket of a file."""
    with pa.memory_map(str(path)) as source:
        pairs = pa.ipc.open_file(source).read_all()
    return Bucket(pairs, pairs.column("group").to_numpy())


def sort_bucket(path: Path) -> tuple[int, int]:
    """Sort the pairs of a file by document, number and texts, and keep each once.

    Returns how many are left, and how many were there more than once. Where several rows have one
    document and number, all but the first get numbers beyond all that a row has: what is drawn at
    random goes by the number.
    """
    bucket = read_bucket(path)
    pairs, text = bucket.pairs, bucket.text
    keys, numbers = pairs.column("key").to_numpy(), pairs.column("number").to_numpy()
    texts = ((text("source", row), text("reference", row)) for row in range(len(bucket)))
    hashes = (hash64(f"{len(source)}:{source}{reference}") for source, reference in texts)
    contents = np.fromiter(hashes, dtype=np.uint64, count=pairs.num_rows)
    order = np.lexsort((numbers, contents, keys))
    rows = order[_is_new(keys[order], contents[order])]
    rows = rows[np.lexsort((contents[rows], numbers[rows], keys[rows]))]
    is_new = _is_new(keys[rows], numbers[rows])
    places = np.arange(rows.size)
    n_before = places - np.maximum.accumulate(np.where(is_new, places, 0))
    numbers = numbers[rows] + n_before * _ROW_PAIRS
    partial = path.with_suffix(".partial")
    with pa.ipc.new_file(partial, PAIR_SCHEMA) as writer:
        for start in range(0, rows.size, _ROWS_AT_ONCE):
            some = slice(start, start + _ROWS_AT_ONCE)
            cells = {
                name: [pairs.column(name)[row].as_py() for row in rows[some].tolist()]
                for name in PAIR_SCHEMA.names
            }
            writer.write_table(pa.table(cells | {"number": numbers[some]}, schema=PAIR_SCHEMA))
    partial.replace(path)
    return rows.size, order.size - rows.size


def _is_new(*columns: np.ndarray) -> np.ndarray:
    """Say which rows differ from the one before; bool, (n,)."""
    is_new = np.ones(columns[0].size, dtype=bool)
    is_new[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return is_new


def find_neighbours(folder: Path, sides: Sequence[str], k: int) -> None:
    """Find the nearest other documents of all pairs of some sides; write a file to each bucket.

    By the words of their leads, within a bucket: among 2**15 documents that is near enough to be on
    the same topic.
    """
    for side in sides:
        for path in bucket_paths(folder, side):
            bucket = read_bucket(path)
            leads = [bucket.text("source", row)[:LEAD_CHARACTERS] for row in range(len(bucket))]
            np.save(neighbours_path(path), nearest_others(leads, bucket.groups, k))


def nearest_others(texts: Sequence[str], groups: np.ndarray, k: int) -> np.ndarray:
    """Find by TF-IDF the k nearest texts of each, of another group and not near identical.

    Gives places, int32, shape (n, k), the nearest first; -1 where fewer share a word.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.neighbors import NearestNeighbors

    n = len(texts)
    vectors = TfidfVectorizer(sublinear_tf=True, token_pattern=r"(?u)\w+").fit_transform(texts)
    search = NearestNeighbors(metric="cosine", algorithm="brute").fit(vectors)
    distances, places = search.kneighbors(vectors, n_neighbors=min(n, k + _SPARE))
    is_out = (distances < 1 - NEAR_IDENTICAL) | (distances >= 1 - _NOTHING_SHARED)
    is_out |= groups[places] == groups[:, None]
    order = np.argsort(is_out, axis=1, kind="stable")[:, :k]
    nearest = np.full((n, k), -1, dtype=np.int32)
    kept = np.take_along_axis(np.where(is_out, -1, places), order, axis=1)
    nearest[:, : kept.shape[1]] = kept
    return nearest
