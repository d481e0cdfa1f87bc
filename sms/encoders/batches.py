"""Batches of sequences of about one length, for models that pad what they read together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np


def padded_batches(lengths: np.ndarray, budget: int) -> Iterator[np.ndarray]:
    """Cut sequences, longest first, into batches that hold at most `budget` places when padded.

    Parameters
    ----------
    lengths : ndarray of int64, shape (n_sequences,)
    budget : int
        Places, padding included; a longer sequence is a batch of its own.

    Yields
    ------
    ndarray of int64
        Numbers of the sequences of a batch, longest first.

    Examples
    --------
    >>> [batch.tolist() for batch in padded_batches(np.array([2, 9, 3, 2]), 6)]
    [[1], [2, 0], [3]]
    """
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < order.size:
        width = max(int(lengths[order[start]]), 1)
        end = start + max(budget // width, 1)
        yield order[start:end]
        start = end
