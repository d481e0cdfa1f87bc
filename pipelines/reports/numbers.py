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
    """Write a number with so many decimals; one that rounds to zero has no sign."""
    if value is None or math.isnan(value):
        return UNDEFINED
    return f"{value:z.{digits}f}".replace("-", minus)


def count_text(value: int | None) -> str:
    """Write a count."""
    return UNDEFINED if value is None else f"{value:,}"


def range_text(values: Iterable[int | None]) -> str:
    """Write counts as one number, or from the smallest to the largest; None is left out."""
    known = sorted({value for value in values if value is not None})
    ends = dict.fromkeys([*known[:1], *known[-1:]])
    return " to ".join(map(count_text, ends)) or UNDEFINED


def p_value_text(value: float | None, digits: int = 3) -> str:
    """Write a p-value; one below `SMALLEST_P` as a bound."""
    is_small = value is not None and value < SMALLEST_P
    return f"< {SMALLEST_P:g}" if is_small else number_text(value, digits)


def interval_text(
    low: float | None, high: float | None, digits: int = 3, *, minus: str = MINUS
) -> str:
    """Write an interval in brackets; an en dash where an end is undefined."""
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
    """Write a number; an en dash for NaN, and no sign for what rounds to zero."""
    return UNDEFINED if math.isnan(mean) else f"{mean:z,.{n_decimals}f}"


def span(low: float, high: float, n_decimals: int) -> str:
    """Write an interval in brackets; an en dash where it is undefined."""
    ends = f"[{number(low, n_decimals)}, {number(high, n_decimals)}]"
    return UNDEFINED if math.isnan(low) else ends
