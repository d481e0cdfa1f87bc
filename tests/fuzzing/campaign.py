"""Runs many made-up inputs in processes of their own, so that a crash or a hang is seen.

To make the input of a seed again and see what comes of it (the folder keeps the files):

    python -m tests.fuzzing.campaign 4711 --keep /tmp/seed-4711
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import json
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

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

    def report(self, options: str = "") -> str:
        """Say what is wrong, and with which options here each input is made again."""
        return "\n\n".join(
            f"seed {seed} (python -m tests.fuzzing.campaign {seed}{options} --keep DIR):\n{problem}"
            for seed, problem in sorted(self.problems.items())
        )


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

    def work(begin: int) -> None:
        left = list(seeds[begin : begin + SEEDS_PER_PROCESS])
        while left:
            left = _run_until_trouble(left, findings, limit_cpu_s, judge)

    with ThreadPoolExecutor(n_processes) as pool:
        list(pool.map(work, range(0, len(seeds), SEEDS_PER_PROCESS)))
    return findings


def _run_until_trouble(
    seeds: list[int], findings: Findings, limit_cpu_s: float, judge: str
) -> list[int]:
    """Run seeds in one process; return those that are left when it has gone."""
    with tempfile.TemporaryDirectory(prefix="assay-fuzz-") as folder:
        asked = ["--in", folder, "--judge", judge, "--limit", str(limit_cpu_s), *map(str, seeds)]
        child = subprocess.run(
            [sys.executable, "-m", "tests.fuzzing.campaign", *asked],
            cwd=ROOT,
            env={**os.environ, **_ENVIRONMENT, "TMPDIR": folder},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        answers = child.stdout.splitlines()
        for seed, answer in zip(seeds, answers, strict=False):
            result = json.loads(answer)
            findings.statuses[result["status"]] += 1
            findings.kinds.update(result["kind"])
            if result["problem"] is not None:
                findings.problems[seed] = result["problem"]
        left = seeds[len(answers) :]
        if left:
            log = Path(folder, "native.log")
            said = log.read_text("utf-8", "replace")[:3_000] if log.exists() else ""
            is_overlong = child.returncode == -signal.SIGXCPU
            what = "takes too long" if is_overlong else f"died with status {child.returncode}"
            findings.problems[left[0]] = f"the process {what}\n{said}"
        return left[1:]


def _serve(seeds: Sequence[int], folder: Path, module: str, limit_cpu_s: float) -> None:
    """Judge seeds, one answer a line; the system ends the process if one takes too long."""
    from tests.fuzzing.cases import write_vectors
    from tests.fuzzing.judging import keep_native_output, usual_scores

    judge = importlib.import_module(f"tests.fuzzing.{module}").judge

    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    real = keep_native_output(folder / "native.log")
    vectors = write_vectors(folder / "vectors.txt")
    usual_scores(vectors)  # compiles what is compiled, before anybody looks at the clock
    with os.fdopen(real, "w") as answers:
        for place, seed in enumerate(seeds):
            used = resource.getrusage(resource.RUSAGE_SELF)
            limit = used.ru_utime + used.ru_stime + limit_cpu_s + (0 if place else _FIRST_CPU_S)
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit), resource.RLIM_INFINITY))
            faulthandler.dump_traceback_later(LIMIT_S, exit=True, file=sys.__stderr__)
            status, problem, *kind = judge(seed, vectors)
            answer = {"status": status, "problem": problem, "kind": kind}
            print(json.dumps(answer), file=answers, flush=True)


def _replay(seed: int, folder: Path, module: str) -> str:
    """Run one input here, leaving its files in a folder."""
    from tests.fuzzing.cases import write_vectors

    (folder / "judged").mkdir(parents=True)
    judge = importlib.import_module(f"tests.fuzzing.{module}").judge
    vectors = write_vectors(folder / "vectors.txt")
    status, problem, *kind = judge(seed, vectors, folder / "judged")
    return "\n".join([*kind, f"status {status}", problem or "fine"])


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", nargs="+", type=int)
    parser.add_argument("--keep", type=Path, help="new folder for the input of the seed")
    parser.add_argument("--in", dest="folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--judge", default="judging", help="module here: `judging`, `changes`")
    asked = parser.parse_args()
    if asked.folder is not None:
        _serve(asked.seeds, asked.folder, asked.judge, asked.limit)
    elif len(asked.seeds) == 1 and asked.keep is not None:
        os.environ.update(_ENVIRONMENT)
        sys.stdout.write(f"{_replay(asked.seeds[0], asked.keep, asked.judge)}\n")
    else:
        parser.error("name a seed and a folder: 4711 --keep DIR")


if __name__ == "__main__":
    main()
