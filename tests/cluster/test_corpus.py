"""Copies of a corpus that is no Parquet."""

import os

from cluster.corpus import with_copies


def test_folder_of_the_copies_is_there_before_they_are_made(tmp_path, monkeypatch):
    there = []
    convert = lambda file, folder, **_: there.append(os.listdir(folder))  # noqa: E731
    monkeypatch.setattr("cluster.corpus.parquet_copy", convert)
    with_copies(["a.jsonl", "b.jsonl"], str(tmp_path), None, None)
    assert there == [["inputs"]] * 2
