"""Object stores for tests: server processes on loopback, and a proxy that breaks what passes it."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from uuid import uuid4

import pyarrow.fs as pafs
import pytest

FAULTS = ("busy", "reset", "cut request", "cut response", "lost response", "stall")
"""What may happen to a request: answered 503; the connection reset before anything is read;
reset with half of the request sent; reset with half of the response sent; carried out, but reset
without a response; answered late."""

_START_S = 60.0
_STALL_S = 0.2
_REFUSALS = {
    "busy": (503, b"<Error><Code>SlowDown</Code><Message>Reduce your rate.</Message></Error>"),
    "forbidden": (403, b"<Error><Code>AccessDenied</Code><Message>Denied</Message></Error>"),
}
_HOP_BY_HOP = frozenset({"connection", "transfer-encoding", "content-length", "date", "server"})


@contextlib.contextmanager
def s3_server(folder: Path) -> Iterator[str]:
    """Run an S3 server as a process of its own; gives `HOST:PORT`."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with _process(command, folder / "s3.log", f"http://127.0.0.1:{port}/moto-api/"):
        yield f"127.0.0.1:{port}"


@contextlib.contextmanager
def gcs_server(folder: Path) -> Iterator[str]:
    """Run a Google Cloud Storage emulator as a process of its own; gives `HOST:PORT`."""
    port = free_port()
    command = [sys.executable, "-m", "gcp_storage_emulator", "start"]
    command += ["--host=127.0.0.1", f"--port={port}", "--in-memory", "--default-bucket=bucket"]
    with _process(command, folder / "gcs.log", f"http://127.0.0.1:{port}/"):
        yield f"127.0.0.1:{port}"


@contextlib.contextmanager
def _process(command: list[str], log: Path, address: str) -> Iterator[None]:
    with log.open("wb") as stream:
        server = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, cwd=log.parent)
    try:
        end = time.monotonic() + _START_S
        while not _answers(address):
            if server.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"no server at {address}: {log.read_text()[-2000:]}")
            time.sleep(0.05)
        yield
    finally:
        server.kill()
        server.wait()


def _answers(address: str) -> bool:
    try:
        urllib.request.urlopen(address, timeout=5).close()
    except OSError as error:
        return isinstance(error, urllib.error.HTTPError)
    return True


def direct(server: str) -> pafs.S3FileSystem:
    """Connect to an S3 server without the proxy, to see what others see."""
    return pafs.S3FileSystem(
        endpoint_override=server,
        scheme="http",
        region="us-east-1",
        access_key="other",
        secret_key="other",
        allow_bucket_creation=True,
    )


def s3_environment(address: str) -> dict[str, str]:
    """Return the variables that point the tools of AWS at a server."""
    return {
        "AWS_ENDPOINT_URL_S3": f"http://{address}",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "hush-hush-secret",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[str]:
    """Have an S3 server for the tests of a module."""
    pytest.importorskip("moto", reason="no S3 server: install the extra `dev`")
    with s3_server(tmp_path_factory.mktemp("s3")) as address:
        yield address


@pytest.fixture
def proxy(server, monkeypatch, tmp_path) -> Iterator[FaultyProxy]:
    """Have a proxy before it, which the environment names."""
    with FaultyProxy(server, seed=7) as proxy:
        for name, value in s3_environment(proxy.address).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
        yield proxy


def bucket_of(server: str, folder: Path | None = None) -> str:
    """Make a bucket with the files of a folder; return its name."""
    name = f"bucket-{uuid4().hex[:12]}"
    store = direct(server)
    store.create_dir(name)
    for path in () if folder is None else folder.rglob("*"):
        if path.is_file():
            key = f"{name}/{path.relative_to(folder)}"
            with store.open_output_stream(key, compression=None) as stream:  # even of `.gz`
                stream.write(path.read_bytes())
    return name


@pytest.fixture
def bucket(server) -> str:
    """Have a bucket without files."""
    return bucket_of(server)


def objects_in(server: str, bucket: str) -> dict[str, bytes]:
    """Return what somebody else sees: the bytes of every object by its name."""
    other = direct(server)
    infos = other.get_file_info(pafs.FileSelector(bucket, recursive=True))
    return {
        info.path.removeprefix(f"{bucket}/"): other.open_input_file(info.path).read()
        for info in infos
        if info.type == pafs.FileType.File
    }


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


@dataclass
class Weather:
    """What the proxy does to the requests that pass it; may be changed at any time."""

    rate: float = 0.0
    """Share of the requests that something happens to."""
    kinds: tuple[str, ...] = FAULTS
    is_out: bool = False
    """Whether every request is answered 503."""
    is_forbidden: bool = False
    """Whether every request is answered 403."""
    only: Callable[[str, str], bool] = lambda method, path: True
    """Which requests may be hit, given the method and the path with its query."""
    most: int | None = None
    """How many faults are left; as many as come if None."""
    seen: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Method, path and fault of every request so far."""


class FaultyProxy:
    """Passes HTTP requests on to a server, and breaks some at seeded random moments.

    Parameters
    ----------
    server : str
        `HOST:PORT` of the server.
    seed : int
        Decides which requests are hit, and how.
    """

    def __init__(self, server: str, seed: int = 0) -> None:
        self.server = server
        self.weather = Weather()
        self._rng = random.Random(seed)
        self._turn = threading.Lock()
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.proxy = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    @property
    def address(self) -> str:
        """Where it listens, as `HOST:PORT`."""
        return f"127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> FaultyProxy:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def draw(self, method: str, path: str) -> str | None:
        """Decide what happens to a request."""
        weather = self.weather
        with self._turn:
            fault = None
            if weather.is_out or weather.is_forbidden:
                fault = "busy" if weather.is_out else "forbidden"
            elif weather.only(method, path) and weather.most != 0 and self._is_hit():
                fault = self._rng.choice(weather.kinds)
                weather.most = None if weather.most is None else weather.most - 1
            weather.seen.append((method, path, fault))
        return fault

    def _is_hit(self) -> bool:
        return self._rng.random() < self.weather.rate


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    proxy: FaultyProxy

    def handle_error(self, *_: object) -> None:
        """Say nothing: clients that hang up are what this is about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer waits 40 ms for the client's delayed ACK
    server: _Server
    _length = "0"  # of the object that was asked about

    def _pass_on(self) -> None:
        fault = self.server.proxy.draw(self.command, self.path)
        body = b"" if fault == "reset" else self._body(is_cut=fault == "cut request")
        if fault in ("reset", "cut request"):
            self._reset()
            return
        if fault in _REFUSALS:
            status, answer = _REFUSALS[fault]
            self._answer(status, {"Content-Type": "application/xml", "Retry-After": "0"}, answer)
            return
        if fault == "stall":
            time.sleep(_STALL_S)
        status, headers, answer = self._ask(body)
        if fault == "lost response":
            self._reset()
        else:
            self._answer(status, headers, answer, is_cut=fault == "cut response")

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = _pass_on

    def _body(self, *, is_cut: bool) -> bytes:
        """Read a request's body: all of it, or half and not a byte more."""
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return b"".join(self._chunks())
        length = int(self.headers.get("Content-Length", 0))
        return self.rfile.read(length // 2 if is_cut else length)

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass

    def _ask(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP_BY_HOP}
        headers.pop("Expect", None)
        connection = HTTPConnection(self.server.proxy.server, timeout=60)
        try:
            connection.request(self.command, self.path, body, headers)
            response = connection.getresponse()
            answer = response.read()
        except (OSError, HTTPException):
            return 502, {}, b""
        finally:
            connection.close()
        if self.command == "HEAD":  # its length is that of the object
            self._length = response.getheader("Content-Length", "0")
        return response.status, dict(response.getheaders()), answer

    def _answer(
        self, status: int, headers: dict[str, str], answer: bytes, *, is_cut: bool = False
    ) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        is_head = self.command == "HEAD" and status < 300
        self.send_header("Content-Length", self._length if is_head else str(len(answer)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer[: len(answer) // 2] if is_cut else answer)
        if is_cut:
            self.wfile.flush()
            self._reset()

    def _reset(self) -> None:
        """Close so that the other side sees a reset, not an end."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.rfile.close()
        self.wfile.close()
        self.connection.close()

    def log_message(self, *_: object) -> None:
        """Say nothing; `Weather.seen` has it."""
