"""`assay score` through object stores that fail: the same table, and whole objects only."""

import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

from cluster.live import FolderInUse, LiveRun
from cluster.manifest import read_manifest
from cluster.scores_files import committed_parts
from cluster.store import list_names, open_input, parent, read_whole, write_whole
from cluster.totals import total_scores
from pipelines.correlation.run import correlate
from pipelines.fetched import fetched_config, open_scorer, paths_of
from pipelines.score import score_corpus
from pipelines.settings.correlate import CorrelateSettings
from pipelines.settings.score import ScoreSettings
from pipelines.status import run_status
from reffree.scorers.naming import PACKAGED
from sms.scoring import ScoringConfig, to_rows
from tests.object_stores import bucket_of, direct, gcs_server
from tests.reinforce.tiny_models import write_tiny_model

METRICS = ("wms", "rouge1", "length")
WORDS = ("cats", "mats", "sat", "dogs", "ran")
N_FILES, N_ROWS = 2, 30


def score(url, options="", out=None, **settings):
    """Score the corpus of a place, with its vectors."""
    usual = {"metrics": METRICS, "local": True, "workers": 1, "rows_per_shard": 15}
    encoders = {"tiny": f"glove:{url}/tiny.txt{options}"}
    out = out or f"{url}/out{options}"
    return score_corpus(
        f"{url}/in{options}", ScoreSettings(out=out, encoders=encoders, **usual | settings)
    )


def correlated(out):
    """Correlate a run with the ratings beside it."""
    ratings = f"{parent(out)}/r.csv"
    return correlate(out, CorrelateSettings(ratings=ratings, resamples=20))


def total_scores_of(out):
    """Ask what the scores of a run come to."""
    manifest = read_manifest(out)
    parts = committed_parts(out, manifest.shards, manifest.fingerprint)
    assert total_scores([*parts.values()]).n_rows == N_FILES * N_ROWS


def table_of(run):
    """All scores of a complete run, in the order of the plan, but for what the files are called."""
    return run.to_arrow().replace_schema_metadata().drop_columns("input_file")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A corpus of several files, and vectors."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "in").mkdir()
    rng = random.Random(0)
    for file in range(N_FILES):
        rows = [
            {
                "document_id": f"d{file}-{i // 2}",
                "system_id": f"s{i % 2}",
                "candidate": " ".join(rng.choices(WORDS, k=rng.randint(1, 8))),
                "reference": " ".join(rng.choices(WORDS, k=6)),
            }
            for i in range(N_ROWS)
        ]
        path = folder / "in" / f"{file}.parquet"
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=5)
    lines = [f"{word} {rng.random():.4f} {rng.random():.4f}\n" for word in WORDS]
    (folder / "tiny.txt").write_text("".join(lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def expected(inputs, tmp_path_factory):
    """What a run on this machine's own files gives."""
    run = score(inputs, out=tmp_path_factory.mktemp("local") / "out")
    return table_of(run), run.signatures


@pytest.fixture
def bucket(server, inputs):
    """A bucket with the corpus and the vectors."""
    return bucket_of(server, inputs)


@pytest.mark.parametrize("rate", [0.0, pytest.param(0.15, marks=pytest.mark.slow)])
def test_table_is_that_of_a_local_run(proxy, bucket, expected, rate):
    proxy.weather.rate = rate
    done = score(f"s3://{bucket}")
    assert table_of(done).equals(expected[0])
    assert done.signatures == expected[1]
    assert score(f"s3://{bucket}").n_new_shards == 0
    assert list_names(f"s3://{bucket}/out") == ["_SUCCESS", "run.json"]
    text = read_whole(f"s3://{bucket}/out/run.json")
    assert b"hush" not in text
    written = json.loads(text)
    assert written["configuration"]["encoders"] == {"tiny": f"glove:s3://{bucket}/tiny.txt"}
    assert written["inputs"][0]["path"] == f"s3://{bucket}/in/0.parquet"


def test_second_driver_refused_on_a_store(proxy, bucket):
    message = r"is in use by another run \(process \d+ on"
    with LiveRun(f"s3://{bucket}/out"), pytest.raises(FolderInUse, match=message):
        score(f"s3://{bucket}")


@pytest.mark.parametrize("reader", [run_status, total_scores_of, correlated])
def test_scores_file_is_opened_once(proxy, bucket, reader):
    """By a reader of four files; the first may be looked up, and opened to see its columns."""
    score(f"s3://{bucket}", metrics=["length", "rouge1_f"])
    ratings = "".join(f"d{i // 30}-{i % 30 // 2},s{i % 2},{i}\n" for i in range(60))
    write_whole(f"s3://{bucket}/r.csv", f"document_id,system_id,quality\n{ratings}".encode())
    proxy.weather.seen.clear()
    reader(f"s3://{bucket}/out")
    heads = [path for method, path, _ in proxy.weather.seen if method == "HEAD"]
    n_opened = Counter(path for path in heads if "/scores/part-" in path)
    assert len(n_opened) == 4
    assert sorted(n_opened.values())[:3] == [1, 1, 1]
    assert max(n_opened.values()) <= 3


DRIVE = """import sys
from tests.torture.test_score_on_stores import score
score(sys.argv[1], rows_per_shard=5)"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_killed_drivers_and_a_failing_store_change_nothing(proxy, server, bucket, expected, seed):
    """Four drivers, killed at any moment, some in an outage; files are whole whenever one looks."""
    rng = random.Random(seed)
    proxy.weather.rate = 0.1
    n_finished = 0
    command = [sys.executable, "-c", DRIVE, f"s3://{bucket}"]
    for _ in range(4):
        driver = subprocess.Popen(command, env=dict(os.environ), stderr=subprocess.DEVNULL)
        begun = len(proxy.weather.seen) + rng.randint(20, 120)
        while driver.poll() is None and len(proxy.weather.seen) < begun:
            time.sleep(0.005)
        driver.kill()
        n_finished += driver.wait() == 0
        for file in direct(server).get_file_info(pa.fs.FileSelector(f"{bucket}/out/scores", True)):
            pq.read_table(file.path, filesystem=direct(server))
        if rng.random() < 0.5:
            proxy.weather.is_out = True
            ends_in = rng.uniform(0.5, 2.0)
            threading.Timer(ends_in, setattr, (proxy.weather, "is_out", False)).start()
    assert n_finished < 4  # at least one was killed at work
    last = subprocess.run(command, capture_output=True, text=True, check=False)
    assert last.returncode == 0, last.stderr
    assert "hush" not in last.stderr + last.stdout
    assert table_of(score(f"s3://{bucket}", rows_per_shard=5)).equals(expected[0])


@pytest.mark.slow
@pytest.mark.ray
def test_ray_workers_and_a_failing_store(proxy, bucket, expected):
    proxy.weather.rate = 0.1
    run = score(f"s3://{bucket}", local=False, workers=2)
    assert table_of(run).equals(expected[0])


def test_table_on_google_cloud_storage(inputs, expected, tmp_path, monkeypatch):
    pytest.importorskip("gcp_storage_emulator", reason="no emulator: install the extra `dev`")
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    url = "gs://anonymous@bucket"
    with gcs_server(tmp_path) as address:
        gcs = f"?scheme=http&endpoint_override={address}"
        for path in (path for path in inputs.rglob("*") if path.is_file()):
            write_whole(f"{url}/{path.relative_to(inputs)}{gcs}", path.read_bytes())
        assert table_of(score(url, gcs)).equals(expected[0])
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
    options = {"out": tiny_disk / "out", "rows_per_shard": 2}
    with pytest.raises(OSError, match=r"no space is left for .*; make room and run the same"):
        score(inputs, **options)
    n_rows = sum(pq.read_table(part).num_rows for part in (tiny_disk / "out/scores").iterdir())
    assert 0 < n_rows < N_FILES * N_ROWS
    assert not list(tiny_disk.rglob("*.partial"))
    subprocess.run(["mount", "-o", "remount,size=4m", str(tiny_disk)], check=True)
    run = score(inputs, **options)
    assert run.n_earlier_rows == n_rows
    assert table_of(run).equals(expected[0])


@pytest.mark.parametrize("name", ["run.json", "scores"])
def test_planted_link_refused(inputs, tmp_path, name):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).symlink_to(tmp_path / "theirs")
    with pytest.raises(ValueError, match=f"{name} must not be a link, got one to"):
        score(inputs, out=tmp_path / "out", metrics=["length"], fresh=True)
    assert not list((tmp_path / "theirs").iterdir())


def test_paths_of_encoders_and_scorers_are_fetched_where_they_are_urls():
    encoders = {
        "a": "infersent:file:///m/i.pkl,vectors=file:///m/v.txt",
        "b": "hf:file:///m/tiny,layers=all",
        "c": "minilm",
    }
    fetched = fetched_config(ScoringConfig(metrics=("cosine@a", "cosine@b"), encoders=encoders))
    expected = {name: spec.replace("file://", "") for name, spec in encoders.items()}
    assert fetched.encoders == expected
    fetched = fetched_config(ScoringConfig(metrics=["reffree@file:///m/scorer"]))
    assert fetched.model_paths == {"reffree@file:///m/scorer": "/m/scorer"}


@pytest.mark.parametrize("name", ["general+lm", "mine"])
def test_models_of_the_run_that_a_scorer_reads_are_fetched_with_it(tmp_path, name):
    scorer = "general+lm"
    if name == "mine":  # which models a scorer in a store reads is known once it is fetched
        shutil.copytree(PACKAGED / scorer, tmp_path / name)
        scorer = f"file://{tmp_path / name}"
    tables = {
        "lm": {"path": "file:///m/lm", "value": "sum"},
        "other": {"path": "file:///m/other"},
        "server": {"url": "http://127.0.0.1:1"},
    }
    asked = (f"reffree@{scorer}.fluency", f"reffree@{scorer}.coherence")
    config = ScoringConfig(metrics=asked, models=tables)
    fetched = fetched_config(config)
    assert fetched.models == tables | {"lm": {"path": "/m/lm", "value": "sum"}}
    assert fetched.model_paths == {
        name: path.replace("file://", "") for name, path in config.model_paths.items()
    }
    assert "/m/lm" in paths_of(fetched)
    assert "/m/other" not in paths_of(fetched)


def test_scorer_reads_a_language_model_in_a_store(tmp_path):
    document, summary = "A cat sat on the mat all day.", "The cat sat."
    path = write_tiny_model(tmp_path / "tiny", "llama", [document, summary])
    (config_file := Path(path, "config.json")).write_text(
        json.dumps(json.loads(config_file.read_text()) | {"max_position_embeddings": 1024})
    )
    scored = []
    for place in (path, f"file://{path}"):
        config = ScoringConfig(metrics=("reffree@general+lm.fluency",), models={"lm": place})
        scorer = open_scorer(config)
        scores, _ = scorer.scored(scorer.prepare(to_rows([summary], sources=[document])))
        scored.append((scorer.signatures, scores["reffree@general+lm.fluency"].tolist()))
    assert scored[0] == scored[1]
    assert "|model:tiny|hash:" in scored[0][0]["reffree@general+lm.fluency"]
