"""The page of a run: mean scores with intervals, distributions, and the rows worth a look.

Of a large run a sample of its files is read; the means of all rows are in `run.json`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl
from markupsafe import Markup
from scipy.special import stdtrit  # `scipy.stats` takes a second to import

from cluster.manifest import EXPLAIN_FOLDER, SUCCESS_FILE
from cluster.store import join, list_names, read_whole
from pipelines.reports.charts import Axis, Mark, columns, spot, strip, ticks
from pipelines.reports.numbers import decimals, number, range_text, span
from pipelines.reports.pages import explain_file, render_page
from pipelines.reports.tables import PaperTable, to_latex, to_markdown
from pipelines.runs.score_run import ScoreRun
from pipelines.tables.keyed import KEYS, files_of, open_table
from sms.naming import counted, natural
from sms.signature import version
from sms.writing import isolated

MOST_ROWS = 500_000
"""Rows that are read; of more, files from all over the run."""
N_BINS = 30
"""Of a distribution."""
N_EXTREMES = 5
"""Rows shown at either end of a metric."""
N_REMARKS = 50
"""Rows with a status that are shown."""
CONFIDENCE = 0.95

Means = dict[str, tuple[float, float, float, int]]
"""By system: mean, ends of its interval (NaN where there is none), documents."""
RowOfMetric = tuple[str, str, str]
"""Document, system and score column."""
_NO_MEAN = (np.nan, np.nan, np.nan, 0)


def render_run(
    run: ScoreRun,
    meanings: Mapping[str, str | None],
    pictures: Mapping[RowOfMetric, str] = MappingProxyType({}),
) -> str:
    """Render the page of a finished run.

    `meanings` says what a higher value of a column means, `pictures` has explanations (SVG) of
    some of the extreme rows.
    """
    rows = read_rows(run)
    pages = list_names(join(run.out, EXPLAIN_FOLDER))
    means = {name: document_means(rows, name) for name in run.main_columns}
    table = _means_table(run, means)
    numbers = [n for of_metric in means.values() for *_, n in of_metric.values()] or [0]
    return render_page(
        "scores.html",
        styles=["picture.css", "scores.css"],
        scripts=["page.js"],
        run=run,
        lead=f"{counted(run.n_rows, 'row')} of {counted(len(run.means), 'system')}",
        documents=f"{range_text(numbers)} {'document' if {*numbers} == {1} else 'documents'}",
        same_documents=len({*numbers}) == 1,
        sample=None if len(rows) == run.n_rows else counted(len(rows), "row"),
        confidence=f"{CONFIDENCE:.0%}",
        gaps=any(map(run.has_gaps, means)),
        metrics=[
            _metric_view(run, rows, name, means[name], meanings.get(name))
            | {
                "extremes": [
                    _why(row, run.out, name, pages, pictures) for row in extremes(rows, name)
                ]
            }
            for name in means
        ],
        statuses=sorted(run.statuses.items(), key=lambda item: (-item[1], item[0])),
        remarks=rows.filter(pl.col("status").is_not_null())
        .select(*KEYS, "status")
        .head(N_REMARKS)
        .rows(),
        markdown=to_markdown(table),
        latex=to_latex(table, "scores"),
        version=version(),
    )


def document_means(rows: pl.DataFrame, metric: str) -> Means:
    """Average a metric by system: mean, ends of its interval, documents.

    Rows of one document belong together: the interval is Student's over documents, of a ratio of
    two sums (Cochran 1977, "Sampling Techniques", section 6.3). No ends for a single document.
    """
    sums = (
        rows.select(*KEYS, value=pl.col(metric))
        .drop_nulls("value")
        .group_by(KEYS, maintain_order=True)
        .agg(total=pl.col("value").sum(), n=pl.len())
    )
    by_system = {}
    for (system,), group in sums.group_by("system_id", maintain_order=True):
        totals, counts = group["total"].to_numpy(), group["n"].to_numpy()
        mean, n_documents = totals.sum() / counts.sum(), len(totals)
        low = high = np.nan
        if n_documents > 1:
            residuals = totals - mean * counts
            variance = n_documents / (n_documents - 1) * (residuals**2).sum()
            error = np.sqrt(variance) / counts.sum()
            half = stdtrit(n_documents - 1, 0.5 + 0.5 * CONFIDENCE) * error
            low, high = mean - half, mean + half
        by_system[str(system or "")] = float(mean), float(low), float(high), n_documents
    return by_system


def read_rows(run: ScoreRun) -> pl.DataFrame:
    """Read the scores, or those of so many files, from all over the run, as are not too many."""
    parts = read_whole(join(run.out, SUCCESS_FILE)).decode().split()
    n_files = max(1, len(parts) * MOST_ROWS // max(run.n_rows, 1))
    if n_files < len(parts):
        places = np.linspace(0, len(parts) - 1, n_files).round().astype(int)
        parts = [parts[i] for i in np.unique(places)]
    files = [file for part in parts for file in files_of(join(run.out, part))]
    return open_table(files, {}).read([*run.main_columns, "status"]).frame


def _means_table(run: ScoreRun, means: Mapping[str, Means]) -> PaperTable:
    """Lay out the means of all rows, with half the width of their intervals."""
    systems = sorted(run.means, key=natural)
    columns = []
    for name, of_metric in means.items():
        n_decimals = decimals(each[name] for each in run.means.values())
        halves = [mean - low for mean, low, *_ in (of_metric.get(s, _NO_MEAN) for s in systems)]
        columns.append(
            [
                number(run.means[system][name], n_decimals)
                + ("" if np.isnan(half) else f" ± {number(half, n_decimals)}")
                + (f" ({run.counts[system][name]:,})" if run.has_gaps(name) else "")
                for system, half in zip(systems, halves, strict=True)
            ]
        )
    caption = f"Mean and half of the {CONFIDENCE:.0%} interval over documents."
    if any(map(run.has_gaps, means)):
        caption += " In brackets: number of rows with a score, if systems differ in it."
    return PaperTable(
        title="Mean scores",
        caption=caption,
        header=["System", *means],
        alignment="l" + "r" * len(means),
        rows=[*zip([system or "(none)" for system in systems], *columns, strict=True)],
    )


def _metric_view(
    run: ScoreRun,
    rows: pl.DataFrame,
    metric: str,
    means: Means,
    meaning: str | None,
) -> dict[str, Any]:
    values = rows[metric].drop_nulls().to_numpy()
    n_without = len(rows) - values.size
    n_decimals = decimals(mean for mean, *_ in means.values())
    axis = Axis.of_numbers(end for mean in means.values() for end in mean[:3])
    ranked = sorted(means.items(), key=lambda item: -item[1][0])
    without = sorted((name for name in run.means if name not in means), key=natural)
    return {
        "name": metric,
        "meaning": meaning,
        "signature": run.signatures.get(metric, ""),
        "n": counted(values.size, "score")
        + (f", {counted(n_without, 'row')} without" if n_without else "")
        + (f"; no score at all: {', '.join(name or '(none)' for name in without)}" * bool(without)),
        "has_gaps": run.has_gaps(metric),
        "ticks": ticks(axis),
        "all_systems": strip(
            axis,
            [
                Mark(mean, "mark", f"{isolated(system or '(none)')}: {number(mean, n_decimals)}")
                for system, (mean, *_) in ranked
            ],
            lines=[Mark(axis.low, "line")],
            label=f"Mean {metric} of all systems",
        ),
        "systems": [
            {
                "name": system or "(none)",
                "mean": mean,
                "shown": number(mean, n_decimals),
                "drawn": spot(axis, mean, (low, high)),
                "interval": span(low, high, n_decimals),
                "half": number(mean - low, n_decimals),
                "n": n,
                "n_rows": run.counts[system][metric],
            }
            for system, (mean, low, high, n) in ranked
        ],
        "bins": _bins(metric, values, n_decimals),
    }


def _bins(metric: str, values: np.ndarray, n_decimals: int) -> dict[str, Any] | None:
    if not values.size:
        return None
    try:
        counts, edges = np.histogram(values, bins=N_BINS)
    except ValueError:  # they differ in their last bits, too little for so many bins
        counts, edges = np.histogram(np.full_like(values, values[0]), bins=N_BINS)
    ends = [number(float(edge), n_decimals) for edge in edges]
    titles = [
        f"{low} to {high}: {counted(int(n), 'row')}"
        for n, low, high in zip(counts, ends[:-1], ends[1:], strict=True)
    ]
    drawn = columns(counts.tolist(), titles, f"Distribution of {metric}")
    return {"drawn": drawn, "low": ends[0], "high": ends[-1]}


def extremes(rows: pl.DataFrame, metric: str) -> Iterator[dict[str, Any]]:
    """Yield the lowest and the highest rows: which `end`, `document`, `system` and `value`."""
    kept = rows.select(*KEYS, value=pl.col(metric)).drop_nulls("value").sort("value", *KEYS)
    n = min(N_EXTREMES, len(kept) // 2)
    for end, some in (("lowest", kept.head(n)), ("highest", kept.tail(n).reverse())):
        for document, system, value in some.iter_rows():
            yield {"end": end, "document": document, "system": system, "value": f"{value:.4g}"}


def _why(
    row: Mapping[str, Any],
    out: str,
    metric: str,
    pages: Sequence[str],
    pictures: Mapping[RowOfMetric, str],
) -> dict[str, Any]:
    """Add what explains a row, a page and a picture, or the command that makes it.

    Nothing explains a row without ids.
    """
    page, command, picture = None, None, None
    if (document := row["document"]) is not None and (system := row["system"]) is not None:
        picture = pictures.get((document, system, metric))
        if (name := explain_file(document, system, metric)) in pages:
            page = f"{EXPLAIN_FOLDER}/{name}"
        else:
            place = ("--document", document, "--system", system, "--metric", metric)
            start = ("assay", "explain", "--scores", out)
            command = shlex.join([*start, *place, "--out", "page.html"])
    return {**row, "page": page, "command": command, "picture": picture and Markup(picture)}
