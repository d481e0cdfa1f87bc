"""What a scorer is: rows in, columns of scores out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


class Scorer(Protocol):
    """Turns rows into scores in two steps, so that the steps of two batches may overlap.

    `SummaryScorer` is one, and so is a trained one; runs over files, rewards and explanations take
    any. `prepare` and `compare` may run in different threads, each in one thread at a time. A
    scorer may also have `bounds`, the lowest and highest possible score, and by column `signatures`
    and, where a higher score does not mean "closer", `meanings`.
    """

    @property
    def input_columns(self) -> tuple[str, ...]:
        """What is read besides the ids: out of `candidate`, `references`, `sources`."""

    @property
    def score_fields(self) -> tuple[str, ...]:
        """Names of the score columns."""

    def prepare(self, rows: pa.Table) -> Any:  # noqa: ANN401  (private to the scorer)
        """Handle and encode the text of some rows of the canonical table."""

    def compare(self, prepared: Any) -> pa.Table:  # noqa: ANN401
        """Return `score_fields` as float64 and `status`, null when fine; one row per row."""

    def counters(self) -> Mapping[str, int]:
        """Return what was done so far by name, as numbers that may be added up."""
