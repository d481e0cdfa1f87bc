"""What tests of commands and of pages share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipelines.reports.explain_page import render_explanations


def wrong(capsys: Any, result: tuple[int, object]) -> str:
    """Check that a call was refused, and return the one line that says why."""
    status, _ = result
    captured = capsys.readouterr()
    assert status == 2, captured
    (line,) = [text for text in captured.err.splitlines() if text.startswith("assay: ")]
    return str(line)


def page_of(explainer: Any, document: str, systems: Sequence[str] = ()) -> str:
    """Return the page of a document's explained systems, all of them by default."""
    return render_explanations(document, explainer.explain({document: systems})[document])
