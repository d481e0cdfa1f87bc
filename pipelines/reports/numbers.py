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


def is_undefined(value: float | None) -> bool:
    """Say whether there is no number to write."""
    return value is None or math.isnan(value)


def number_text(value: float | None, digits: int = 3, *, minus: str = MINUS) -> str:
    """Write a number with a fixed count of decimals.

    Parameters
    ----------
    value : float or None
        None and NaN give an en dash.
    digits : int
        Decimals. A number that rounds to zero has no sign.
    minus : str
        The sign of a negative number.

    Returns
    -------
    str
        For example "0.609".

    Examples
    --------
    >>> number_text(-0.15, minus="-"), number_text(-0.0001), number_text(None)
    ('-0.150', '0.000', '–')
    """
    if value is None or math.isnan(value):
        return UNDEFINED
    text = f"{abs(value):.{digits}f}"
    is_negative = value < 0 and float(text) != 0
    return f"{minus}{text}" if is_negative else text


def count_text(value: int | None) -> str:
    """Write a count; None gives an en dash.

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
    known = [value for value in values if value is not None]
    if not known:
        return UNDEFINED
    low, high = min(known), max(known)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def p_value_text(value: float | None, digits: int = 3) -> str:
    """Write a p-value; one below `SMALLEST_P` as a bound.

    Examples
    --------
    >>> p_value_text(0.0321), p_value_text(0.00002), p_value_text(None)
    ('0.032', '< 0.001', '–')
    """
    if value is not None and value < SMALLEST_P:
        return f"< {SMALLEST_P:g}"
    return number_text(value, digits)


def interval_text(
    low: float | None, high: float | None, digits: int = 3, *, minus: str = MINUS
) -> str:
    """Write an interval in brackets; an en dash where an end is undefined.

    Examples
    --------
    >>> interval_text(-0.1, 0.25, minus="-"), interval_text(None, 0.25)
    ('[-0.100, 0.250]', '–')
    """
    if is_undefined(low) or is_undefined(high):
        return UNDEFINED
    ends = (number_text(end, digits, minus=minus) for end in (low, high))
    return f"[{', '.join(ends)}]"
