"""`assay score` through object stores that fail: the same table, and whole objects only."""

import contextlib
import io
import json
import os
import random
import subprocess
import sys
import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster.store import join, list_names, open_input, write_whole
from pipelines.fetched import fetched_config
from pipelines.runs import live
from pipelines.runs.live import FolderInUse, LiveRun
from pipelines.score import score_corpus
from sms.scoring import ScoringConfig
from tests.cluster.object_stores import bucket_of, gcs_server

pytest.importorskip("moto", reason="no S3 server: install the extra `dev`")
boto3 = pytest.importorskip("boto3")

METRICS = ("wms", "rouge1", "length")
WORDS = ("cats", "mats", "sat", "dogs", "ran")
OPTIONS = {"local": True, "workers": 1, "rows_per_shard": 15}
N_FILES, N_ROWS = 2, 30


def rows_of(seed):
    rng = random.Random(seed)
    return [
        {
            "document_id": f"d{seed}-{i // 2}",
            "system_id": f"s{i % 2}",
            "candidate": " ".join(rng.choices(WORDS, k=rng.randint(1, 8))),
            "reference": " ".join(rng.choices(WORDS, k=6)),
        }
        for i in range(N_ROWS)
    ]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A corpus of several files, and vectors."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "in").mkdir()
    for i in range(N_FILES):
        path = folder / "in" / f"{i}.parquet"
        pq.write_table(pa.Table.from_pylist(rows_of(i)), path, row_group_size=5)
    rng = random.Random(0)
    lines = [f"{word} {rng.random():.4f} {rng.random():.4f}\n" for word in WORDS]
    (folder / "tiny.txt").write_text("".join(lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def expected(inputs, tmp_path_factory):
    """What a run on this machine's own files gives."""
    out = tmp_path_factory.mktemp("local") / "out"
    encoders = {"tiny": f"glove:{inputs}/tiny.txt"}
    done = score_corpus(inputs / "in", out, metrics=METRICS, encoders=encoders, **OPTIONS)
    return table_of(str(out)), done.signatures


def table_of(out):
    """All scores of a complete run, in the order of the plan, but for what the files are called."""
    with open_input(join(out, "_SUCCESS")) as stream:
        parts = stream.read().decode().split()
    tables = []
    for part in parts:
        with open_input(join(out, *part.split("/"))) as stream:
            tables.append(pq.read_table(stream).replace_schema_metadata())
    return pa.concat_tables(tables).drop_columns("input_file")


@pytest.fixture
def bucket(server, inputs):
    """A bucket with the corpus and the vectors."""
    return bucket_of(server, inputs)


def score(url, **options):
    return score_corpus(
        f"{url}/in/*.parquet",
        f"{url}/out",
        **{
            "metrics": METRICS,
            "encoders": {"tiny": f"glove:{url}/tiny.txt"},
            **OPTIONS,
            **options,
        },
    )


def everything_written(server, bucket):
    """What others see: the bytes of every object of the run, each read in one request."""
    keys = {"aws_access_key_id": "other", "aws_secret_access_key": "other"}
    client = boto3.client("s3", endpoint_url=f"http://{server}", region_name="us-east-1", **keys)
    found = {}
    for entry in client.list_objects_v2(Bucket=bucket, Prefix="out/").get("Contents", []):
        with contextlib.suppress(client.exceptions.NoSuchKey):  # deleted since it was listed
            found[entry["Key"]] = client.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read()
    return found


@pytest.mark.parametrize("rate", [0.0, pytest.param(0.15, marks=pytest.mark.slow)])
def test_table_is_that_of_a_local_run(proxy, server, bucket, expected, rate):
    proxy.weather.rate = rate
    done = score(f"s3://{bucket}")
    table, signatures = expected
    assert table_of(f"s3://{bucket}/out").equals(table)
    assert done.signatures == signatures
    written = everything_written(server, bucket)
    assert len(written) > 2
    assert not any(b"hush" in data for data in written.values())
    assert score(f"s3://{bucket}").n_new_shards == 0
    assert list_names(f"s3://{bucket}/out") == ["_SUCCESS", "run.json"]
    with open_input(f"s3://{bucket}/out/run.json") as stream:
        written = json.loads(stream.read())
    assert written["configuration"]["encoders"] == {"tiny": f"glove:s3://{bucket}/tiny.txt"}
    assert written["inputs"][0]["path"] == f"s3://{bucket}/in/0.parquet"


def test_second_driver_refused_on_a_store(proxy, bucket, monkeypatch):
    monkeypatch.setattr(live, "BEAT_EVERY_S", 0.2)
    with (
        LiveRun(f"s3://{bucket}/out"),
        pytest.raises(FolderInUse, match=r"is in use by another run \(process \d+ on"),
    ):
        score(f"s3://{bucket}")


# Rounds in which everything goes wrong

DRIVE = f"""
import sys
from pipelines.score import score_corpus
from tests.rare import run
url = sys.argv[1]
encoders = {{"tiny": f"glove:{{url}}/tiny.txt"}}
score_corpus(
    f"{{url}}/in", f"{{url}}/out", metrics={METRICS}, encoders=encoders,
    local=True, workers=1, rows_per_shard=5,
)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_killed_drivers_and_a_failing_store_change_nothing(proxy, server, bucket, expected, seed):
    rng = random.Random(seed)
    proxy.weather.rate = 0.1
    n_finished = 0
    command = [sys.executable, "-c", DRIVE, f"s3://{bucket}"]
    with watching(server, bucket) as troubles:
        for _ in range(4):
            driver = subprocess.Popen(command, env=dict(os.environ), stderr=subprocess.DEVNULL)
            begun = len(proxy.weather.seen) + rng.randint(20, 120)
            while driver.poll() is None and len(proxy.weather.seen) < begun:
                time.sleep(0.005)
            driver.kill()
            n_finished += driver.wait() == 0
            if rng.random() < 0.5:
                with outage(proxy, seconds=rng.uniform(0.5, 2.0)):
                    pass
        assert n_finished < 4  # at least one was killed at work
        last = subprocess.run(command, capture_output=True, text=True, check=False)
        assert last.returncode == 0, last.stderr
    assert troubles == []
    table = table_of(f"s3://{bucket}/out")
    assert table.equals(expected[0])
    assert "hush" not in last.stderr + last.stdout


@contextlib.contextmanager
def outage(proxy, seconds):
    """Begin an outage that ends by itself."""
    proxy.weather.is_out = True
    threading.Timer(seconds, setattr, (proxy.weather, "is_out", False)).start()
    yield


@contextlib.contextmanager
def watching(server, bucket):
    """Read everything under a final name all the time; collects what is not whole."""
    troubles, is_over = [], threading.Event()
    n_looked_at = 0

    def look():
        nonlocal n_looked_at
        while not is_over.wait(0.2):
            for path, data in everything_written(server, bucket).items():
                try:
                    if path.endswith(".parquet"):
                        pq.read_table(io.BytesIO(data))
                    elif path.endswith((".json", ".lock")):
                        json.loads(data)
                    n_looked_at += 1
                except (pa.ArrowException, ValueError) as error:
                    troubles.append((path, len(data), str(error)))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield troubles
    finally:
        is_over.set()
        watcher.join()
    assert n_looked_at > 0


# Google Cloud Storage


@pytest.fixture
def gcs(tmp_path):
    pytest.importorskip("gcp_storage_emulator", reason="no emulator: install the extra `dev`")
    with gcs_server(tmp_path) as address:
        yield f"?scheme=http&endpoint_override={address}"


def test_table_on_google_cloud_storage(gcs, inputs, expected, tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    url = "gs://anonymous@bucket"
    for path in (path for path in inputs.rglob("*") if path.is_file()):
        write_whole(f"{url}/{path.relative_to(inputs)}{gcs}", path.read_bytes())
    score_corpus(
        f"{url}/in{gcs}",
        f"{url}/out{gcs}",
        metrics=METRICS,
        encoders={"tiny": f"glove:{url}/tiny.txt{gcs}"},
        **OPTIONS,
    )
    assert table_of(f"{url}/out{gcs}").equals(expected[0])
    assert list_names(f"{url}/out{gcs}") == ["_SUCCESS", "run.json"]
    with pytest.raises(FileNotFoundError, match="no such file: gs://"):
        open_input(f"{url}/nothing{gcs}")


# Local disks


@pytest.fixture
def tiny_disk(tmp_path):
    """A filesystem with room for some of the shards."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("cannot mount a tmpfs; this needs root")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_full_disk_is_one_line_and_the_run_goes_on_afterwards(tiny_disk, inputs, expected):
    def score_here():
        encoders = {"tiny": f"glove:{inputs}/tiny.txt"}
        options = {"metrics": METRICS, "encoders": encoders, **OPTIONS, "rows_per_shard": 2}
        return score_corpus(inputs / "in", tiny_disk / "out", **options)

    with pytest.raises(OSError, match=r"no space is left for .*; make room and run the same"):
        score_here()
    parts = list((tiny_disk / "out" / "scores").iterdir())
    n_rows = sum(pq.read_table(part).num_rows for part in parts)
    assert 0 < n_rows < N_FILES * N_ROWS
    assert not list(tiny_disk.rglob("*.partial"))
    subprocess.run(["mount", "-o", "remount,size=4m", str(tiny_disk)], check=True)
    assert score_here().n_earlier_rows == n_rows
    assert table_of(str(tiny_disk / "out")).equals(expected[0])


@pytest.mark.parametrize("name", ["run.json", "_SUCCESS", "scores", "errors"])
def test_planted_link_refused(inputs, tmp_path, name):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).symlink_to(tmp_path / "theirs")
    with pytest.raises(ValueError, match=f"{name} must not be a link, got one to"):
        score_corpus(f"{inputs}/in", tmp_path / "out", metrics=["length"], fresh=True, **OPTIONS)
    assert not list((tmp_path / "theirs").iterdir())


def test_paths_of_encoders_and_scorers_are_fetched_where_they_are_urls():
    config = ScoringConfig(
        metrics=("cosine@a", "cosine@b"),
        encoders={
            "a": "infersent:file:///m/i.pkl,vectors=file:///m/v.txt",
            "b": "hf:file:///m/tiny,layers=all",
            "c": "minilm",
        },
    )
    assert fetched_config(config).encoders == {
        "a": "infersent:/m/i.pkl,vectors=/m/v.txt",
        "b": "hf:/m/tiny,layers=all",
        "c": "minilm",
    }
    config = ScoringConfig(metrics=["reffree@file:///m/scorer", "reffree@s3://bucket/scorer"])
    assert list(config.model_paths.values()) == ["file:///m/scorer", "s3://bucket/scorer"]
    config = ScoringConfig(metrics=["reffree@file:///m/scorer"])
    assert fetched_config(config).model_paths == {"reffree@file:///m/scorer": "/m/scorer"}
