"""Sums that do not depend on the order of what is added, nor on how it was grouped before."""

from __future__ import annotations

import math
from collections.abc import Iterable

Total = list[float]
"""How many numbers are in a sum, then floats that do not overlap and are together that sum.

They are few, however many numbers are added (Shewchuk 1997, *Adaptive precision floating-point
arithmetic*).
"""


class ScoreSums:
    """Sums of scores without rounding, by system, then by column."""

    def __init__(self) -> None:
        self.totals: dict[str, dict[str, Total]] = {}
        """What `json.dumps` can write without loss."""

    def add(self, system: str, column: str, count: float, values: Iterable[float]) -> None:
        """Add numbers that together are the sum of `count` scores."""
        total = self.totals.setdefault(system, {}).setdefault(column, [0])
        total[0] += count
        for value in values:
            total[1:] = _added(total[1:], value)

    def means(self) -> dict[str, dict[str, float]]:
        """Average, rounding once, over all scores of a system; NaN of none. Systems are sorted."""
        return {
            system: {
                column: math.fsum(parts) / count if count else math.nan
                for column, (count, *parts) in self.totals[system].items()
            }
            for system in sorted(self.totals)
        }


def _added(parts: list[float], value: float) -> list[float]:
    """Add a number to floats that do not overlap."""
    kept = []
    for part in parts:
        larger, smaller = (value, part) if abs(value) >= abs(part) else (part, value)
        value = larger + smaller
        rest = smaller - (value - larger)
        if rest and math.isfinite(rest):
            kept.append(rest)
    return [*kept, value] if value else kept
