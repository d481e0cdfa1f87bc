"""The shards a corpus is cut into, each about the same work.

A shard is the unit of restart and of output file. The plan is made once, before anything runs;
it depends on the files and the sizes asked for only, never on the number of workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import Any

from cluster.inputs import READERS, InputFile, format_of, read_outline
from cluster.reading import text_layout
from cluster.records import iter_records
from cluster.store import open_input

TEXT_BYTES_PER_ROW = 2_048
"""A shard may have so many bytes of text for each of the rows it may have; long texts are more work
than short ones, and a shard of them has fewer rows."""

_FILES_AT_ONCE = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A run of rows of one file: whole row groups, a range of one row group, or a byte range."""

    path: str
    first_row: int
    """Row in the file, from 0; the header of a CSV file is no row."""
    n_rows: int
    text_bytes: int = 0
    """Size of the text that is read, as far as the file tells before it is read."""
    row_groups: tuple[int, int] | None = None
    """Parquet: the first row group that holds the rows, and the one after the last."""
    skip_rows: int = 0
    """Parquet: rows to pass over at the start of the row groups."""
    byte_range: tuple[int, int] | None = None
    """JSONL and CSV: begins and ends where a record does."""
    version: str = field(default="", compare=False)
    """Of the file when the plan was made; not checked where it is empty."""
    content: str = field(default="", compare=False)
    """Of the file, where `knowing` has put it in."""

    @property
    def format(self) -> str:
        """One of `parquet`, `jsonl`, `csv`."""
        return format_of(self.path)

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

    def place_of(self, row: int) -> tuple[str, int]:
        """Say which row of which file a row of the shard is."""
        for piece in self.pieces:
            if row < piece.n_rows:
                return piece.path, piece.first_row + row
            row -= piece.n_rows
        raise IndexError(f"`row` must be below {self.n_rows}")

    def __str__(self) -> str:
        n_more = len(self.pieces) - 1
        return f"{self.pieces[0]}{f' and {n_more} more' if n_more else ''}"

    def to_json(self, numbers: Mapping[str, int]) -> dict[str, Any]:
        """Return what `json.dumps` can write; files are named by their numbers."""
        pieces = [_piece_to_json(piece, numbers[piece.path]) for piece in self.pieces]
        return {"index": self.index, "n_rows": self.n_rows, "pieces": pieces}

    @classmethod
    def from_json(cls, values: Mapping[str, Any], paths: Sequence[str]) -> Shard:
        """Make a shard from what `to_json` returned, before or after it went through JSON."""
        pieces = tuple(_piece_from_json(piece, paths) for piece in values["pieces"])
        return cls(index=values["index"], pieces=pieces)


def plan_shards(
    files: Sequence[InputFile],
    rows_per_shard: int = 20_000,
    limit: int | None = None,
) -> list[Shard]:
    """Cut the files into shards, in the order of the files and of their rows.

    Parquet is cut at row groups: small neighbours are joined, a huge one is split into even
    ranges. JSONL and CSV are read through once, a block at a time, and cut between records. What
    is left of a file, or a small file, shares its shard with the next ones.

    Parameters
    ----------
    files : sequence of InputFile
        From `list_inputs`.
    rows_per_shard : int
        No shard has more rows, nor, unless one row does, more text than `TEXT_BYTES_PER_ROW` for
        each. 30 to 120 s of work is a good size.
    limit : int, optional
        Keep only the first rows of the whole corpus.

    Raises
    ------
    ValueError
        If there are no rows, a file is broken, or a number is not positive.
    """
    if rows_per_shard < 1:
        raise ValueError(f"`rows_per_shard` must be at least 1, got {rows_per_shard}")
    if limit is not None and limit < 1:
        raise ValueError(f"`limit` must be at least 1, got {limit}")
    most = _Most(rows_per_shard, rows_per_shard * TEXT_BYTES_PER_ROW)
    pieces = _all_pieces(files, most) if limit is None else _first(files, most, limit)
    shards = [
        Shard(index=index, pieces=packed) for index, packed in enumerate(_packed(pieces, most))
    ]
    if not shards:
        shown = ", ".join(file.path for file in files[:3])
        raise ValueError(f"the corpus has no rows in {shown}{', …' if len(files) > 3 else ''}")
    return shards


def knowing(shards: Iterable[Shard], contents: Mapping[str, str]) -> list[Shard]:
    """Put into a plan what each file's content is, by path."""
    return [
        replace(
            shard,
            pieces=tuple(replace(piece, content=contents[piece.path]) for piece in shard.pieces),
        )
        for shard in shards
    ]


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


def _all_pieces(files: Sequence[InputFile], most: _Most) -> Iterator[Piece]:
    def cut(file: InputFile) -> list[Piece]:
        return list(_cut(file, most, None))

    with ThreadPoolExecutor(READERS) as pool:
        left = iter(files)
        while some := list(islice(left, _FILES_AT_ONCE)):
            must_wait = any(file.outline is None for file in some)
            for pieces in pool.map(cut, some) if must_wait else map(cut, some):
                yield from pieces


def _first(files: Sequence[InputFile], most: _Most, limit: int) -> Iterator[Piece]:
    for file in files:
        for piece in _cut(file, most, limit):
            yield piece
            limit -= piece.n_rows
        if not limit:
            return


def _cut(file: InputFile, most: _Most, limit: int | None) -> Iterator[Piece]:
    if file.format == "parquet":
        return _cut_parquet(file, most, limit)
    return _cut_text(file, most, limit)


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


def _cut_parquet(file: InputFile, most: _Most, limit: int | None) -> Iterator[Piece]:
    outline = file.outline or read_outline(file.path)
    first_row = 0
    for groups, n_rows, text_bytes in _joined(outline.rows(), outline.text_bytes(), most):
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
            )
        first_row += n_rows


def _joined(
    rows: Sequence[int], text_bytes: Sequence[int], most: _Most
) -> Iterator[tuple[tuple[int, int], int, int]]:
    """Join neighbouring row groups while they fit into one shard; a larger one stays alone."""
    first = n_rows = n_bytes = 0
    for group, (size, weight) in enumerate(zip(rows, text_bytes, strict=True)):
        if n_rows and not most.has_room(n_rows + size, n_bytes + weight):
            yield (first, group), n_rows, n_bytes
            n_rows = n_bytes = 0
        if not n_rows:
            first, n_bytes = group, 0
        n_rows, n_bytes = n_rows + size, n_bytes + weight
    if n_rows:
        yield (first, len(rows)), n_rows, n_bytes


def _cut_text(file: InputFile, most: _Most, limit: int | None) -> Iterator[Piece]:
    first_row, n_rows = 0, 0
    with open_input(file.path) as stream:
        begin, find_ends = text_layout(stream, file.format, file.path)
        end = begin
        for records in iter_records(stream, begin, file.size, find_ends):
            ends = records.offset + records.ends
            taken = 0
            while taken < len(records):
                room = most.rows if limit is None else min(most.rows, limit - first_row)
                # Rows that end within the bytes a shard may have, but at least one.
                fits = int(ends.searchsorted(begin + most.text_bytes, side="right")) - taken
                fits = min(max(fits, 0 if n_rows else 1), room - n_rows, len(records) - taken)
                taken, n_rows = taken + fits, n_rows + fits
                end = int(ends[taken - 1]) if fits else end
                if n_rows < room and taken == len(records):
                    continue
                yield _text_piece(file, first_row, n_rows, (begin, end))
                first_row, n_rows, begin = first_row + n_rows, 0, end
                if first_row == limit:
                    return
    if n_rows:
        yield _text_piece(file, first_row, n_rows, (begin, end))


def _text_piece(file: InputFile, first_row: int, n_rows: int, byte_range: tuple[int, int]) -> Piece:
    return Piece(
        path=file.path,
        first_row=first_row,
        n_rows=n_rows,
        text_bytes=byte_range[1] - byte_range[0],
        byte_range=byte_range,
        version=file.version,
    )


def _piece_to_json(piece: Piece, number: int) -> dict[str, Any]:
    values: dict[str, Any] = {
        "file": number,
        "first_row": piece.first_row,
        "n_rows": piece.n_rows,
        "text_bytes": piece.text_bytes,
    }
    if piece.row_groups is not None:
        values["row_groups"] = list(piece.row_groups)
    if piece.skip_rows:
        values["skip_rows"] = piece.skip_rows
    if piece.byte_range is not None:
        values["byte_range"] = list(piece.byte_range)
    return values


def _piece_from_json(values: Mapping[str, Any], paths: Sequence[str]) -> Piece:
    row_groups, byte_range = values.get("row_groups"), values.get("byte_range")
    return Piece(
        path=paths[values["file"]],
        first_row=values["first_row"],
        n_rows=values["n_rows"],
        text_bytes=values["text_bytes"],
        row_groups=None if row_groups is None else (row_groups[0], row_groups[1]),
        skip_rows=values.get("skip_rows", 0),
        byte_range=None if byte_range is None else (byte_range[0], byte_range[1]),
    )
