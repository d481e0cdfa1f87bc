"""Which sequences go through a model together: about equally long ones, as many as memory allows.

Where memory is short, batches get smaller, and larger again once many have gone well.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

WELL_BEFORE_LARGER = 64
"""So many batches must go well after a memory error before larger ones are tried; after each
further error twice as many."""

logger = logging.getLogger(__name__)


class ShortOfMemory(RuntimeError):
    """Memory is too short for a single sequence."""


class Batches:
    """Runs a model over many sequences, the longest first, in batches that fit into memory.

    A batch has at most so many places: its tokens and, where the model pads, what fills short
    sequences up. A longer sequence is a batch of its own. `shortages` are what the model's library
    raises when memory runs out; by default torch's exception.
    """

    def __init__(
        self,
        most: int,
        *,
        is_padded: bool = True,
        shortages: tuple[type[Exception], ...] | None = None,
    ) -> None:
        self.most = self.now = max(most, 1)
        self._is_padded, self._shortages = is_padded, shortages
        self._n_well, self._patience = 0, WELL_BEFORE_LARGER
        self._has_grown = False

    def run(self, lengths: np.ndarray, compute: Callable[[np.ndarray], None]) -> None:
        """Call `compute` with the numbers of the sequences of each batch.

        It is called again with fewer of them where it runs out of memory. Raises `ShortOfMemory` if
        there is too little for a single sequence.
        """
        shortages: tuple[type[Exception], ...]
        shortages = (ShortOfMemory, *(self._shortages or _torch_shortages()))
        order = np.argsort(-lengths, kind="stable")
        filled = np.cumsum(lengths[order])
        at = 0
        while at < order.size:
            batch = order[at : at + self._n_fitting(at, lengths[order[at]], filled)]
            n_places = self._places(lengths[batch])
            try:
                compute(batch)
            except shortages as error:
                if batch.size == 1:
                    raise ShortOfMemory(
                        f"out of GPU memory with a single sequence of {n_places} tokens; give the "
                        "model more memory or run it with `device` cpu"
                    ) from error
            else:
                at += batch.size
                self._went_well()
                continue
            # here the error, and what it holds, is gone
            self._was_short(n_places)
            if self._shortages is None:
                _give_back_memory()

    def _n_fitting(self, at: int, longest: int, filled: np.ndarray) -> int:
        """Count the sequences from `at` on that fit into a batch, at least one."""
        if self._is_padded:
            return max(self.now // max(int(longest), 1), 1)
        before = filled[at] - longest
        return max(int(np.searchsorted(filled, before + self.now, side="right")) - at, 1)

    def _places(self, lengths: np.ndarray) -> int:
        return int(lengths.max()) * lengths.size if self._is_padded else int(lengths.sum())

    def _was_short(self, n_places: int) -> None:
        if self._has_grown:
            self._patience *= 2
        self._has_grown = False
        self.now, self._n_well = max(n_places // 2, 1), 0
        message = "out of GPU memory with %d tokens at once; going on with at most %d"
        logger.warning(message, n_places, self.now)

    def _went_well(self) -> None:
        if self.now == self.most:
            return
        self._n_well += 1
        if self._n_well >= self._patience:
            self.now, self._n_well, self._has_grown = min(2 * self.now, self.most), 0, True


def _torch_shortages() -> tuple[type[Exception], ...]:
    import torch  # takes a moment

    return (torch.OutOfMemoryError,)


def _give_back_memory() -> None:
    import torch

    torch.cuda.empty_cache()
