"""Sums that do not depend on the order of what is added, nor on how it was grouped before."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class ExactSum:
    """A sum without rounding, and how many numbers are in it.

    Held as floats that do not overlap (Shewchuk 1997, *Adaptive precision floating-point
    arithmetic*), of which there are a few however many numbers are added.
    """

    parts: list[float] = field(default_factory=list)
    count: int = 0

    def add(self, value: float, count: int = 1) -> None:
        """Add a number that stands for the sum of `count` others."""
        self.count += count
        kept = []
        for part in self.parts:
            larger, smaller = (value, part) if abs(value) >= abs(part) else (part, value)
            value = larger + smaller
            rest = smaller - (value - larger)
            if rest and math.isfinite(rest):
                kept.append(rest)
        self.parts = [*kept, value] if value else kept

    def merge(self, other: ExactSum) -> None:
        """Add all that is in another sum."""
        for part in other.parts:
            self.add(part, 0)
        self.count += other.count

    def mean(self) -> float:
        """Return the mean, rounded once; NaN of nothing."""
        return math.fsum(self.parts) / self.count if self.count else math.nan


class ScoreSums:
    """Exact sums of the scores by system, then by column."""

    def __init__(self) -> None:
        self._sums: dict[str, dict[str, ExactSum]] = {}

    def add(
        self, sums: Mapping[str, Mapping[str, float]], counts: Mapping[str, Mapping[str, int]]
    ) -> None:
        """Add what a shard's report says."""
        for system, by_column in sums.items():
            held = self._sums.setdefault(system, {})
            for column, value in by_column.items():
                held.setdefault(column, ExactSum()).add(value, counts[system][column])

    def merge(self, other: ScoreSums) -> None:
        """Add all that is in other sums."""
        for system, by_column in other._sums.items():
            held = self._sums.setdefault(system, {})
            for column, other_sum in by_column.items():
                held.setdefault(column, ExactSum()).merge(other_sum)

    def means(self) -> dict[str, dict[str, float]]:
        """Average over all rows of a system that have a score; in the order of the systems."""
        return {
            system: {column: total.mean() for column, total in self._sums[system].items()}
            for system in sorted(self._sums)
        }

    def to_json(self) -> dict[str, Any]:
        """Return what `json.dumps` can write, without loss."""
        return {
            system: {column: [total.count, *total.parts] for column, total in by_column.items()}
            for system, by_column in self._sums.items()
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ScoreSums:
        """Make sums from what `to_json` returned, before or after it went through JSON."""
        made = cls()
        for system, by_column in values.items():
            made._sums[system] = {
                column: ExactSum(parts, count) for column, (count, *parts) in by_column.items()
            }
        return made
