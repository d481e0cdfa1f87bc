"""Not a benchmark: how the others time, in rounds in which every contender takes its turn."""

from __future__ import annotations

import argparse
import gc
import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Spread:
    """Seconds per unit of work."""

    median: float
    fastest: float
    slowest: float


@dataclass(frozen=True, slots=True)
class Rounds:
    """Seconds per unit of work, by contender, one per round."""

    seconds: Mapping[str, list[float]]
    """Wall clock."""
    cpu_seconds: Mapping[str, list[float]]
    """Of all processors together; far less than wall clock times threads on a busy machine."""

    def __getitem__(self, name: str) -> Spread:
        found = self.seconds[name]
        return Spread(statistics.median(found), min(found), max(found))

    def times_faster(self, name: str, than: str) -> Spread:
        """Seconds of `than` over those of `name`, taken within each round."""
        found = [
            slow / fast for fast, slow in zip(self.seconds[name], self.seconds[than], strict=True)
        ]
        return Spread(statistics.median(found), min(found), max(found))

    def processors_used(self, name: str) -> float:
        """Return how many processors a contender had on average."""
        return sum(self.cpu_seconds[name]) / sum(self.seconds[name])


def interleave(
    contenders: Mapping[str, tuple[Callable[[], object], int]],
    n_rounds: int,
    *,
    warm_up: bool = True,
) -> Rounds:
    """Time every contender once per round.

    A round lasts seconds, a disturbance longer: what slows one contender slows the others of its
    round, and ratios within a round are steadier than ratios of medians. Each round begins with
    another contender, so that none is always the one after the slowest.

    Parameters
    ----------
    contenders : mapping of str to (callable, int)
        What to call, and how many units of work one call does.
    n_rounds : int
    warm_up : bool
        Call everything once before the first round.
    """
    if n_rounds < 1:
        raise ValueError(f"`n_rounds` must be at least 1, got {n_rounds}")
    names = list(contenders)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    cpu_seconds: dict[str, list[float]] = {name: [] for name in names}
    if warm_up:
        for work, _ in contenders.values():
            work()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for turn in range(n_rounds):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                work, n_units = contenders[name]
                gc.collect()
                started, cpu_started = time.perf_counter(), time.process_time()
                work()
                seconds[name].append((time.perf_counter() - started) / n_units)
                cpu_seconds[name].append((time.process_time() - cpu_started) / n_units)
    finally:
        if was_enabled:
            gc.enable()
    return Rounds(seconds, cpu_seconds)


def say_speeds(rounds: Sequence[Mapping[str, float]]) -> None:
    """Print rows per second of every way, and its time in Assay's; `rounds` are seconds a row."""
    for name in rounds[0]:
        speed = 1 / statistics.median(seconds[name] for seconds in rounds)
        ratio = statistics.median(seconds[name] / seconds["Assay"] for seconds in rounds)
        say(f"{name:24} {speed:10,.1f} rows/s, {ratio:6.2f} of Assay's time")


def begin(
    parser: argparse.ArgumentParser, *distributions: str
) -> tuple[argparse.Namespace, dict[str, str]]:
    """Read the command line, which may ask for `--json`, and say on what the benchmark runs."""
    parser.add_argument("--json", action="store_true", help="end with one JSON line")
    options = parser.parse_args()
    facts = machine(*distributions)
    say(in_one_line(facts))
    return options, facts


def machine(*distributions: str) -> dict[str, str]:
    """Say on what, and with which versions, a benchmark ran."""
    from cluster.worker import processor_kind
    from sms.process import available_threads

    return {
        "processor": processor_kind(),
        "processors": str(available_threads()),
        "python": platform.python_version(),
        **{name: _version(name) for name in ("numpy", "numba", *distributions)},
    }


def in_one_line(facts: Mapping[str, str]) -> str:
    """Write `machine` down."""
    versions = [f"{name} {value}" for name, value in facts.items() if "processor" not in name]
    return f"{facts['processor']}, {facts['processors']} of it used; {', '.join(versions)}"


def finish(
    options: argparse.Namespace, facts: Mapping[str, str], figures: Mapping[str, Any]
) -> None:
    """Print the figures as one last line of JSON if `--json` asks for it."""
    if options.json:
        print_json({**figures, "options": vars(options), "machine": facts})


def print_json(result: Mapping[str, Any]) -> None:
    """Print a result as the one last line."""
    print(json.dumps(result, default=_plain), flush=True)


def short(figure: float) -> str:
    """Write a figure with three digits that count."""
    if not np.isfinite(figure):
        return "–"
    digits = 0 if abs(figure) >= 100 else 1 if abs(figure) >= 10 else 2
    return f"{figure:,.{digits}f}"


def say(line: str = "") -> None:
    """Print at once, also into a pipe."""
    print(line, flush=True)


def _plain(value: object) -> object:
    return value.item() if isinstance(value, np.generic) else str(value)


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "none"
