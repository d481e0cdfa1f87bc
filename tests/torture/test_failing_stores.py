"""A real S3 server behind a proxy that breaks connections: whole objects, or none."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from cluster import store
from cluster.store import open_input, write_whole
from tests.object_stores import FAULTS, objects_in

SMALL, LARGE = 100_000, 21_000_000  # one request; an upload of three parts


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
    assert objects_in(server, bucket) == {"x": b"old"}


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
    assert objects_in(server, bucket) == {}


def test_store_that_is_away_for_some_seconds_is_waited_for(proxy, server, bucket):
    proxy.weather.is_out = True
    threading.Timer(1.0, setattr, (proxy.weather, "is_out", False)).start()
    write_whole(f"s3://{bucket}/x", b"x")
    assert objects_in(server, bucket) == {"x": b"x"}
    assert {fault for *_, fault in proxy.weather.seen} == {"busy", None}
