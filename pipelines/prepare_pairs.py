"""Reads pairs from files and deals them, split and checked, into a folder of buckets.

The files are read twice: once to find documents that share a text, once to deal the pairs and to
collect the training vocabulary. Memory does not grow with the number of pairs, only with that of
the documents that share a text.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from cluster import InputFile, column_names, list_inputs, resolve_columns
from cluster.reading import Wanted, read_files
from cluster.schema import DOCUMENT_ID, REFERENCES, SOURCES, SYSTEM_ID, UNREADABLE
from cluster.worker import one_line
from reffree.buckets import BucketWriter, count_pairs
from reffree.examples import PreparedFolder
from reffree.hashing import mixed
from reffree.pairs import (
    NO_SPLIT,
    SIDES,
    Pair,
    SourceSample,
    WordSample,
    as_table,
    near_keys,
    pairs_of_rows,
    text_key,
)
from reffree.splits import LEAK, Groups, TextRegister, hashed_sides
from sms.naming import OneOrMore

SPLIT = "split"
REPEATED = "pair repeated, used once"

_SAMPLE_SALT = 4

_NEEDED = (DOCUMENT_ID, SYSTEM_ID, SOURCES, REFERENCES)

_SideOf: TypeAlias = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedPairs:
    """What was read, and what became of it."""

    folder: Path
    """Has the buckets; see `reffree.buckets`."""
    vocabulary: tuple[str, ...]
    """Words of the training references."""
    n_rows: int
    n_pairs: Mapping[str, int]
    """By side."""
    left_out: Mapping[str, int]
    """Rows, texts or pairs that are not used, by reason."""
    n_shared: int
    """Documents that share a text, or nearly a source, with another one."""
    n_groups: int
    """Groups of such documents; each is on one side."""
    largest_group: int
    """Documents in the largest of them."""
    has_own_split: bool
    """Whether the files said which side a document is on."""
    source_sample: tuple[int, ...]
    """Hashes of some of the sources for training, from `SourceSample`."""

    def for_training(self) -> PreparedFolder:
        """Return what a process that trains has to know."""
        n = self.n_pairs["train"]
        return PreparedFolder(folder=self.folder, vocabulary=self.vocabulary, n_training_pairs=n)


def prepare_pairs(
    paths: OneOrMore,
    folder: Path,
    *,
    sides: Sequence[str] = SIDES,
    columns: Mapping[str, str] | None = None,
    limit: int | None = None,
    seed: int = 0,
    split_anew: bool = False,
    refuse_leaks: bool = False,
    training_documents: int | None = None,
) -> PreparedPairs:
    """Read, check, split and deal pairs.

    Files are Parquet, JSONL or CSV with `document_id`, `source` and `reference` (or `references`),
    and perhaps `split`; `columns` says what they call these, `limit` reads the first rows only.
    All `sides` must have pairs, as must that of training. `split_anew` splits by hash, with `seed`,
    even where there is a column `split`. Where that has a text on two sides, `refuse_leaks` stops;
    otherwise the documents of the earlier side are left out and counted. With `training_documents`
    only so many of the documents for training are used, of fewer a part of these; the vocabulary
    stays that of all, and other sides stay what they are.
    """
    reader = _Reader.of(paths, dict(columns or {}), limit, split_anew=split_anew)
    folder.mkdir(parents=True)
    with closing(TextRegister(folder / "texts")) as register:
        n_pairs, n_characters = _register_texts(reader, register)
        groups = register.groups()
        split = _Split(groups=groups, seed=seed, is_own=reader.split_column is not None)
        if refuse_leaks and groups.has_leak.any():
            raise ValueError(
                f"`{SPLIT}` must keep every text on one side, got {_leaks(register, _as_read)}; "
                "leave out `leaks` in the `--config` file to drop them, or set `split_anew = "
                "true` there"
            )
        writer = BucketWriter(folder, n_pairs, n_characters)
        sample = _Sample.of(register, split, training_documents)
        vocabulary, sources, left_out = _deal(reader, split, sample, writer)
        if leaks := _leaks(register, split.sides_of):
            raise RuntimeError(f"the split must keep every text on one side, got {leaks}")
    _check_sides(writer.n_written, {SIDES[0], *sides}, reader.split_column, left_out)
    sizes = groups.sizes
    return PreparedPairs(
        folder=folder, vocabulary=vocabulary, source_sample=sources,
        n_rows=reader.n_rows,
        n_pairs={side: writer.n_written[side] for side in SIDES},
        left_out=dict(left_out.most_common()),
        n_shared=int(sizes.sum()), n_groups=sizes.size, largest_group=int(sizes.max(initial=0)),
        has_own_split=reader.split_column is not None,
    )  # fmt: skip


def prepare_anew(
    paths: OneOrMore,
    folder: Path,
    **options: Any,  # noqa: ANN401  (of `prepare_pairs`)
) -> PreparedPairs:
    """Prepare pairs in the place of what is there, and count those that are there twice once.

    Also for a run that goes on: they follow from the request. Reads all texts once more.
    """
    shutil.rmtree(folder, ignore_errors=True)
    pairs = prepare_pairs(paths, folder, **options)
    counts = {side: count_pairs(pairs.folder, side) for side in pairs.n_pairs}
    n_repeated = sum(more for _, more in counts.values())
    left_out = {**pairs.left_out, **({REPEATED: n_repeated} if n_repeated else {})}
    return replace(pairs, n_pairs={side: n for side, (n, _) in counts.items()}, left_out=left_out)


@dataclass(slots=True)
class _Reader:
    """Reads the pairs of all files, as often as asked."""

    files: Sequence[InputFile]
    wanted: Wanted
    limit: int | None
    split_column: str | None
    n_rows: int = 0
    """Rows that were read the last time."""

    @classmethod
    def of(
        cls,
        paths: OneOrMore,
        columns: dict[str, str],
        limit: int | None,
        *,
        split_anew: bool,
    ) -> _Reader:
        """Check the columns of all files and plan what is read."""
        files = list_inputs(paths)
        named = columns.pop(SPLIT, None)
        try:
            names = {file.path: column_names(file.path, file.format) for file in files}
        except (pa.ArrowException, KeyError) as error:
            raise ValueError(f"cannot read the pairs: {one_line(error)}") from error
        split = None if split_anew else _split_column(names, named)
        # A corpus has `system_id`, pairs have none: its place takes the side, where there is one.
        columns[SYSTEM_ID] = split or columns.get(DOCUMENT_ID, DOCUMENT_ID)
        for path, columns_there in names.items():
            resolve_columns(columns_there, _NEEDED, columns, where=path)
        return cls(files, Wanted(needed=_NEEDED, columns=columns), limit, split)

    def batches(self, left_out: Counter[str]) -> Iterator[list[Pair]]:
        """Read all pairs, counting what is left out."""
        self.n_rows = 0
        for table in read_files(self.files, self.wanted, limit=self.limit):
            self.n_rows += table.num_rows
            cells = {name: table.column(name).to_pylist() for name in table.column_names}
            yield pairs_of_rows(
                cells[DOCUMENT_ID],
                cells[SOURCES],
                cells[REFERENCES],
                cells[SYSTEM_ID] if self.split_column else None,
                cells[UNREADABLE],
                left_out,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    """Says which side a document is on."""

    groups: Groups
    seed: int
    is_own: bool

    def sides_of(self, keys: np.ndarray, own_sides: np.ndarray) -> np.ndarray:
        """Return the documents' sides, negative for those that are left out."""
        if self.is_own:
            return np.where(self.groups.is_leak(keys, own_sides), NO_SPLIT, own_sides)
        return hashed_sides(self.groups.group_of(keys), seed=self.seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    """Says which of the documents for training are used."""

    seed: int
    last: int
    """Largest hash of one that is."""

    @classmethod
    def of(cls, register: TextRegister, split: _Split, n_documents: int | None) -> _Sample:
        """Choose so many documents, or all."""
        if n_documents is None:
            return cls(seed=split.seed, last=int(np.iinfo(np.uint64).max))
        hashes = np.sort(
            np.concatenate(
                [
                    _sample_hashes(keys[split.sides_of(keys, own_sides) == 0], split.seed)
                    for keys, own_sides in register.documents()
                ]
            )
        )
        if not 1 <= n_documents <= hashes.size:
            raise ValueError(
                f"`training_documents` must be from 1 to what there are, {hashes.size:,}, got "
                f"{n_documents:,}"
            )
        return cls(seed=split.seed, last=int(hashes[n_documents - 1]))

    def has(self, keys: np.ndarray) -> np.ndarray:
        """Return whether each document is used, bool."""
        return _sample_hashes(keys, self.seed) <= np.uint64(self.last)


def _sample_hashes(keys: np.ndarray, seed: int) -> np.ndarray:
    return mixed(mixed(keys, _SAMPLE_SALT), seed)


def _split_column(names: Mapping[str, Sequence[str]], named: str | None) -> str | None:
    """Find the column that says the side: in every file, or in none."""
    column = named or SPLIT
    without = [path for path, columns in names.items() if column not in columns]
    if not without:
        return column
    if named is None and len(without) == len(names):
        return None
    raise ValueError(
        f"column `{column}` must be in every file, got {without[0]} without it; "
        "`split_anew = true` in the `--config` file splits by document instead"
    )


def _register_texts(reader: _Reader, register: TextRegister) -> tuple[int, int]:
    """Note which document has which texts; return the numbers of pairs and characters."""
    n_pairs = n_characters = 0
    for pairs in reader.batches(Counter()):
        entries = [
            (text, pair.key, pair.side)
            for pair in pairs
            for text in (
                pair.key,
                text_key(pair.source),
                text_key(pair.reference),
                *near_keys(pair.source),
            )
            if text is not None
        ]
        n_pairs += len(pairs)
        n_characters += sum(len(pair.source) + len(pair.reference) for pair in pairs)
        texts, keys, sides = zip(*entries, strict=True) if entries else ((), (), ())
        register.add(
            np.array(texts, dtype=np.uint64),
            np.array(keys, dtype=np.uint64),
            np.array(sides, dtype=np.int8),
        )
    return n_pairs, n_characters


def _deal(
    reader: _Reader, split: _Split, sample: _Sample, writer: BucketWriter
) -> tuple[tuple[str, ...], tuple[int, ...], Counter[str]]:
    """Write the pairs to their buckets.

    Returns the vocabulary and some of the sources for training, and what was left out.
    """
    left_out: Counter[str] = Counter()
    words, sources = WordSample(), SourceSample()
    try:
        for pairs in reader.batches(left_out):
            keys = np.array([pair.key for pair in pairs], dtype=np.uint64)
            own_sides = np.array([pair.side for pair in pairs], dtype=np.int8)
            sides = split.sides_of(keys, own_sides)
            is_used = sides >= 0
            if n_leaks := int((~is_used).sum()):
                left_out[LEAK] += n_leaks
            is_training = sides == SIDES.index("train")
            words.add(pair.reference for pair in compress(pairs, is_training.tolist()))
            is_beyond = is_training & ~sample.has(keys)
            if n_beyond := int(is_beyond.sum()):
                left_out["more than the training documents you asked for"] += n_beyond
            is_used &= ~is_beyond
            for_training = compress(pairs, (is_used & is_training).tolist())
            sources.add((pair.document_id, pair.source) for pair in for_training)
            table = as_table(pairs, split.groups.group_of(keys))
            writer.add(table.filter(pa.array(is_used)), sides[is_used])
    finally:
        writer.close()
    return words.words(), sources.text_keys(), left_out


def _as_read(_keys: np.ndarray, own_sides: np.ndarray) -> np.ndarray:
    return own_sides


def _leaks(register: TextRegister, side_of: _SideOf) -> str:
    """Describe the texts that are on two sides; empty if there are none."""
    counts = register.n_leaks(side_of)
    return ", ".join(f"{n:,} texts in both {a} and {b}" for (a, b), n in counts.items())


def _check_sides(
    n_pairs: Mapping[str, int],
    needed: set[str],
    split_column: str | None,
    left_out: Mapping[str, int],
) -> None:
    """Check that every needed side has pairs."""
    if all(n_pairs.get(side) for side in needed):
        return
    counts = ", ".join(f"{side} {n_pairs.get(side, 0)}" for side in SIDES)
    unused = ", ".join(f"{n} {reason}" for reason, n in left_out.items())
    remedy = (
        "`split_anew = true` in the `--config` file splits by document"
        if split_column
        else "give more documents, or a column `split`"
    )
    raise ValueError(
        f"every side must have pairs, got {counts}"
        f"{f' (left out: {unused})' if unused else ''}; {remedy}"
    )
