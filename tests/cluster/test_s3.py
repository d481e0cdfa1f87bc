"""A real S3 server behind a proxy that breaks connections: whole objects, or none."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from cluster import list_inputs, store
from cluster.fetching import fetch
from cluster.store import delete_file, join, list_names, open_input, version_of, write_whole
from tests.cluster.object_stores import FAULTS, bucket_of, direct

pytest.importorskip("moto", reason="no S3 server: install the extra `dev`")

SMALL, LARGE = 100_000, 21_000_000  # one request; an upload of three parts


@pytest.fixture
def bucket(server):
    return bucket_of(server)


def found(server, bucket):
    """What somebody else sees: the bytes of every object by its name."""
    other = direct(server)
    infos = other.get_file_info(pafs.FileSelector(bucket, recursive=True))
    return {
        info.path.removeprefix(f"{bucket}/"): other.open_input_file(info.path).read()
        for info in infos
        if info.type == pafs.FileType.File
    }


def test_round_trip(proxy, server, bucket):
    out = f"s3://{bucket}/run"
    write_whole(join(out, "scores", "a b"), b"x")
    puts = [(method, path) for method, path, _ in proxy.weather.seen if method != "GET"]
    assert puts == [("PUT", f"/{bucket}/run/scores/a%20b")]  # one request, and nothing before it
    assert list_names(join(out, "scores")) == ["a b"]
    assert list_names(join(out, "nowhere")) == []
    with open_input(join(out, "scores", "a%20b")) as stream:
        first = version_of(stream, "")
        assert stream.read() == b"x"
    write_whole(join(out, "scores", "a b"), b"y")
    with open_input(join(out, "scores", "a b")) as stream:
        assert version_of(stream, "") != first
    delete_file(join(out, "scores", "a b"))
    delete_file(join(out, "scores", "a b"))
    assert found(server, bucket) == {}


def test_folder_and_pattern(proxy, server, bucket):
    for name in ("in/a.jsonl", "in/deep/b #1.jsonl", "in/_skipped.jsonl"):
        write_whole(f"s3://{bucket}/{name.replace('#', '%23')}", b'{"candidate": "x"}\n')
    options = f"?endpoint_override={server}&scheme=http"
    files = list_inputs([f"s3://{bucket}/in{options}"])
    assert [file.path for file in files] == [
        f"s3://{bucket}/in/a.jsonl{options}",
        f"s3://{bucket}/in/deep/b%20%231.jsonl{options}",
    ]
    assert files == list_inputs([f"s3://{bucket}/in/[ab]*.jsonl{options}", files[1].path])
    assert files == list_inputs([f"s3://{bucket}/in/**/[!_]*.jsonl{options}"])
    assert files[:1] == list_inputs([f"s3://{bucket}/in/[!_]*.jsonl{options}"])
    assert files[1:] == list_inputs([f"s3://{bucket[:-1]}?/in/*/*.jsonl{options}"])


@pytest.mark.parametrize("fault", FAULTS)
def test_one_fault_is_not_noticed(proxy, server, bucket, fault):
    weather = proxy.weather
    for method in ("PUT", "GET"):
        weather.rate, weather.kinds, weather.most = 1.0, (fault,), 1
        weather.only = lambda asked, _, method=method: asked == method
        payload = os.urandom(SMALL)
        write_whole(f"s3://{bucket}/x", payload)
        with open_input(f"s3://{bucket}/x") as stream:
            assert stream.read() == payload
    assert [found for *_, found in weather.seen if found] == [fault, fault]


def test_missing_and_forbidden_are_said_at_once(proxy, bucket):
    with pytest.raises(FileNotFoundError, match=f"no such file: s3://{bucket}/nothing"):
        open_input(f"s3://{bucket}/nothing")
    with pytest.raises(OSError, match=r"cannot reach s3://no-such-bucket/x .*does not exist"):
        write_whole("s3://no-such-bucket/x", b"x")
    proxy.weather.is_forbidden = True
    for ask in (open_input, lambda url: write_whole(url, b"x")):
        with pytest.raises(PermissionError, match=r"no permission .*the credentials") as told:
            ask(f"s3://{bucket}/x")
        assert "hush" not in str(told.value)
    assert len(proxy.weather.seen) == 4


def test_nothing_is_seen_of_an_upload_that_fails(proxy, server, bucket, monkeypatch):
    """Its first part has arrived, the second never does."""
    monkeypatch.setattr(store, "S3_ATTEMPTS", 1)
    write_whole(f"s3://{bucket}/x", b"old")
    weather = proxy.weather
    weather.rate, weather.kinds = 1.0, ("reset",)
    weather.only = lambda method, path: "partNumber=2" in path
    for name in ("x", "y"):
        with pytest.raises(OSError, match="cannot reach"):
            write_whole(f"s3://{bucket}/{name}", os.urandom(LARGE))
    assert any("partNumber=1" in path for _, path, _ in weather.seen)
    assert found(server, bucket) == {"x": b"old"}


def test_nothing_is_seen_of_a_writer_that_is_killed(proxy, server, bucket):
    proxy.weather.rate, proxy.weather.kinds = 1.0, ("stall",)
    code = f"from cluster import write_whole; write_whole('s3://{bucket}/x', bytes({LARGE}))"
    writer = subprocess.Popen([sys.executable, "-c", code], env=dict(os.environ))
    end = time.monotonic() + 60
    while not any("partNumber=1" in path for _, path, _ in proxy.weather.seen):
        assert time.monotonic() < end
        time.sleep(0.01)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    assert found(server, bucket) == {}


def test_store_that_is_away_for_some_seconds_is_waited_for(proxy, server, bucket):
    proxy.weather.is_out = True
    threading.Timer(1.0, setattr, (proxy.weather, "is_out", False)).start()
    write_whole(f"s3://{bucket}/x", b"x")
    assert found(server, bucket) == {"x": b"x"}
    assert {fault for *_, fault in proxy.weather.seen} == {"busy", None}


def test_model_is_fetched_once_and_again_when_it_has_changed(proxy, bucket, tmp_path):
    url = f"s3://{bucket}/models/tiny"
    write_whole(f"{url}/config.json", b"{}")
    write_whole(f"{url}/deep/weights", b"12")

    def fetched():
        """Return the folder, and how many requests for objects that took."""
        proxy.weather.seen.clear()
        folder = Path(fetch(url))
        asked = [path for method, path, _ in proxy.weather.seen if method == "GET"]
        return folder, sum("list-type" not in path for path in asked)

    folder, n_read = fetched()
    assert (folder.name, n_read) == ("tiny", 2)
    assert (folder / "deep" / "weights").read_bytes() == b"12"
    assert fetched() == (folder, 0)
    write_whole(f"{url}/deep/weights", b"21")
    assert (fetched()[0] / "deep" / "weights").read_bytes() == b"21"
    assert not list((tmp_path / "cache").glob("*.partial"))


def test_nothing_there_to_fetch(proxy, bucket):
    with pytest.raises(ValueError, match=f"no file or folder at s3://{bucket}/nothing"):
        fetch(f"s3://{bucket}/nothing")


def test_file_that_changes_while_it_is_fetched_is_no_copy(proxy, bucket, tmp_path, monkeypatch):
    url = f"s3://{bucket}/vectors.txt"
    write_whole(url, b"12")

    def meddle(*_):
        write_whole(url, b"21")

    monkeypatch.setattr("cluster.fetching.shutil.copyfileobj", meddle)
    with pytest.raises(OSError, match="changed while it was fetched"):
        fetch(url)
    assert not [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]


@pytest.mark.parametrize("text", ["/data/model", "sentence-transformers/all", "https://host/model"])
def test_what_is_in_no_store_stays_as_it_is(text):
    assert fetch(text) == text
