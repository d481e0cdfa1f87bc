"""The command line: exit status, one line for what is wrong, interruption, the summary."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipelines.cli import app
from pipelines.cli.app import run
from sms.encoders.registry import ENCODERS
from sms.settings import settings_of
from tests.pipelines.corpora import contents_of
from tests.row_files import write_rows

ROOT = Path(__file__).resolve().parents[3]

# The command line with a scorer that takes its time: 0.1 s for every batch.
SLOW = """
import importlib, sys, time
from pipelines.cli.app import main
from cluster import live
from sms.scoring import SummaryScorer

class SlowScorer(SummaryScorer):
    def prepare(self, rows):
        time.sleep(0.1)
        return super().prepare(rows)

live.BEAT_EVERY_S = 0.05
importlib.import_module("pipelines.fetched").SummaryScorer = SlowScorer
main(sys.argv[1:])
"""


@pytest.fixture
def corpus(tmp_path):
    """Forty rows of two systems, one of them without a candidate."""
    rows = [
        {
            "document_id": f"d{i // 2}",
            "system_id": f"s{i % 2}",
            "candidate": None if i == 3 else "The cat sat" + " on a mat" * (i % 5),
            "reference": "A cat sat on the mat.",
        }
        for i in range(40)
    ]
    return write_rows(tmp_path / "corpus.parquet", rows)


@pytest.fixture
def score(corpus, tmp_path):
    """Run `assay score` on the corpus with quick metrics and whatever else is given."""

    def call(*options, corpora=(), out=tmp_path / "out"):
        quick = () if "--metrics" in options else ("--metrics", "length,rouge1_r")
        places = (*(corpora or (corpus,)), "--out", out, "--local")
        return run(["score", *map(str, places), *quick, *map(str, options)])

    return call


@pytest.fixture
def wrong(capsys):
    """Check that a call was refused in one line, and return the line."""

    def check(status, expected=2):
        captured = capsys.readouterr()
        assert status == expected
        assert captured.err.startswith("assay: ")
        assert captured.err.endswith("\n")
        assert len(captured.err.splitlines()) == 1, captured.err
        return captured.err[len("assay: ") : -1]

    return check


def start_slow(corpus, out, *options):
    """Start the slow command line in a process of its own."""
    command = [sys.executable, "-c", SLOW, "score", str(corpus), "--out", str(out), "--local"]
    return subprocess.Popen(
        [*command, "--metrics", "length,rouge1_r", *options],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_parts(out, n_parts):
    deadline = time.monotonic() + 30
    while len(list(out.glob("scores/part-*.parquet"))) < n_parts:
        assert time.monotonic() < deadline, "no shard was committed"
        time.sleep(0.01)


def test_help_version_and_lists(capsys):
    for arguments in ([], ["--version"], ["metrics"], ["encoders"]):
        assert run(arguments) == 0
    printed = capsys.readouterr().out
    for kind in ENCODERS.values():
        assert kind.summary in printed
        for option in settings_of(kind.options):
            assert f"{option.name}=" in printed
            assert option.help in printed
    for text in ("Commands:", "\nassay", "cosine@all", "s+wms", "rougeLsum", "closer, -1 to 1",
                 "glove:PATH", "extra tfhub"):  # fmt: skip
        assert text in printed


def test_score_prints_the_summary(score, tmp_path, capsys):
    assert score() == 0
    captured = capsys.readouterr()
    assert captured.err.splitlines()[-1].startswith("40 of 40 rows (100%), ")
    lines = captured.out.splitlines()
    assert lines[0].startswith("Rows scored: 40 of 40 in ")
    assert lines[1:3] == ["Rows with a status: 1", "  1  candidate:null"]
    assert [line.split()[0] for line in lines if line.startswith("s")] == ["s0", "s1"]
    assert "Higher means longer: length" in lines
    assert f"Scores: {tmp_path}/out/scores/part-*.parquet" in lines
    assert score("--quiet") == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.startswith("Already scored: 40 rows, nothing left to do\n")


def test_strict_run_with_a_status_exits_1(score, wrong):
    assert wrong(score("--strict", "--quiet"), 1) == (
        "1 row with a status, which `--strict` does not accept"
    )


def test_failed_shard_exits_1(score, corpus, wrong):
    group = pq.read_metadata(corpus).row_group(2).column(2)
    data = bytearray(corpus.read_bytes())
    start = group.dictionary_page_offset
    data[start : start + 8] = b"\xff" * 8
    corpus.write_bytes(data)
    line = wrong(score("--quiet"), 1)
    assert line.startswith("1 of 1 shards failed; run the same command (without `--fresh`) to ")
    assert "shard 0: " in line


def test_inputs_and_places_that_are_wrong(score, wrong, corpus, tmp_path):
    line = wrong(score(corpora=[tmp_path / "none.parquet"]))
    assert line == f"no such file or folder: {tmp_path}/none.parquet"
    (tmp_path / "fake.parquet").write_text("document_id,system_id\n", encoding="utf-8")
    line = wrong(score(corpora=[tmp_path / "fake.parquet"]))
    assert line == f"not a whole Parquet file: {tmp_path}/fake.parquet; write or copy it again"
    assert wrong(score("--columns", "candidate=summary")) == (
        f"column `summary` is missing in {corpus}, which has document_id, system_id, candidate, "
        "reference; name it with `--columns candidate=NAME`"
    )
    (tmp_path / "out").touch()
    assert wrong(score()) == f"`--out` must be a folder, got a file: {tmp_path}/out"


TWO = ("--encoder", "glove:a", "--encoder", "glove:b")
# arguments after `score CORPUS --out DIR --local --metrics ...`, what is said
WRONG = [
    (TWO, "two encoders are called `glove`; rename one of them: --encoder ALIAS=glove:b"),
    (("--num-gpus", "1"), "no such option `--num-gpus`; use `--workers N` and"),
    (("--metrics", "rouge"), "unknown metric 'rouge'; there are rouge1, rouge2, rougeL and more"),
    (("--batch-size", "8"), "no such option `--batch-size`; there is nothing to set: a batch is"),
    (("--worker", "1"), "no such option `--worker`; did you mean `--workers`?"),
    (("--address", "auto"), "`--local` scores in one process"),
    (("--config", "none.toml"), "no such file: none.toml"),
]


@pytest.mark.parametrize(("options", "message"), WRONG, ids=range(len(WRONG)))
def test_wrong_request_is_one_line(score, wrong, options, message, tmp_path):
    assert message in wrong(score(*options))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["scores"], "no such command `scores`; did you mean `score`?"),
        (["zzz"], "no such command `zzz`; there are score, "),
        (["score"], "name at least one file, folder, glob or URL"),
        (["score", "a.parquet"], "`--out DIR` is missing: write the scores to this folder or URL"),
        (["score", "x", "--out", "o", "--precision=x"], "`precision` must be one of auto, fp32"),
        (["--verson"], "no such option `--verson`; did you mean `--version`?"),
    ],
)
def test_wrong_command_is_one_line(wrong, arguments, message):
    assert wrong(app.run(arguments)).startswith(message)


def asked_of(out):
    return json.loads((out / "run.json").read_text(encoding="utf-8"))["configuration"]


def test_encoders_of_a_file_and_of_the_command_line_which_wins(score, tmp_path, capsys):
    vectors, config = tmp_path / "vectors.txt", tmp_path / "run.toml"
    vectors.write_text("cat 1 0\nmat 0 1\nsat 1 1\n", encoding="utf-8")
    config.write_text(
        f'limit = 30\nencoders.tiny = "glove:{vectors}"\ncolumns = {{candidate = "candidate"}}\n',
        encoding="utf-8",
    )
    given = ("--config", config, "--limit", "6", "--metrics")
    assert score(*given, "wms@tiny,length") == 0
    assert "Rows scored: 6 of 6" in capsys.readouterr().out
    asked = asked_of(tmp_path / "out")
    assert (asked["metrics"], asked["limit"]) == (["wms@tiny", "length"], 6)
    assert asked["encoders"] == {"tiny": f"glove:{vectors}"}
    assert asked["columns"] == {"candidate": "candidate"}
    # on the command line, metrics name encoders by their alias or kind
    more = ("--encoder", f"glove:{vectors},pooling=max", "--encoder", f"more=glove:{vectors}")
    assert score(*given, "sms@glove,sms@more,cosine@all", *more, out=tmp_path / "more") == 0
    expected = {"glove": f"glove:{vectors},pooling=max", "more": f"glove:{vectors}"}
    assert list(asked_of(tmp_path / "more")["encoders"].items()) == list(expected.items())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # refused even if no metric uses the encoder
        ('encoders.x = "glove:v,pooling=maxx"', "`pooling` of encoder `glove` must be one of mean"),
        ('[encoders.x]\nkind = "glove"', "`encoders` must be texts such as `glove:PATH,pooling="),
        ("metric = 'sms'", "; did you mean `metrics`?"),
        ("local = 'yes'", "run.toml: `local` must be true or false, got 'yes'"),
        ("limit = ", "is not a TOML file: "),
    ],
)
def test_wrong_config_file_is_one_line(score, wrong, tmp_path, text, message):
    config = tmp_path / "run.toml"
    config.write_text(f"{text}\n", encoding="utf-8")
    assert message in wrong(score("--config", config))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "state"), [("SIGINT", "stopped"), ("SIGKILL", "died")])
def test_stopped_run_is_seen_and_goes_on(sent, state, corpus, score, tmp_path, capsys):
    out, once = tmp_path / "out", tmp_path / "once"
    options = ("--quiet", "--rows-per-shard", "2")
    driver = start_slow(corpus, out, *options)
    try:
        wait_for_parts(out, 3)
        if sent == "SIGKILL":  # it takes a moment, in which the run goes on
            assert run(["status", str(out)]) == 0
            assert f": running (process {driver.pid} on " in capsys.readouterr().out
    finally:
        driver.send_signal(getattr(signal, sent))
        printed, said = driver.communicate(timeout=30)
    kept = contents_of(out / "scores")
    if sent == "SIGINT":
        assert 3 <= len(kept) < 20
        assert (driver.returncode, printed) == (130, "")
        assert said == (
            f"assay: interrupted; {len(kept)} of 20 shards are committed; run the same command "
            "(without `--fresh`) to continue\n"
        )
        assert not (out / "_SUCCESS").exists()
    assert run(["status", str(out), "--json", "-"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["n_done"]) == (state, len(kept))
    assert (score(*options), score(*options[1:], out=once)) == (0, 0)
    assert f"({2 * len(kept)} of them by an earlier run)" in capsys.readouterr().out
    assert contents_of(out / "scores") == contents_of(once / "scores")
    assert kept.items() <= contents_of(out / "scores").items()
    assert not (out / "progress.json").exists()
    assert run(["status", str(out)]) == 0
    assert ": complete" in capsys.readouterr().out
