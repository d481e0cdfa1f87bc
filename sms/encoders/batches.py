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

    A batch has at most `most` places: its tokens and, where the model pads, what fills short
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
        if shortages is None:
            import torch  # takes a moment

            shortages = (torch.OutOfMemoryError,)
        self._most = self._now = max(most, 1)
        self._is_padded = is_padded
        self._n_well, self._patience, self._has_grown = 0, WELL_BEFORE_LARGER, False
        self._shortages: tuple[type[Exception], ...] = (ShortOfMemory, *shortages)

    def run(self, lengths: np.ndarray, compute: Callable[[np.ndarray], None]) -> None:
        """Call `compute` with the numbers of the sequences of each batch.

        It is called again with fewer of them where it runs out of memory, as are later batches for
        a while. Raises `ShortOfMemory` if there is too little for a single sequence.
        """
        order = np.argsort(-lengths, kind="stable")
        filled = np.cumsum(lengths[order])
        at = 0
        while at < order.size:
            longest = int(lengths[order[at]])
            if self._is_padded:
                n = max(self._now // max(longest, 1), 1)
            else:
                limit = filled[at] - longest + self._now
                n = max(int(np.searchsorted(filled, limit, side="right")) - at, 1)
            batch = order[at : at + n]
            n_places = longest * batch.size if self._is_padded else int(lengths[batch].sum())
            try:
                compute(batch)
            except self._shortages as error:
                if batch.size == 1:
                    raise ShortOfMemory(
                        f"out of GPU memory with a single sequence of {n_places} tokens; give the "
                        "model more memory or run it with `device` cpu"
                    ) from error
            else:
                at += batch.size
                self._n_well += 1
                if self._now < self._most and self._n_well >= self._patience:
                    self._now = min(2 * self._now, self._most)
                    self._n_well, self._has_grown = 0, True
                continue
            # here the error, and what it holds, is gone
            if self._has_grown:
                self._patience *= 2
            self._now, self._n_well, self._has_grown = max(n_places // 2, 1), 0, False
            message = "out of GPU memory with %d tokens at once; going on with at most %d"
            logger.warning(message, n_places, self._now)
            _give_back_memory()


def _give_back_memory() -> None:
    import torch

    torch.cuda.empty_cache()
