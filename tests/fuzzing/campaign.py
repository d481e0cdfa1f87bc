"""Runs many made-up inputs in processes of their own, so that a crash or a hang is seen.

To make the input of a seed again and see what comes of it (the folder keeps the files):

    python -m tests.fuzzing.campaign 4711 --keep /tmp/seed-4711
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
LIMIT_CPU_S = 60.0
"""Of one input; most take a tenth of a second."""
LIMIT_S = 900.0
"""Of one input that does nothing but wait; a busy machine is no hang."""
MEMORY_BYTES = 16 << 30
"""That a process may ask for: an input that wants more than there is must be refused. What is only
reserved does not count: the library that draws charts reserves more with every page."""
SEEDS_PER_PROCESS = 500

_FIRST_CPU_S = 240.0  # more for the first input of a process, which imports and compiles
_LAST_WORDS_S = 5.0
_LOOK_S = 2.0

_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "POT_BACKEND_DISABLE_TENSORFLOW": "1",
    "POT_BACKEND_DISABLE_JAX": "1",
    "OMP_NUM_THREADS": "1",
    "POLARS_MAX_THREADS": "2",
    "PYTHONFAULTHANDLER": "1",
}


@dataclass
class Findings:
    """What came of some inputs."""

    statuses: Counter[int] = field(default_factory=Counter)
    """Inputs by exit status."""
    kinds: Counter[str] = field(default_factory=Counter)
    """Inputs by what was done and what came of it, where the judge says so."""
    problems: dict[int, str] = field(default_factory=dict)
    """What is wrong, by seed."""


def run_seeds(
    seeds: Sequence[int],
    *,
    n_processes: int = 1,
    limit_cpu_s: float = LIMIT_CPU_S,
    judge: str = "judging",
) -> Findings:
    """Run the inputs of some seeds; a process that dies or hangs loses one of them.

    `judge` is the module here whose function `judge` makes the input of a seed and judges it.
    """
    findings = Findings()
    chunks: queue.SimpleQueue[Sequence[int]] = queue.SimpleQueue()
    for begin in range(0, len(seeds), SEEDS_PER_PROCESS):
        chunks.put(seeds[begin : begin + SEEDS_PER_PROCESS])

    def work() -> None:
        while True:
            try:
                left = list(chunks.get_nowait())
            except queue.Empty:
                return
            while left:
                left = _run_until_trouble(left, findings, limit_cpu_s, judge)

    threads = [threading.Thread(target=work) for _ in range(n_processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return findings


def _run_until_trouble(
    seeds: list[int], findings: Findings, limit_cpu_s: float, judge: str
) -> list[int]:
    """Run seeds in one process; return those that are left when it has gone."""
    with tempfile.TemporaryDirectory(prefix="assay-fuzz-") as folder:
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzzing.campaign", "--in", folder, "--judge", judge],
            cwd=ROOT,
            env={**os.environ, **_ENVIRONMENT, "TMPDIR": folder},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        listener = threading.Thread(target=_pass_on, args=(child.stdout, lines))
        listener.start()
        try:
            for place, seed in enumerate(seeds):
                try:
                    child.stdin.write(f"{seed}\n")
                    child.stdin.flush()
                    first_s = 0.0 if place else _FIRST_CPU_S
                    answer = _answer(lines, child.pid, limit_cpu_s + first_s)
                except BrokenPipeError:
                    answer = ""
                if not answer:
                    findings.problems[seed] = _trouble(child, folder)
                    return seeds[place + 1 :]
                result = json.loads(answer)
                findings.statuses[result["status"]] += 1
                findings.kinds.update(result["kind"])
                if result["problem"] is not None:
                    findings.problems[seed] = result["problem"]
            return []
        finally:
            child.kill()
            child.wait()
            listener.join()
            child.stdout.close()
            with contextlib.suppress(BrokenPipeError):
                child.stdin.close()


def _answer(lines: queue.SimpleQueue[str], process: int, limit_cpu_s: float) -> str:
    """Wait for what a process says of an input; empty if it says nothing in time, or has ended."""
    started_cpu, started = _cpu_seconds(process), time.monotonic()
    while True:
        with contextlib.suppress(queue.Empty):
            return lines.get(timeout=_LOOK_S)
        used = _cpu_seconds(process) - started_cpu
        if used > limit_cpu_s or time.monotonic() - started > LIMIT_S:
            return ""


def _cpu_seconds(process: int) -> float:
    """Return what a process has computed, all its threads together."""
    try:
        times = psutil.Process(process).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def _trouble(child: subprocess.Popen[str], folder: str) -> str:
    try:
        status = child.wait(timeout=_LAST_WORDS_S)
    except subprocess.TimeoutExpired:
        status = None
    log = Path(folder, "native.log")
    said = log.read_text("utf-8", "replace")[:3_000] if log.exists() else ""
    if status is None:
        return f"takes too long\n{said}"
    return f"the process died with status {status}\n{said}"


def _pass_on(stream: Iterable[str], lines: queue.SimpleQueue[str]) -> None:
    for line in stream:
        lines.put(line)
    lines.put("")  # the process has ended


def _serve(folder: Path, module: str) -> None:
    """Judge the seeds that come in, one a line."""
    import resource

    from tests.fuzzing.cases import write_vectors
    from tests.fuzzing.judging import keep_native_output, usual_scores

    judge = importlib.import_module(f"tests.fuzzing.{module}").judge

    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    real = keep_native_output(folder / "native.log")
    vectors = write_vectors(folder / "vectors.txt")
    usual_scores(vectors)  # compiles what is compiled, before anybody looks at the clock
    with os.fdopen(real, "w") as answers:
        for line in sys.stdin:
            status, problem, *kind = judge(int(line), vectors)
            answer = {"status": status, "problem": problem, "kind": kind}
            print(json.dumps(answer), file=answers, flush=True)


def _replay(seed: int, folder: Path, module: str) -> str:
    """Run one input here, leaving its files in a folder."""
    if module != "judging":
        from tests.fuzzing.cases import write_vectors

        folder.mkdir(parents=True)
        judge = importlib.import_module(f"tests.fuzzing.{module}").judge
        status, problem, kind = judge(seed, write_vectors(folder / "vectors.txt"))
        return f"{kind}\nstatus {status}\n{problem or 'fine'}"
    from tests.fuzzing.cases import write_vectors
    from tests.fuzzing.judging import judge, make

    folder.mkdir(parents=True)
    vectors = write_vectors(folder / "vectors.txt")
    (folder / "shown").mkdir()
    case = make(seed, folder / "shown", vectors)
    (folder / "judged").mkdir()
    status, problem = judge(seed, vectors, folder / "judged")
    return f"assay {' '.join(map(ascii, case.arguments))}\nstatus {status}\n{problem or 'fine'}"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", nargs="?", type=int)
    parser.add_argument("--keep", type=Path, help="new folder for the input of the seed")
    parser.add_argument("--in", dest="folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--judge", default="judging", help="module here: `judging`, `changes`")
    asked = parser.parse_args()
    if asked.folder is not None:
        _serve(asked.folder, asked.judge)
    elif asked.seed is not None and asked.keep is not None:
        os.environ.update(_ENVIRONMENT)
        sys.stdout.write(f"{_replay(asked.seed, asked.keep, asked.judge)}\n")
    else:
        parser.error("name a seed and a folder: 4711 --keep DIR")


if __name__ == "__main__":
    main()
