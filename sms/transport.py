"""Exact optimal transport for many small problems in one call.

The method and why it always ends are described in `simplex`. Not here: entropic regularisation, or
anything approximate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sms.compiled import available_threads, thread_pool
from sms.ragged import Ragged, offsets_of
from sms.simplex import LARGEST
from sms.transport_kernels import (
    JOINT,
    MASS_RTOL,
    SENTENCES,
    WORDS,
    integer_masses,
    room_for_mass,
    scale_weights,
    solve_clouds,
    solve_matrices,
)

MAX_CELLS = 1 << 26
"""Largest cost matrix that is attempted; the solver needs 20 bytes for each of its cells."""
_SLICES_PER_THREAD = 4
_MAX_COUNT = 1 << 20  # larger totals of counts are scaled like floats


@dataclass(frozen=True, slots=True)
class Transport:
    """The solution of one problem."""

    cost: float
    plan: np.ndarray
    """Mass moved from i to j, shape (n, m)."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The cells of a plan that carry mass."""

    rows: np.ndarray
    columns: np.ndarray
    mass: np.ndarray
    """Greater than 0; all of shape (n_cells,)."""


@dataclass(frozen=True, slots=True)
class Clouds:
    """Texts as weighted sets of points, packed: the words of each, then its sentences."""

    word_points: np.ndarray
    """Shape (n_words, d), float32 or float64."""
    sentence_points: np.ndarray
    """Shape (n_sentences, d)."""
    members: Ragged
    """Rows of `word_points`, then of `sentence_points`, strictly increasing within each."""
    weights: Ragged
    """Positive integers, same shape as `members`; their sum over a text's words is that over its
    sentences, where it has both."""
    splits: np.ndarray
    """Where in `members.values` each text's sentences begin, int64, shape (n_texts,)."""


def exact_transport(a: np.ndarray, b: np.ndarray, ground_cost: np.ndarray) -> Transport:
    r"""Move mass `a` onto mass `b` at the least total cost.

    Solves the Kantorovich problem (Peyré & Cuturi 2019, section 2.3)

    .. math:: \min_{P \ge 0} \sum_{ij} P_{ij} C_{ij}
              \quad \text{s.t.}\quad P 1 = a,\; P^\top 1 = b

    exactly: by the transportation simplex in integer arithmetic, which cannot cycle (see
    `simplex`).

    Parameters
    ----------
    a : ndarray, shape (n,)
        Weights of the rows; non-negative.
    b : ndarray, shape (m,)
        Weights of the columns; non-negative, with the same sum as `a`.
    ground_cost : ndarray, shape (n, m)
        Cost of one unit of mass from i to j; finite, non-negative, not necessarily a metric.

    Returns
    -------
    Transport
        Cost and plan.

    Raises
    ------
    ValueError
        If shapes disagree, a side is empty, a weight or cost is negative or not finite, or
        the masses differ.

    Examples
    --------
    >>> exact_transport(np.array([0.5, 0.5]), np.array([1.0]), np.array([[0.0], [2.0]])).cost
    1.0
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    ground_cost = np.asarray(ground_cost, dtype=np.float64)
    if ground_cost.shape != (a.size, b.size):
        raise ValueError(
            f"`ground_cost` must have shape {(a.size, b.size)} for these weights, "
            f"got {ground_cost.shape}"
        )
    _check_matrices(_one_row(a), _one_row(b), ground_cost.ravel(), zeros=True)
    rows, columns = np.flatnonzero(a), np.flatnonzero(b)
    plan = np.zeros(ground_cost.shape)
    if not rows.size:  # no mass at all
        return Transport(0.0, plan)
    costs = np.ascontiguousarray(ground_cost[np.ix_(rows, columns)]).ravel()
    cost, moved = _solve_matrices(_one_row(a[rows]), _one_row(b[columns]), costs, 1, plan=True)
    plan[rows[moved.rows], columns[moved.columns]] = moved.mass
    return Transport(float(cost[0]), plan)


def exact_transport_batch(
    a: Ragged, b: Ragged, ground_costs: np.ndarray, *, threads: int | None = None
) -> np.ndarray:
    """Return the costs of many transport problems given by their cost matrices.

    Parameters
    ----------
    a, b : Ragged
        Weights of every problem's rows and columns; positive, integer or float. Within a
        problem both sides have the same sum.
    ground_costs : ndarray, shape (sum of n * m,)
        The cost matrices in C order, one after the other.
    threads : int, optional
        By default one per processor of this process.

    Raises
    ------
    ValueError
        As `exact_transport`, naming the problem; also if a weight is zero.

    Examples
    --------
    >>> a = Ragged.from_rows([[1, 1], [3]])
    >>> b = Ragged.from_rows([[2], [1, 2]])
    >>> exact_transport_batch(a, b, np.array([0.0, 2.0, 1.0, 5.0]))
    array([ 2., 11.])
    """
    a, b = (Ragged(np.ascontiguousarray(s.values, np.float64), s.offsets) for s in (a, b))
    ground_costs = np.ascontiguousarray(ground_costs, dtype=np.float64)
    if len(a) != len(b):
        raise ValueError(f"`a` and `b` must have equally many problems, got {len(a)} and {len(b)}")
    n_cells = int((a.lengths * b.lengths).sum())
    if ground_costs.shape != (n_cells,):
        raise ValueError(
            f"`ground_costs` must hold {n_cells} cells for these weights, "
            f"got shape {ground_costs.shape}"
        )
    return _solve_matrices(a, b, ground_costs, threads or available_threads())[0]


def mover_costs(
    texts: Clouds, left: np.ndarray, right: np.ndarray, problems: int, *, threads: int | None = None
) -> np.ndarray:
    """Word, sentence and joint mover's distances of pairs of texts (Clark et al. 2019, eq. 2).

    One block of distances serves all three problems. Mass that two texts share on the same point
    stays where it is, which is optimal by the triangle inequality and makes the problem smaller.
    `left` and `right` are the two texts of every pair; neither is empty, see `MAX_CELLS`.
    `problems` is a sum of `WORDS`, `SENTENCES` and `JOINT`. Gives a column for each, shape
    (n_pairs, 3), NaN where not asked for. Raises `ValueError` if a point is not finite.
    """
    return _solve_clouds(texts, left, right, problems, threads or available_threads())[0]


def mover_plan(texts: Clouds, left: int, right: int, problem: int) -> tuple[float, Plan]:
    """Solve one problem of a pair of texts; rows and columns count within them, words first."""
    costs, plan = _solve_clouds(texts, np.array([left]), np.array([right]), problem, 1, plan=True)
    return float(costs[0, (WORDS, SENTENCES, JOINT).index(problem)]), plan


def _solve_matrices(
    a: Ragged, b: Ragged, ground_costs: np.ndarray, threads: int, *, plan: bool = False
) -> tuple[np.ndarray, Plan]:
    """Solve problems in which every row and column has mass; the plan is that of the first."""
    n, m = a.lengths, b.lengths
    small, large = np.minimum(n, m), np.maximum(n, m)
    masses_a, masses_b = np.empty(a.values.size, np.int64), np.empty(b.values.size, np.int64)
    totals, true_totals = np.empty(len(a), np.int64), np.empty(len(a))
    wrong = integer_masses(
        a.values, a.offsets, b.values, b.offsets, masses_a, masses_b, totals, true_totals
    )
    if wrong >= 0:
        _check_matrices(a, b, ground_costs)  # raises, naming the value
        raise RuntimeError(f"problem {wrong} was refused without a reason")
    cells = np.empty((3, 2 * int(n[0] + m[0]) if plan else 0), np.int64)
    costs, counts = np.empty(len(a)), np.empty(len(a), np.int64)
    cost_offsets = offsets_of(n * m)

    def run(first: int, last: int) -> None:
        sizes = _sizes(small[first:last], large[first:last])
        solve_matrices(
            ground_costs, ground_costs.view(np.int64), cost_offsets, masses_a, a.offsets, masses_b,
            b.offsets, totals, first, last, *sizes, costs, cells, counts,
        )  # fmt: skip

    _in_slices(run, n * m * (small + 4), threads)
    if (counts < 0).any():
        _check_matrices(a, b, ground_costs)  # raises, naming the value
        # nothing is wrong but the sign of a zero
        return _solve_matrices(a, b, ground_costs + 0.0, threads, plan=plan)
    return costs * true_totals, _plan(cells, counts, true_totals / totals)


def _solve_clouds(
    texts: Clouds,
    left: np.ndarray,
    right: np.ndarray,
    problems: int,
    threads: int,
    *,
    plan: bool = False,
) -> tuple[np.ndarray, Plan]:
    left, right = (np.ascontiguousarray(side, dtype=np.int64) for side in (left, right))
    sizes = texts.members.lengths
    n, m = sizes[left], sizes[right]
    small, large = np.minimum(n, m), np.maximum(n, m)
    cells = np.empty((3, 2 * int(n[0] + m[0]) if plan else 0), np.int64)
    costs, counts = np.full((left.size, 3), np.nan), np.zeros(left.size, np.int64)
    pair_totals = np.empty(left.size)
    weights, totals = _integer_weights(texts, int(small.max(initial=1)))

    def run(first: int, last: int) -> None:
        sizes = _sizes(small[first:last], large[first:last])
        solve_clouds(
            texts.word_points, texts.sentence_points, texts.members.values, weights,
            texts.members.offsets, texts.splits, totals, left, right, first, last, problems,
            *sizes, costs, cells, counts, pair_totals,
        )  # fmt: skip

    _in_slices(run, n * m * (small + 40), threads)
    refused = np.flatnonzero(counts < 0)
    if refused.size:
        raise ValueError(f"points must be finite, but some of pair {refused[0]} are not")
    return costs, _plan(cells, counts, 1.0 / pair_totals)


def _sizes(small: np.ndarray, large: np.ndarray) -> tuple[int, int, int]:
    """Return the most rows, columns and padded cells of some problems."""
    return int(small.max()), int(large.max()), int((small * ((large + 7) & ~7)).max())


def _plan(cells: np.ndarray, counts: np.ndarray, unit: np.ndarray) -> Plan:
    """Cut the filled part out; `unit` is the true mass of one integer unit, per problem."""
    if not cells.size:
        return Plan(*cells)
    rows, columns, mass = cells[:, : counts[0]]
    return Plan(rows, columns, mass * unit[0])


def _integer_weights(texts: Clouds, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return weights of every text, of no large sum, and the sum of its words (or sentences)."""
    offsets, splits = texts.members.offsets, texts.splits
    values = np.ascontiguousarray(texts.weights.values, dtype=np.int64)
    running = offsets_of(values)
    totals = running[np.where(splits > offsets[:-1], splits, offsets[1:])] - running[offsets[:-1]]
    if totals.max(initial=0) <= _MAX_COUNT:
        return values, totals
    masses, total = np.empty_like(values), np.int64(1) << room_for_mass(rows)
    floats = values.astype(np.float64)
    bounds = np.unique(np.concatenate([offsets, splits]))
    for first, end in pairwise(bounds):
        weight = float(running[end] - running[first])
        scale_weights(floats, first, end, weight, total, masses)
    return masses, np.full(len(texts.members), total)


def _in_slices(run: Callable[[int, int], None], work: np.ndarray, threads: int) -> None:
    """Call `run(first, last)` over all problems, in slices of about equal work."""
    if not work.size:
        return
    if threads == 1:
        run(0, work.size)
        return
    done = np.cumsum(work, dtype=np.float64)
    n_slices = min(threads * _SLICES_PER_THREAD, work.size)
    cuts = np.searchsorted(done, done[-1] * np.arange(1, n_slices) / n_slices)
    bounds = np.unique(np.concatenate([[0], cuts, [work.size]]))
    list(thread_pool(threads).map(run, bounds[:-1].tolist(), bounds[1:].tolist()))


def _one_row(values: np.ndarray) -> Ragged:
    return Ragged(values.ravel(), np.array([0, values.size]))


def _check_matrices(a: Ragged, b: Ragged, ground_costs: np.ndarray, *, zeros: bool = False) -> None:
    """Raise for the first value that breaks a rule; the compiled check only says that one does."""
    for name, side in (("a", a), ("b", b)):
        empty = np.flatnonzero(side.lengths == 0)
        if empty.size:
            raise ValueError(f"`{name}` must not be empty, got no weight in problem {empty[0]}")
        if zeros:
            _refuse(~(side.values >= 0), side, f"`{name}` must be >= 0")
        else:
            _refuse(~(side.values > 0), side, f"`{name}` must be > 0")
        _refuse(side.values > LARGEST, side, f"`{name}` must be below {LARGEST:g}")
    costs = Ragged(ground_costs, offsets_of(a.lengths * b.lengths))
    _refuse(~(ground_costs >= 0), costs, "`ground_costs` must be >= 0")
    _refuse(ground_costs > LARGEST, costs, f"`ground_costs` must be below {LARGEST:g}")
    sums_a, sums_b = (np.add.reduceat(s.values, s.offsets[:-1]) for s in (a, b))
    differ = ~(np.abs(sums_a - sums_b) <= MASS_RTOL * np.maximum(sums_a, sums_b))
    if differ.any():
        p = np.flatnonzero(differ)[0]
        raise ValueError(
            f"`a` and `b` must have the same sum, got {sums_a[p]:.9g} and {sums_b[p]:.9g} "
            f"in problem {p}"
        )


def _refuse(wrong: np.ndarray, rows: Ragged, rule: str) -> None:
    """Raise for the first wrong value, naming its row of the packed batch."""
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        row = int(np.searchsorted(rows.offsets, at, side="right")) - 1
        raise ValueError(f"{rule}, got {rows.values[at]} in problem {row}")
