"""The report of `correlate`: a page, Markdown, JSON and, if asked for, files for papers.

What the page shows is chosen in `agreement_view`; how it looks is in `templates/`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from cluster.store import write_whole
from pipelines.reports.agreement_view import Grid, Row, grids, report_view
from pipelines.reports.charts import draw_svg, paper_plots
from pipelines.reports.numbers import UNDEFINED, interval_text, number_text, range_text
from pipelines.reports.pages import render_page
from pipelines.reports.tables import PaperTable, escape_markdown, to_markdown
from pipelines.reports.verdict import verdict_of
from pipelines.reports.words import selection
from pipelines.settings.correlate import CORRELATIONS
from pipelines.tables.records import About, AgreementResult
from sms.naming import natural

COUNTS = {
    "n_systems": "systems",
    "n_documents": "documents",
    "n_missing": "missing cells",
    "n_skipped": "skipped documents",
}
"""Columns of the correlations that stand beside every number, with what they count."""


def write_report(result: AgreementResult, out: Path, *, all_tables: bool = False) -> None:
    """Write the page and the Markdown; each file appears whole or not at all.

    With `all_tables` also `plots/*.svg`. Without a correlation to report nothing is written: a
    `ValueError`.
    """
    files = {
        "report.html": _utf8(render_report(result, out)),
        "report.md": _utf8(render_markdown(result)),
    }
    if all_tables:
        for name, plot in paper_plots(result).items():
            files[f"plots/{name}.svg"] = draw_svg(plot)
    for name, content in files.items():
        write_whole(out / name, content)


def render_report(result: AgreementResult, folder: Path) -> str:
    """Render the page as one self-contained file; explain pages in `folder` are linked to."""
    return render_page(
        "agreement_report.html",
        styles=["agreement_report.css"],
        scripts=["agreement_report.js"],
        with_charts=True,
        about=result.about,
        view=report_view(result, folder),
    )


def render_markdown(result: AgreementResult) -> str:
    """Write the report as Markdown: verdict, tables, and where the numbers come from."""
    about = result.about
    verdict = verdict_of(result, about.main_level, about.main_coefficient)
    is_judged = about.main_coefficient in CORRELATIONS
    parts = [
        "# Which metric agrees with people",
        *(["\n".join(map(_item, verdict.lines()))] if is_judged else []),
        f"{verdict.title}.",
        verdict.meaning,
        "\n".join(f"- {escape_markdown(note)}" for note in about.notes),
    ]
    for table in (correlation_table(grid, result) for grid in grids(result)):
        parts += [f"## {escape_markdown(table.title)}", escape_markdown(table.caption)]
        parts += [to_markdown(table).strip()]
    return "\n\n".join([*parts, "## How this was made", "\n".join(_provenance(about))]) + "\n"


def _item(paragraph: str) -> str:
    """Write a paragraph of the verdict as an item; its further lines, of aspects, are apart."""
    first, *others = (escape_markdown(line.strip()) for line in paragraph.split("\n"))
    return "\n".join([f"- {first}", *(f"  - {line}" for line in others)])


def _provenance(about: About) -> Iterator[str]:
    versions = ", ".join(f"{name} {version}" for name, version in about.libraries.items())
    facts = {
        "Command": about.command,
        "Versions": f"assay {about.version}, {versions}",
        "Seed": f"{about.seed}, with {about.n_resamples:,} resamples",
        "Systems": ", ".join(sorted(about.systems, key=natural)),
        "Left out": ", ".join(about.excluded_systems) or "none",
        "Raters": about.raters,
    }
    facts |= {f"Signature of {metric}": text for metric, text in about.signatures.items()}
    facts |= {
        f"Read as {file.role}, {file.path}": f"{file.bytes:,} bytes, SHA-256 {file.sha256}"
        for file in about.inputs
    }
    return (f"- {escape_markdown(name)}: {escape_markdown(text)}" for name, text in facts.items())


def _utf8(text: str) -> bytes:
    # A command line or a file name may hold bytes that are no text.
    return text.encode("utf-8", "replace")


def correlation_table(grid: Grid, result: AgreementResult) -> PaperTable:
    """Lay out the metrics by aspects of a grid, as papers do."""
    rows = list(grid.cells(result))
    return PaperTable(
        title=f"{grid.name} with ratings, {grid.level} level",
        caption=_caption(grid.rows, result),
        header=["Metric", *result.aspects],
        alignment="l" + "r" * len(result.aspects),
        rows=[[metric, *map(_estimate, cells)] for metric, _, cells in rows],
        bold=[
            (i, j)
            for i, (*_, cells) in enumerate(rows)
            for j, cell in enumerate(cells, 1)
            if cell["is_best"]
        ],
    )


def _estimate(cell: Row) -> str:
    """Show a value with its interval, or the reason if undefined."""
    if cell["value"] is None:
        return f"{UNDEFINED} ({cell['reason'] or 'undefined'})"
    interval = interval_text(cell["low"], cell["high"], 2)
    value = number_text(cell["value"])
    return value if interval == UNDEFINED else f"{value} {interval}"


def _caption(rows: pl.DataFrame, result: AgreementResult) -> str:
    chosen = selection(result.about.raters, result.about.excluded_systems)
    counts = ", ".join(f"{noun} {range_text(rows[name])}" for name, noun in COUNTS.items())
    caption = f"{chosen[:1].upper()}{chosen[1:]}. {counts[:1].upper()}{counts[1:]}."
    if rows["low"].is_not_null().any():
        share, resampled = f"{100 * result.about.confidence:g} %", result.about.resampled
        caption += f" In brackets: {share} bootstrap interval over {resampled}."
    if rows["is_best"].any():
        caption += " Bold: the best metric that is not a baseline."
    return caption
