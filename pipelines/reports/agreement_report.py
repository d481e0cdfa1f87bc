"""The report of `correlate`: a page to look at, and tables and plots for papers.

`write_report` writes `report.html`, `report.md`, `tables/*.csv`, `tables/*.tex`, `plots/*.svg` and
`plots/*.png`. What the page shows is chosen in `view`; how it looks is in `templates/`.
"""

from __future__ import annotations

from pathlib import Path

from cluster.store import write_whole
from pipelines.reports.charts import draw_files, paper_plots
from pipelines.reports.markdown import render_markdown
from pipelines.reports.pages import render_page
from pipelines.reports.tables import paper_tables, to_csv, to_latex
from pipelines.reports.view import report_view
from pipelines.tables.records import AgreementResult

PAGE_FILE = "report.html"
MARKDOWN_FILE = "report.md"
TABLES_FOLDER = "tables"
PLOTS_FOLDER = "plots"


def write_report(result: AgreementResult, out: Path) -> None:
    """Write the page, the tables and the plots; each file appears whole or not at all.

    Parameters
    ----------
    result : AgreementResult
        What `correlate` has computed.
    out : path
        Folder; made when missing. Files of an earlier report are replaced.

    Raises
    ------
    ValueError
        If there is no correlation to report.
    """
    out = Path(out)
    tables = paper_tables(result)
    files = {
        PAGE_FILE: _utf8(render_report(result, out)),
        MARKDOWN_FILE: _utf8(render_markdown(result, tables)),
    }
    for table in tables:
        files[f"{TABLES_FOLDER}/{table.name}.csv"] = _utf8(to_csv(table))
        files[f"{TABLES_FOLDER}/{table.name}.tex"] = _utf8(to_latex(table))
    for name, plot in paper_plots(result).items():
        for suffix, content in draw_files(plot).items():
            files[f"{PLOTS_FOLDER}/{name}{suffix}"] = content
    for name, content in files.items():
        write_whole(out / name, content)


def render_report(result: AgreementResult, folder: Path) -> str:
    """Render the page as one self-contained file.

    Parameters
    ----------
    result : AgreementResult
        What `correlate` has computed.
    folder : path
        Where the page will be: explain pages that are there already are linked to.
    """
    return render_page(
        "agreement_report.html",
        styles=["agreement_report.css"],
        scripts=["agreement_report.js"],
        with_charts=True,
        about=result.about,
        view=report_view(result, folder),
    )


def _utf8(text: str) -> bytes:
    # A command line or a file name may hold bytes that are no text.
    return text.encode("utf-8", "replace")
