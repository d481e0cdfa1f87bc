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
from itertools import compress
from pathlib import Path

import numpy as np
import pyarrow as pa

from cluster import column_names, list_inputs, resolve_columns
from cluster.reading import Wanted, read_files
from cluster.schema import DOCUMENT_ID, REFERENCES, SOURCES, SYSTEM_ID, UNREADABLE
from cluster.worker import one_line
from pipelines.settings.pairs import PairSettings
from reffree.negatives import NegativesConfig
from reffree.training_pairs.buckets import BucketWriter, find_neighbours
from reffree.training_pairs.examples import PreparedPairs
from reffree.training_pairs.rows import (
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
from reffree.training_pairs.splits import LEAK, TextRegister, hashed_sides
from sms.naming import OneOrMore, counted

SPLIT = "split"
REPEATED = "pair repeated, used once"
_NEEDED = (DOCUMENT_ID, SYSTEM_ID, SOURCES, REFERENCES)


def prepare_pairs(
    paths: OneOrMore,
    folder: Path,
    settings: PairSettings,
    *,
    seed: int,
    language: str = "en",
    sides: Sequence[str] = SIDES,
) -> PreparedPairs:
    """Read, check, split and deal pairs into a folder, in the place of what is there.

    Files have `document_id`, `source` and `reference` (or `references`), and perhaps `split`. All
    `sides` must have pairs, as must that of training. Without a column `split`, or with
    `split_anew`, the split is by hash, with `seed`. Where the column has a text on two sides, the
    documents of the earlier one are left out and counted.
    """
    shutil.rmtree(folder, ignore_errors=True)
    reader = _Reader(paths, settings)
    folder.mkdir(parents=True)
    left_out: Counter[str] = Counter()
    words, sources = WordSample(language), SourceSample()
    with closing(TextRegister(folder / "texts")) as register:
        writer = BucketWriter(folder, *_register_texts(reader, register))
        groups = register.groups()

        def sides_of(keys: np.ndarray, own_sides: np.ndarray) -> np.ndarray:
            """Return the documents' sides, negative for those that are left out."""
            if reader.split_column:
                return np.where(groups.is_leak(keys, own_sides), NO_SPLIT, own_sides)
            return hashed_sides(groups.group_of(keys), seed=seed)

        for pairs in reader.batches(left_out):
            keys = np.array([pair.key for pair in pairs], dtype=np.uint64)
            found = sides_of(keys, np.array([pair.side for pair in pairs], dtype=np.int8))
            training = list(compress(pairs, (found == SIDES.index("train")).tolist()))
            words.add(pair.reference for pair in training)
            sources.add((pair.document_id, pair.source) for pair in training)
            is_used = found >= 0
            left_out[LEAK] += int((~is_used).sum())
            table = as_table(pairs, groups.group_of(keys))
            writer.add(table.filter(pa.array(is_used)), found[is_used])
        writer.close()
        if leaks := register.n_leaks(sides_of):
            both = ", ".join(
                f"{counted(n, 'text')} in both {a} and {b}" for (a, b), n in leaks.items()
            )
            raise RuntimeError(f"the split must keep every text on one side, got {both}")
    left_out[REPEATED] = sum(writer.n_repeated[side] for side in sides)
    left_out = +left_out
    _check_sides(writer.n_written, {SIDES[0], *sides}, reader.split_column, left_out)
    return PreparedPairs(
        folder=folder,
        vocabulary=words.kept(),
        n_rows=reader.n_rows,
        n_pairs={side: writer.n_written[side] for side in SIDES},
        left_out=dict(left_out.most_common()),
        n_shared=groups.n_shared,
        has_own_split=reader.split_column is not None,
        source_sample=sources.kept(),
    )


def prepare_for_negatives(
    config: NegativesConfig,
    paths: OneOrMore,
    folder: Path,
    settings: PairSettings,
    tell: Callable[[str], None],
    *,
    sides: Sequence[str] = SIDES,
) -> PreparedPairs:
    """Prepare pairs, with the neighbours that some kinds of negatives need."""
    tell("reading the pairs")
    pairs = prepare_pairs(
        paths, folder, settings, seed=config.seed, language=config.language, sides=sides
    )
    if config.needs_neighbours:
        tell("looking for similar documents")
        find_neighbours(pairs.folder, sides, config.n_neighbours)
    return pairs


class _Reader:
    """Reads the pairs of all files, as often as asked; their columns are checked first."""

    def __init__(self, paths: OneOrMore, settings: PairSettings) -> None:
        self.files, self.limit = list_inputs(paths), settings.limit
        self.n_rows = 0  # rows that were read the last time
        columns = dict(settings.columns or {})
        named = columns.pop(SPLIT, None)
        try:
            names = {file.path: column_names(file.path, file.format) for file in self.files}
        except (pa.ArrowException, KeyError) as error:
            raise ValueError(f"cannot read the pairs: {one_line(error)}") from error
        self.split_column = None if settings.split_anew else _split_column(names, named)
        # Pairs have no system: `system_id` holds the side (train, ...) where there is one.
        columns[SYSTEM_ID] = self.split_column or columns.get(DOCUMENT_ID, DOCUMENT_ID)
        for path, columns_there in names.items():
            resolve_columns(columns_there, _NEEDED, columns, where=path)
        self.wanted = Wanted(needed=_NEEDED, columns=columns)

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


def _check_sides(
    n_pairs: Mapping[str, int],
    needed: set[str],
    split_column: str | None,
    left_out: Mapping[str, int],
) -> None:
    if all(n_pairs.get(side) for side in needed):
        return
    sides = ", ".join(f"{side} {n_pairs.get(side, 0)}" for side in SIDES)
    unused = ", ".join(f"{n} {reason}" for reason, n in left_out.items())
    remedy = (
        "`split_anew = true` in the `--config` file splits by document"
        if split_column
        else "give more documents, or a column `split`"
    )
    raise ValueError(
        f"train, validation and test must have pairs, got {sides}"
        f"{f' (left out: {unused})' if unused else ''}; {remedy}"
    )
