"""What a command may write, and where, before it does; files that appear when all are made."""

import os
from pathlib import Path

import pytest

from cluster.output import Output


def check_folder(path):
    Output.named("--out", path).check_folder("scores")


def test_folder_that_cannot_be_written_rejected(tmp_path, monkeypatch):
    (tmp_path / "taken").touch()
    for way in ("taken", "taken/deeper"):
        with pytest.raises(NotADirectoryError, match=r"must be a folder, got a file: .*taken"):
            check_folder(tmp_path / way)
    check_folder(tmp_path / "a" / "b")
    Output.named("--out", tmp_path / "a" / "b.csv").check_file(".csv", is_new=True)
    assert os.listdir(tmp_path) == ["taken"]  # checking makes none
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != tmp_path)
    with pytest.raises(PermissionError, match=r"no permission to write in .*; choose another"):
        check_folder(tmp_path / "new")


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_file_that_may_not_be_written_rejected(tmp_path, scheme):
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "there.csv").touch()
    (tmp_path / "link.csv").symlink_to("there.csv")

    def output(name):
        return Output.named("--out", f"{scheme}{tmp_path}/{name}")

    for check, expected in (
        (lambda: output("x.txt").check_file(".csv", ".md"), "`--out` must end in .csv, .md, got"),
        (lambda: output("folder.csv").check_file(), "`--out` must be a file, got the folder"),
        (lambda: output("there.csv").check_file(is_new=True), "`--out` must not exist yet, got"),
        (lambda: output("there.csv/x.csv").check_file(), "`--out` must be in a folder, got a file"),
        (
            lambda: output("link.csv").check_apart([tmp_path / "there.csv"]),
            "`--out` must not be a file that is read",
        ),
        (lambda: output("new.csv").check_apart([tmp_path]), "`--out` must be outside of the"),
        (lambda: output("new").check_folder(is_new=True) or output("folder.csv").check_folder(
            is_new=True), "`--out` must not exist yet"),
    ):  # fmt: skip
        with pytest.raises((ValueError, OSError), match=expected):
            check()
    output("THERE.CSV").check_file(".csv", is_new=True)
    output("new.md").check_apart([tmp_path])


def test_files_appear_when_all_are_made_and_the_last_one_last(tmp_path, monkeypatch):
    output = Output.named("--out", f"file://{tmp_path}/out")
    with pytest.raises(KeyError), output.filled() as work:
        (work / "half").write_text({}["no"])
    assert os.listdir(tmp_path) == []
    moved = []
    move = Path.replace
    monkeypatch.setattr(Path, "replace", lambda a, b: moved.append(b.name) or move(a, b))
    with output.filled(last="about.json") as work:
        (work / "sub").mkdir()
        for name in ("about.json", "z", "sub/y 100%?a=b"):
            (work / name).write_text(name)
        assert output.names() == []
    assert moved == ["y 100%?a=b", "z", "about.json"]
    assert output.names() == ["about.json", "sub", "z"]
    assert os.listdir(tmp_path) == ["out"]


def test_file_appears_as_a_whole_or_not_at_all(tmp_path):
    output = Output.named("--out", tmp_path / "new" / "x.bin")
    with pytest.raises(KeyError), output.written() as file:
        file.write_bytes(b"half") and {}["no"]
    assert os.listdir(tmp_path / "new") == []
    with output.written() as file:
        file.write_bytes(b"all")
    assert (tmp_path / "new" / "x.bin").read_bytes() == b"all"
    assert os.listdir(tmp_path / "new") == ["x.bin"]
