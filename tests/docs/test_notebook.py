"""The notebook of the first hour runs, and prints what is kept in it.

Where other outputs are meant: `python -m tests.docs.test_notebook` writes them anew.
"""

import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.docs.test_examples import differs

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "examples" / "first_hour.ipynb"
LARGEST = 100_000
"""Bytes of the notebook with its outputs."""
MEASURED = re.compile(r"(?<=cheapest of all: )[^)]+|[\d,]+\s+rows/s|\d+\s+s\s+on")
"""Speeds, and which metric was the fastest, differ each time."""
LINK = re.compile(r"\]\(([^)#]+)")


def executed(notebook, folder):
    """Run a copy of a notebook in an empty folder."""
    copy = nbformat.from_dict(notebook)
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(copy, record_timing=False, resources=resources).execute()
    return copy


def cells_of(notebook, kind):
    return [cell for cell in notebook.cells if cell.cell_type == kind]


def texts_of(cell):
    """What a cell has printed and shown: texts by kind."""
    shown = {}
    for output in cell.outputs:
        assert output.output_type != "error", output
        data = output.get("data") or {output.get("name"): output.get("text")}
        for kind, text in data.items():
            shown[kind] = shown.get(kind, "") + "".join(text)
    return shown


@pytest.fixture(scope="module")
def kept():
    return nbformat.read(NOTEBOOK, as_version=4)


@pytest.mark.slow
def test_notebook_runs_and_shows_what_is_kept(kept, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    again = executed(kept, tmp_path)
    for before, after in zip(cells_of(kept, "code"), cells_of(again, "code"), strict=True):
        expected, printed = texts_of(before), texts_of(after)
        assert expected.keys() == printed.keys(), before.source
        for kind in expected.keys() & {"stdout", "stderr", "text/plain"}:
            wrong = differs(MEASURED.sub("...", expected[kind]), printed[kind])
            assert wrong is None, f"{before.source}\n{wrong}"


def test_outputs_are_kept_and_small(kept):
    cells = [texts_of(cell) for cell in cells_of(kept, "code")]
    assert all(cells)
    assert sum("image/svg+xml" in shown for shown in cells) >= 3
    assert NOTEBOOK.stat().st_size < LARGEST


def test_kept_outputs_name_no_folder_of_one_machine(kept):
    shown = "".join(text for cell in cells_of(kept, "code") for text in texts_of(cell).values())
    assert not re.search(r"/(home|root|tmp|Users|work)/", shown)


def test_links_lead_somewhere(kept):
    links = [link for cell in cells_of(kept, "markdown") for link in LINK.findall(cell.source)]
    assert len(links) > 3
    for link in links:
        assert (NOTEBOOK.parent / link).is_file(), link


def _write_outputs():
    """Run the notebook and keep what it shows."""
    folder = tempfile.mkdtemp()
    try:
        notebook = executed(nbformat.read(NOTEBOOK, as_version=4), folder)
    finally:
        shutil.rmtree(folder)
    notebook.metadata.pop("language_info", None)  # the version of one machine's Python
    nbformat.write(notebook, NOTEBOOK)


if __name__ == "__main__":
    _write_outputs()
