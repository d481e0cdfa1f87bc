"""Systems with scores of different numbers of rows: every mean comes with its number."""

from __future__ import annotations

import re

import pytest

import assay
from pipelines.cli.app import run as run_command
from pipelines.summary import summary_text

TEXTS = {"steady": "The cat sat number {}.", "lazy": "The cat sat down number {}."}
N = 10


def _row(system, number):
    is_empty = system == "lazy" and number
    return {
        "document_id": f"d{number}",
        "system_id": system,
        "candidate": "" if is_empty else TEXTS[system].format(number),
        "reference": f"The cat sat down number {number}.",
        "quality": number % 3,
    }


ROWS = [_row(system, number) for number in range(N) for system in TEXTS]
# five words of the candidate are among six of the reference
STEADY = 2 * 1.0 * (5 / 6) / (1.0 + 5 / 6)


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uneven")
    return assay.score(ROWS, out=folder / "run", metrics="rouge1_f", local=True)


def test_terminal_shows_rows_beside_means(scored):
    assert scored.counts == {"lazy": {"rouge1_f": 1}, "steady": {"rouge1_f": N}}
    text = summary_text(scored)
    assert re.search(r"^lazy +1\.000 \(1\)$", text, re.MULTILINE)
    assert re.search(rf"^steady +{STEADY:.3f} \(10\)$", text, re.MULTILINE)
    assert "In brackets: number of rows with a score, if systems differ in it" in text
    assert not re.search(r"\x1b\[1m *1\.000", summary_text(scored, is_terminal=True))  # no best


def test_even_systems_are_shown_without(tmp_path):
    rows = [row for row in ROWS if row["document_id"] == "d0"]
    run = assay.score(rows, out=tmp_path / "run", metrics="rouge1_f", local=True)
    assert re.search(r"^lazy +1\.000$", summary_text(run), re.MULTILINE)
    assert re.search(r"\x1b\[1m *1\.000", summary_text(run, is_terminal=True))
    assert "(1)" not in page_of(run)


def page_of(run):
    with open(f"{run.out}/scores.html", encoding="utf-8") as page:
        return page.read()


def test_page_shows_rows_beside_means(scored):
    page = page_of(scored)
    assert page.count('<span class="muted">(1)</span>') == 2  # the overview, and the metric's table
    assert page.count('<span class="muted">(10)</span>') == 2
    assert "In brackets: number of rows with a score, if systems differ in it" in page
    assert re.search(r"\| lazy \| *1\.000[^|]*\(1\)", page)  # to be copied
    assert re.search(r"lazy &amp; *1\.000[^&]*\(1\)", page)


def test_system_without_any_score_is_named(tmp_path):
    rows = [row for row in ROWS if row["document_id"] != "d0"]
    run = assay.score(rows, out=tmp_path / "run", metrics="rouge1_f", local=True)
    assert re.search(r"^lazy +– \(0\)$", summary_text(run), re.MULTILINE)
    assert "no score at all: lazy" in page_of(run)


def test_comparison_says_on_what_two_systems_are_compared(scored, capsys):
    options = ["--systems-a", "lazy", "--systems-b", "steady"]
    assert run_command(["compare", scored.out, scored.out, *options]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "A (lazy) has a score for 1, B (steady) for 10; means and difference are over the 1 "
        "document that both have: rouge1_f" in said
    )
    found = assay.compare(scored, scored, systems_a=["lazy"], systems_b=["steady"])
    (row,) = found.frame().iter_rows(named=True)
    assert (row["n_a"], row["n_b"], row["n_documents"]) == (1, N, 1)


def test_report_says_that_means_are_over_different_documents(scored):
    path = f"{scored.out}-ratings.csv"
    with open(path, "w", encoding="utf-8") as file:
        file.write("document_id,system_id,quality\n")
        file.writelines(f"{r['document_id']},{r['system_id']},{r['quality']}\n" for r in ROWS)
    found = assay.correlate(scored, ratings=path, resamples=20)
    note = "Systems differ in how many documents their means are over: from 1 (lazy) to 10 (steady)"
    assert note in found.about.notes
