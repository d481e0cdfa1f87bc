"""Compiled loop over the bytes of texts: where the chunks between white space are."""

from __future__ import annotations

import numpy as np

from sms.compiled import kernel

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
def find_chunks(data, offsets, starts, stops, bounds):
    """Find where the chunks of texts are; return how many there are, and in `bounds` of each text.

    `bounds` begins with 0: the chunks of a text are numbers `bounds[text]` to `bounds[text + 1]`.
    """
    n_starts = n_stops = np.int64(0)
    for text in range(offsets.size - 1):
        end, was_space, space_end = offsets[text + 1], True, np.int64(0)
        for at in range(offsets[text], end):
            kind = _KINDS[data[at]]
            if kind == _MAY_BEGIN_SPACE:
                space_end = at + wide_space(data, at)
            # without branches, which the processor would guess wrong at every second chunk
            is_space = (kind == _IS_SPACE) | (at < space_end)
            starts[n_starts] = stops[n_stops] = at
            n_starts += was_space & ~is_space
            n_stops += is_space & ~was_space
            was_space = is_space
        if not was_space:
            stops[n_stops] = end
            n_stops += 1
        bounds[text + 1] = n_stops
    return n_stops
