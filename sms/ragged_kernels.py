"""Compiled loop of packed rows."""

from __future__ import annotations

from sms.compiled import kernel


@kernel()
def fill_ranges(starts, lengths, filled):
    """Write `arange(start, start + length)` of every row, one after the other."""
    at = 0
    for row in range(starts.size):
        for k in range(lengths[row]):
            filled[at + k] = starts[row] + k
        at += lengths[row]
