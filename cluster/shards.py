"""The shards a corpus is cut into, each about the same work.

A shard is the unit of restart and of output file. The plan is made once, before anything runs;
it depends on the files and the sizes asked for only, never on the number of workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from cluster.inputs import InputFile, read_outline

TEXT_BYTES_PER_ROW = 2_048
"""A shard may have so many bytes of text for each of the rows it may have; long texts are more work
than short ones, and a shard of them has fewer rows."""

_PLANNED = ("first_row", "n_rows", "text_bytes", "row_groups")


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A run of rows of one file: whole row groups, or a range of one row group."""

    path: str
    first_row: int
    """Row in the file, from 0; the header of a CSV file is no row."""
    n_rows: int
    text_bytes: int = 0
    """Size of the text that is read, as far as the file tells before it is read."""
    row_groups: tuple[int, int] = (0, 1)
    """The first row group that holds the rows, and the one after the last."""
    skip_rows: int = 0
    """Rows to pass over at the start of the row groups."""
    version: str = field(default="", compare=False)
    """Of the file when the plan was made; not checked where it is empty."""
    content: str = field(default="", compare=False)
    """Of the file. This and what follows is put in by `with_file_facts`."""
    copy: str = field(default="", compare=False)
    """Where the rows of a file that is not Parquet are read."""
    number: int = field(default=0, compare=False)
    """Of the first row, among the rows of all files."""

    def __str__(self) -> str:
        return f"rows {self.first_row} to {self.first_row + self.n_rows - 1} of {self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """Neighbouring rows of the corpus: of one file, or of several small ones."""

    index: int
    """Place in the plan; names the output file."""
    pieces: tuple[Piece, ...]
    """In the order of the corpus; at least one."""

    @property
    def n_rows(self) -> int:
        """Rows of all pieces."""
        return sum(piece.n_rows for piece in self.pieces)

    @property
    def text_bytes(self) -> int:
        """Bytes of text of all pieces: how much work the shard is, compared with others."""
        return sum(piece.text_bytes for piece in self.pieces)

    def places(self) -> tuple[list[str], list[int], list[int]]:
        """Return the path of every piece, its first row in that file, and its rows."""
        columns = ((p.path, p.first_row, p.n_rows) for p in self.pieces)
        paths, first_rows, n_rows = map(list, zip(*columns, strict=True))
        return paths, first_rows, n_rows

    def __str__(self) -> str:
        n_more = len(self.pieces) - 1
        return f"{self.pieces[0]}{f' and {n_more} more' if n_more else ''}"

    def to_json(self, numbers: Mapping[str, int]) -> dict[str, Any]:
        """Return what `json.dumps` can write; files are named by their numbers."""
        pieces = [
            {"file": numbers[p.path], **{name: getattr(p, name) for name in _PLANNED}}
            | ({"skip_rows": p.skip_rows} if p.skip_rows else {})
            for p in self.pieces
        ]
        return {"index": self.index, "n_rows": self.n_rows, "pieces": pieces}

    @classmethod
    def from_json(cls, values: Mapping[str, Any], paths: Sequence[str]) -> Shard:
        """Make a shard from what `to_json` returned, before or after it went through JSON."""
        pieces = []
        for piece in values["pieces"]:
            planned = {name: piece[name] for name in _PLANNED}
            planned["row_groups"] = tuple(piece["row_groups"])
            skip_rows = piece.get("skip_rows", 0)
            pieces.append(Piece(path=paths[piece["file"]], skip_rows=skip_rows, **planned))
        return cls(index=values["index"], pieces=tuple(pieces))


def plan_shards(
    files: Sequence[InputFile],
    rows_per_shard: int = 20_000,
    limit: int | None = None,
) -> list[Shard]:
    """Cut the files into shards, in the order of the files and of their rows.

    They are cut at row groups: small neighbours are joined, a huge one is split into even ranges.
    What is left of a file, or a small file, shares its shard with the next ones. No shard has more
    than `rows_per_shard` rows (30 to 120 s of work is a good size) nor, unless one row does, more
    text than `TEXT_BYTES_PER_ROW` for each. With a `limit` only the first rows of the corpus count.
    JSONL and CSV come with their copies, from `reading.parquet_copy`. Raises `ValueError` if there
    are no rows, a file is broken, or a number is not positive.
    """
    for name, value in (("rows_per_shard", rows_per_shard), ("limit", limit)):
        if value is not None and value < 1:
            raise ValueError(f"`{name}` must be at least 1, got {value}")
    most = _Most(rows_per_shard, rows_per_shard * TEXT_BYTES_PER_ROW)
    packed = enumerate(_packed(_pieces(files, most, limit), most))
    shards = [Shard(index=index, pieces=pieces) for index, pieces in packed]
    if not shards:
        shown = ", ".join(file.path for file in files[:3])
        raise ValueError(f"the corpus has no rows in {shown}{', …' if len(files) > 3 else ''}")
    return shards


def with_file_facts(shards: Iterable[Shard], files: Sequence[InputFile]) -> list[Shard]:
    """Put into a plan what is known of its files, and count the rows of all."""
    by_path = {file.path: file for file in files}
    known, number = [], 0
    for shard in shards:
        pieces = []
        for piece in shard.pieces:
            file = by_path[piece.path]
            piece = replace(piece, version=file.version, content=file.content, copy=file.copy)
            pieces.append(replace(piece, number=number))
            number += piece.n_rows
        known.append(replace(shard, pieces=tuple(pieces)))
    return known


def longest_first(shards: Iterable[Shard]) -> list[Shard]:
    """Put shards of much more text than most first, so that none is left running alone at the end.

    The others, up to twice the median, keep their order: texts that repeat are near each other.
    """
    listed = list(shards)
    weights = sorted(shard.text_bytes for shard in listed)
    usual = 2 * weights[len(weights) // 2] + 1 if weights else 1
    return sorted(listed, key=lambda shard: -(shard.text_bytes // usual))


@dataclass(frozen=True, slots=True)
class _Most:
    """What one shard may hold."""

    rows: int
    text_bytes: int

    def has_room(self, n_rows: int, text_bytes: int) -> bool:
        return n_rows <= self.rows and text_bytes <= self.text_bytes

    def parts(self, n_rows: int, text_bytes: int) -> int:
        """Say into how many parts so much has to be split."""
        return min(n_rows, max(-(-n_rows // self.rows), -(-text_bytes // self.text_bytes)))


def _pieces(files: Sequence[InputFile], most: _Most, limit: int | None) -> Iterator[Piece]:
    for file in files:
        for piece in _cut(file, most, limit):
            yield piece
            limit = None if limit is None else limit - piece.n_rows
        if limit == 0:
            return


def _packed(pieces: Iterable[Piece], most: _Most) -> Iterator[tuple[Piece, ...]]:
    """Join neighbours while they fit into one shard."""
    held: list[Piece] = []
    n_rows = text_bytes = 0
    for piece in pieces:
        if held and not most.has_room(n_rows + piece.n_rows, text_bytes + piece.text_bytes):
            yield tuple(held)
            held, n_rows, text_bytes = [], 0, 0
        held.append(piece)
        n_rows, text_bytes = n_rows + piece.n_rows, text_bytes + piece.text_bytes
    if held:
        yield tuple(held)


def _cut(file: InputFile, most: _Most, limit: int | None) -> Iterator[Piece]:
    outline = file.outline or read_outline(file.path)
    first_row = 0
    for groups, n_rows, text_bytes in _joined(outline.row_groups.tolist(), most):
        n_parts = most.parts(n_rows, text_bytes)
        for begin, end in pairwise(n_rows * i // n_parts for i in range(n_parts + 1)):
            row = first_row + begin
            taken = end - begin if limit is None else min(end - begin, limit - row)
            if taken <= 0:
                return
            yield Piece(
                path=file.path,
                first_row=row,
                n_rows=taken,
                text_bytes=text_bytes * taken // n_rows,
                row_groups=groups,
                skip_rows=begin,
                version=file.version,
                copy=file.copy,
            )
        first_row += n_rows


def _joined(
    row_groups: Sequence[tuple[int, int]], most: _Most
) -> Iterator[tuple[tuple[int, int], int, int]]:
    """Join neighbouring row groups while they fit into one shard; a larger one stays alone."""
    first = n_rows = n_bytes = 0
    for group, (size, weight) in enumerate(row_groups):
        if n_rows and not most.has_room(n_rows + size, n_bytes + weight):
            yield (first, group), n_rows, n_bytes
            n_rows = n_bytes = 0
        if not n_rows:
            first, n_bytes = group, 0
        n_rows, n_bytes = n_rows + size, n_bytes + weight
    if n_rows:
        yield (first, len(row_groups)), n_rows, n_bytes
