"""Merges the scores files of a large run into few, so that people and tools can read them.

A shard's file is the commit while a run goes on. At the end the files of neighbouring shards are
written into one, and deleted once that is complete. So each shard always has a file of its own or
is in a merged one; if both, the merged one counts. If the process is killed meanwhile, the next
start merges what is left.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby

import pyarrow as pa
import pyarrow.parquet as pq

from cluster.parts import SHARDS, merged_path
from cluster.scores_files import is_merged, open_parquet, read_all, shards_in
from cluster.store import base_name, delete_file, reads_again, write_whole

MERGED_BYTES = 64 << 20
"""No merged file is smaller, unless all of a run is, and most are smaller than twice that."""
MOST_FILES = 100
"""A run of no more shards keeps a file for each, unless together they have `MERGED_BYTES`."""
ROWS_PER_GROUP = 100_000
"""A row group of a merged file has so many rows, or those of one shard more."""


def must_merge(parts: Mapping[int, str], sizes: Mapping[str, int]) -> bool:
    """Say whether the files of a run are to be merged; `parts` and `sizes` as in `merge_parts`."""
    if all(map(is_merged, parts.values())):
        return False
    n_bytes = sum(sizes.get(base_name(path), 0) for path in {*parts.values()})
    return len(parts) > MOST_FILES or n_bytes >= MERGED_BYTES


def merge_parts(
    out: str, fingerprint: str, parts: Mapping[int, str], sizes: Mapping[str, int]
) -> None:
    """Merge the files of a run whose shards are all committed.

    By shard, in their order, `parts` has the file it is in, and `sizes` by name the bytes of files.
    Raises `ValueError` if a file is damaged.
    """
    for merged, some in groupby(parts.items(), key=lambda item: is_merged(item[1])):
        if not merged:
            left = dict(some)
            n_bytes = {index: sizes.get(base_name(path), 0) for index, path in left.items()}
            for group in _groups(n_bytes):
                _merge(out, fingerprint, [left[index] for index in group])


def _groups(sizes: Mapping[int, int]) -> Iterator[list[int]]:
    """Cut shards into neighbours of about the same size together."""
    total = sum(sizes.values())
    n_files = max(1, total // MERGED_BYTES)
    before = 0
    groups: list[list[int]] = [[] for _ in range(n_files)]
    for index, size in sizes.items():
        groups[min(n_files - 1, before * n_files // max(total, 1))].append(index)
        before += size
    yield from filter(None, groups)


def _merge(out: str, fingerprint: str, paths: Sequence[str]) -> None:
    """Write files into one, in their order, and delete them once it is there, whole."""
    if len(paths) == 1:
        return
    sink = io.BytesIO()
    shards: dict[int, int] = {}  # rows by shard
    tables = _row_groups(paths, shards)
    first = next(tables)
    of_all = {k: value for k, value in first.schema.metadata.items() if k != SHARDS.encode()}
    schema = first.schema.with_metadata(of_all)
    writer = pq.ParquetWriter(sink, schema, compression="zstd", write_page_checksum=True)
    for table in chain([first], tables):
        writer.write_table(table, row_group_size=max(1, len(table)))
    writer.add_key_value_metadata({SHARDS: json.dumps([*shards.items()])})
    writer.close()
    merged = merged_path(out, range(min(shards), max(shards) + 1), fingerprint)
    write_whole(merged, sink.getvalue())
    for path in paths:
        delete_file(path)


def _row_groups(paths: Sequence[str], shards: dict[int, int]) -> Iterator[pa.Table]:
    """Read files, joined to tables of many rows, and add to `shards` how many rows each has."""
    held: list[pa.Table] = []
    for path in paths:
        scores, n_rows = _read_part(path)
        shards |= n_rows
        held.append(scores)
        if sum(map(len, held)) >= ROWS_PER_GROUP or path == paths[-1]:
            yield pa.concat_tables(held).unify_dictionaries()
            held = []


@reads_again
def _read_part(path: str) -> tuple[pa.Table, dict[int, int]]:
    with open_parquet(path) as file:
        return read_all(file), shards_in(file)
