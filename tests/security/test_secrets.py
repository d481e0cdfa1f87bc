"""Secrets planted in the environment and in URLs are in nothing that is written or said."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fuzzing.folder_cases import sound_lines

from sms.urls import SECRET_VARIABLES, check_no_secrets, redacted
from tests.fuzzing.sound import write_vectors
from tests.rare import run

ROOT = Path(__file__).resolve().parents[2]
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
    return tmp_path / "corpus.jsonl", write_vectors(tmp_path / "vectors.txt")


@pytest.fixture
def planted(monkeypatch):
    for number, name in enumerate(SECRET_VARIABLES):
        monkeypatch.setenv(name, f"{PLANTED}{number}")


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


@pytest.mark.usefixtures("planted")
def test_scored_with_secrets_in_the_environment(corpus, tmp_path):
    path, vectors = corpus
    asked = ["--local", f"--encoder=glove:{vectors}", "--metrics=sms", f"--out={tmp_path / 'out'}"]
    assert run(["score", *asked, str(path)]) == 0
    assert (tmp_path / "out" / "run.json").exists()


URLS = [
    f"s3://AKIAEXAMPLE:{PLANTED}@bucket/corpus.jsonl",
    f"s3://AKIAEXAMPLE:{PLANTED}/with/slashes@bucket/corpus.jsonl",
    f"s3://bucket/corpus.jsonl?secret_key={PLANTED}&region=eu-west-1",
    f"https://host/corpus.jsonl?X-Amz-Credential=a&X-Amz-Signature={PLANTED}",
    f"https://host/corpus.jsonl?sig={PLANTED}",
    f"gs://bucket/corpus.jsonl?access_token={PLANTED}",
    f"hdfs://user:{PLANTED}@namenode:8020/corpus.jsonl",
]


@pytest.mark.parametrize("url", URLS)
def test_url_with_a_secret_as_corpus(corpus, tmp_path, url):
    asked = ["--local", f"--encoder=glove:{corpus[1]}", "--metrics=sms", f"--out={tmp_path / 'o'}"]
    assert run(["score", *asked, url]) == 2


@pytest.mark.parametrize("url", URLS)
def test_url_with_a_secret_as_output(corpus, url):
    path, vectors = corpus
    asked = ["--local", f"--encoder=glove:{vectors}", "--metrics=sms", f"--out={url}"]
    assert run(["score", *asked, str(path)]) == 2


@pytest.mark.parametrize("kind", ["use", "elmo", "hf", "st", "glove", "infersent"])
def test_url_with_a_secret_as_encoder(corpus, tmp_path, said, kind):
    url = f"https://host/model.tar.gz?X-Amz-Signature={PLANTED}"
    asked = ["--local", f"--encoder={kind}:{url}", "--metrics=cosine", f"--out={tmp_path / 'o'}"]
    assert run(["score", *asked, str(corpus[0])]) == 2
    assert "assay: " in said()


@pytest.mark.parametrize("command", ["correlate", "compare", "negatives", "explain", "status"])
def test_url_with_a_secret_in_other_commands(tmp_path, said, command):
    options = {
        "correlate": [f"--ratings={URLS[0]}", f"--out={tmp_path / 'o'}", URLS[0]],
        "compare": [URLS[0], URLS[0]],
        "negatives": [f"--out={tmp_path / 'n.parquet'}", URLS[0]],
        "explain": ["--document=d", "--metric=rougeL", f"--out={tmp_path / 'p.html'}", URLS[0]],
        "status": [URLS[0]],
    }
    assert run([command, *options[command]]) == 2
    assert "***" in said()


def test_message_of_a_library_that_repeats_a_secret(monkeypatch, said):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", PLANTED)
    assert run([PLANTED]) == 2
    assert "no such command `***`" in said()


@pytest.mark.parametrize("url", URLS)
def test_secret_refused_and_hidden(url):
    with pytest.raises(ValueError, match=r"must not hold a password or key") as caught:
        check_no_secrets(url)
    assert PLANTED not in str(caught.value)
    assert PLANTED not in redacted(f"cannot open {url} today")


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/a%20b.parquet?region=eu-west-1&endpoint_override=http://127.0.0.1:5000",
        "s3://bucket/key=1/token=2/part.parquet",
        "hdfs://user@namenode:8020/a@b/c",
        "gs://anonymous@bucket/x",
        "https://tfhub.dev/google/use/4?tf-hub-format=compressed",
        "C:/Users/a:b@c/x?key=1",
    ],
)
def test_url_without_a_secret_accepted(url):
    check_no_secrets(url)


@pytest.mark.slow
@pytest.mark.ray
def test_secrets_are_not_in_what_ray_writes(corpus, tmp_path):
    """Of a run on a cluster of its own, with a shard that fails: output, folder and Ray's logs."""
    path, vectors = corpus
    session = re.compile(r"session_[\w.-]+")
    before = set(os.listdir("/tmp/ray")) if os.path.isdir("/tmp/ray") else set()
    broken = tmp_path / "broken.parquet"
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = {n: ["x" * 50] * 50 for n in ("document_id", "system_id", "candidate", "reference")}
    pq.write_table(pa.table(rows), broken, compression="none", use_dictionary=False)
    data = bytearray(broken.read_bytes())
    data[4:400] = b"\xff" * 396
    broken.write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", ON_RAY, "score", str(path), str(broken), "--workers=2",
         f"--encoder=glove:{vectors}", "--metrics=sms", f"--out={tmp_path / 'out'}"],
        cwd=ROOT, capture_output=True, text=True, timeout=500,
        env=os.environ | {name: f"{PLANTED}{k}" for k, name in enumerate(SECRET_VARIABLES)},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert PLANTED not in done.stdout + done.stderr
    fresh = [Path("/tmp/ray", name) for name in set(os.listdir("/tmp/ray")) - before]
    logs = [file for folder in fresh if session.match(folder.name) for file in folder.rglob("*")]
    for file in logs:
        assert not file.is_file() or PLANTED.encode() not in file.read_bytes(), file
