"""How much faster are two threads than one on the same batch of transport problems?

Point clouds of one size in 300 dimensions; both must return the same costs, bit by bit.
"""  # noqa: D400  (a question)

from __future__ import annotations

import argparse
import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"

from dataclasses import astuple

import numpy as np
from scipy.optimize import linprog
from scipy.spatial.distance import cdist
from timing import begin, finish, interleave, say

from sms.ragged import Ragged
from sms.transport import WORDS, Clouds, mover_costs

DIMENSION = 300
N_POINTS = 10_000


def make_clouds(size: int, n_pairs: int, rng: np.random.Generator) -> tuple[np.ndarray, Clouds]:
    points = rng.standard_normal((N_POINTS, DIMENSION)).astype(np.float32)
    rows = (np.sort(rng.choice(N_POINTS, size, replace=False)) for _ in range(2 * n_pairs))
    members = Ragged.from_rows(rows)
    weights = Ragged(rng.integers(1, 4, members.values.size), members.offsets)
    nothing = np.empty((0, DIMENSION))
    return points, Clouds(points, nothing, members, weights, members.offsets[1:])


def cost_by_linear_programming(points: np.ndarray, clouds: Clouds, i: int, j: int) -> float:
    x, y = clouds.members[i], clouds.members[j]
    a, b = (clouds.weights[c] / clouds.weights[c].sum() for c in (i, j))
    rows = np.kron(np.eye(x.size), np.ones(y.size))
    columns = np.kron(np.ones(x.size), np.eye(y.size))
    ground_cost = cdist(points[x], points[y])
    found = linprog(
        ground_cost.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.concatenate([a, b])
    )
    return found.fun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=30, help="points on each side")
    parser.add_argument("--pairs", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    options, facts = begin(parser, "scipy")

    rng = np.random.default_rng(options.seed)
    points, clouds = make_clouds(options.size, options.pairs, rng)
    left = 2 * np.arange(options.pairs)

    def solve(threads: int) -> np.ndarray:
        return mover_costs(clouds, left, left + 1, WORDS, threads=threads)[:, 0]

    costs = solve(1)
    np.testing.assert_array_equal(solve(2), costs)
    for p in range(min(3, options.pairs)):
        expected = cost_by_linear_programming(points, clouds, 2 * p, 2 * p + 1)
        np.testing.assert_allclose(costs[p], expected, rtol=1e-9)

    contenders = {
        f"threads={threads}": (lambda threads=threads: solve(threads), options.pairs)
        for threads in (1, 2)
    }
    rounds = interleave(contenders, options.rounds)
    say(
        f"{options.pairs} pairs of {options.size} and {options.size} points, {options.rounds} "
        "rounds; microseconds per pair: median, fastest, slowest; processors it had"
    )
    for name in contenders:
        us = [1e6 * seconds for seconds in astuple(rounds[name])]
        had = rounds.processors_used(name)
        say(f"{name:>12}{us[0]:>9.1f}{us[1]:>9.1f}{us[2]:>9.1f}{had:>9.2f}")
    gain = rounds.times_faster("threads=2", than="threads=1")
    say(f"two threads are {gain.median:.2f} times as fast ({gain.fastest:.2f}–{gain.slowest:.2f})")
    had = rounds.processors_used("threads=2")
    finish(options, facts, {"speed_up": gain.median, "processors_had": had})


if __name__ == "__main__":
    main()
