"""Joins a Ray cluster, or starts one on this machine.

Whoever reaches the ports of a Ray cluster without a token runs code on it. So one that we join must
ask for a token. What keeps others from the one we start is in the environment that `ray_process`
gives to the process that starts it.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

# Read when ray is imported. The second keeps the raylet's notes about dead workers off our standard
# output, which `log_to_driver=False` does not; what they mean for the run is in the reports.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")

import ray
from ray._raylet import GcsClient  # type: ignore[attr-defined]  # compiled, its stubs lack it
from ray.exceptions import AuthenticationError

from cluster.facts import package_folders
from sms.process import n_processors

HEAD_PATIENCE_S = 30.0
"""So long may the head node be silent. Ray itself ends the process after a minute."""

_PORT = 6379  # where a head node listens unless told otherwise
_KNOCK_S = 3.0
_FIRST_KNOCK_S = 10.0
_WITHOUT_TOKEN = """
import sys
from ray._raylet import GcsClient
from ray.exceptions import AuthenticationError

try:
    GcsClient(address=sys.argv[1]).check_alive([], timeout=10)
except AuthenticationError:
    sys.exit(3)
"""
_ASKS_FOR_TOKEN = 3
_QUIET: Any = {"log_to_driver": False, "logging_level": logging.ERROR}

logger = logging.getLogger(__name__)


@contextmanager
def connected(
    address: str | None,
    n_cpus: int = 1,
    *,
    is_open_allowed: bool = False,
    sends_packages: bool = False,
) -> Iterator[None]:
    """Join or start a cluster; leave or stop it at the end, however that comes.

    Without an `address` one is started on this machine, with so many cores even if it has fewer:
    workers then share them. ``"auto"`` or a host, perhaps with a port, joins one. A connection that
    this process already has is used as it is. A cluster that is joined gets a copy of our packages,
    if wanted, so that workers run the code of this driver. Raises `ConnectionError` if no cluster
    answers, or it refuses our token; `ValueError` if the cluster obeys whoever reaches it, unless
    `is_open_allowed`.
    """
    if ray.is_initialized():
        yield
        return
    # Ray has its workers import, before anything else, from the folder in which it was started.
    with tempfile.TemporaryDirectory() as empty:
        try:
            if address is None:
                with chdir(empty):
                    ray.init(
                        address="local",
                        num_cpus=max(n_cpus, n_processors()),
                        include_dashboard=False,
                        **_QUIET,
                    )
            else:
                _join(address, empty, package_folders() if sends_packages else ())
                if not is_open_allowed:
                    _refuse_open_cluster()
            yield
        finally:
            ray.shutdown()


def _join(address: str, folder: str, packages: Sequence[str] = ()) -> None:
    runtime_env = {"py_modules": list(packages), "excludes": ["__pycache__"]} if packages else None
    try:
        with chdir(folder):
            ray.init(address=_reachable(address), runtime_env=runtime_env, **_QUIET)
    except AuthenticationError as error:
        raise ConnectionError(
            f"the Ray cluster at `{address}` requires another token than this process has; set "
            "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH, as on its nodes"
        ) from error
    except RuntimeError as error:
        if "Version mismatch" not in str(error):
            raise
        lines = [line.strip() for line in str(error).splitlines() if ":" in line]
        raise ValueError(" ".join([*lines, "Use the same versions on both."])) from error
    except OSError as error:  # ConnectionError among them
        raise ConnectionError(
            f"no Ray cluster answers at `{address}`; start one, or leave the address out "
            "to run on this machine"
        ) from error


def _reachable(address: str) -> str:
    """Complete a host by its port and knock there; Ray itself would wait for many minutes."""
    if address == "auto":
        return address
    host, port = _host_and_port(address)
    _knock(host, port, _FIRST_KNOCK_S)
    whole = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    # Says at once if our token is wrong, where `ray.init` would try again for half a minute.
    GcsClient(address=whole).check_alive([], timeout=_FIRST_KNOCK_S)
    return whole


def _knock(host: str, port: int, timeout_s: float) -> None:
    socket.create_connection((host, port), timeout=timeout_s).close()


def _host_and_port(address: str) -> tuple[str, int]:
    """Read `HOST`, `HOST:PORT`, `IPV6` or `[IPV6]:PORT`."""
    with suppress(ValueError):
        return str(ipaddress.IPv6Address(address)), _PORT
    with suppress(ValueError):  # no port, or brackets that do not match
        parts = urlsplit(f"//{address}")
        if parts.hostname and parts.netloc == address and "@" not in address:
            return parts.hostname, _PORT if parts.port is None else parts.port
    raise ValueError(
        f"`--address` must be `auto` or HOST[:PORT] of a head node, got {address}; write IPv6 with "
        "a port as [HOST]:PORT, and from a machine outside of the cluster use `ray job submit`"
    )


def _refuse_open_cluster() -> None:
    """Refuse a cluster that answers without a token, unless only this machine can reach it."""
    if all(ipaddress.ip_address(node["NodeManagerAddress"]).is_loopback for node in alive_nodes()):
        return
    address = head_address()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_AUTH_")}
    asked = subprocess.run(
        [sys.executable, "-P", "-c", _WITHOUT_TOKEN, address],
        env={**environment, "RAY_AUTH_MODE": "disabled"},
        capture_output=True,
        check=False,
    )
    if asked.returncode != _ASKS_FOR_TOKEN:
        raise ValueError(
            f"the Ray cluster at {address} has no token, so anyone who can reach its ports can "
            "run code on it; start it with RAY_AUTH_MODE=token, or, if you trust its network, set "
            "`insecure_cluster = true` in the `--config` file"
        )


def head_address() -> str:
    """Return host and port of the head node of the cluster this process has joined."""
    return ray.get_runtime_context().gcs_address


def alive_nodes() -> list[dict]:  # type: ignore[type-arg]  # Ray's records
    """Return what Ray says of each node that is alive."""
    return [node for node in ray.nodes() if node["Alive"]]


def resources_of_nodes() -> list[Mapping[str, float]]:
    """Return what each node that is alive has to give, `CPU` and `GPU` among it."""
    return [node["Resources"] for node in alive_nodes()]


class HeadLost(RuntimeError):
    """The head node of the cluster has been silent for too long."""


class HeadWatch:
    """Notices in time that the head node is gone: most calls to it would wait, then end us."""

    def __init__(self) -> None:
        self.address = head_address()
        self.is_lost = False
        self._heard = time.monotonic()

    def check(self) -> bool:
        """Say whether the head node answers.

        Raises `HeadLost` if it has been silent for too long.
        """
        try:
            _knock(*_host_and_port(self.address), _KNOCK_S)
        except OSError as error:
            if time.monotonic() - self._heard > HEAD_PATIENCE_S:
                self.is_lost = True
                raise HeadLost(
                    f"the head node of the Ray cluster at {self.address} no longer answers; "
                    "committed shards are kept: run the same command again once it is back"
                ) from error
            return False
        self._heard = time.monotonic()
        return True
