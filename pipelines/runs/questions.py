"""What a language model was asked in a run, what that took, and how alike two answers are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace

from pipelines.runs.progress import duration
from sms.naming import counted

PER_ROWS = 1_000
"""Rows that an estimate is about where nobody knows how many the corpus has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Counts of a metric whose model was asked."""

    metric: str
    questions: int
    kept: int
    """Questions that were answered before."""
    retries: int
    tokens_read: int
    tokens_written: int
    cost_millionths: int
    milliseconds: int
    """Of all answers, where as many as may be are under way at once."""
    repeated: int
    """Questions that were asked a second time."""
    repeated_same: int
    """Of these, the ones with the same answer."""
    repeated_millionths: int
    """How far their scores are apart, summed up."""

    @classmethod
    def of(cls, metric: str, counters: Mapping[str, int]) -> Asked:
        """Find the counts of a metric in those of a run, which has `METRIC.NAME`."""
        names = [each.name for each in fields(cls) if each.name != "metric"]
        return cls(metric=metric, **{name: counters.get(f"{metric}.{name}", 0) for name in names})

    @property
    def n_new(self) -> int:
        """Questions that were not answered before."""
        return self.questions - self.kept

    def __str__(self) -> str:
        kept = f", {self.kept:,} of them answered before" if self.kept else ""
        again = f", {counted(self.retries, 'request')} made again" if self.retries else ""
        return f"{self.metric}: {counted(self.questions, 'question')}{kept}{again}; {self._tokens}"

    @property
    def repeatability(self) -> list[str]:
        """Say in a line how alike two answers to the same question were, if some were repeated."""
        if not self.repeated:
            return []
        far = self.repeated_millionths / self.repeated / 1e6
        share = f"{self.repeated_same / self.repeated:.0%}"
        return [
            f"{self.metric}: {counted(self.repeated, 'question')} asked again, {share} with the "
            f"same answer; scores differ by {far:.3f} on average"
        ]

    def estimate(self, n_rows: int, n_corpus_rows: int | None, *, is_repeated: bool = True) -> str:
        """Say what all rows of a corpus take, as the first ones did; `n_rows` of them were scored.

        Without `is_repeated`, no question is asked a second time.
        """
        if n_corpus_rows is None or n_corpus_rows <= n_rows:
            n_all, rows = PER_ROWS, f"{PER_ROWS:,} rows like these"
        else:
            n_all, rows = n_corpus_rows, f"All {n_corpus_rows:,} rows of the corpus"
        times = n_all / n_rows * (1 if is_repeated else self._first_share)
        of_new = times * self.questions / self.n_new  # what was kept cost nothing this time
        scaled = replace(
            self,
            tokens_read=round(self.tokens_read * of_new),
            tokens_written=round(self.tokens_written * of_new),
            cost_millionths=round(self.cost_millionths * of_new),
        )
        seconds = self.milliseconds / 1e3 * times
        return f"{rows} take about {scaled._tokens}, {duration(seconds)}"

    def rows_per_s(self, n_rows: int) -> float:
        """Return how many rows are answered about in a second, as `n_rows` of them were.

        No question is asked a second time, and as many as may be are under way at once.
        """
        return n_rows / max(self.milliseconds / 1e3 * self._first_share, 1e-3)

    @property
    def _first_share(self) -> float:
        """Share of the questions that are no repetitions."""
        return 1 - self.repeated / self.questions if self.questions else 1.0

    @property
    def _tokens(self) -> str:
        cost = f", which cost {self.cost_millionths / 1e6:,.2f}" if self.cost_millionths else ""
        return f"{self.tokens_read:,} tokens read and {self.tokens_written:,} written{cost}"


def repeatability(metrics: Iterable[str], counters: Mapping[str, int]) -> list[str]:
    """Say of every metric whose model was asked twice how alike the answers were."""
    return [line for metric in metrics for line in Asked.of(metric, counters).repeatability]
