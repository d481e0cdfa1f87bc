"""Globs mean the same everywhere, a file counts once whatever it is called, edits are seen."""

import glob
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow._fs import _MockFileSystem

from cluster import list_inputs
from cluster.listing import each_once, files_like, find_files
from cluster.store import write_whole

NAMES = ("a", "b", "ab", ".h", "_u", "x y", "[a]", "a.csv", "b.csv", ".h.csv")
PARTS = ["*", "**", "?", "a*", "[ab]", "[!a]*", "[[]a]", "*.csv", ".*", ".h", "a", "**a", "_*"]
ROW = b'{"document_id": "d", "system_id": "s", "candidate": "x"}\n'


def made(folder, names):
    """Make files; one that would lie in a file, or be a folder, is left out."""
    for name in sorted(names):
        path = Path(folder, name)
        if path.is_dir() or any(above.is_file() for above in path.parents):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(ROW)


def on_a_store(folder):
    """Return a filesystem in memory with the files of a folder, and no folders that are empty."""
    store = _MockFileSystem()
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file():
            name = str(path.relative_to(folder))
            store.create_dir(os.path.dirname(f"in/{name}"))
            with store.open_output_stream(f"in/{name}") as stream:
                stream.write(ROW)
    return store


def found(path):
    try:
        return set(find_files(path)[0])
    except FileNotFoundError:
        return set()


trees = st.sets(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join))
globs = st.lists(st.sampled_from(PARTS), min_size=1, max_size=4).filter(
    lambda parts: set("*?[") & set("".join(parts))  # another path names all of a folder, too
)


@settings(max_examples=60)
@given(names=trees, parts=globs)
def test_glob_means_the_same_everywhere(names, parts):
    pattern = "/".join(parts)
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        made(folder, names)
        python = glob.glob(pattern, root_dir=folder, recursive=True)
        expected = {name for name in python if os.path.isfile(f"{folder}/{name}")}
        here = {f"{folder}/{name}" for name in expected}
        assert found(f"{folder}/{pattern}") == here
        assert found(f"file://{folder}/{pattern}") == here
        store = files_like(on_a_store(folder), "in", parts)
        assert set(store) == {f"in/{name}" for name in expected}


def test_working_directory_is_no_pattern(tmp_path, monkeypatch):
    made(tmp_path, ["[ab]/x.jsonl", "a/y.jsonl"])
    monkeypatch.chdir(tmp_path / "[ab]")
    assert found("*.jsonl") == {f"{tmp_path}/[ab]/x.jsonl"}
    assert found("../a/*.jsonl") == {f"{tmp_path}/a/y.jsonl"}


def test_folders_of_a_store_are_listed_with_one_request_each_or_all_at_once(tmp_path):
    made(tmp_path, [f"{i}/{j}/a.csv" for i in range(3) for j in range(3)])
    store = on_a_store(tmp_path)
    asked = []

    class Asked:
        def get_file_info(self, what):
            asked.append(getattr(what, "base_dir", what))
            return store.get_file_info(what)

    assert len(files_like(Asked(), "in", ["**", "*.csv"])) == 9
    assert asked == ["in"]
    assert len(files_like(Asked(), "in", ["*", "1", "*.csv"])) == 3
    folders = ["in", *(f"in/{i}" for i in range(3)), *(f"in/{i}/1" for i in range(3))]
    assert sorted(asked[1:]) == sorted(folders)


# Links


def names_of(*paths, root):
    return [os.path.relpath(file.path, root) for file in list_inputs([*map(str, paths)])]


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_link_that_leads_back_changes_nothing(tmp_path, scheme):
    made(tmp_path, ["d/a.jsonl", "d/sub/b.jsonl"])
    (tmp_path / "d" / "loop").symlink_to(".")
    (tmp_path / "d" / "sub" / "up").symlink_to("..")
    expected = ["d/a.jsonl", "d/sub/b.jsonl"]
    assert names_of(f"{scheme}{tmp_path}/d", root=tmp_path) == expected
    assert names_of(f"{scheme}{tmp_path}/d/**/*.jsonl", root=tmp_path) == expected


def test_name_without_links_counts_then_the_first_in_the_alphabet(tmp_path, caplog):
    made(tmp_path, ["d/v1/a.jsonl", "ext/b.jsonl", "d/z.jsonl"])
    (tmp_path / "d" / "latest").symlink_to("v1")
    (tmp_path / "d" / "y").symlink_to("../ext")
    (tmp_path / "d" / "v1" / "x").symlink_to("../../ext")
    (tmp_path / "d" / "first.jsonl").symlink_to("z.jsonl")
    os.link(tmp_path / "d" / "z.jsonl", tmp_path / "d" / "zz.jsonl")
    (tmp_path / "d" / "nowhere.jsonl").symlink_to("gone.jsonl")
    expected = ["d/v1/a.jsonl", "d/v1/x/b.jsonl", "d/z.jsonl"]
    for chosen in (["d"], ["d/latest", "d"], ["d/first.jsonl", "d"], ["d/**/*.jsonl", "d/*/*"]):
        assert names_of(*(tmp_path / name for name in chosen), root=tmp_path) == expected
    assert "5 more names are ignored" in caplog.records[0].message


def test_file_named_twice_counts_once_and_is_said(tmp_path, caplog):
    made(tmp_path, ["a.jsonl", "b.jsonl"])
    path = tmp_path / "a.jsonl"
    assert names_of(path, f"file://{path}", root=tmp_path) == ["a.jsonl"]
    assert names_of(tmp_path / "*.jsonl", tmp_path / "a*", root=tmp_path) == ["a.jsonl", "b.jsonl"]
    said = f"each file is read only once, so 1 more name is ignored: {path} is named twice"
    assert [record.message for record in caplog.records] == [said, said]


def test_object_of_a_store_counts_once_however_its_url_is_written(monkeypatch):
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    once = each_once(["s3://bucket/a%20b.jsonl", "s3://bucket/a b.jsonl", "s3://bucket/c.jsonl"])
    assert once == ["s3://bucket/a b.jsonl", "s3://bucket/c.jsonl"]


def test_name_that_is_no_text_is_said_and_the_others_are_read(tmp_path, caplog):
    made(tmp_path, ["a.jsonl"])
    with open(os.fsencode(tmp_path) + b"/\xff.jsonl", "wb") as stream:
        stream.write(ROW)
    assert names_of(tmp_path, root=tmp_path) == ["a.jsonl"]
    assert r"/\udcff.jsonl'; rename it" in caplog.text


def test_hidden_files_and_those_of_other_kinds_are_passed_over(tmp_path):
    others = [".hidden.csv", "_SUCCESS", "README.md", "_temporary/c.csv"]
    made(tmp_path, ["b.csv", "a.csv", "more/d.jsonl", *others])
    expected = ["a.csv", "b.csv", "more/d.jsonl"]
    assert names_of(tmp_path, tmp_path / "a.csv", tmp_path / "b*", root=tmp_path) == expected


def test_folder_and_pattern(proxy, server, bucket):
    for name in ("in/a.jsonl", "in/deep/b #1.jsonl", "in/_skipped.jsonl"):
        write_whole(f"s3://{bucket}/{name.replace('#', '%23')}", b'{"candidate": "x"}\n')
    options = f"?endpoint_override={server}&scheme=http"
    files = list_inputs([f"s3://{bucket}/in{options}"])
    assert [file.path for file in files] == [
        f"s3://{bucket}/in/a.jsonl{options}",
        f"s3://{bucket}/in/deep/b%20%231.jsonl{options}",
    ]
    assert files == list_inputs([f"s3://{bucket}/in/[ab]*.jsonl{options}", files[1].path])
    assert files == list_inputs([f"s3://{bucket}/in/**/[!_]*.jsonl{options}"])
    assert files[:1] == list_inputs([f"s3://{bucket}/in/[!_]*.jsonl{options}"])
    assert files[1:] == list_inputs([f"s3://{bucket[:-1]}?/in/*/*.jsonl{options}"])
