"""Which sequences go through a model together: equally long ones, as many as fit into memory."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

logger = logging.getLogger(__name__)


class ShortOfMemory(RuntimeError):
    """Memory is too short for a single sequence."""


_SHORTAGES = (ShortOfMemory.__name__, "OutOfMemoryError", "ResourceExhaustedError")
"""What torch and TensorFlow raise when memory runs out, by name: importing either takes seconds."""


class Batches:
    """Runs a model over many sequences, the longest first, in batches that fit into memory.

    A batch has at most `most` places: its tokens and, where the model pads, what fills short
    sequences up. A longer sequence is a batch of its own. After a lack of memory batches are half
    as large, and after a run without one twice as large again.
    """

    def __init__(self, most: int, *, is_padded: bool = True) -> None:
        self._most = self._now = max(most, 1)
        self._is_padded = is_padded

    def run(self, lengths: np.ndarray, compute: Callable[[np.ndarray], None]) -> None:
        """Call `compute` with the numbers of the sequences of each batch.

        It is called again with fewer of them where it runs out of memory. Raises `ShortOfMemory` if
        there is too little for a single sequence.
        """
        order = np.argsort(-lengths, kind="stable")
        filled = np.cumsum(lengths[order])
        at, has_failed = 0, False
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
                at += batch.size
                continue
            except Exception as error:
                if type(error).__name__ not in _SHORTAGES:
                    raise
                if batch.size == 1:
                    raise ShortOfMemory(
                        f"out of GPU memory with a single sequence of {n_places} tokens; give the "
                        "model more memory or run it with `device` cpu"
                    ) from error
            # only here, after the `except` block, are the error and the tensors it holds freed
            has_failed, self._now = True, max(n_places // 2, 1)
            message = "out of GPU memory with %d tokens at once; continuing with at most %d"
            logger.warning(message, n_places, self._now)
            import torch

            torch.cuda.empty_cache()
        if not has_failed:
            self._now = min(2 * self._now, self._most)
