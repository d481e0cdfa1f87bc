"""Names of the columns of learned scorers; importing it loads no model library."""

from __future__ import annotations

NAME = "reffree"
PREFIX = f"{NAME}@"
LEARNED_MEANINGS = {NAME: "better, 0 to 1", "cut": "more rows of which only the lead was read"}
"""What a higher value means, by what stands before `@`."""


def cut_column(metric: str) -> str:
    """Name the column that says which rows of a learned metric were cut."""
    return f"cut@{metric.removeprefix(PREFIX)}"
