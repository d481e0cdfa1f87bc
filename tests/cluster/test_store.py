"""Whole files or none."""

from pathlib import Path

import pytest

from cluster.store import list_names, write_whole


def test_file_is_replaced_whole(tmp_path):
    path = tmp_path / "new" / "folder" / "part.bin"
    write_whole(path, b"first")
    write_whole(str(path), b"second")
    assert path.read_bytes() == b"second"
    assert list_names(str(path.parent)) == ["part.bin"]


def test_url_is_written_like_a_path(tmp_path):
    write_whole(f"file://{tmp_path}/part.bin", b"x")
    assert (tmp_path / "part.bin").read_bytes() == b"x"


def test_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "part.bin"
    write_whole(path, b"old")

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list_names(str(tmp_path)) == ["part.bin"]


def test_folder_that_is_not_there_has_no_files(tmp_path):
    assert list_names(str(tmp_path / "nowhere")) == []
