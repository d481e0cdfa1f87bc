"""Numbers as they are printed: parts add up to their total, a distance gives its score."""

from __future__ import annotations

import math
from collections.abc import Sequence

MINUS = "\N{MINUS SIGN}"
SCORE_DIGITS = 6
"""Decimals of a printed score."""
DROP_DIGITS = 4
"""Decimals of what a score loses; a drop that shows none of them is none."""
_MOST_DIGITS = 12


def printed_parts(parts: Sequence[float], total: float, digits: int) -> list[str]:
    """Round parts so that the printed ones add up to the printed total (largest remainders)."""
    unit = 10**digits
    exact = [part * unit for part in parts]
    whole = [math.floor(value) for value in exact]
    missing = round(total * unit) - sum(whole)
    by_loss = sorted(range(len(parts)), key=lambda k: whole[k] - exact[k])
    step = 1 if missing > 0 else -1  # below zero only by the rounding of sums
    order = by_loss if missing > 0 else by_loss[::-1]
    for k in range(abs(missing)):
        whole[order[k % len(order)]] += step
    return [f"{value / unit:.{digits}f}" for value in whole]


def signed_text(value: float) -> str:
    """Write a number with its sign; one that rounds to zero has none."""
    sign = "+" if value > 0 else MINUS
    return f"{sign if is_shown(value) else ''}{abs(value):.{DROP_DIGITS}f}"


def is_shown(value: float) -> bool:
    """Tell whether a number is still one when it is printed, or rounds to zero."""
    return float(f"{value:.{DROP_DIGITS}f}") != 0


def distance_digits(distance: float) -> int:
    """Choose how many decimals of a distance give its score to all printed digits."""
    score = f"{math.exp(-distance):.{SCORE_DIGITS}f}"
    for digits in range(SCORE_DIGITS, _MOST_DIGITS):
        if f"{math.exp(-round(distance, digits)):.{SCORE_DIGITS}f}" == score:
            return digits
    return _MOST_DIGITS
