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
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cluster import InputFile, column_names, list_inputs, resolve_columns
from cluster.reading import Wanted, read_files
from cluster.schema import DOCUMENT_ID, REFERENCES, SOURCES, SYSTEM_ID, UNREADABLE
from cluster.worker import one_line
from reffree.buckets import BucketWriter, find_neighbours
from reffree.examples import PreparedPairs
from reffree.hashing import mixed
from reffree.negatives import NegativesConfig
from reffree.pairs import (
    NO_SPLIT,
    SIDES,
    Pair,
    SourceSample,
    WordSample,
    as_table,
    near_keys,
    pairs_of_row,
    side_named,
    text_key,
)
from reffree.splits import LEAK, Groups, TextRegister, hashed_sides
from sms.naming import OneOrMore

SPLIT = "split"
REPEATED = "pair repeated, used once"

_SAMPLE_SALT = 4
_NEEDED = (DOCUMENT_ID, SYSTEM_ID, SOURCES, REFERENCES)


def prepare_pairs(
    paths: OneOrMore,
    folder: Path,
    *,
    sides: Sequence[str] = SIDES,
    columns: Mapping[str, str] | None = None,
    limit: int | None = None,
    seed: int = 0,
    split_anew: bool = False,
    training_documents: int | None = None,
) -> PreparedPairs:
    """Read, check, split and deal pairs into a folder, in the place of what is there.

    Files are Parquet, JSONL or CSV with `document_id`, `source` and `reference` (or `references`),
    and perhaps `split`; `columns` says what they call these, `limit` reads the first rows only.
    All `sides` must have pairs, as must that of training. `split_anew` splits by hash, with `seed`,
    even where there is a column `split`. Where that has a text on two sides, the documents of the
    earlier one are left out and counted. With `training_documents` only so many of the documents
    for training are used, of fewer a part of these; the vocabulary stays that of all, and other
    sides stay what they are.
    """
    shutil.rmtree(folder, ignore_errors=True)
    reader = _Reader.of(paths, dict(columns or {}), limit, split_anew=split_anew)
    folder.mkdir(parents=True)
    with closing(TextRegister(folder / "texts")) as register:
        n_pairs, n_characters = _register_texts(reader, register)
        groups = register.groups()
        split = _Split(groups=groups, seed=seed, is_own=reader.split_column is not None)
        writer = BucketWriter(folder, n_pairs, n_characters)
        last = _last_hash(register, split, training_documents)
        vocabulary, sources, left_out = _deal(reader, split, last, writer)
        if leaks := register.n_leaks(split.sides_of):
            both = ", ".join(f"{n:,} texts in both {a} and {b}" for (a, b), n in leaks.items())
            raise RuntimeError(f"the split must keep every text on one side, got {both}")
    left_out[REPEATED] = sum(writer.n_repeated[side] for side in sides)
    left_out = +left_out
    _check_sides(writer.n_written, {SIDES[0], *sides}, reader.split_column, left_out)
    return PreparedPairs(
        folder=folder,
        vocabulary=vocabulary,
        n_rows=reader.n_rows,
        n_pairs={side: writer.n_written[side] for side in SIDES},
        left_out=dict(left_out.most_common()),
        n_shared=groups.n_shared,
        has_own_split=split.is_own,
        source_sample=sources,
    )


def prepare_for_negatives(
    config: NegativesConfig,
    paths: OneOrMore,
    folder: Path,
    tell: Callable[[str], None],
    *,
    sides: Sequence[str] = SIDES,
    **options: Any,  # noqa: ANN401  (of `prepare_pairs`)
) -> PreparedPairs:
    """Prepare pairs, with the neighbours that some kinds of negatives need."""
    tell("reading the pairs")
    pairs = prepare_pairs(paths, folder, sides=sides, seed=config.seed, **options)
    if config.needs_neighbours:
        tell("looking for near documents")
        find_neighbours(pairs.folder, sides, config.n_neighbours)
    return pairs


@dataclass(slots=True)
class _Reader:
    """Reads the pairs of all files, as often as asked."""

    files: Sequence[InputFile]
    wanted: Wanted
    limit: int | None
    split_column: str | None
    n_rows: int = 0  # rows that were read the last time

    @classmethod
    def of(
        cls, paths: OneOrMore, columns: dict[str, str], limit: int | None, *, split_anew: bool
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
            pairs: list[Pair] = []
            for row in table.to_pylist():
                if row[UNREADABLE]:
                    left_out[row[UNREADABLE]] += 1
                    continue
                side = side_named(row[SYSTEM_ID]) if self.split_column else NO_SPLIT
                texts = row[SOURCES], row[REFERENCES]
                pairs += pairs_of_row(row[DOCUMENT_ID], *texts, side, left_out)
            yield pairs


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


def _last_hash(register: TextRegister, split: _Split, n_documents: int | None) -> np.uint64:
    """Return the largest hash of the documents for training that are used: so many, or all."""
    if n_documents is None:
        return np.uint64(np.iinfo(np.uint64).max)
    of_training = [
        _sample_hashes(keys[split.sides_of(keys, own_sides) == 0], split.seed)
        for keys, own_sides in register.documents()
    ]
    hashes = np.sort(np.concatenate(of_training))
    if not 1 <= n_documents <= hashes.size:
        raise ValueError(
            f"`training_documents` must be from 1 to what there are, {hashes.size:,}, got "
            f"{n_documents:,}"
        )
    return hashes[n_documents - 1]


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
        entries = []
        for pair in pairs:
            texts = (text_key(pair.source), text_key(pair.reference), *near_keys(pair.source))
            entries += [(text, pair.key, pair.side) for text in (pair.key, *texts)]
            n_characters += len(pair.source) + len(pair.reference)
        n_pairs += len(pairs)
        register.note(entries)
    return n_pairs, n_characters


def _deal(
    reader: _Reader, split: _Split, last: np.uint64, writer: BucketWriter
) -> tuple[tuple[str, ...], tuple[int, ...], Counter[str]]:
    """Write the pairs to their buckets.

    Returns the vocabulary and some of the sources for training, and what was left out.
    """
    left_out: Counter[str] = Counter()
    words, sources = WordSample(), SourceSample()
    for pairs in reader.batches(left_out):
        keys = np.array([pair.key for pair in pairs], dtype=np.uint64)
        own_sides = np.array([pair.side for pair in pairs], dtype=np.int8)
        sides = split.sides_of(keys, own_sides)
        is_training = sides == SIDES.index("train")
        words.add(pair.reference for pair in compress(pairs, is_training.tolist()))
        is_beyond = is_training & (_sample_hashes(keys, split.seed) > last)
        is_used = (sides >= 0) & ~is_beyond
        left_out[LEAK] += int((sides < 0).sum())
        left_out["more than the training documents you asked for"] += int(is_beyond.sum())
        for_training = compress(pairs, (is_used & is_training).tolist())
        sources.add((pair.document_id, pair.source) for pair in for_training)
        table = as_table(pairs, split.groups.group_of(keys))
        writer.add(table.filter(pa.array(is_used)), sides[is_used])
    writer.close()
    return words.kept(), sources.kept(), left_out


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
