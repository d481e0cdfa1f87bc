"""How numbers are written for readers: digits, signs, p-values, intervals.

A number that is missing or NaN is written as an en dash, never as 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

UNDEFINED = "–"
MINUS = "\N{MINUS SIGN}"
SMALLEST_P = 0.001
"""Smaller p-values are written as "< 0.001"."""
_SHOWN_DIGITS = 4


def number_text(value: float | None, digits: int = 3, *, minus: str = MINUS) -> str:
    """Write a number with so many decimals; one that rounds to zero has no sign.

    Examples
    --------
    >>> number_text(-0.15, minus="-"), number_text(-0.0001), number_text(None)
    ('-0.150', '0.000', '–')
    """
    if value is None or math.isnan(value):
        return UNDEFINED
    text = f"{abs(value):.{digits}f}"
    return f"{minus}{text}" if value < 0 and float(text) != 0 else text


def count_text(value: int | None) -> str:
    """Write a count.

    Examples
    --------
    >>> count_text(1600), count_text(None)
    ('1,600', '–')
    """
    return UNDEFINED if value is None else f"{value:,}"


def range_text(values: Iterable[int | None]) -> str:
    """Write counts as one number, or from the smallest to the largest; None is left out.

    Examples
    --------
    >>> range_text([16, 16]), range_text([0, None, 1200]), range_text([])
    ('16', '0 to 1,200', '–')
    """
    known = sorted({value for value in values if value is not None})
    ends = dict.fromkeys([*known[:1], *known[-1:]])
    return " to ".join(map(count_text, ends)) or UNDEFINED


def p_value_text(value: float | None, digits: int = 3) -> str:
    """Write a p-value; one below `SMALLEST_P` as a bound.

    Examples
    --------
    >>> p_value_text(0.0321), p_value_text(0.00002), p_value_text(None)
    ('0.032', '< 0.001', '–')
    """
    is_small = value is not None and value < SMALLEST_P
    return f"< {SMALLEST_P:g}" if is_small else number_text(value, digits)


def interval_text(
    low: float | None, high: float | None, digits: int = 3, *, minus: str = MINUS
) -> str:
    """Write an interval in brackets; an en dash where an end is undefined.

    Examples
    --------
    >>> interval_text(-0.1, 0.25, minus="-"), interval_text(None, 0.25)
    ('[-0.100, 0.250]', '–')
    """
    ends = [number_text(end, digits, minus=minus) for end in (low, high)]
    return UNDEFINED if UNDEFINED in ends else f"[{', '.join(ends)}]"


# Means, with as many decimals as their column needs


def decimals(means: Iterable[float]) -> int:
    """Return the decimals that give the largest of a column its four digits, however small."""
    largest = max((abs(mean) for mean in means if not math.isnan(mean)), default=0.0)
    if largest == 0.0:
        return _SHOWN_DIGITS
    return min(max(_SHOWN_DIGITS - 1 - math.floor(math.log10(largest)), 1), 12)


def number(mean: float, n_decimals: int) -> str:
    """Write a number; an en dash for NaN, and no sign for what rounds to zero.

    Examples
    --------
    >>> number(1234.5, 2), number(-0.00001, 3), number(math.nan, 3)
    ('1,234.50', '0.000', '–')
    """
    return UNDEFINED if math.isnan(mean) else f"{mean:z,.{n_decimals}f}"


def span(low: float, high: float, n_decimals: int) -> str:
    """Write an interval in brackets; an en dash where it is undefined."""
    ends = f"[{number(low, n_decimals)}, {number(high, n_decimals)}]"
    return UNDEFINED if math.isnan(low) else ends
