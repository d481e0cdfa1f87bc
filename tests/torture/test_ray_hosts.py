"""Real hosts that break: network namespaces, each with a raylet, a name and a disk of its own.

Every round starts a run, breaks something at random moments, resumes until the run is complete,
and holds the files against those of an undisturbed run in one process.
"""

from __future__ import annotations

import json
import logging
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = int(os.environ.get("ASSAY_HOST_ROUNDS", "20"))
N_HOSTS = 3  # the first is the head node, has no worker, and is where the driver runs
N_ROWS, ROWS_PER_SHARD = 1_800, 50
PORT = 6379
PATIENCE_S = 300
N_STARTS = 4  # Ray gives a node half a minute to start, which a busy machine may exceed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.ray,
    pytest.mark.skipif(
        os.geteuid() != 0 or not all(map(shutil.which, ("ip", "nsenter", "unshare"))),
        reason="making network namespaces needs root, ip, nsenter and unshare",
    ),
]

# A node is found dead within seconds, not half a minute; the head tells the others.
QUICK_HEALTH_CHECKS = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "5",
}

DRIVER = """
import json, sys
from pipelines.score import score_corpus
from pipelines.settings.score import ScoreSettings

options = json.loads(sys.argv[1])
try:
    run = score_corpus(options.pop("corpus"), ScoreSettings(**options))
except (ValueError, OSError, RuntimeError) as error:
    sys.exit(f"{type(error).__name__}: {error}")
sys.exit(0 if run.is_complete else f"failed shards: {dict(run.failed_shards)}")
"""

logger = logging.getLogger(__name__)


def sh(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Host:
    """A network namespace behind a bridge, and what runs in it."""

    def __init__(self, bridge, number, folder):
        self.number = number
        # Not that of another such cluster: Ray would see its processes and think them its own.
        self.ip = f"10.{os.getpid() // 250 % 250}.{os.getpid() % 250}.{number + 1}"
        self.namespace = f"{bridge}n{number}"
        self.link = f"{bridge}v{number}"
        sh("ip", "netns", "add", self.namespace)
        sh("ip", "link", "add", self.link, "type", "veth", "peer", "eth0", "netns", self.namespace)
        sh("ip", "link", "set", self.link, "master", bridge, "up")
        for setting in (
            ("addr", "add", f"{self.ip}/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("link", "set", "lo", "up"),
            ("route", "add", "default", "dev", "eth0"),  # by it Ray finds out its own address
        ):
            sh("ip", "-n", self.namespace, *setting)
        # Holds the namespaces: a name of its own, and a disk where Ray keeps its session.
        script = f"hostname host{number}; mount -t tmpfs tmpfs {folder}; exec sleep infinity"
        self.anchor = subprocess.Popen(
            ["ip", "netns", "exec", self.namespace, "unshare", "-m", "-u", "sh", "-c", script]
        )
        time.sleep(0.5)

    def inside(self, *command):
        return ["nsenter", "-t", str(self.anchor.pid), "-m", "-n", "-u", "--", *command]

    def pids(self, name=""):
        """Processes in this namespace whose command line begins with a name, the anchor aside."""
        found = []
        for pid in map(int, sh("ip", "netns", "pids", self.namespace).split()):
            with suppress(OSError):  # it has ended meanwhile
                command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]
                if pid != self.anchor.pid and command.rpartition("/")[2].startswith(name):
                    found.append(pid)
        return found

    def signal(self, pids, number):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def power_off(self):
        self.signal(self.pids(), signal.SIGKILL)

    def set_link(self, state):
        sh("ip", "link", "set", self.link, state)

    def close(self):
        self.power_off()
        self.anchor.kill()
        self.anchor.wait()
        subprocess.run(["ip", "netns", "del", self.namespace], check=False)
        subprocess.run(["ip", "link", "del", self.link], check=False, capture_output=True)


class Hosts:
    """A Ray cluster of hosts, with a token."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="ah")  # short: sockets lie in it
        self.bridge = f"as{os.getpid() % 10_000}"
        sh("ip", "link", "add", self.bridge, "type", "bridge")
        sh("ip", "link", "set", self.bridge, "up")
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("RAY_")},
            **QUICK_HEALTH_CHECKS,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(16),
            "RAY_USAGE_STATS_ENABLED": "0",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
        }
        self.hosts = [Host(self.bridge, number, self.folder) for number in range(N_HOSTS)]
        self.head = self.hosts[0]
        self.workers = self.hosts[1:]
        self.corpus = None

    def start(self, host):
        if host is self.head:
            place = ["--head", f"--port={PORT}", "--num-cpus=0", f"--temp-dir={self.folder}"]
            place += ["--include-dashboard=false"]
        else:
            place = [f"--address={self.head.ip}:{PORT}", "--num-cpus=1"]
        place += [f"--node-ip-address={host.ip}", "--object-store-memory=80000000"]
        command = ["ray", "start", *place]
        for _ in range(N_STARTS):
            how = {"capture_output": True, "text": True, "timeout": PATIENCE_S}
            done = subprocess.run(host.inside(*command), env=self.environment, cwd="/", **how)
            if done.returncode == 0:
                return
            host.power_off()
        raise AssertionError(done.stderr)

    def heal(self):
        """Start the hosts again that have no raylet any more."""
        for host in self.workers:
            host.set_link("up")
            host.signal(host.pids(), signal.SIGCONT)
            if not host.pids("raylet"):
                host.power_off()
                self.start(host)

    def wait_for(self, driver):
        """Wait until a run has ended, while hosts that broke down are started again."""
        deadline = time.monotonic() + PATIENCE_S
        while driver.poll() is None and time.monotonic() < deadline:
            self.heal()
            time.sleep(0.5)
        return driver.poll()

    def drive(self, options, notes):
        """Start a run, which writes its output to a file."""
        command = self.head.inside(sys.executable, "-c", DRIVER, json.dumps(options))
        how = {"env": self.environment, "cwd": ROOT}
        with notes.open("wb") as stream:
            return subprocess.Popen(command, stdout=stream, stderr=stream, **how)

    def close(self):
        for host in self.hosts:
            host.close()
        subprocess.run(["ip", "link", "del", self.bridge], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def hosts():
    hosts = Hosts()
    try:
        for host in hosts.hosts:
            hosts.start(host)
        yield hosts
    finally:
        hosts.close()


@pytest.fixture(scope="module")
def request_(tmp_path_factory):
    """A corpus, and vectors for its words in GloVe's format."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = np.random.default_rng(7)
    words = [f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(500)]
    lines = (f"{word} {' '.join(f'{x:.4f}' for x in rng.normal(size=50))}\n" for word in words)
    (folder / "vectors.txt").write_text("".join(lines))

    def text():
        return " ".join(f"{' '.join(rng.choice(words, 18)).capitalize()}." for _ in range(12))

    rows = [
        {"document_id": f"d{i // 4}", "system_id": f"s{i % 4}"}
        | {"candidate": text(), "reference": text()}
        for i in range(N_ROWS)
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "corpus.parquet", row_group_size=600)
    return {
        "corpus": str(folder / "corpus.parquet"),
        "metrics": ["wms", "sms", "s+wms", "rougeL"],
        "encoders": {"glove": f"glove:{folder / 'vectors.txt'}"},
        "rows_per_shard": ROWS_PER_SHARD,
    }


def files_of(out):
    """What counts of a run: every scores file that `_SUCCESS` lists."""
    names = Path(out, "_SUCCESS").read_text().split()
    return {name: Path(out, name).read_bytes() for name in names}


@pytest.fixture(scope="module")
def expected(request_, tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    options = {**request_, "out": str(out), "local": True, "workers": 1}
    subprocess.run([sys.executable, "-c", DRIVER, json.dumps(options)], cwd=ROOT, check=True)
    return files_of(out)


class Watch(threading.Thread):
    """Counts the files that were put in their place a second time."""

    def __init__(self, out):
        super().__init__(daemon=True)
        self.folder = Path(out, "scores")
        self.seen, self.n_rewritten = {}, 0
        self.stop = threading.Event()
        self.start()

    def end(self):
        self.stop.set()
        self.join()

    def run(self):
        while not self.stop.wait(0.05):
            if not self.folder.is_dir():
                continue
            for entry in os.scandir(self.folder):
                if entry.name.endswith(".parquet"):
                    inode = entry.inode()
                    self.n_rewritten += self.seen.get(entry.name, inode) != inode
                    self.seen[entry.name] = inode


def kill_worker(hosts, rng, driver):
    host = rng.choice(hosts.workers)
    host.signal(host.pids("ray::Actor"), signal.SIGKILL)


def kill_raylet(hosts, rng, driver):
    host = rng.choice(hosts.workers)
    host.signal(host.pids("raylet"), signal.SIGKILL)


def kill_driver(hosts, rng, driver):
    # While the driver begins or ends, it has no children, and `ps` fails.
    command = ["ps", "-o", "pid=", "--ppid", str(driver.pid)]
    found = subprocess.run(command, capture_output=True, text=True)
    mine = [int(pid) for pid in found.stdout.split()]
    victim = rng.choice([driver.pid, *mine])  # the driver, or only its process that speaks to Ray
    hosts.head.signal([victim], signal.SIGKILL)


def freeze_node(hosts, rng, driver):
    host = rng.choice(hosts.workers)
    pids = host.pids()
    host.signal(pids, signal.SIGSTOP)
    time.sleep(rng.uniform(2, 9))
    host.signal(pids, signal.SIGCONT)


def cut_network(hosts, rng, driver):
    host = rng.choice(hosts.workers)
    host.set_link("down")
    time.sleep(rng.uniform(2, 9))
    host.set_link("up")


def fail_fast(hosts, rng, driver):
    """Hide the corpus from a host: each of its shards fails at once."""
    host = rng.choice(hosts.workers)
    sh(*host.inside("mount", "--bind", "/dev/null", hosts.corpus))
    time.sleep(rng.uniform(2, 9))
    sh(*host.inside("umount", hosts.corpus))


FAULTS = [kill_worker, kill_raylet, kill_driver, freeze_node, cut_network, fail_fast]


@pytest.fixture
def begun(hosts, request_, tmp_path):
    """A run that has begun on hosts in order: its options, its watch, its driver and its notes."""
    hosts.heal()
    hosts.corpus = request_["corpus"]
    out, notes = tmp_path / "out", tmp_path / "first.txt"
    options = {**request_, "out": str(out), "address": f"{hosts.head.ip}:{PORT}"}
    return options, Watch(out), hosts.drive(options, notes), notes


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_files_are_those_of_an_undisturbed_run(hosts, begun, expected, tmp_path, seed):
    options, watch, driver, notes = begun
    rng = random.Random(seed)
    # Each fault comes first in turn; the second is any.
    faults = [FAULTS[seed % len(FAULTS)], rng.choice(FAULTS)]
    while driver.poll() is None and len(watch.seen) < 2:
        time.sleep(0.05)
    assert driver.poll() is None, notes.read_text()
    for fault in faults:
        time.sleep(rng.uniform(0, 1.5))
        if driver.poll() is None:
            fault(hosts, rng, driver)
    status, n_resumed = hosts.wait_for(driver), 0
    while status != 0:
        n_resumed += 1
        assert n_resumed <= 4, notes.read_text()
        notes = tmp_path / f"resumed{n_resumed}.txt"
        status = hosts.wait_for(hosts.drive(options, notes))
    watch.end()
    names = ", ".join(fault.__name__ for fault in faults)
    said = "round %d: %s; resumed %d times, %d files written twice"
    logger.info(said, seed, names, n_resumed, watch.n_rewritten)
    assert files_of(options["out"]) == expected
    assert not list(Path(options["out"]).rglob("*.partial"))


def test_shard_of_a_frozen_node_is_written_twice_and_is_the_same(hosts, begun, expected):
    options, watch, driver, notes = begun
    host = hosts.workers[0]
    while driver.poll() is None:
        pids = host.pids()
        host.signal(pids, signal.SIGSTOP)
        at_work = host.pids("ray::Actor.score")  # as Ray calls it while it scores
        if at_work:
            break
        host.signal(pids, signal.SIGCONT)
        time.sleep(0.1)
    assert driver.wait(PATIENCE_S) == 0, notes.read_text()
    assert files_of(options["out"]) == expected
    host.signal(at_work, signal.SIGCONT)  # and not its raylet, which would end it
    deadline = time.monotonic() + PATIENCE_S
    while not watch.n_rewritten and time.monotonic() < deadline:
        time.sleep(0.1)
    watch.end()
    host.power_off()
    assert watch.n_rewritten == 1
    assert files_of(options["out"]) == expected
