"""Whole files or none, wherever they are; names and links; what a command may write."""

import errno
import os
from contextlib import nullcontext
from pathlib import Path

import fsspec
import pyarrow.fs as pafs
import pytest

from cluster import store
from cluster.output import Output
from cluster.store import (
    StorageFull,
    base_name,
    check_no_links,
    delete_file,
    filesystem_for,
    is_inside,
    join,
    list_names,
    local_folder,
    open_input,
    reads_again,
    url_like,
    version_of,
    write_whole,
)
from tests.object_stores import objects_in


def test_file_is_replaced_whole(tmp_path):
    path = tmp_path / "new" / "folder" / "part.bin"
    write_whole(path, b"first")
    write_whole(str(path), b"second")
    assert path.read_bytes() == b"second"
    assert list_names(str(path.parent)) == ["part.bin"]


@pytest.mark.parametrize(
    ("owner", "name", "error", "told"),
    [
        (Path, "replace", KeyboardInterrupt(), KeyboardInterrupt),
        (os, "fsync", OSError(errno.ENOSPC, "No space left on device"), StorageFull),
    ],
    ids=["interrupted", "full"],
)
def test_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path, monkeypatch, owner, name, error, told
):
    path = tmp_path / "part.bin"
    write_whole(path, b"old")

    def fail(*_):
        raise error

    monkeypatch.setattr(owner, name, fail)
    with pytest.raises(told) as caught:
        write_whole(path, b"new")
    said = f"for {path}; make room and run the same command again"
    assert told is KeyboardInterrupt or said in str(caught.value)
    assert path.read_bytes() == b"old"
    assert list_names(str(tmp_path)) == ["part.bin"]


def test_link_of_the_name_is_replaced_not_followed(tmp_path):
    (tmp_path / "target").write_bytes(b"theirs")
    (tmp_path / "part.bin").symlink_to(tmp_path / "target")
    write_whole(tmp_path / "part.bin", b"ours")
    assert (tmp_path / "target").read_bytes() == b"theirs"
    (tmp_path / "other").symlink_to(tmp_path / "target")
    delete_file(str(tmp_path / "other"))
    assert list_names(str(tmp_path)) == ["part.bin", "target"]


def test_link_inside_the_folder_rejected_the_folder_may_be_one(tmp_path):
    (tmp_path / "real" / "scores").mkdir(parents=True)
    (tmp_path / "out").symlink_to(tmp_path / "real")
    check_no_links(str(tmp_path / "out"), "scores", "errors")
    (tmp_path / "real" / "errors").symlink_to(tmp_path)
    with pytest.raises(ValueError, match=r"errors must not be a link, got one to .*, so remove"):
        check_no_links(str(tmp_path / "out"), "scores", "errors")


def test_file_that_cannot_be_opened_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"no such file: {tmp_path}/nothing"):
        open_input(f"{tmp_path}/nothing")
    name = f"{tmp_path}/a\udcff.csv"
    with open(os.fsencode(name), "w"):
        pass
    with pytest.raises(ValueError, match=r"must be UTF-8, got '.*a\\udcff\.csv'; rename it"):
        open_input(name)


class LikeHdfs(pafs.FSSpecHandler):
    """Files in memory that cannot be renamed onto one another; the first renames may fail.

    To delete what is not there is an error, as in libhdfs, which names no reason.
    """

    def __init__(self):
        super().__init__(fsspec.filesystem("memory"))
        self.moves = []
        self.fails = 0

    def move(self, src, dest):
        self.moves.append((src, dest))
        if self.fs.exists(dest) or len(self.moves) <= self.fails:
            raise OSError("cannot rename")
        super().move(src, dest)

    def delete_file(self, path):
        if not self.fs.exists(path):
            raise OSError(errno.EIO, "HDFS delete failed")
        super().delete_file(path)


@pytest.mark.parametrize("fails", [0, 2, 3])
def test_where_unfinished_files_show_a_file_is_written_aside(fails):
    handler = LikeHdfs()
    filesystem = pafs.PyFileSystem(handler)
    try:
        store._write_and_move(filesystem, "out/run.json", b"first")
        handler.moves.clear()
        handler.fails = fails
        with pytest.raises(OSError, match="cannot rename") if fails > 2 else nullcontext():
            store._write_and_move(filesystem, "out/run.json", b"second")
        found = filesystem.get_file_info(pafs.FileSelector("out", allow_not_found=True))
        if fails <= 2:
            assert filesystem.open_input_file("out/run.json").read() == b"second"
        assert not [info.base_name for info in found if info.base_name != "run.json"]
        assert {dest for _, dest in handler.moves} == {"out/run.json"}
        assert all(source.endswith(".partial") for source, _ in handler.moves)
    finally:
        handler.fs.rm("/", recursive=True)


def test_hdfs_without_its_library_says_what_is_missing(monkeypatch):
    def cannot_load(_):
        raise OSError("Unable to load libjvm\ndlopen(...) failed: no such file\nand so on")

    monkeypatch.setattr(store, "_known_filesystem", cannot_load)
    with pytest.raises(OSError, match=r"^cannot use hdfs://n/x: Unable to load libjvm; HDFS needs"):
        filesystem_for("hdfs://n/x")


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("s3://b/run", "s3://b/run/x"),
        ("s3://b/run/?region=x", "s3://b/run/x?region=x"),
        ("/data/what?region=x", "/data/what?region=x/x"),
        ("s3://b/part-?.parquet", "s3://b/part-?.parquet/x"),
    ],
)
def test_options_of_a_url_stay_at_its_end(folder, expected):
    assert join(folder, "x") == expected
    assert base_name(expected) == "x"


@pytest.mark.parametrize(
    ("given", "inner", "url"),
    [
        ("s3://b/f?endpoint_override=h:1", "b/f/a%b", "s3://b/f/a%25b?endpoint_override=h:1"),
        ("gs://anonymous@b/f", "b/f/x", "gs://anonymous@b/f/x"),
        ("hdfs://me@host:8020/f", "/f/x", "hdfs://me@host:8020/f/x"),
        ("file:///f", "/f/é x", "file:///f/%C3%A9%20x"),
        ("f", "/home/f/x", "/home/f/x"),
    ],
)
def test_found_file_is_named_like_what_was_asked_for(given, inner, url):
    assert url_like(given, inner) == url


@pytest.fixture
def s3_settings(monkeypatch):
    """The environment of somebody who uses another store than that of AWS."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    def settings(url):
        return filesystem_for(url)[0].__reduce__()[1][0]

    return settings


def test_endpoint_of_the_url_wins_over_the_environment(s3_settings, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://store.example:9000/")
    found = s3_settings("s3://b/x")
    assert (found["scheme"], found["endpoint_override"]) == ("https", "store.example:9000")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://s3.example")
    found = s3_settings("s3://b/x")
    assert (found["scheme"], found["endpoint_override"]) == ("http", "s3.example")
    found = s3_settings("s3://b/x?endpoint_override=10.0.0.1:80&scheme=http&region=r")
    assert (found["endpoint_override"], found["region"]) == ("10.0.0.1:80", "r")
    assert found["access_key"] is None  # the SDK looks for it itself, on every machine


def test_unknown_option_of_a_url_rejected(s3_settings):
    with pytest.raises(ValueError, match=r"may have the options region, scheme, .* got `regoin`"):
        filesystem_for("s3://b/x?regoin=eu")


def test_inside_goes_by_names():
    assert is_inside("/data/run/part", "/data/run")
    assert is_inside("file:///data/run", "/data/run")
    assert not is_inside("/data/run2", "/data/run")


@pytest.mark.parametrize(
    ("n_cut_short", "message"),
    [(3, None), (4, "Failed to flush response stream"), (0, "access denied")],
)
def test_answer_that_a_store_cut_short_is_read_again(n_cut_short, message):
    """What the SDK says then; Arrow has no other sign of it."""
    calls = []

    @reads_again
    def read():
        calls.append(1)
        if len(calls) <= n_cut_short:
            raise OSError("AWS Error INTERNAL_FAILURE: Failed to flush response stream (eof: 0)")
        if message == "access denied":
            raise OSError(message)
        return 7

    with nullcontext() if message is None else pytest.raises(OSError, match=message):
        assert read() == 7
    assert len(calls) == min(n_cut_short + 1, 4)


def test_folder_of_a_store_is_none_of_this_machine(tmp_path):
    assert local_folder("--out", f"file://{tmp_path}/a%20b") == tmp_path / "a b"
    with pytest.raises(ValueError, match=r"`--out` must be a folder, got s3://b/x; name one on a"):
        local_folder("--out", "s3://b/x")
    with pytest.raises(ValueError, match=r"must begin with one of file, s3, .* got `ftp`"):
        Output.named("--out", "ftp://b/x")


def test_round_trip(proxy, server, bucket):
    out = f"s3://{bucket}/run"
    write_whole(join(out, "scores", "a b"), b"x")
    puts = [(method, path) for method, path, _ in proxy.weather.seen if method != "GET"]
    assert puts == [("PUT", f"/{bucket}/run/scores/a%20b")]  # one request, and nothing before it
    assert list_names(join(out, "scores")) == ["a b"]
    assert list_names(join(out, "nowhere")) == []
    with open_input(join(out, "scores", "a%20b")) as stream:
        first = version_of(stream, "")
        assert stream.read() == b"x"
    write_whole(join(out, "scores", "a b"), b"y")
    with open_input(join(out, "scores", "a b")) as stream:
        assert version_of(stream, "") != first
    delete_file(join(out, "scores", "a b"))
    delete_file(join(out, "scores", "a b"))
    assert objects_in(server, bucket) == {}


def test_missing_and_forbidden_are_said_at_once(proxy, bucket):
    with pytest.raises(FileNotFoundError, match=f"no such file: s3://{bucket}/nothing"):
        open_input(f"s3://{bucket}/nothing")
    with pytest.raises(OSError, match=r"cannot reach s3://no-such-bucket/x .*does not exist"):
        write_whole("s3://no-such-bucket/x", b"x")
    proxy.weather.is_forbidden = True
    for ask in (open_input, lambda url: write_whole(url, b"x")):
        with pytest.raises(PermissionError, match=r"no permission .*the credentials") as told:
            ask(f"s3://{bucket}/x")
        assert "hush" not in str(told.value)
    assert len(proxy.weather.seen) == 4
