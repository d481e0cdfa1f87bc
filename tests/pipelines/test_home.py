"""`~` is the user's home in every path, where no shell has written it out."""

from __future__ import annotations

import json

import pytest

import assay
from pipelines.cli.app import run
from tests.pipelines.written_tables import ROWS, write_table


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home with tables, and another folder to work in."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    write_table(home, "plain.csv")
    write_table(home, "hive")
    (home / "corpora").mkdir()
    write_table(home / "corpora", "lines.jsonl")
    (home / "plain.toml").write_text('metrics = "length"\nlocal = true\n')
    pairs = [
        {"id": row["id"], "article": row["source"], "highlights": "It rained."} for row in ROWS
    ]
    (home / "cnn.jsonl").write_text("".join(f"{json.dumps(pair)}\n" for pair in pairs))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(work)
    yield home
    assert not list(work.iterdir())
    assert not list(home.glob("**/~*"))


SCORE = ["score", "--metrics", "length", "--local"]

# a command, and the files or folders that it writes at home
COMMANDS = [
    ([*SCORE, "~/plain.csv", "--out=~/run"], ["run/_SUCCESS"]),
    ([*SCORE, "~/corpora", "--out", "~/run"], ["run/_SUCCESS"]),
    ([*SCORE, "~/corpora/*.jsonl", "--out=~/run"], ["run/_SUCCESS"]),
    ([*SCORE, "~/hive", "--out=~/run", "--embedding-cache=~/cache"], ["run/_SUCCESS"]),
    (["score", "~/plain.csv", "--config=~/plain.toml", "--out=~/run"], ["run/_SUCCESS"]),
    (["compare", "~/plain.csv", "~/plain.csv", "--systems-a=old", "--systems-b=new",
      "--metrics=m", "--out=~/c.html"], ["c.html"]),
    (["correlate", "~/plain.csv", "--ratings=~/plain.csv", "--metrics=m", "--resamples=20",
      "--out=~/report"], ["report/report.html"]),
    (["explain", "~/plain.csv", "--document=d2", "--metric=rouge1_f", "--out=~/e.html"],
     ["e.html"]),
    (["preferences", "~/plain.csv", "--out=~/p.md"], ["p.md"]),
    (["preferences", "--make-sheet=~/plain.csv", "--systems=old,new", "--n=2", "--out=~/s.csv"],
     ["s.csv", "s.key.csv"]),
    (["import", "cnn-dailymail", "~/cnn.jsonl", "--out=~/i.parquet"], ["i.parquet"]),
    (["example", "--out=~/example"], ["example/quality_ladder.jsonl"]),
    (["reproduce", "clark2019-table6", "--out=~/tables"], ["tables/clark2019-table6.md"]),
]  # fmt: skip


@pytest.mark.parametrize(("command", "written"), COMMANDS, ids=lambda value: " ".join(value[:2]))
def test_command_reads_and_writes_at_home(home, capsys, command, written):
    assert run(command) == 0, capsys.readouterr()
    for name in written:
        assert (home / name).exists()


def test_functions_read_and_write_at_home(home):
    found = assay.score("~/plain.csv", out="~/run", metrics="length", local=True)
    assert found.n_rows == assay.status("~/run").n_done_rows == len(ROWS)
    assert found.out == str(home / "run")
    of_rows = assay.score(ROWS, out="~/rows", metrics="length", local=True)
    assert of_rows.out == str(home / "rows")


def test_home_that_is_not_there_is_said_in_one_line(home, capsys):
    assert run([*SCORE, "~/nowhere.csv", "--out", "~/run"]) == 2
    assert f"no such file or folder: {home}/nowhere.csv" in capsys.readouterr().err
