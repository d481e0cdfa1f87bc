"""Compiled loops over strings of bytes that have numbers: a hash table that is filled in place."""

from __future__ import annotations

import numpy as np

from sms.compiled import kernel

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HALF, _ALL = np.uint64(32), ~np.uint64(0)
_1, _2, _3, _4, _5, _6, _7, _8 = map(np.uint64, range(1, 9))


@kernel(inner=True)
def eight_bytes(data, at, stop):
    """Read the eight bytes from a place on as one number, in which those from `stop` on are 0.

    `data` has them all. The compiler makes one load of it.
    """
    at = np.uint64(at)
    number = np.uint64(data[at]) | (np.uint64(data[at + _1]) << (_8 * _1))
    number |= (np.uint64(data[at + _2]) << (_8 * _2)) | (np.uint64(data[at + _3]) << (_8 * _3))
    number |= (np.uint64(data[at + _4]) << (_8 * _4)) | (np.uint64(data[at + _5]) << (_8 * _5))
    number |= (np.uint64(data[at + _6]) << (_8 * _6)) | (np.uint64(data[at + _7]) << (_8 * _7))
    n_left_out = _8 - min(np.uint64(stop) - at, _8)
    return number & (_ALL >> (_8 * n_left_out))


@kernel(inner=True)
def _hash_of(data, start, stop):
    code = np.uint64(stop - start)
    for at in range(start, stop, 8):
        code = (code ^ eight_bytes(data, at, stop)) * _MULTIPLIER
        code ^= code >> _HALF
    return code


@kernel()
def number_spans(data, span_starts, span_stops, first, table, numbers):
    """Give the bytes of spans their numbers, from one span on; return up to which this was done.

    It breaks off where the table is full. There are eight more bytes behind the last span, and in
    the table. (A look-up that is a function of its own takes five times as long, since numba is
    slow to pass so many arrays.)
    """
    slots, hashes, starts, held, sizes = table
    last = slots.size - 1
    for span in range(first, span_starts.size):
        start, stop = span_starts[span], span_stops[span]
        code = _hash_of(data, start, stop)
        slot = np.int64(code & np.uint64(last))
        number = slots[slot]
        while number >= 0:
            at, other = start, starts[number]
            if hashes[number] == code and starts[number + 1] - other == stop - start:
                while at < stop and eight_bytes(data, at, stop) == eight_bytes(
                    held, other, other + stop - at
                ):
                    at += 8
                    other += 8
            if at >= stop:
                break
            slot = (slot + 1) & last
            number = slots[slot]
        if number < 0:
            number = sizes[0]
            begin = starts[number]
            behind = begin + stop - start
            if number == hashes.size or behind + 8 > held.size:
                return span
            for k in range(stop - start):
                held[begin + k] = data[start + k]
            hashes[number], starts[number + 1] = code, behind
            slots[slot] = number
            sizes[0] = number + 1
        numbers[span] = number
    return span_starts.size


@kernel()
def place_all(slots, hashes, sizes):
    """Give every string a slot in an empty table."""
    last = slots.size - 1
    for number in range(sizes[0]):
        slot = np.int64(hashes[number] & np.uint64(last))
        while slots[slot] >= 0:
            slot = (slot + 1) & last
        slots[slot] = number
