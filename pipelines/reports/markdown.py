"""The agreement report as one Markdown file: where the numbers come from, then every table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipelines.reports.tables import PaperTable, escape_markdown, to_markdown
from pipelines.reports.words import counted, listed
from pipelines.tables.records import About, AgreementResult

LONG_TABLES = ("differences", "systems", "sample_size", "disagreements")
"""Beginnings of the names of tables that are only named, for they are for programs."""


def render_markdown(result: AgreementResult, tables: Sequence[PaperTable]) -> str:
    """Write the report as Markdown.

    Parameters
    ----------
    result : AgreementResult
        What was computed.
    tables : sequence of PaperTable
        In the order in which they shall stand.
    """
    about = result.about
    lines = [
        "# Agreement with human ratings",
        "",
        f"{counted(len(result.score_names), 'metric')} against ratings of "
        f"{escape_markdown(listed(result.aspects))}: {counted(len(about.systems), 'system')}, "
        f"{counted(about.n_documents, 'document')}.",
        "",
        *(f"- {escape_markdown(note)}" for note in about.notes),
        "",
    ]
    for table in tables:
        lines += [f"## {escape_markdown(table.title)}", "", escape_markdown(table.caption), ""]
        if table.name.startswith(LONG_TABLES):
            rows = counted(len(table.frame), "row")
            lines += [f"{rows}, in `tables/{table.name}.csv`.", ""]
        else:
            lines += [to_markdown(table)]
    lines += ["## How this was made", "", *_provenance(about)]
    return "\n".join(lines) + "\n"


def _provenance(about: About) -> Iterator[str]:
    versions = ", ".join(f"{name} {version}" for name, version in about.libraries.items())
    facts = {
        "Command": about.command,
        "Versions": f"assay {about.version}, {versions}",
        "Seed": f"{about.seed}, with {about.n_resamples:,} resamples",
        "Systems": ", ".join(about.systems),
        "Left out": ", ".join(about.excluded_systems) or "none",
        "Raters": about.raters,
    }
    facts |= {f"Signature of {metric}": text for metric, text in about.signatures.items()}
    facts |= {
        f"Read as {file.role}, {file.path}": f"{file.bytes:,} bytes, SHA-256 {file.sha256}"
        for file in about.inputs
    }
    return (f"- {escape_markdown(name)}: {escape_markdown(text)}" for name, text in facts.items())
