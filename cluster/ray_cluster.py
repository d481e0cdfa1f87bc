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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

# Read when ray is imported. The second keeps the raylet's notes about dead workers off our standard
# output, which `log_to_driver=False` does not; what they mean for the run is in the reports.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")

import ray
from ray._raylet import GcsClient  # type: ignore[attr-defined]  # compiled, its stubs lack it
from ray.exceptions import AuthenticationError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster import node_check
from cluster.node_check import NodeFacts, node_facts, package_folder
from cluster.store import write_whole
from sms.process import n_processors
from sms.urls import is_url

PACKAGES = ("sms", "reffree", "cluster", "pipelines")
"""What a node needs of ours to score."""
HEAD_PATIENCE_S = 30.0
"""So long may the head node be silent. Ray itself ends the process after a minute."""

_PORT = 6379  # where a head node listens unless told otherwise
_KNOCK_S = 3.0
_FIRST_KNOCK_S = 10.0
_CHECK_S = 120.0
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
    n_cpus: int,
    *,
    is_open_allowed: bool = False,
    check: Callable[[], Sequence[str]] | None = None,
) -> Iterator[None]:
    """Join or start a cluster; leave or stop it at the end, however that comes.

    Without an `address` one is started on this machine, with so many cores even if it has fewer:
    workers then share them. ``"auto"`` or a host, perhaps with a port, joins one. A connection that
    this process already has is used as it is. `check` is called once a cluster is joined, and
    returns the folders of packages that its nodes lack; these are then sent. Raises
    `ConnectionError` if no cluster answers, or it refuses our token; `ValueError` if the cluster
    obeys whoever reaches it, unless `is_open_allowed`, or what `check` raises.
    """
    if ray.is_initialized():
        if check is not None and (lacking := check()):
            raise ValueError(
                f"the nodes lack packages of this driver ({', '.join(lacking)}), which can only be "
                "sent when Ray starts; leave out `ray.init`, or install them on the nodes"
            )
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
                _join(address, empty)
                if not is_open_allowed:
                    _refuse_open_cluster()
                if check is not None and (lacking := check()):
                    ray.shutdown()
                    _join(address, empty, lacking)
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
            f"the Ray cluster at `{address}` asks for another token than this driver has; set "
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
            f"the Ray cluster at {address} asks for no token, so whoever reaches its ports can "
            "run code on it; start it with RAY_AUTH_MODE=token, or, if its network is closed, set "
            "`insecure_cluster = true` in the `--config` file"
        )


def head_address() -> str:
    """Return host and port of the head node of the cluster this process has joined."""
    return ray.get_runtime_context().gcs_address


def alive_nodes() -> list[dict]:  # type: ignore[type-arg]  # Ray's records
    """Return what Ray says of each node that is alive."""
    return [node for node in ray.nodes() if node["Alive"]]


def count_gpus(address: str, is_open_allowed: bool, _: object) -> int:
    """Join a cluster and count the GPUs of its nodes."""
    with connected(address, 1, is_open_allowed=is_open_allowed):
        return int(sum(node["Resources"].get("GPU", 0) for node in alive_nodes()))


class HeadLost(RuntimeError):
    """The head node of the cluster has been silent for too long."""


class HeadWatch:
    """Notices in time that the head node is gone: most calls to it would wait, then end us."""

    def __init__(self) -> None:
        self.address = head_address()
        self._heard = time.monotonic()

    def check(self) -> bool:
        """Say whether the head node answers.

        Raises `HeadLost` if it has been silent for too long.
        """
        try:
            _knock(*_host_and_port(self.address), _KNOCK_S)
        except OSError as error:
            if time.monotonic() - self._heard > HEAD_PATIENCE_S:
                raise HeadLost(
                    f"the head node of the Ray cluster at {self.address} no longer answers; "
                    "committed shards are kept: run the same command again once it is back"
                ) from error
            return False
        self._heard = time.monotonic()
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What one worker takes of a node."""

    cpus: int
    gpus: float
    """May be a fraction below 1; whole above."""

    def room_on(self, resources: Mapping[str, float]) -> int:
        """Count the workers that fit on a node with these resources.

        >>> Needs(cpus=2, gpus=0.3).room_on({"CPU": 16, "GPU": 2})
        6
        """
        room = int(resources.get("CPU", 0) // self.cpus)
        if not self.gpus:
            return room
        n_gpus = int(resources.get("GPU", 0))
        if self.gpus > 1:
            return min(room, int(n_gpus // self.gpus))
        # A fraction is taken of one GPU; 1 / 0.1 is 10, though 0.1 is a little more than that.
        return min(room, n_gpus * int(1 / self.gpus + 1e-9))

    def room(self) -> int:
        """Count the workers that fit into the cluster."""
        return sum(self.room_on(node["Resources"]) for node in alive_nodes())

    def __str__(self) -> str:
        cpus = f"{self.cpus} CPU{'' if self.cpus == 1 else 's'}"
        return f"{cpus} and {self.gpus:g} GPU" if self.gpus else cpus


def cpus_beside(gpus: float) -> int:
    """Return how many cores a worker gets that takes so many GPUs: its share of the node's.

    One core cannot keep a GPU busy: it cuts the text, and others solve the transport of what the
    GPU encodes. On the node where GPUs have the fewest cores every worker still finds its share.
    """
    if not gpus:
        return 1
    nodes = [node["Resources"] for node in alive_nodes()]
    rooms = [(node.get("CPU", 0), Needs(cpus=1, gpus=gpus).room_on(node)) for node in nodes]
    return min((int(cpus // n_workers) for cpus, n_workers in rooms if n_workers), default=1)


def check_nodes(versions: Mapping[str, str], out: str) -> list[str]:
    """Refuse a cluster with a node that would not score as this driver does.

    Returns the folders of our packages, if some node has not exactly these. Raises `ValueError` if
    the `versions` of distributions differ from this driver's, or a node does not see `out`, the
    folder or URL of the run.
    """
    mark = f"{out.rstrip('/')}/.{uuid4().hex}.partial"
    ray.cloudpickle.register_pickle_by_value(node_check)  # a node may have none of our packages
    try:
        if is_url(out):
            mark = os.sep
        else:
            write_whole(mark, b"")
        nodes = _ask_nodes(list(versions), mark)
    finally:
        ray.cloudpickle.unregister_pickle_by_value(node_check)
        if mark != os.sep:
            Path(mark).unlink(missing_ok=True)
    driver = facts_here(versions)
    for node in nodes:
        if reason := node_check.refusal(driver, node):
            raise ValueError(reason)
    if all(node.packages == driver.packages for node in nodes):
        return []
    return [folder for name in PACKAGES if (folder := package_folder(name))]


def facts_here(versions: Mapping[str, str]) -> NodeFacts:
    """Return what a node must be like: as this driver, with these versions."""
    return replace(node_facts(PACKAGES, (), os.sep), versions=versions)


def _ask_nodes(distributions: list[str], file: str) -> list[NodeFacts]:
    ask = ray.remote(num_cpus=0, max_retries=0)(node_facts)
    asked = [
        ask.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote(PACKAGES, distributions, file)
        for node in alive_nodes()
    ]
    answered, silent = ray.wait(asked, num_returns=len(asked), timeout=_CHECK_S)
    if silent:
        logger.warning("%d nodes do not say what they have installed", len(silent))
    facts = []
    for reference in answered:
        with suppress(ray.exceptions.RayError):  # it has gone meanwhile
            facts.append(ray.get(reference))
    return facts
