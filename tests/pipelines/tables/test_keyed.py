"""Tables with the keys of a row."""

import polars as pl

from pipelines.tables.keyed import files_of, number_columns, open_table


def test_numbers_in_text_and_gaps():
    columns = {"x": [" 1.5", "", "nan"], "y": [True, False, None], "z": ["p", "q", None]}
    frame = pl.DataFrame({"document_id": ["a", "b", "c"], "system_id": "s", **columns})
    found, kept, _ = number_columns(frame, ["x", "y", "z"], "here")
    assert found["x"].to_list() == [1.5, None, None]
    assert found["y"].to_list() == [1.0, 0.0, None]
    assert kept == ["x", "y"] == found.columns[2:]


def test_column_named_like_a_pattern_is_a_column(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("document_id,model,*\nd,s,1\n", encoding="utf-8")
    table = open_table(files_of(str(path)), {"system_id": "model"})
    assert table.read().frame.columns == ["document_id", "system_id", "*"]
