"""What a command says: one line, of bearable length, that cannot steer a terminal."""

import pytest

from pipelines.cli.app import run
from pipelines.cli.common import MAX_MESSAGE, fail, printable, show


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain é 東京 👩\u200d👧", "plain é 東京 👩\u200d👧"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\x00b\x7f\x9b", "a\\x00b\\x7f\\x9b"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\udcff", "\\udcff"),
        ("a\tb\nc", "a\tb\nc"),
    ],
)
def test_steering_characters_become_escapes(text, expected):
    assert printable(text) == expected


def test_colours_are_kept_where_they_are_shown():
    text = "\x1b[1mbold\x1b[0m \x1b[2J"
    assert printable(text, keeps_colours=True) == "\x1b[1mbold\x1b[0m \\x1b[2J"


def test_shown_without_a_terminal(capsys):
    show("\x1b[1mbold")
    assert capsys.readouterr().out == "\\x1b[1mbold\n"


def test_long_message_loses_its_middle(capsys):
    assert fail(f"begin {'x' * 9_000} end", 2) == 2
    said = capsys.readouterr().err
    assert said.startswith("assay: begin x")
    assert said.endswith("x end\n")
    assert len(said) < MAX_MESSAGE + 20


def test_hostile_column_name_is_said_tamely(tmp_path, capsys):
    path = tmp_path / "corpus.csv"
    path.write_text("document_id,\x1b[2J\u202e\nd,s\n", encoding="utf-8")
    assert run(["score", str(path), "--local", "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert "\\x1b[2J\\u202e" in said
    assert "\x1b" not in said
