"""Secrets planted in the environment and in URLs are in nothing that is written or said."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.cli.app import run
from sms.urls import SECRET_VARIABLES
from tests.torture.sound import command, encoded, score, sound_lines, sound_row, write_vectors

PLANTED = "pLaNtEd0123456789"
ON_RAY = """
from pipelines.cli.app import main
from pipelines.runs.machines import Machines

Machines.is_on_ray = True  # as where Ray hands out the GPUs of this machine
main()
"""


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "corpus.jsonl").write_bytes(sound_lines(4)[0])
    return tmp_path / "corpus.jsonl"


@pytest.fixture
def options(tmp_path):
    vectors = write_vectors(tmp_path / "vectors.txt")
    return {"encoder": f"glove:{vectors}", "metrics": "sms", "out": tmp_path / "out"}


@pytest.fixture
def said(capfd):
    """Return what has been printed since the last call."""

    def read():
        printed = capfd.readouterr()
        assert PLANTED not in printed.out + printed.err
        return printed.out + printed.err

    return read


@pytest.fixture(autouse=True)
def nothing_found(tmp_path, said, caplog):
    """Search all that a test has printed, logged and written."""
    caplog.set_level(logging.DEBUG)
    yield
    said()
    assert PLANTED not in caplog.text
    for path in tmp_path.rglob("*"):
        assert PLANTED not in path.name
        assert not path.is_file() or PLANTED.encode() not in path.read_bytes(), path


def test_scored_with_secrets_in_the_environment(corpus, options, monkeypatch):
    for name in SECRET_VARIABLES:
        monkeypatch.setenv(name, PLANTED)
    assert run(score(corpus, **options)) == 0
    assert (options["out"] / "run.json").exists()


URLS = [
    f"s3://AKIAEXAMPLE:{PLANTED}@bucket/corpus.jsonl",
    f"https://host/corpus.jsonl?X-Amz-Credential=a&X-Amz-Signature={PLANTED}",
]


@pytest.mark.parametrize("url", URLS)
def test_url_with_a_secret_in_score(corpus, options, said, url):
    assert run(score(url, **options)) == 2
    assert run(score(corpus, **options | {"out": url})) == 2
    for kind in ("use", "elmo", "hf", "st", "glove", "infersent"):
        assert run(score(corpus, **options | {"encoder": f"{kind}:{url}"})) == 2
        assert "assay: " in said()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("correlate", {"ratings": URLS[0], "out": "report"}),
        ("compare", {}),
        ("negatives", {"out": "negatives.parquet"}),
        ("explain", {"document": "d", "metric": "rougeL", "out": "page.html"}),
        ("status", {}),
    ],
)
def test_url_with_a_secret_in_other_commands(tmp_path, monkeypatch, said, name, options):
    monkeypatch.chdir(tmp_path)
    files = [URLS[0]] * (2 if name == "compare" else 1)
    assert run(command(name, *files, **options)) == 2
    assert "***" in said()


def test_message_of_a_library_that_repeats_a_secret(monkeypatch, said):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", PLANTED)
    assert run([PLANTED]) == 2
    assert "no such command `***`" in said()


@pytest.mark.slow
@pytest.mark.ray
def test_secrets_are_not_in_what_ray_writes(corpus, options, tmp_path):
    """Of a run on a cluster of its own, with a shard that fails: output, folder and Ray's logs."""
    sessions = Path("/tmp/ray")
    before = set(sessions.glob("session_*"))
    broken = tmp_path / "broken.parquet"
    data = encoded([sound_row(number) for number in range(50)], "parquet")
    broken.write_bytes(data[:4] + b"\xff" * 396 + data[400:])
    arguments = score(corpus, broken, workers=2, **options)
    arguments.remove("--local")
    done = subprocess.run(
        [sys.executable, "-c", ON_RAY, *arguments],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=500,
        env=os.environ | dict.fromkeys(SECRET_VARIABLES, PLANTED),
    )
    assert done.returncode == 1, done.stderr
    assert PLANTED not in done.stdout + done.stderr
    for session in set(sessions.glob("session_*")) - before:
        for file in session.rglob("*"):
            assert not file.is_file() or PLANTED.encode() not in file.read_bytes(), file
