"""What is wrong is said in one line with file and line, and nothing is written."""

import errno
import gzip
import io
import os
import tarfile

import numpy as np
import polars as pl
import pytest

from pipelines.datasets import files
from pipelines.datasets.run import SOURCES
from tests.rare import run

from .conftest import as_bytes, tar_of

BLOCK = tarfile.BLOCKSIZE  # a member of the archives here is a header and one block of text
STORY = "A ship sank.\n\n@highlight\n\nShip sinks\n"
GOOD = {"id": "a", "article": "A ship sank.", "highlights": "A ship sank."}


def test_broken_line_names_file_and_line(refused, write):
    text = as_bytes("x", [GOOD, GOOD]) + b'{"id": "b", "arti\n'
    assert "test.jsonl, line 3 must be a JSON object" in refused(
        "cnn-dailymail", write("test.jsonl", text)
    )


@pytest.mark.parametrize("value", ["1" * 5_000, "[" * 200_000])
def test_json_beyond_what_python_reads_names_file_and_line(refused, write, value):
    text = as_bytes("x", [GOOD]) + f'{{"id": {value}'.encode()
    assert "test.jsonl, line 2 must be a JSON object, got" in refused(
        "cnn-dailymail", write("test.jsonl", text)
    )


def test_broken_last_file_leaves_nothing(refused, write):
    first = write("a.jsonl", [GOOD] * 1_500)
    second = write("b.jsonl", [GOOD | {"highlights": 3.5}])
    assert "`highlights` in " in (said := refused("cnn-dailymail", first, second))
    assert "b.jsonl, line 1 must be text, got 3.5" in said


def test_line_that_is_not_utf8_is_named(refused, write):
    text = as_bytes("x", [GOOD]) + b'{"id": "b\xff"}\n'
    assert "test.jsonl, line 2 must be UTF-8" in refused("cnn-dailymail", write("test.jsonl", text))


def test_half_of_a_character_rejected(refused, importing, write):
    line = '{"id": "a", "article": "%s", "highlights": "S"}\n'
    half = write("half.jsonl", line % r"\ud83d alone")
    assert "half.jsonl, line 1 must be Unicode" in refused("cnn-dailymail", half)
    whole = write("whole.jsonl", line % r"\ud83d\ude00 ok")
    assert importing("cnn-dailymail", whole).corpus["source"].to_list() == ["\U0001f600 ok"]


def test_cut_gzip_rejected(refused, write):
    whole = as_bytes("x.gz", [GOOD | {"id": str(i)} for i in range(2_000)])
    said = refused("cnn-dailymail", write("test.jsonl.gz", whole[:-50]))
    assert "test.jsonl.gz is damaged after line" in said


def test_cut_archive_rejected(refused, write):
    whole = tar_of({f"{i}.story": np.random.default_rng(0).bytes(20_000) for i in range(3)})
    said = refused("cnn-dailymail", write("stories.tgz", whole[: len(whole) // 2]))
    assert "stories.tgz" in said


@pytest.mark.parametrize("n_bytes", [2 * BLOCK, 4 * BLOCK])
def test_plain_archive_cut_between_members_rejected(refused, write, n_bytes):
    whole = gzip.decompress(tar_of({f"{i}.story": STORY for i in range(3)}))
    said = refused("cnn-dailymail", write("stories.tar", whole[:n_bytes]))
    assert "stories.tar is not an archive that can be read" in said
    assert "where a member or the end should be" in said


def test_folder_that_cannot_be_read_rejected(refused, write, monkeypatch):
    folder = write("given/test.jsonl", [GOOD]).parent
    closed = write("given/closed/train.jsonl", [GOOD]).parent
    scandir = os.scandir

    def guarded(path):
        if os.path.samefile(path, closed):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    assert "Permission denied" in refused("cnn-dailymail", folder)


@pytest.mark.parametrize("kind", [tarfile.LNKTYPE, tarfile.SYMTYPE], ids=["hard", "symbolic"])
def test_link_in_an_archive_rejected(kind, refused, write):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        link = tarfile.TarInfo("b.story")
        link.type, link.linkname = kind, "a.story"
        archive.addfile(tarfile.TarInfo("a.txt"))
        archive.addfile(link)
    said = refused("cnn-dailymail", write("stories.tgz", packed.getvalue()))
    assert "must hold files themselves, got b.story, a link to a.story; unpack it" in said


@pytest.mark.parametrize("at", [5, -20])
def test_damaged_parquet_is_named(refused, write, at):
    whole = io.BytesIO()
    pl.DataFrame([GOOD] * 9).write_parquet(whole)
    data = bytearray(whole.getvalue())
    for i in range(at, at + 12):
        data[i] ^= 0xFF
    said = refused("cnn-dailymail", write("test.parquet", bytes(data)))
    assert "test.parquet is not a Parquet file that can be read" in said


def test_named_file_of_another_kind_rejected(refused, write):
    said = refused("cnn-dailymail", write("notes.docx", b"x"))
    assert "`FILES` of cnn-dailymail must be *.parquet or *.jsonl" in said
    assert "notes.docx" in said


def test_folder_without_texts_rejected(refused, write):
    said = refused("cnn-dailymail", write("notes.docx", b"x").parent)
    assert "needs files with texts, got none" in said


def test_ratings_that_are_not_there_rejected(refused, write):
    said = refused("cnn-dailymail", write("test.jsonl", [GOOD]), ratings=True)
    assert "`--ratings` of cnn-dailymail needs files with ratings, got none" in said


def test_missing_file_named(refused, tmp_path):
    assert "No such file" in refused("cnn-dailymail", tmp_path / "nowhere.jsonl")


def test_unknown_data_set_gets_the_nearest_name(capsys):
    assert run(["import", "sumeval", "x", "--out", "y.parquet"]) == 2
    assert capsys.readouterr().err == (
        "assay: unknown data set `sumeval`; did you mean `summeval`?\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a data set"),
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


def test_list_has_a_line_for_every_data_set(capsys):
    assert run(["import", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines[1:-1]} == set(SOURCES)


@pytest.mark.parametrize("name", SOURCES)
def test_data_set_alone_is_described(name, capsys):
    assert run(["import", name]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for text in (SOURCES[name].takes, SOURCES[name].licence, SOURCES[name].paper):
        assert " ".join(text.split()) in said


@pytest.mark.parametrize("name", ["test.jsonl", "test.jsonl.gz", "test.csv", "test.tsv.gz"])
def test_no_more_of_a_line_is_read_than_a_record_may_have(monkeypatch, name):
    monkeypatch.setattr(files, "MAX_RECORD_BYTES", 1 << 10)
    data = b"a" * (1 << 20)
    stream = io.BytesIO(gzip.compress(data, 0) if name.endswith("gz") else data)
    member = files.Member(path=name, parts=(name,), stream=stream, is_named=True)
    with pytest.raises(ValueError, match=rf"{name}, line 1 must have at most"):
        list(files.records(member))
    assert stream.tell() < 1 << 19


def test_archives_in_archives_have_an_end(refused, write):
    inside = tar_of({"1.story": b"x"})
    for _ in range(5):
        inside = tar_of({"more.tar": inside})
    assert "archives must be nested at most 3 deep" in refused(
        "cnn-dailymail", write("all.tar", inside)
    )
