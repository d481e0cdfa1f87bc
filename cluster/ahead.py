"""Does work in other threads before it is asked for, in order; joins small batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from cluster.schema import TEXTS

T = TypeVar("T")
R = TypeVar("R")


def made_ahead(items: Iterator[T]) -> Iterator[T]:
    """Make the next item in another thread while this one is in use."""
    end = object()
    with ThreadPoolExecutor(max_workers=1) as pool:
        coming: Future[Any] = pool.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = pool.submit(next, items, end)
            yield item


def mapped_ahead(
    function: Callable[[T], R], items: Iterable[T], *, threads: int, most: int
) -> Generator[R]:
    """Map in order, in other threads; at most `most` results are under way or wait."""
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) == most:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            while waiting:  # emptied, as the traceback of a failure keeps this frame in memory
                waiting.popleft().cancel()


def gathered(tables: Iterable[pa.Table], n_bytes: int) -> Iterator[pa.Table]:
    """Join tables until they have this much distinct text, so that a GPU has enough to do."""
    held: list[pa.Table] = []
    n_held = 0
    for table in tables:
        held.append(table)
        n_held += _text_bytes(table)
        if n_held >= n_bytes:
            yield pa.concat_tables(held)
            held, n_held = [], 0
    if held:
        yield pa.concat_tables(held)


def _text_bytes(table: pa.Table) -> int:
    """Count the bytes of a table's distinct texts."""
    total = 0
    for name in TEXTS:
        if name in table.column_names:
            column = table[name]
            texts = pc.list_flatten(column) if pa.types.is_list(column.type) else column
            total += pc.sum(pc.binary_length(pc.unique(texts))).as_py() or 0
    return total
