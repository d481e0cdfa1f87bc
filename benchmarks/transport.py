"""How much faster is one compiled call for many small exact transport problems than its peers?

On one thread. Problems are pairs of 300-dimensional Gaussian points with about 40 % of the points
shared and integer weights from 1 to 3. All contenders get the same problems:

- from cost matrices: the simplex in one call ("matrices"); `ot.emd2`, and the C++ solver under it
  (`emd_c`), in a loop; pyemd in a loop, on the union of the points, as it needs;
- from vectors: `mover_costs` in one call; `cdist` and `ot.emd2` in a loop; gensim's
  `wmdistance` in a loop, on texts that repeat a word by its weight.
"""  # noqa: D400  (a question)

from __future__ import annotations

import argparse
import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["POT_BACKEND_DISABLE_TENSORFLOW"] = "1"  # or `import ot` takes seconds
os.environ["POT_BACKEND_DISABLE_JAX"] = "1"

from dataclasses import asdict, dataclass
from functools import cached_property, partial

import numpy as np
import ot
from ot.lp._network_simplex import emd_c
from scipy.spatial.distance import cdist
from timing import Rounds, begin, finish, interleave, say, short

from sms.ragged import Ragged, offsets_of
from sms.transport import WORDS, Clouds, mover_costs
from sms.transport.simplex import Problems as Matrices
from sms.transport.simplex import solve

try:
    from gensim.models import KeyedVectors
except ImportError:
    KeyedVectors = None
try:
    from pyemd import emd as pyemd_emd
except ImportError:
    pyemd_emd = None

SIZES = (
    "3x3",
    "4x4",
    "10x10",
    "20x20",
    "25x25",
    "40x40",
    "45x45",
    "70x70",
    "80x80",
    "400x60",
    "100x16000",
)
DIMENSION = 300
N_POINTS = 4_000
"""About the distinct content words of 1,000 rows of news summaries, a batch of a run."""
SHARED = 0.4
CELLS_PER_ROUND = 1_500_000
"""Sets how many problems a round has; 50 to 100 ms of ours."""
FEWEST, MOST, MOST_OF_PEERS = 60, 60_000, 1_000
"""Bounds of the number of problems in a round; the peers get the first ones of them."""
LARGE_CELLS, FEWEST_LARGE = 1_000_000, 2
"""Problems of more cells take up to a second, and a round has only so many."""
MAX_ITERATIONS = 1_000_000
EXACT_RTOL = 1e-9
"""Two exact solvers in float64 agree so well."""
FLOAT32_RTOL = 1e-4
"""gensim subtracts float32 vectors."""


@dataclass(frozen=True)
class Problems:
    """Many problems of one size, as each contender wants them."""

    points: np.ndarray
    clouds: Clouds
    left: np.ndarray
    right: np.ndarray
    n_peer: int

    @cached_property
    def weights(self) -> tuple[Ragged, Ragged]:
        """Weights of all rows and of all columns, with sum 1."""
        sides = []
        for clouds in (self.left, self.right):
            counts = self.clouds.weights.take(clouds)
            sums = np.add.reduceat(counts.values, counts.offsets[:-1])
            shares = counts.values / np.repeat(sums, counts.lengths)
            sides.append(Ragged(shares, counts.offsets))
        return sides[0], sides[1]

    @cached_property
    def counts(self) -> tuple[Ragged, Ragged]:
        """Integer weights of all rows and columns; each side times the sum of the other one."""
        one, other = (self.clouds.weights.take(clouds) for clouds in (self.left, self.right))
        sums = [np.add.reduceat(side.values, side.offsets[:-1]) for side in (one, other)]
        return (
            Ragged(one.values * np.repeat(sums[1], one.lengths), one.offsets),
            Ragged(other.values * np.repeat(sums[0], other.lengths), other.offsets),
        )

    @cached_property
    def totals(self) -> np.ndarray:
        """Sum of the integer weights of each problem, shape (n_problems,)."""
        counts, _ = self.counts
        return np.add.reduceat(counts.values, counts.offsets[:-1])

    @cached_property
    def vectors(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Points of the peers' problems, float32."""
        members = self.clouds.members
        return [
            (self.points[members[i]], self.points[members[j]])
            for i, j in zip(self.left[: self.n_peer], self.right[: self.n_peer], strict=True)
        ]

    @cached_property
    def shares(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Weights of the peers' problems."""
        a, b = self.weights
        return [(a[p].copy(), b[p].copy()) for p in range(self.n_peer)]

    @cached_property
    def matrices(self) -> np.ndarray:
        """All cost matrices, one after the other."""
        members = self.clouds.members
        found = [
            cdist(self.points[members[i]], self.points[members[j]]).ravel()
            for i, j in zip(self.left, self.right, strict=True)
        ]
        return np.concatenate(found)

    @cached_property
    def as_matrices(self) -> Matrices:
        """The problems as the simplex takes them."""
        a, b = self.counts
        return Matrices(
            costs=self.matrices,
            first_cost=offsets_of(a.lengths * b.lengths)[:-1],
            row_stride=b.lengths,
            n_rows=a.lengths,
            n_columns=b.lengths,
            masses=np.concatenate([a.values, b.values]),
            first_supply=a.offsets[:-1],
            first_demand=a.values.size + b.offsets[:-1],
            n_head_rows=np.zeros_like(a.lengths),
            n_head_columns=np.zeros_like(a.lengths),
        )

    @cached_property
    def peer_matrices(self) -> list[np.ndarray]:
        """The peers' cost matrices, C-contiguous as both want them."""
        return [cdist(x, y) for x, y in self.vectors]

    @cached_property
    def unions(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Two histograms over the same points and the distances between all of them."""
        members = self.clouds.members
        found = []
        for p, (a, b) in enumerate(self.shares):
            rows, columns = members[self.left[p]], members[self.right[p]]
            union = np.union1d(rows, columns)
            histograms = np.zeros((2, union.size))
            histograms[0, np.searchsorted(union, rows)] = a
            histograms[1, np.searchsorted(union, columns)] = b
            points = self.points[union]
            found.append((histograms[0], histograms[1], cdist(points, points)))
        return found

    @cached_property
    def texts(self) -> list[tuple[list[str], list[str]]]:
        """The peers' problems as words, each as often as it weighs."""
        members, weights = self.clouds.members, self.clouds.weights
        text = [
            [f"w{word}" for word in np.repeat(members[cloud], weights[cloud]).tolist()]
            for cloud in range(2 * self.n_peer)
        ]
        return list(zip(text[0::2], text[1::2], strict=True))


def make_problems(
    n: int, m: int, n_problems: int, n_points: int, rng: np.random.Generator
) -> Problems:
    points = rng.standard_normal((n_points, DIMENSION)).astype(np.float32)
    n_shared = round(SHARED * min(n, m))
    rows = []
    for _ in range(n_problems):
        drawn = rng.choice(n_points, n + m - n_shared, replace=False)
        rows += [np.sort(drawn[:n]), np.sort(drawn[n - n_shared :])]
    members = Ragged.from_rows(rows)
    weights = Ragged(rng.integers(1, 4, members.values.size), members.offsets)
    pairs = np.arange(n_problems)
    n_peer = min(n_problems, MOST_OF_PEERS)
    clouds = Clouds(points, np.empty((0, DIMENSION)), members, weights, members.offsets[1:])
    return Problems(points, clouds, 2 * pairs, 2 * pairs + 1, n_peer)


def from_matrices(problems: Problems) -> np.ndarray:
    return solve(problems.as_matrices).costs / problems.totals


def from_vectors(problems: Problems) -> np.ndarray:
    return mover_costs(problems.clouds, problems.left, problems.right, WORDS, threads=1)[:, 0]


def emd2(problems: Problems) -> list[float]:
    return [
        ot.emd2(a, b, matrix)
        for (a, b), matrix in zip(problems.shares, problems.peer_matrices, strict=True)
    ]


def emd_c_directly(problems: Problems) -> list[float]:
    return [
        emd_c(a, b, matrix, MAX_ITERATIONS, 1)[1]
        for (a, b), matrix in zip(problems.shares, problems.peer_matrices, strict=True)
    ]


def cdist_and_emd2(problems: Problems) -> list[float]:
    return [
        ot.emd2(a, b, cdist(x, y))
        for (a, b), (x, y) in zip(problems.shares, problems.vectors, strict=True)
    ]


def pyemd(problems: Problems) -> list[float]:
    return [pyemd_emd(a, b, distances) for a, b, distances in problems.unions]


def make_gensim(problems: Problems):
    vectors = KeyedVectors(DIMENSION)
    vectors.add_vectors([f"w{row}" for row in range(len(problems.points))], problems.points)

    def gensim(problems: Problems) -> list[float]:
        return [vectors.wmdistance(one, other, norm=False) for one, other in problems.texts]

    return gensim


def measure(n: int, m: int, n_rounds: int, n_points: int, seed: int) -> tuple[Rounds, int, int]:
    """Check that all agree, then time them; return how many problems a round has, too."""
    fewest = FEWEST if n * m < LARGE_CELLS else FEWEST_LARGE
    n_problems = int(np.clip(CELLS_PER_ROUND // (n * m), fewest, MOST))
    n_points = max(n_points, n + m)
    problems = make_problems(n, m, n_problems, n_points, np.random.default_rng(seed))
    ours = {"matrices": from_matrices, "vectors": from_vectors}
    peers = {"emd2": emd2, "emd_c": emd_c_directly, "cdist + emd2": cdist_and_emd2}
    tolerance = dict.fromkeys(peers, EXACT_RTOL)
    if KeyedVectors is not None:
        peers["gensim"] = make_gensim(problems)
        tolerance["gensim"] = FLOAT32_RTOL
    if pyemd_emd is not None:
        peers["pyemd"] = pyemd
        tolerance["pyemd"] = 1e-5  # it rounds distances to integers
    costs = from_matrices(problems)
    np.testing.assert_allclose(from_vectors(problems), costs, rtol=EXACT_RTOL)
    for name, peer in peers.items():
        np.testing.assert_allclose(
            peer(problems), costs[: problems.n_peer], rtol=tolerance[name], err_msg=name
        )
    contenders = {name: (partial(work, problems), n_problems) for name, work in ours.items()}
    contenders |= {name: (partial(work, problems), problems.n_peer) for name, work in peers.items()}
    # every contender has just run: that was the warm-up
    return interleave(contenders, n_rounds, warm_up=False), n_problems, problems.n_peer


def row_of(size: str, rounds: Rounds) -> dict[str, object]:
    """Return what `--json` says of one size."""
    row: dict[str, object] = {
        "size": size,
        "vs_emd2": rounds.times_faster("matrices", "emd2").median,
        "vs_emd_c": rounds.times_faster("matrices", "emd_c").median,
        "packed_vs_cdist_emd2": rounds.times_faster("vectors", "cdist + emd2").median,
    }
    if "pyemd" in rounds.seconds:
        row["vs_pyemd"] = rounds.times_faster("matrices", "pyemd").median
    if "gensim" in rounds.seconds:
        row["packed_vs_gensim"] = rounds.times_faster("vectors", "gensim").median
    row["microseconds"] = {
        name: {of: 1e6 * seconds for of, seconds in asdict(rounds[name]).items()}
        for name in rounds.seconds
    }
    return row


def print_times(names: list[str], measured: dict[str, Rounds]) -> None:
    say("\nMicroseconds per problem: median (fastest–slowest)")
    say(f"{'size':>8}" + "".join(f"{name:>24}" for name in names))
    for size, rounds in measured.items():
        cells = []
        for name in names:
            us = rounds[name]
            low, high = short(1e6 * us.fastest), short(1e6 * us.slowest)
            cells.append(f"{short(1e6 * us.median)} ({low}–{high})")
        say(f"{size:>8}" + "".join(f"{cell:>24}" for cell in cells))


def print_ratios(rows: list[dict[str, object]]) -> None:
    say("\nTimes faster: median of the ratios of each round")
    heads = ("matrices / emd2", "matrices / emd_c", "vectors / cdist + emd2")
    say(f"{'size':>8}" + "".join(f"{head:>24}" for head in heads))
    for row in rows:
        found = [float(row[key]) for key in ("vs_emd2", "vs_emd_c", "packed_vs_cdist_emd2")]
        say(f"{row['size']!s:>8}" + "".join(f"{short(ratio):>24}" for ratio in found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default=",".join(SIZES), help="as 4x4,400x60")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--points", type=int, default=N_POINTS, help="that problems draw from")
    parser.add_argument("--seed", type=int, default=1)
    options, facts = begin(parser, "POT", "scipy", "gensim", "pyemd")
    for name, module in (("gensim", KeyedVectors), ("pyemd", pyemd_emd)):
        if module is None:
            say(f"{name} is left out: it cannot be imported")
    rows, measured = [], {}
    for size in options.sizes.split(","):
        n, m = (int(part) for part in size.split("x"))
        rounds, n_problems, n_peer = measure(n, m, options.rounds, options.points, options.seed)
        say(f"{size}: {n_problems} problems a round, {n_peer} of them for the peers; all agree")
        measured[size] = rounds
        rows.append(row_of(size, rounds))
    print_times(list(next(iter(measured.values())).seconds), measured)
    print_ratios(rows)
    finish(options, facts, {"rows": rows})


if __name__ == "__main__":
    main()
