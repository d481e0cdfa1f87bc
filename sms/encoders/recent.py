"""What was computed for recent texts, within a number of bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

V = TypeVar("V")


class Recent(Generic[V]):
    """Values by text; those not used for longest are forgotten first.

    A value is there whole or not at all, so a change that breaks off anywhere (Ctrl-C) leaves
    nothing wrong but the number of bytes, which is then counted anew. `size_of` gives those of a
    value.
    """

    def __init__(self, size_of: Callable[[V], int]) -> None:
        self._size_of = size_of
        self._values: OrderedDict[str, V] = OrderedDict()
        self._n_bytes: int | None = 0  # None while values change

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, text: str) -> V:
        self._values.move_to_end(text)
        return self._values[text]

    def missing(self, texts: Iterable[str]) -> list[int]:
        """Return the places of the texts that have no value."""
        return [place for place, text in enumerate(texts) if text not in self._values]

    @property
    def n_bytes(self) -> int:
        """Bytes of all values."""
        if self._n_bytes is None:
            self._n_bytes = sum(map(self._size_of, self._values.values()))
        return self._n_bytes

    def add(self, fresh: Mapping[str, V], most: int) -> None:
        """Add values of texts that are not there; keep at most so many bytes."""
        n_bytes = self.n_bytes + sum(map(self._size_of, fresh.values()))
        self._n_bytes = None
        self._values.update(fresh)
        while n_bytes > most:
            _, oldest = self._values.popitem(last=False)
            n_bytes -= self._size_of(oldest)
        self._n_bytes = n_bytes
