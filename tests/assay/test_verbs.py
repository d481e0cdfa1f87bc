"""The door: names, signatures, and rows of every kind scored as files are."""

from __future__ import annotations

import dataclasses
import datetime
import inspect
import json
import subprocess
import sys
import time
import uuid
from collections import UserDict
from decimal import Decimal
from pathlib import Path

import click
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import assay
from pipelines.cli.app import app
from pipelines.settings.compare import CompareSettings

METRICS = ["wms", "rouge1_f", "length"]
COLUMNS = {"candidate": "summary", "reference": "gold"}
ROWS = [
    {"summary": "A cat sat on a mat.", "gold": "The cat sat on the mat.", "n": 7},
    {"summary": "", "gold": "A dog ran.", "n": 5},
    {"summary": "Dogs run.", "gold": "A dog ran.", "n": 3},
]
MAKE = {
    "dicts": list,
    "pandas": lambda rows: pd.DataFrame(rows, index=["c", "a", "b"][: len(rows)]),
    "polars": pl.DataFrame,
    "arrow": pa.Table.from_pylist,
    "lists": lambda rows: {name: [row[name] for row in rows] for name in rows[0]},
}


def rows_of(table):
    if isinstance(table, pd.DataFrame):
        return table.astype(object).where(table.notna(), None).to_dict("records")
    if isinstance(table, pl.DataFrame):
        return table.to_dicts()
    if isinstance(table, dict):
        return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    return table.to_pylist() if isinstance(table, pa.Table) else table


def scores_in(part):
    return pq.read_table(part).select([*METRICS, "known_words@minilm", "status"]).to_pylist()


@pytest.fixture(scope="module")
def by_a_run(tmp_path_factory):
    """The same rows, scored as files."""
    folder = tmp_path_factory.mktemp("run")
    rows = [{"document_id": str(k), "system_id": "s", **row} for k, row in enumerate(ROWS)]
    pq.write_table(pa.Table.from_pylist(rows), folder / "corpus.parquet")
    run = assay.score(folder / "corpus.parquet", out=folder / "out", metrics=METRICS, **COLUMNS)
    (part,) = Path(run.out).glob("scores/*.parquet")
    return scores_in(part)


HELP = """import runpy, sys
sys.argv = ["assay", "--help"]
try:
    runpy.run_module("assay", run_name="__main__")
except SystemExit as end:
    assert end.code == 0
"""


@pytest.mark.parametrize(
    ("code", "quick"), [("import sys, assay", {"click"}), (HELP, set())], ids=["import", "help"]
)
def test_import_and_help_are_quick_and_load_nothing_heavy(code, quick):
    heavy = {"torch", "ray", "polars", "numpy", "pyarrow", "numba"} | quick
    code += f"\nsys.exit(', '.join({heavy} & set(sys.modules)) or 0)"
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True
    )
    assert time.perf_counter() - started < 5  # about 0.2 s; machines under test are busy
    assert (done.returncode, done.stderr) == (0, "")
    assert ("Score summaries, and find out" in done.stdout) == (code.startswith(HELP))


def test_names_are_those_that_are_offered_with_the_defaults_of_the_options():
    assert {name for name in dir(assay) if not name.startswith("_")} == set(assay.__all__)
    for name in {*assay.__all__} - {"Reward"}:
        function = getattr(assay, name)
        text = inspect.getdoc(function.__init__ if inspect.isclass(function) else function)
        parameters = inspect.signature(function).parameters
        for parameter in parameters.values():
            assert parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
            assert parameter.name in text or parameter.default is parameter.empty
        for setting in getattr(app.commands.get(name), "settings", ()):
            only_shown = name == "status" or setting.name in ("list", "dry_run")
            if not only_shown and setting.default is not dataclasses.MISSING:
                assert parameters[setting.name].default == setting.default


def test_options_are_few_and_follow_one_rule():
    commands = app.commands.values()
    options = [p for c in commands for p in c.params if isinstance(p, click.Option)]
    shown = [one for one in options if not one.hidden and "--help-all" not in one.opts]
    assert len(shown) <= 120
    assert not [option for option in options if "--resume" in option.opts]
    rules = {}
    for setting in (setting for c in commands for setting in getattr(c, "settings", ())):
        if setting.name in ("fresh", "limit", "json", "columns", "seed"):
            rules.setdefault(setting.name, set()).add((setting.form, setting.kind))
    assert all(len(rule) == 1 for rule in rules.values())


@pytest.mark.parametrize("kind", MAKE)
def test_same_kind_of_table_comes_back_with_the_scores_of_a_run(kind, by_a_run):
    data = MAKE[kind](ROWS)
    found = assay.score(data, metrics=METRICS, **COLUMNS)
    assert type(found) is type(data)
    assert rows_of(found) == [row | scores for row, scores in zip(ROWS, by_a_run, strict=True)]
    assert by_a_run[1]["status"] == "candidate:empty"
    assert {by_a_run[1][name] for name in METRICS} == {None}


def test_index_of_pandas_and_signatures_come_along():
    table = MAKE["pandas"](ROWS)
    found = assay.score(table, metrics="length", **COLUMNS)
    assert list(found.index) == ["c", "a", "b"]
    assert list(found.columns) == ["summary", "gold", "n", "length", "status"]
    assert np.isnan(found.loc["a", "length"])
    assert not table.attrs
    signatures = found.attrs["assay.signatures"]
    assert list(signatures) == ["length"]
    arrow = assay.score(MAKE["arrow"](ROWS), metrics="length", **COLUMNS)
    assert json.loads(arrow.schema.metadata[b"assay.signatures"]) == signatures


@pytest.mark.extra
def test_hugging_face_data_set():
    datasets = pytest.importorskip("datasets", reason="needs datasets; pip install datasets")
    data = datasets.Dataset.from_list(ROWS)
    found = assay.score(data, metrics=METRICS, **COLUMNS)
    assert isinstance(found, datasets.Dataset)
    assert found.column_names == ["summary", "gold", "n", *METRICS, "known_words@minilm", "status"]
    found = assay.score(data["summary"], reference=data["summary"], metrics="rouge1_f")
    assert [row["rouge1_f"] for row in found] == [1.0, None, 1.0]
    for wrong in (datasets.DatasetDict(test=data), data.to_iterable_dataset()):
        with pytest.raises(TypeError, match="`data` must be one split in memory, got "):
            assay.score(wrong, metrics="length", **COLUMNS)


@pytest.mark.parametrize(
    "series",
    [list, pd.Series, pl.Series, pa.array, np.array],
    ids=["list", "pandas", "polars", "arrow", "numpy"],
)
def test_lists_and_columns_of_texts(series):
    texts = ["A cat.", "Dogs run.", None]
    found = assay.score(
        series(texts), reference=series(["A cat.", None, "Cats."]), metrics="rouge1_f"
    )
    assert [row["rouge1_f"] for row in found] == [1.0, None, None]
    assert [row["status"] for row in found] == [None, "reference:missing", "candidate:null"]


def test_several_references_in_a_cell_or_in_columns():
    table = pl.DataFrame({"candidate": "Dogs run.", "a": "A dog ran.", "b": "Dogs run."})
    found = assay.score(table, reference=["a", "b"], metrics="rouge1_f", multi_reference="mean")
    assert found["rouge1_f"].to_list() == [0.5]
    rows = [{"candidate": "Dogs run.", "references": ["A dog ran.", "Dogs run."]}]
    assert assay.score(rows, metrics="rouge1_f")[0]["rouge1_f"] == 1.0


def test_rows_with_a_folder_are_a_run_that_goes_on(tmp_path, by_a_run):
    first = assay.score(ROWS, out=tmp_path / "out", metrics=METRICS, **COLUMNS)
    again = assay.score(ROWS, out=tmp_path / "out", metrics=METRICS, **COLUMNS)
    assert (first.n_rows, first.n_new_shards, again.n_new_shards) == (3, 1, 0)
    (part,) = Path(first.out).glob("scores/*.parquet")
    assert scores_in(part) == by_a_run


TWICE = pd.DataFrame([["a", "b"]], columns=["candidate", "candidate"])
TEXTS = {"candidate": ["a", "b"], "reference": ["a", "b"]}
TABLE = pd.DataFrame(TEXTS)
REPEATED = pa.table({name: pc.run_end_encode(pa.array(texts)) for name, texts in TEXTS.items()})
ONLY = "`data` has no column `{}`, only summary, gold, n; name the right one with `{}=`$"
WRONG = [
    ("corpus.parquet", {}, "`out` must name a folder for the scores of files"),
    (["a", "b"], {}, "to score texts, not files, give `reference` or `source` as lists"),
    (ROWS, {}, ONLY.format("candidate", "candidate")),
    (ROWS, {"candidate": "summary"}, ONLY.format("reference", "reference")),
    (ROWS, COLUMNS | {"reference": ["gold", "nope"]}, ONLY.format("nope", "reference")),
    (ROWS, {"metric": "length"}, "did you mean `metrics`"),
    (ROWS, {"system_id": "n"}, r"columns=\{'system_id': NAME\}"),
    (ROWS, COLUMNS | {"limit": 1}, "`limit` is for files"),
    ({"summary": ["a", "b"], "gold": ["a"]}, COLUMNS, r"equally long, got summary \(2\), gold \(1"),
    (TEXTS | {"reference": "ab"}, {}, "column `reference` of `data` must be a list, got 'ab'"),
    (["a", "b"], {"reference": ["a"]}, "`reference` must have a text for each of 2 candidates"),
    (TABLE, {"columns": {"document_id": "nope"}}, "`data` has no column `nope`, only cand"),
    (TABLE, {"columns": {"candidat": "a"}}, "unknown column `candidat` in `columns`; did you"),
    (TABLE, {"reference": []}, "`reference` must be the name of a column, or a list of sev"),
    (TABLE, {"reference": pd.Series(["x"])}, "`data` has no column `x`"),
    (ROWS, COLUMNS | {"workers": 2}, "`workers` is for files, and for rows with `out`; leave it"),
    ([{"candidate": 1}], {"metrics": "length"}, "`candidate` in `data` must be text, got int64"),
    (np.array([["a", "b"]]), {}, "column `candidate` of `data` must have cells of one kind"),
    (TWICE, {}, "`data` must have a column `candidate` once"),
    (TABLE[:0], {}, "`data` must have at least one row, got none"),
    ([], {"reference": []}, "`data` must have at least one row, or name at least one file"),
    (None, {}, "`data` must be rows or files, got NoneType"),
    ("corpus.csv", {"reference": ["a", "b"], "out": "o"}, "`reference` must be the name of one"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "options", "message"), WRONG, ids=range(len(WRONG)))
def test_wrong_rows_are_answered_in_one_line(data, options, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        assay.score(data, **{"metrics": "rouge1_f", **options})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", MAKE)
def test_own_columns_called_like_ours_stay_and_a_second_call_replaces_ours(kind):
    user_columns = {"status": "done", "length": "long"}
    first = assay.score(
        MAKE[kind]([row | user_columns for row in ROWS]), metrics="length", **COLUMNS
    )
    ours = [6.0, None, 2.0]  # words of the summaries, counted by hand
    why = [None, "candidate:empty", None]
    both = [
        user_columns | {"assay.length": x, "assay.status": y}
        for x, y in zip(ours, why, strict=True)
    ]
    expected = [row | more for row, more in zip(ROWS, both, strict=True)]
    assert rows_of(first) == expected
    assert rows_of(assay.score(first, metrics="length", **COLUMNS)) == expected


def test_signature_is_called_like_its_column():
    data = MAKE["pandas"]([row | {"length": "long"} for row in ROWS])
    found = assay.score(data, metrics="length", **COLUMNS)
    assert [*found.attrs["assay.signatures"]] == ["assay.length"]


def test_repeated_cells_of_arrow_are_read():
    scored = assay.score(REPEATED, metrics="rouge1_f")
    assert (
        scored["rouge1_f"].to_pylist()
        == assay.score(TABLE, metrics="rouge1_f")["rouge1_f"].tolist()
    )


UUIDS = [uuid.UUID(int=k) for k in (1, 2)]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([1, 2], ["1", "2"]),
        ([1.0, 2.0], ["1", "2"]),
        ([0.5, None], ["0.5", None]),
        ([True, False], ["true", "false"]),
        ([2**63, 1], ["9223372036854775808", "1"]),
        ([1, "a"], ["1", "a"]),
        (UUIDS, list(map(str, UUIDS))),
        ([each.bytes for each in UUIDS], list(map(str, UUIDS))),
        ([b"a", b"\xff"], ["a", "\\xff"]),
        ([Decimal("1.50"), Decimal("2.00")], ["1.50", "2.00"]),
        ([datetime.date(2026, 1, 2), None], ["2026-01-02", None]),
    ],
)
def test_ids_of_any_type_are_text(tmp_path, ids, expected):
    run = assay.score(TEXTS | {"document_id": ids}, metrics="length", out=tmp_path / "out")
    scores = run.to_arrow()
    assert scores["document_id"].to_pylist() == expected
    assert scores["length"].null_count == 0


def test_ids_that_cannot_be_text_matter_to_a_run_alone(tmp_path):
    table = TABLE.assign(document_id=[[1], [2]])
    assert list(assay.score(table, metrics="rouge1_f")["rouge1_f"]) == [1.0, 1.0]
    with pytest.raises(ValueError, match="`document_id` in `data` must be text or a number"):
        assay.score(table, metrics="rouge1_f", out=tmp_path / "out")


def test_columns_may_have_any_name_and_hold_objects():
    table = pd.DataFrame({0: ["A cat."], "b": ["A cat."], "id": ["x"]})
    columns = {"candidate": "0", "references": "b", "document_id": "id"}
    assert assay.score(table, columns=columns, metrics="rouge1_f")["rouge1_f"].tolist() == [1.0]
    lists = {"document_id": ["x", "y"], "candidate": ["A.", "B."], "reference": ["A.", "C."]}
    series = {name: pl.Series(cells, dtype=pl.Object) for name, cells in lists.items()}
    scored = assay.score(pl.DataFrame(series), metrics="rouge1_f")
    assert scored["rouge1_f"].to_list() == [1.0, 0.0]


def test_odd_cells_are_missing_or_unreadable():
    candidates = ["A.", "A \ud800.", float("nan")]
    rows = [{"candidate": candidate, "reference": "A."} for candidate in candidates]
    for given, status in zip(rows, [None, "unreadable", "candidate:null"], strict=True):
        [row] = assay.score([given], metrics="rouge1_f")
        assert row["rouge1_f"] == (None if status else 1.0)
        assert (row["status"] or "").startswith(status or "")


@pytest.mark.parametrize("wrong", [None, [3], pd.DataFrame(TEXTS)])
@pytest.mark.parametrize(
    ("verb", "options"),
    [
        (assay.correlate, {"ratings": "ratings.csv"}),
        (lambda data: assay.compare(data, data), {}),
        (assay.explain, {"document": "d"}),
        *((verb, {"out": "out"}) for verb in (assay.train, assay.negatives, assay.reinforce)),
        (lambda data: assay.evaluate("news", data), {}),
        (assay.preferences, {}),
        (assay.reproduce, {}),
    ],
)
def test_what_is_no_path_is_answered(verb, options, wrong):
    with pytest.raises(TypeError, match=r"^`\w+` must be a name or a path.*, got .*$"):
        verb(wrong, **options)


def test_numbers_of_numpy_and_any_iterable_are_settings():
    given = {"resamples": np.int64(7), "metrics": (name for name in ["a", "b"])}
    settings = CompareSettings(**given)
    assert (settings.resamples, settings.metrics) == (7, ("a", "b"))
    with pytest.raises(ValueError, match=r"`resamples` must be a whole number, got a DataFrame$"):
        CompareSettings(resamples=pd.DataFrame(TEXTS))


def test_a_run_is_given_as_its_path_is_and_has_tables(tmp_path):
    run = assay.score(ROWS, out=tmp_path / "out", metrics="length", keep="n", **COLUMNS)
    assert assay.status(run) == assay.status(tmp_path / "out")
    expected = [{"n": 7, "length": 6.0}, {"n": 5, "length": None}, {"n": 3, "length": 2.0}]
    assert run.to_polars().select("n", "length").to_dicts() == expected
    assert run.to_arrow().select(["n", "length"]).to_pylist() == expected
    assert run.to_pandas()["n"].tolist() == [7, 5, 3]


def test_batch_of_a_mapped_data_set_is_a_dict_of_lists():
    """A class of `datasets` that is a mapping is no column of texts."""
    kind = type("LazyBatch", (UserDict,), {"__module__": "datasets.formatting.formatting"})
    batch = kind({"candidate": ["A cat sat."], "reference": ["A cat."]})
    assert assay.score(batch, metrics=["rouge1_r"])["rouge1_r"] == [1.0]
