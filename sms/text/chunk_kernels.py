"""Compiled loops over the bytes of texts: where chunks are, and the numbers they have."""

from __future__ import annotations

import numpy as np

from sms.compiled import kernel

_OFFSET_BASIS, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a
_HALF = np.uint64(32)

_IS_SPACE, _MAY_BEGIN_SPACE = 1, 2
_KINDS = np.zeros(256, np.uint8)
_KINDS[[*b"\t\n\v\f\r\x1c\x1d\x1e\x1f "]] = _IS_SPACE
_KINDS[[0xC2, 0xE1, 0xE2, 0xE3]] = _MAY_BEGIN_SPACE


@kernel(inner=True)
def wide_space(data, at):
    """Tell how many bytes the white space at a place has, that is not in ASCII; 0 if none is there.

    White space is what Unicode calls a space, or a separator of lines, paragraphs or sections.
    """
    first, second = data[at], data[at + 1]
    if first == 0xC2:
        return 2 if second == 0x85 or second == 0xA0 else 0
    third = data[at + 2]
    if first == 0xE1:
        return 3 if second == 0x9A and third == 0x80 else 0
    if first == 0xE3:
        return 3 if second == 0x80 and third == 0x80 else 0
    if second == 0x81:
        return 3 if third == 0x9F else 0
    is_space = 0x80 <= third <= 0x8A or third == 0xA8 or third == 0xA9 or third == 0xAF
    return 3 if second == 0x80 and is_space else 0


@kernel()
def place_all(slots, hashes, sizes):
    """Give every chunk a slot in an empty table."""
    last = slots.size - 1
    for number in range(sizes[0]):
        slot = np.int64(hashes[number] & np.uint64(last))
        while slots[slot] >= 0:
            slot = (slot + 1) & last
        slots[slot] = number


@kernel()
def number_chunks(data, offsets, first, table, numbers, bounds):
    """Give chunks their numbers, from one text on; return up to which text this was done.

    It breaks off, before the text that it returns, where the table is full.
    """
    slots, hashes, starts, held, sizes = table
    last = slots.size - 1
    for text in range(first, offsets.size - 1):
        filled = bounds[text]
        at, end = np.int64(offsets[text]), np.int64(offsets[text + 1])
        while at < end:
            start, code, space = at, _OFFSET_BASIS, 0
            while at < end:
                kind = _KINDS[data[at]]
                if kind:
                    space = 1 if kind == _IS_SPACE else wide_space(data, at)
                    if space:
                        break
                code = (code ^ np.uint64(data[at])) * _PRIME
                at += 1
            stop = at
            at += space
            if start == stop:
                continue
            code ^= code >> _HALF
            slot = np.int64(code & np.uint64(last))
            number = slots[slot]
            while number >= 0:
                begin = starts[number]
                if hashes[number] == code and starts[number + 1] - begin == stop - start:
                    k = start
                    while k < stop and data[k] == held[begin + k - start]:
                        k += 1
                    if k == stop:
                        break
                slot = (slot + 1) & last
                number = slots[slot]
            if number < 0:
                number = sizes[0]
                begin = starts[number]
                behind = begin + stop - start
                if number == hashes.size or behind > held.size:
                    return text
                for k in range(stop - start):
                    held[begin + k] = data[start + k]
                hashes[number], starts[number + 1] = code, behind
                slots[slot] = number
                sizes[0] = number + 1
            numbers[filled] = number
            filled += 1
        bounds[text + 1] = filled
    return offsets.size - 1
