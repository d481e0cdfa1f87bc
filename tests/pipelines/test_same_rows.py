"""Every verb that reads a table reads the same rows of it, however and wherever it is written."""

from __future__ import annotations

from collections import Counter
from urllib.parse import quote

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import pearsonr

import assay
from cluster import list_inputs
from cluster.reading import Wanted, read_files
from pipelines.datasets.files import records
from pipelines.prepare_pairs import prepare_pairs
from pipelines.settings.negatives import NegativesSettings
from tests.object_stores import bucket_of, s3_environment, server  # noqa: F401
from tests.pipelines.written_tables import (
    DOCUMENTS,
    NAMES,
    ROWS,
    STRAY,
    SYSTEMS,
    write_table,
)

KEYS = ("document_id", "system_id")
BY_KEY = {tuple(row[key] for key in KEYS): row for row in ROWS}


# What the verbs have to find, worked out from the rows alone


def _scored_means():
    means = {}
    for system in SYSTEMS:
        texts = [row["candidate"] for row in ROWS if row["system_id"] == system]
        means[system] = np.mean([len(text.split()) for text in texts if text])
    return means


def _difference():
    return np.mean([BY_KEY[d, "new"]["m"] - BY_KEY[d, "old"]["m"] for d in DOCUMENTS])


def _correlation():
    rated = [row for row in ROWS if row["quality"] is not None]
    return pearsonr([row["m"] for row in rated], [row["quality"] for row in rated])[0], len(rated)


@pytest.fixture(params=NAMES)
def table(request, tmp_path):
    return write_table(tmp_path, request.param)


@pytest.fixture(params=["path", "file URL"])
def place(request, table):
    return str(table) if request.param == "path" else table.as_uri()


def check_corpus(place):
    tables = read_files(list_inputs([place]), Wanted(needed=("candidate", "references", "sources")))
    rows = {(r["document_id"], r["system_id"]): r for t in tables for r in t.to_pylist()}
    assert {key: row["unreadable"] for key, row in rows.items()} == dict.fromkeys(BY_KEY)
    for key, row in BY_KEY.items():
        assert (rows[key]["candidate"] or "") == row["candidate"]
        assert rows[key]["references"] == [row["reference"]]
        assert rows[key]["sources"] == [row["source"]]


def check_compare(place):
    found = assay.compare(
        place, place, systems_a=["new"], systems_b=["old"], metrics=["m"], resamples=20
    )
    (row,) = found.rows
    assert row.n_documents == len(DOCUMENTS)
    assert row.difference == pytest.approx(_difference(), abs=1e-12)
    assert not any("left out" in note for note in found.notes)


def check_correlate(scores, ratings):
    found = assay.correlate(
        scores, ratings=ratings, metrics=["m"], aspects=["quality"], levels=["global"],
        coefficients=["pearson"], resamples=20,
    )  # fmt: skip
    value, n_rows = _correlation()
    assert found.about.n_rows == n_rows
    assert found.correlations["value"].to_list() == [pytest.approx(value, abs=1e-12)]


def check_preferences(place):
    (row,) = assay.preferences([place]).rows
    won = Counter(row["winner"] for row in ROWS)
    assert (row.wins_a, row.wins_b, row.ties) == (won["old"], won["new"], won["tie"])


def check_pairs(place, folder):
    settings = NegativesSettings(out="unused.parquet", split_anew=True)
    pairs = prepare_pairs([place], folder / "pairs", settings, seed=0, sides=())
    n_pairs = len({(row["source"], row["reference"]) for row in ROWS})
    assert (pairs.n_rows, sum(pairs.n_pairs.values())) == (len(ROWS), n_pairs)


def test_tables_are_read_alike(table, place):
    """By the verbs that take no scorer, which are quick."""
    check_corpus(place)
    check_preferences(place)
    check_correlate(as_scores(table, place), place)
    check_compare(as_scores(table, place))


def as_scores(table, place):
    """Name what scores can be: a folder is one of `assay score`, a glob names files of one kind."""
    if not table.is_dir():
        return place
    if table.name == "several kinds":
        return str(write_table(table.parent, "plain.csv"))
    return f"{place}/**/*.parquet"


@pytest.mark.parametrize("name", ["plain.parquet", "lines.jsonl"])
def test_data_set_is_read_alike(tmp_path, name):
    found = [record.cells for record in records(write_table(tmp_path, name))]
    assert [cells["article"] for cells in found] == [row["article"] for row in ROWS]


def test_marks_that_are_not_quoted_lose_no_row(tmp_path):
    """In a column that nobody asks for, and in the texts."""
    path = tmp_path / "stray.csv"
    path.write_bytes(STRAY)
    check_compare(str(path))
    check_correlate(str(path), str(path))
    check_preferences(str(path))
    assert len(list(records(path))) == len(ROWS)


# Every verb


def check_scores(run):
    means = _scored_means()
    assert run.n_rows == len(ROWS)
    assert dict(run.statuses) == {"candidate:empty": 1}
    assert {system: mean["length"] for system, mean in run.means.items()} == pytest.approx(means)


def check_all(table, place, folder):
    check_scores(assay.score(place, out=folder / "run", metrics="length", local=True))
    check_pairs(place, folder)
    (explained,) = assay.explain(place, document="d2", system="new", metric="rouge1_f")
    assert explained.system_id == "new"
    sheet = folder / "sheet.csv"
    made = assay.preferences([], make_sheet=place, out=sheet, systems=["old", "new"], n=2)
    assert made.n_eligible == len(DOCUMENTS) - 1  # a system left one empty


@pytest.mark.parametrize("name", ["plain.csv", "indented.json", "hive"])
def test_every_verb_reads_a_table(tmp_path, name):
    table = write_table(tmp_path, name)
    check_all(table, str(table), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_verb_reads_every_table(tmp_path, name):
    table = write_table(tmp_path, name)
    check_all(table, table.as_uri(), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["mac.csv", "unicode.csv", "spaces.csv", "nan.jsonl", "hive", "several kinds"]
)
def test_tables_are_judged_alike(tmp_path, name):
    place = write_table(tmp_path, name).as_uri()
    found = assay.judge(place, ratings=place, aspects=["quality"], resamples=20)
    assert found.n_rows == len(ROWS)
    assert found.result.about.n_rows == len(ROWS) - 2  # one text is empty, one is not rated


FRAMES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.Table.from_pylist,
    "dicts": list,
    "lists": lambda rows: {name: [row[name] for row in rows] for name in rows[0]},
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_rows_in_memory_are_read_alike(tmp_path, make):
    check_scores(assay.score(make(ROWS), out=tmp_path / "run", metrics="length", local=True))


@pytest.mark.slow
@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)
def test_rows_in_memory_are_judged_alike(make):
    found = assay.judge(make(ROWS), ratings=make(ROWS), aspects=["quality"], resamples=20)
    assert found.n_rows == len(ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_tables_of_a_store_are_read_alike(tmp_path, server, monkeypatch, name):  # noqa: F811
    (tmp_path / "bucket").mkdir()
    table = write_table(tmp_path / "bucket", name)
    for variable, value in s3_environment(server).items():
        monkeypatch.setenv(variable, value)
    place = f"s3://{bucket_of(server, tmp_path / 'bucket')}/{quote(name)}"
    check_corpus(place)
    check_preferences(place)
    check_correlate(as_scores(table, place), place)
    check_compare(as_scores(table, place))
    check_scores(assay.score(place, out=tmp_path / "run", metrics="length", local=True))
