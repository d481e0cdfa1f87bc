"""What was computed for recent texts, within a number of bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

V = TypeVar("V")


class Recent(Generic[V]):
    """Values by text; those not used for longest are forgotten first.

    `size_of` gives the bytes of a value.
    """

    def __init__(self, size_of: Callable[[V], int]) -> None:
        self._size_of = size_of
        self._values: OrderedDict[str, V] = OrderedDict()
        self.n_bytes = 0

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, text: str) -> V:
        self._values.move_to_end(text)
        return self._values[text]

    def missing(self, texts: Iterable[str]) -> list[int]:
        """Return the places of the texts that have no value."""
        return [place for place, text in enumerate(texts) if text not in self._values]

    def add(self, fresh: Mapping[str, V], most: int) -> None:
        """Add values of texts that are not there; keep at most so many bytes."""
        for text, value in fresh.items():
            self._values[text] = value
            self.n_bytes += self._size_of(value)
        while self.n_bytes > most:
            _, oldest = self._values.popitem(last=False)
            self.n_bytes -= self._size_of(oldest)
