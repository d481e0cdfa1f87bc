"""What is wrong is said in one line with file and line, and nothing is written."""

import gzip
import io
import json
import re
import tracemalloc

import polars as pl
import pytest

from cluster import text_blocks
from pipelines.cli.app import run
from pipelines.datasets import files
from pipelines.datasets.readers import SOURCES

GOOD = {"id": "a", "article": "A ship sank.", "highlights": "A ship sank."}
LINE = f"{json.dumps(GOOD)}\n".encode()

# a file, what it holds, what is said of it
BROKEN = [
    ("a.jsonl", LINE + LINE + b'{"id": "b", "arti\n', "a.jsonl, line 3 cannot be read: malformed"),
    ("a.jsonl", LINE + b'{"id": ' + b"1" * 5_000, "a.jsonl, line 2 cannot be read: malformed JSON"),
    ("a.jsonl", LINE + b'{"id": ' + b"[" * 200_000, "a.jsonl, line 2 cannot be read: malformed"),
    ("a.jsonl", LINE + LINE.replace(b"ship", b"\xff"), "a.jsonl, line 2 must be Unicode"),
    (
        "a.jsonl",
        LINE * 1_500 + LINE.replace(b'"A ship sank."', b"3.5"),
        "line 1501 must be text, got",
    ),
    ("a.jsonl", rb'{"id": "a", "article": "\ud83d alone", "highlights": "S"}', "1 must be Unicode"),
    ("data.tar.gz", b"x", "data.tar.gz is an archive; unpack it, and name the folder"),
    ("a.docx", b"x", "`FILES` must be those of cnn-dailymail: *.parquet or *.jsonl"),
]


@pytest.mark.parametrize(("name", "content", "message"), BROKEN, ids=range(len(BROKEN)))
def test_broken_line_or_file_of_no_use_is_named(refused, write, name, content, message):
    said = refused("cnn-dailymail", write(name, content))
    assert message in said
    assert name in said


def test_escaped_pair_of_surrogates_is_a_character(importing, write):
    line = r'{"id": "a", "article": "\ud83d\ude00 ok", "highlights": "S"}'
    found = importing("cnn-dailymail", write("whole.jsonl", line)).corpus
    assert found["source"].to_list() == ["\U0001f600 ok"]


def test_damaged_files_are_named(refused, write):
    path = write("test.jsonl.gz", [GOOD | {"id": str(i)} for i in range(2_000)])
    path.write_bytes(path.read_bytes()[:-50])
    said = refused("cnn-dailymail", path)
    assert "test.jsonl.gz: Compressed file ended before the end-of-stream marker" in said
    whole = io.BytesIO()
    pl.DataFrame([GOOD] * 9).write_parquet(whole)
    data = whole.getvalue()
    for at in (5, -20):
        flipped = bytes(byte ^ 0xFF for byte in data[at:][:12])
        damaged = data[:at] + flipped + data[at:][12:]
        said = refused("cnn-dailymail", write("test.parquet", damaged))
        assert re.search(r"cannot read \S*test\.parquet: ", said)


@pytest.mark.parametrize(
    "name", ["test.jsonl", "test.jsonl.gz", "test.csv", "test.tsv.gz", "lines.story.gz"]
)
def test_no_more_of_a_line_or_story_is_read_than_a_record_may_have(monkeypatch, tmp_path, name):
    monkeypatch.setattr(text_blocks, "MAX_RECORD_BYTES", 1 << 10)
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 1 << 10)
    data, path = (b"ab\n" if "story" in name else b"abc") * (1 << 20), tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    del data
    tracemalloc.start()
    with pytest.raises(ValueError, match=rf"a record of .*{name} is longer than"):
        files.text_of(path) if "story" in name else list(files.records(path))
    assert tracemalloc.get_traced_memory()[1] < 1 << 19
    tracemalloc.stop()


def test_what_is_not_there_is_named(refused, write, tmp_path):
    folder = write("notes.docx", b"x").parent
    assert "needs files with texts, got none" in refused("cnn-dailymail", folder)
    write("data.tar.gz", b"x")
    assert "data.tar.gz is an archive" in refused("cnn-dailymail", folder)
    assert "no such file or folder" in refused("cnn-dailymail", tmp_path / "nowhere.jsonl")
    said = refused("cnn-dailymail", write("test.jsonl", [GOOD]), ratings=True)
    assert "`--ratings` of cnn-dailymail needs files with ratings, got none" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a data set"),
        (["sumeval", "x", "--out", "y.parquet"], "unknown data set `sumeval`; did you mean"),
        (["cnn-dailymail", "--out", "x.parquet"], "name the files of cnn-dailymail"),
        (["cnn-dailymail", "x.jsonl"], "`--out FILE` is missing"),
        (["cnn-dailymail", "x.jsonl", "--out", "x.csv"], "`--out` must end in .parquet"),
        (
            ["cnn-dailymail", "x.jsonl", "--out", "x.parquet", "--ratings", "x.parquet"],
            "the outputs must be different files",
        ),
    ],
)
def test_incomplete_request_rejected(arguments, message, capsys):
    assert run(["import", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_existing_output_kept(write, tmp_path, capsys):
    out = tmp_path / "mine.parquet"
    out.write_text("mine")
    assert run(["import", "cnn-dailymail", str(write("a.jsonl", [GOOD])), "--out", str(out)]) == 2
    assert "`--out` must not exist yet" in capsys.readouterr().err
    assert out.read_text() == "mine"


def test_data_sets_are_listed_and_described(capsys):
    assert run(["import", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines[1:-1]} == set(SOURCES)
    for name, source in SOURCES.items():
        assert run(["import", name]) == 0
        said = " ".join(capsys.readouterr().out.split())
        for text in (source.takes, source.licence, source.paper):
            assert " ".join(text.split()) in said
