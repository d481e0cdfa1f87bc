"""Why rows have no score, or one of a part of a text: values, of which one function makes text.

What a status may say is in the guide, in `files.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sms.ragged import Ragged

UNREADABLE = "unreadable"
"""Column of rows that says why one cannot be read; null where it can. A status begins so, too."""
INDISTINGUISHABLE = "indistinguishable"
"""Why texts that differ in a word have no score: the encoder cannot tell them apart."""
CUT = "cut"
"""Why a row with a score has a reason: a model has read only the beginning of its text."""


@dataclass(frozen=True, slots=True, eq=False)
class Reason:
    """A reason, and the rows that have it."""

    side: str
    """`candidate`, `reference` or `source`; or a column, of which no text is to blame."""
    why: str
    rows: np.ndarray
    """Bool, shape (n_rows,)."""
    of: str = ""
    """The encoder or model that cannot read the text, if it is not the text alone."""
    columns: tuple[str, ...] = ()
    """Of a metric that reads whole texts, what has no score; others share their reasons."""

    def __str__(self) -> str:
        return f"{self.side}:{self.why}{f'@{self.of}' if self.of else ''}"


def reasons_of(
    side: str,
    texts: Ragged,
    bad: Sequence[tuple[str, str, np.ndarray]],
    rows: np.ndarray,
) -> Iterator[Reason]:
    """Say why rows have no text of a side that can be scored; of several the first says why.

    `bad` says why, of what, and of which texts, bool, shape (n_texts,).
    """
    yield Reason(side, "missing", rows & (texts.lengths == 0))
    is_bad = np.any([flags for *_, flags in bad], axis=0)
    has_none = rows & (texts.lengths > 0) & (texts.sums(~is_bad[texts.values]) == 0)
    first = texts.values[texts.offsets[:-1][has_none]]
    for why, of, flags in bad:
        of_first = np.zeros(rows.size, dtype=bool)
        of_first[has_none] = flags[first]
        yield Reason(side, why, of_first, of)


def statuses(reasons: Iterable[Reason], n_rows: int) -> pa.Array:
    """Write the reasons of every row, each once and in order; null where there is none."""
    said: dict[int, dict[str, None]] = {}
    for reason in reasons:
        for row in np.flatnonzero(reason.rows).tolist():
            said.setdefault(row, {})[str(reason)] = None
    if not said:
        return pa.nulls(n_rows, pa.string())
    status: list[str | None] = [None] * n_rows
    for row, texts in said.items():
        status[row] = "; ".join(texts)
    return pa.array(status, pa.string())
