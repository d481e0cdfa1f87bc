"""`ray job submit` as `docs/cluster.md` has it, against a cluster with a dashboard and a token."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipelines.cli.app import run
from tests.object_stores import free_port
from tests.torture.sound import METRICS, sound_lines, write_vectors

ROOT = Path(__file__).resolve().parents[2]
RAY = str(Path(sys.executable).with_name("ray"))
START_S = 180.0

pytestmark = [pytest.mark.slow, pytest.mark.ray]


@pytest.fixture(scope="module")
def head(tmp_path_factory):
    """Start a head node with a dashboard; return the dashboard's URL and the environment."""
    folder = Path("/tmp") / f"assay-head-{os.getpid()}"  # sockets have short paths
    gcs, dashboard, client, metrics = (free_port() for _ in range(4))
    environment = os.environ | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(16),
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": str(ROOT),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    log = tmp_path_factory.mktemp("head") / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [RAY, "start", "--head", "--block", f"--port={gcs}", "--node-ip-address=127.0.0.1",
             "--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}", "--num-cpus=2",
             f"--ray-client-server-port={client}", f"--metrics-export-port={metrics}",
             "--include-dashboard=true", f"--temp-dir={folder}"],
            env=environment, stdout=stream, stderr=stream, start_new_session=True,
        )  # fmt: skip
    url = f"http://127.0.0.1:{dashboard}"
    try:
        wait_for(f"{url}/api/version", environment["RAY_AUTH_TOKEN"], process, log)
        yield url, environment
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        subprocess.run(["rm", "-rf", str(folder)], check=False)


def wait_for(url, token, process, log):
    end = time.monotonic() + START_S
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(request, timeout=5):
                return
        except OSError:
            time.sleep(1)
    pytest.fail(f"no dashboard at {url}: {log.read_text('utf-8', 'replace')[-2_000:]}")


def submit(head, *arguments, **environment):
    url, usual = head
    until = time.monotonic() + START_S
    while True:
        done = subprocess.run(
            [RAY, "job", "submit", "--address", url, "--", "assay", *arguments],
            env={**usual, **environment}, capture_output=True, text=True, timeout=540,
        )  # fmt: skip
        # the dashboard answers some seconds before it can take a job
        if "No available agent" not in done.stderr or time.monotonic() > until:
            return done
        time.sleep(2)


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "corpus.jsonl").write_bytes(sound_lines(30)[0])
    return tmp_path / "corpus.jsonl", write_vectors(tmp_path / "vectors.txt")


def test_job_scores_as_local_does(head, corpus, tmp_path):
    path, vectors = corpus
    asked = [f"--encoder=glove:{vectors}", f"--metrics={METRICS}", str(path)]
    done = submit(head, "score", *asked, "--out", str(tmp_path / "job"), "--address", "auto",
                  "--workers", "1")  # fmt: skip
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
    assert "Rows scored: 30 of 30" in done.stdout
    assert run(["score", *asked, "--local", "--quiet", "--out", str(tmp_path / "local")]) == 0
    tables = [
        pq.read_table(next((tmp_path / name / "scores").glob("part-*.parquet")))
        for name in ("job", "local")
    ]
    assert tables[0].equals(tables[1])
    said = done.stdout + done.stderr + (tmp_path / "job" / "run.json").read_text("utf-8")
    assert head[1]["RAY_AUTH_TOKEN"] not in said
    assert json.loads((tmp_path / "job" / "run.json").read_text("utf-8"))


def test_wrong_request_fails_the_job_with_one_line(head, corpus, tmp_path):
    done = submit(head, "score", str(tmp_path / "no such file.jsonl"), "--out", str(tmp_path / "o"),
                  "--address", "auto")  # fmt: skip
    assert done.returncode != 0
    assert "assay: no such file or folder" in done.stdout
    assert "Traceback" not in done.stdout


def test_job_without_the_token_is_refused(head, corpus, tmp_path):
    done = submit(head, "metrics", RAY_AUTH_TOKEN="0" * 32)
    assert done.returncode != 0
    assert "higher means" not in done.stdout
