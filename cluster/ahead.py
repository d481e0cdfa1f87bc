"""Work that is done in other threads before it is asked for, in order and never far ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

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
) -> Iterator[R]:
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
            for future in waiting:
                future.cancel()
