"""The text that ends a run: how many rows, what became of them, the mean scores, where they lie."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from cluster.manifest import PAGE_FILE
from pipelines.reports.numbers import decimals, number
from pipelines.reports.terminal import table_blocks
from pipelines.runs.progress import duration
from pipelines.runs.questions import Asked
from sms.naming import counted, natural

if TYPE_CHECKING:
    from pipelines.runs.score_run import ScoreRun

MAX_SYSTEMS = 40
"""The table of means has no more rows."""
MOST_UNKNOWN = 0.05
"""Share of words unknown to an encoder up to which nothing is said of them."""
MOST_IN_FRAGMENTS = 0.2
"""Share of words in fragments up to which nothing is said of them: of English, medical abstracts
have most (13 %)."""
_GOOD = ("closer, ", "better", "likelier")
"""How the meaning of a column begins where the highest value is the best."""
MAX_STATUSES = 10
"""No more different statuses are listed."""


def summary_text(run: ScoreRun, *, is_terminal: bool = False, width: int | None = None) -> str:
    """Sum up a run for people."""
    from cluster.schema import ONE_SYSTEM  # brings Arrow, which other tables do without
    from cluster.store import join

    parts = ["\n".join(_counts(run))]
    if run.means:
        table = _means(run)
        below = list(meanings(run.main_columns))
        if any(map(run.has_gaps, run.main_columns)):
            below = ["In brackets: number of rows with a score, if systems differ in it", *below]
        if list(run.means) == [ONE_SYSTEM]:
            remedy = "if another column names the systems, add `--columns system_id=NAME`"
            below = [f"{ONE_SYSTEM}: rows without `system_id`; {remedy}", *below]
        if len(run.means) > MAX_SYSTEMS:
            n_more = counted(len(run.means) - MAX_SYSTEMS, "more system")
            below = [f"and {n_more}; all are in {join(run.out, 'run.json')}", *below]
        shown = table_blocks(*table, is_terminal=is_terminal, width=width)
        parts.append(shown + "\n".join(["", *below]))
    parts.append("\n".join(_places(run)))
    return "\n\n".join(parts)


def meanings(columns: Iterable[str]) -> Iterator[str]:
    """Say what a higher value of each column means, a line for each meaning.

    Nothing is said of a column that is none of our metrics: which way it goes is not known.
    """
    up: dict[str, list[str]] = {}
    for column in columns:
        if meaning := higher_is(column):
            up.setdefault(meaning, []).append(column)
    for meaning, names in up.items():
        yield f"Higher means {meaning}: {', '.join(names)}"


def _counts(run: ScoreRun) -> Iterator[str]:
    if run.n_new_shards == 0 and not run.failed_shards:
        yield f"Already scored: {counted(run.n_rows, 'row')}, nothing left to do"
    else:
        yield (
            f"Rows scored: {run.n_rows:,} of {run.n_planned_rows:,} in {duration(run.seconds)}"
            + (f" ({run.n_earlier_rows:,} of them by an earlier run)" if run.n_earlier_rows else "")
        )
    yield f"Rows with a status: {run.n_with_status:,}"
    statuses = sorted(run.statuses.items(), key=lambda item: (-item[1], item[0]))
    for status, n_rows in statuses[:MAX_STATUSES]:
        yield f"  {n_rows:,}  {status}"
    if len(statuses) > MAX_STATUSES:
        n_others = len(statuses) - MAX_STATUSES
        yield f"  and {counted(n_others, 'other status', 'other statuses')}"
    if run.n_duplicate_keys:
        yield f"Duplicate keys (document_id, system_id): {run.n_duplicate_keys:,}"
    yield from _counters(run)
    if run.failed_shards:
        yield f"Failed shards: {len(run.failed_shards):,} of {run.n_shards:,}"


def _means(run: ScoreRun) -> tuple[list[str], list[list[Text]]]:
    """Return the header and rows of the table of means; on a terminal the best are bold.

    None is the best where means are over different numbers of rows.
    """
    columns = run.main_columns
    shown = sorted(run.means.items(), key=lambda item: natural(item[0]))[:MAX_SYSTEMS]
    n_decimals = {name: decimals(mean[name] for _, mean in shown) for name in columns}
    has_gaps = {name: run.has_gaps(name) for name in columns}
    highest = {
        name: max(mean[name] for _, mean in shown)
        for name in columns
        if (higher_is(name) or "").startswith(_GOOD) and not has_gaps[name]
    }

    def cell(system: str, name: str, value: float) -> Text:
        is_best = len(shown) > 1 and value == highest.get(name)
        n_rows = f" ({run.counts[system][name]:,})" if has_gaps[name] else ""
        return Text(number(value, n_decimals[name]) + n_rows, style="bold" if is_best else "")

    rows = [
        [Text(system or "(none)"), *(cell(system, name, mean[name]) for name in columns)]
        for system, mean in shown
    ]
    return ["mean by system", *columns], rows


def higher_is(column: str) -> str | None:
    """Say what a higher value of a column means, whatever encoder or side it names."""
    from sms.metrics import all_metrics  # brings the compiler, which takes a moment

    name, at, _ = column.partition(":")[0].partition("@")
    for metric in all_metrics().values():
        if at and name in metric.companions:
            return metric.companions[name]
        if name == metric.name or name in metric.columns:
            return metric.higher_is
    return None


def _counters(run: ScoreRun) -> Iterator[str]:
    """Say of encoders and models what they had read before, did not know, or read in part."""
    counters = run.counters
    for name, n in counters.items():
        alias, _, what = name.rpartition(".")
        n_sentences = counters.get(f"{alias}.sentences", 0)
        n_words = counters.get(f"{alias}.words", 0)
        n_from_disk = counters.get(f"{alias}.from_disk", 0)
        if what == "cached" and n + n_from_disk:
            share = (n + n_from_disk) / n_sentences
            on_disk = f", {n_from_disk:,} of them on disk" if n_from_disk else ""
            yield f"Sentences that {alias} had read before: {share:.0%} of {n_sentences:,}{on_disk}"
        elif what == "unknown" and n > MOST_UNKNOWN * n_words:
            yield f"Words unknown to {alias}, which are left out: {n / n_words:.0%} of {n_words:,}"
        elif what == "fragments" and n > MOST_IN_FRAGMENTS * n_words:
            yield f"Words that {alias} reads in fragments: {n / n_words:.0%} of {n_words:,}"
        elif what == "truncated" and n:
            yield f"Sentences too long for {alias}, which cut them: {n:,} of {n_sentences:,}"
        elif what == "questions" and n:
            asked = Asked.of(alias, counters)
            yield from (str(asked), *asked.repeatability)
            if asked.n_new:
                yield f"  {asked.estimate(run.n_rows, run.n_corpus_rows)}"
        elif what == "cut" and n:
            yield f"Texts too long for {alias}, which read a part of them: {n:,}"


def _places(run: ScoreRun) -> Iterator[str]:
    from cluster.store import join

    if run.is_complete:
        yield f"Page: {join(run.out, PAGE_FILE)}"
    yield f"Scores: {join(run.scores, 'part-*.parquet')}"
    yield f"Signatures: {join(run.out, 'run.json')}, and in the metadata of every scores file"
    if run.n_unreadable:
        yield f"Rows that could not be read: {join(run.out, 'errors')}"
