"""`assay reproduce`: what it prints and writes, what it refuses; SummEval."""

import json

import polars as pl
import pytest

from assay import reproduce
from pipelines.cli.app import run
from pipelines.papers.printed import printed_table, printed_tables
from pipelines.papers.reproduction import Reproduction
from pipelines.papers.run import TABLES
from pipelines.papers.table import Ours


@pytest.fixture
def command(capsys):
    def call(*arguments):
        status = run(["reproduce", *map(str, arguments), "--quiet"])
        said = capsys.readouterr()
        return status, said.out, said.err

    return call


def test_list_has_a_line_per_table(command):
    status, out, _ = command("--list")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()][1:] == [*printed_tables()] == [*TABLES]
    assert "clark2019-table2         page 5 " in out


def test_terminal_and_files(command, tmp_path):
    status, out, _ = command("clark2019-table6", "--out", tmp_path)
    assert status == 0
    assert "| overall | SMS | 85 | 179 | 36 | 67% / 68% (+1) |" in out
    assert (tmp_path / "clark2019-table6.md").read_text("utf-8") == out
    rows = pl.read_csv(tmp_path / "clark2019-table6.csv")
    row = rows.filter(criterion="overall", against="SMS", column="% ↑").row(0, named=True)
    assert (row["printed"], row["published"]) == ("67%", 67)
    assert row["difference"] == pytest.approx(100 * 179 / 264 - 67)
    written = json.loads((tmp_path / "clark2019-table6.json").read_text("utf-8"))
    assert written["where"] == "page 8"
    assert len(written["cells"]) == 48


def test_cells_by_hand():
    ours = {
        (("WMS",), "Summaries GloVe"): Ours(0.1704, "**{}"),
        (("WMS",), "Summaries ELMo"): Ours(None),
        (("WMS",), "Essays GloVe"): Ours(0.42904),
    }
    printed = printed_table("clark2019-table2")
    result = Reproduction(printed=printed, ours=ours, differs=["other `weights`"])
    (line,) = [text for text in result.to_markdown().splitlines() if text.startswith("| WMS")]
    assert line == (
        r"| WMS | \*\*0.180 / \*\*0.170 (-0.010) | \*\*0.160 / – | 0.429 / 0.429 (0.000) | 0.443 |"
    )
    assert result.frame()["difference"].count() == 2
    assert "- other \\`weights\\`\n" in result.to_markdown()


def test_dry_run(command, tmp_path):
    (tmp_path / "asap-sas").mkdir()
    (tmp_path / "encoders" / "elmo").mkdir(parents=True)
    status, out, _ = command("clark2019-table2", "--data", tmp_path, "--dry-run")
    assert status == 0
    assert out.startswith("clark2019-table2: 2 of 4 are there\n")
    there = {line.split()[2]: line.split()[0] for line in out.splitlines()[2:] if line}
    assert there == {"chaganty2018": "no", "asap-sas": "yes", "GloVe": "no", "ELMo": "yes"}
    assert str(tmp_path / "encoders" / "glove.840B.300d.txt") in out
    assert command("clark2019-table6", "--dry-run")[1] == (
        "clark2019-table6 only needs what the paper prints\n"
    )
    lines = command("bao2020-table3", "--dry-run")[1].splitlines()
    assert [line.split()[1:3] for line in lines[2:6]] == [
        *(["data", name] for name in ("cnn-dailymail", "newsroom", "bigpatent")),
        ["weights", "BERT"],
    ]
    assert lines[6].split()[1:3] == ["trained", "cnn-dailymail-30k-cross-pair-bert-fc"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a table; `assay reproduce --list` shows them"),
        (["clark2019-table5"], "no such table `clark2019-table5`; did you mean `clark2019-table"),
        (["clark2019-table2"], "nothing of clark2019-table2 can be made, because these are missi"),
        (["sun2019-table1", "--encoder", "avgg=minilm"], "got `avgg`; did you mean `avg`?"),
        (["sun2019-table1", "--encoder", "avg=minilmm"], "unknown encoder 'minilmm'"),
        (["sun2019-figure1"], "`out` must name a folder for sun2019-figure1"),
        (["sun2019-table1", "--data", "nowhere"], "`data` must be a folder, got nowhere"),
        (["bao2020-table1", "--scorers", "nowhere"], "`scorers` must be a folder, got nowhere"),
    ],
)
def test_wrong_requests_are_one_line(command, arguments, message):
    status, out, err = command(*arguments)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err


def test_second_run_scores_nothing_anew_unless_the_data_change(made, writer):
    writer.asap_sas()
    said = []
    first = made("clark2019-table2", on_progress=lambda news: said.append(news.stage))
    assert any("scoring" in stage for stage in said)
    said.clear()
    second = made("clark2019-table2", on_progress=lambda news: said.append(news.stage))
    assert second.frame().equals(first.frame())
    assert not any("scoring" in stage for stage in said)
    writer.file("asap-sas/train_rel_2.tsv", "Id\tEssaySet\tScore1\tScore2\tEssayText\n"
                f"1\t3\t0\t1\t{writer.text(5)}\n")  # fmt: skip
    for is_fresh in (False, True):
        again = made("clark2019-table7", fresh=is_fresh)
        assert again.ours[("# documents",), "Essays"] == Ours(1.0)


def test_weights_are_found_in_the_folder_of_the_data_itself(command, tmp_path, vectors):
    vectors.rename(tmp_path / "glove.840B.300d.txt")
    assert "1 of 1 are there" in command("clark2019-table1", "--data", tmp_path, "--dry-run")[1]


def test_summeval_without_some_vectors(writer, vectors, tmp_path):
    def rate(*_key):
        return [{"rater": f"{pool}-1", "overall": writer.rng.random()} for pool in ("expert", "x")]

    writer.judged("summeval", [f"d{i}" for i in range(4)], [f"s{i}" for i in range(5)], rate)
    encoders = dict.fromkeys(("minilm", "glove"), f"glove:{vectors}")
    (result,) = reproduce("summeval", data=writer.root, out=tmp_path / "out", encoders=encoders)
    assert len(result.figures) == 6
    assert sum(text.startswith("weights") for text in result.missing) == 3
    assert "No trained scorer" in result.notes[1]


@pytest.mark.data
@pytest.mark.slow
def test_summeval_counterparts(data_dir, tmp_path):
    (result,) = reproduce("summeval", data=data_dir, out=tmp_path)
    assert result.missing == []
    parts = ["clark2019-table2", "sun2019-table3", *(f"bao2020-table{i}" for i in (5, 6, 7, 8))]
    assert [figure.name for figure in result.figures] == [f"summeval-{part}" for part in parts]
    clark = result.figures[0].frame.filter(level="system", aspect="consistency")
    values = dict(zip(clark["metric"], clark["value"], strict=True))
    assert values["sms@minilm"] == pytest.approx(0.771, abs=5e-4)  # as `assay correlate`
    assert values["rougeL_f"] == pytest.approx(-0.035, abs=5e-4)
    assert (tmp_path / "summeval-sun2019-table3.csv").is_file()
    assert "| baseline | density | 0.256 | 0.850 |" in result.to_markdown()
