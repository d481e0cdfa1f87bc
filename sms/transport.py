"""Exact optimal transport for many small problems in one call.

`exact_transport` solves one problem, `exact_transport_batch` many cost matrices,
`point_cloud_transport` many pairs of weighted point clouds, `mover_costs` the word,
sentence and joint problems of pairs of texts from one block of distances. The method and
why it always ends are described in `simplex`.

Not here: entropic regularisation, or anything approximate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sms.compiled import available_threads, thread_pool
from sms.ground_costs import GROUND_COSTS
from sms.ragged import Ragged, offsets_of, ranges
from sms.simplex import LARGEST
from sms.transport_kernels import (
    JOINT,
    MASS_RTOL,
    SENTENCES,
    WORDS,
    clouds_are_sound,
    integer_masses,
    room_for_mass,
    scale_weights,
    solve_clouds,
    solve_matrices,
)

MAX_CELLS = 1 << 26
"""Largest cost matrix that is attempted; the solver needs 20 bytes for each of its cells."""

__all__ = [
    "JOINT",
    "SENTENCES",
    "WORDS",
    "Clouds",
    "Plans",
    "Transport",
    "Transports",
    "exact_transport",
    "exact_transport_batch",
    "mover_costs",
    "point_cloud_transport",
]

_SLICES_PER_THREAD = 4
_MAX_COUNT = 1 << 20  # larger totals of counts are scaled like floats


@dataclass(frozen=True, slots=True)
class Transport:
    """The solution of one problem."""

    cost: float
    """Mass times ground cost, summed over the plan."""
    plan: np.ndarray
    """Mass moved from i to j, shape (n, m)."""
    potentials: tuple[np.ndarray, np.ndarray]
    """Dual certificate, shapes (n,) and (m,): their sums never exceed the ground cost, and
    equal it where the plan moves mass."""


@dataclass(frozen=True, slots=True)
class Plans:
    """Sparse plans of some problems of a batch."""

    problems: np.ndarray
    """Which problem each plan belongs to, shape (n_plans,)."""
    rows: Ragged
    """Row of every cell that carries mass, one ragged row per plan."""
    columns: Ragged
    """Its column."""
    mass: Ragged
    """Its mass, > 0."""


@dataclass(frozen=True, slots=True)
class Transports:
    """The solutions of a batch."""

    costs: np.ndarray
    """Shape (n_problems,)."""
    plans: Plans | None
    """The plans that were asked for."""


@dataclass(frozen=True, slots=True)
class Clouds:
    """Weighted sets of points, packed.

    Cloud `c` holds the rows `members[c]` of some matrix of points, with `weights[c]`.
    """

    members: Ragged
    """Rows of the points, strictly increasing within a cloud."""
    weights: Ragged
    """Positive, integer or float, same shape as `members`; only their shares matter."""


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
        Cost, plan and dual potentials.

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
    _check_matrices(_one_row(a), _one_row(b), ground_cost.ravel())
    rows, columns = np.flatnonzero(a), np.flatnonzero(b)
    plan, u, v = np.zeros(ground_cost.shape), np.zeros(a.size), np.zeros(b.size)
    if rows.size == 0:  # no mass at all: any plan is empty
        return Transport(0.0, plan, (u, v))
    duals = np.zeros(rows.size + columns.size)
    found = _solve_matrices(
        _one_row(a[rows]),
        _one_row(b[columns]),
        np.ascontiguousarray(ground_cost[np.ix_(rows, columns)]).ravel(),
        plans_of=np.array([0]),
        duals=duals,
        threads=1,
    )
    if found is None or found.plans is None:
        raise RuntimeError("the solver returned no plan")
    plan[rows[found.plans.rows.values], columns[found.plans.columns.values]] = (
        found.plans.mass.values
    )
    u[rows], v[columns] = duals[: rows.size], duals[rows.size :]
    # rows and columns without mass take the largest potentials that stay feasible
    v[b == 0] = (ground_cost[np.ix_(rows, np.flatnonzero(b == 0))] - u[rows, None]).min(axis=0)
    u[a == 0] = (ground_cost[a == 0] - v).min(axis=1)
    return Transport(float(found.costs[0]), plan, (u, v))


def exact_transport_batch(
    a: Ragged,
    b: Ragged,
    ground_costs: np.ndarray,
    *,
    plans_of: Sequence[int] | np.ndarray = (),
    threads: int | None = None,
) -> Transports:
    """Solve many transport problems given by their cost matrices.

    Parameters
    ----------
    a, b : Ragged
        Weights of every problem's rows and columns; non-negative, integer or float. Within a
        problem both sides have the same sum.
    ground_costs : ndarray, shape (sum of n * m,)
        The cost matrices in C order, one after the other.
    plans_of : sequence of int
        Problems whose plan is wanted.
    threads : int, optional
        By default one per processor of this process.

    Returns
    -------
    Transports
        Costs, shape (n_problems,), and the plans asked for.

    Raises
    ------
    ValueError
        As `exact_transport`, naming the problem.

    Examples
    --------
    >>> a = Ragged.from_rows([[1, 1], [3]])
    >>> b = Ragged.from_rows([[2], [1, 2]])
    >>> exact_transport_batch(a, b, np.array([0.0, 2.0, 1.0, 5.0])).costs
    array([ 2., 11.])
    """
    a, b = _as_floats(a), _as_floats(b)
    ground_costs = np.ascontiguousarray(ground_costs, dtype=np.float64)
    plans_of = _checked_problems(plans_of, len(a))
    _check_shapes(a, b, ground_costs)
    threads = threads or available_threads()
    no_duals = np.empty(0)
    whole = _solve_matrices(a, b, ground_costs, plans_of=plans_of, duals=no_duals, threads=threads)
    if whole is not None:
        return whole
    _check_matrices(a, b, ground_costs)
    # rows and columns without mass are left out, since a basis with them is degenerate
    rows, columns = _with_mass(a), _with_mass(b)
    problem = np.repeat(np.arange(len(a)), rows.lengths * columns.lengths)
    within = ranges(np.zeros(len(a), dtype=np.int64), rows.lengths * columns.lengths)
    i = rows.values[rows.offsets[problem] + within // columns.lengths[problem]]
    j = columns.values[columns.offsets[problem] + within % columns.lengths[problem]]
    cells = offsets_of(a.lengths * b.lengths)[problem] + i * b.lengths[problem] + j
    scored = np.flatnonzero(rows.lengths)
    place = np.cumsum(rows.lengths > 0) - 1
    found = _solve_matrices(
        Ragged(a.values[a.values > 0], rows.offsets).take(scored),
        Ragged(b.values[b.values > 0], columns.offsets).take(scored),
        ground_costs[cells],
        plans_of=place[plans_of[rows.lengths[plans_of] > 0]],
        duals=no_duals,
        threads=threads,
    )
    if found is None:
        raise RuntimeError("weights that are positive became zero")
    costs = np.zeros(len(a))
    costs[scored] = found.costs
    if not plans_of.size:
        return Transports(costs, None)
    # a problem without mass has an empty plan
    lengths = np.zeros(plans_of.size, dtype=np.int64)
    if found.plans is None:
        nothing = Ragged.from_lengths(np.empty(0, dtype=np.int64), lengths)
        return Transports(costs, Plans(plans_of, nothing, nothing, nothing))
    plans = found.plans
    lengths[rows.lengths[plans_of] > 0] = plans.rows.lengths
    row_start = np.repeat(rows.offsets[plans_of], lengths)
    column_start = np.repeat(columns.offsets[plans_of], lengths)
    renumbered = Plans(
        plans_of,
        Ragged.from_lengths(rows.values[row_start + plans.rows.values], lengths),
        Ragged.from_lengths(columns.values[column_start + plans.columns.values], lengths),
        Ragged.from_lengths(plans.mass.values, lengths),
    )
    return Transports(costs, renumbered)


def point_cloud_transport(
    points: np.ndarray,
    clouds: Clouds,
    left: np.ndarray,
    right: np.ndarray,
    *,
    ground_cost: str = "euclidean",
    plans_of: Sequence[int] | np.ndarray = (),
    threads: int | None = None,
) -> Transports:
    """Transport between many pairs of weighted point clouds; every cloud has mass 1.

    Distances are computed here, in the same pass, block by block; mass that two clouds share
    on the same point stays where it is when the ground cost is a metric (`euclidean`), which
    is optimal by the triangle inequality and makes the problem smaller.

    Parameters
    ----------
    points : ndarray, shape (n_points, d)
        float32 or float64.
    clouds : Clouds
        Members are rows of `points`.
    left, right : ndarray of int, shape (n_pairs,)
        The two clouds of every pair.
    ground_cost : {"euclidean", "sqeuclidean", "cosine"}
    plans_of : sequence of int
        Pairs whose plan is wanted; rows and columns count within the two clouds.
    threads : int, optional
        By default one per processor of this process.

    Returns
    -------
    Transports
        Costs, shape (n_pairs,), and the plans asked for.

    Raises
    ------
    ValueError
        If a cloud of a pair is empty, a weight is not positive, members are not increasing,
        or a point is not finite (or zero, for `cosine`).
    """
    left, right = np.asarray(left, dtype=np.int64), np.asarray(right, dtype=np.int64)
    _check_clouds(points, clouds, left, right, ground_cost)
    splits = clouds.members.offsets[1:]
    costs, plans = _solve_clouds(
        points,
        np.empty((0, points.shape[1])),
        clouds,
        splits,
        left,
        right,
        WORDS,
        GROUND_COSTS[ground_cost],
        _checked_problems(plans_of, left.size),
        threads or available_threads(),
    )
    return Transports(np.ascontiguousarray(costs[:, 0]), plans)


def mover_costs(
    word_points: np.ndarray,
    sentence_points: np.ndarray,
    texts: Clouds,
    splits: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    problems: int,
    *,
    plans_of: Sequence[int] | np.ndarray = (),
    threads: int | None = None,
) -> tuple[np.ndarray, Plans | None]:
    """Word, sentence and joint mover's distances of pairs of texts (Clark et al. 2019, eq. 2).

    A text's cloud lists its words, then its sentences. One block of distances serves all
    three problems; the joint problem is over the union and gives each half the mass (eq. 5).

    Parameters
    ----------
    word_points, sentence_points : ndarray, shapes (n_words, d) and (n_sentences, d)
    texts : Clouds
        Members up to `splits` are rows of `word_points`, then rows of `sentence_points`.
        Weights are integers with the same sum over words and over sentences, where a text
        has both.
    splits : ndarray of int64, shape (n_texts,)
        Where in `texts.members.values` each text's sentences begin.
    left, right : ndarray of int, shape (n_pairs,)
    problems : int
        Sum of `WORDS`, `SENTENCES` and `JOINT`.
    plans_of : sequence of int
        Pairs whose plan is wanted; `problems` must then name one problem.
    threads : int, optional

    Returns
    -------
    costs : ndarray, shape (n_pairs, 3)
        Distances by words, by sentences and joint; NaN where not asked for.
    plans : Plans or None

    Raises
    ------
    ValueError
        If a text's words and sentences differ in weight.
    """
    _check_halves(texts, splits)
    return _solve_clouds(
        word_points,
        sentence_points,
        texts,
        splits,
        left,
        right,
        problems,
        GROUND_COSTS["euclidean"],
        _checked_problems(plans_of, len(left)),
        threads or available_threads(),
    )


# Batches of cost matrices


def _solve_matrices(
    a: Ragged,
    b: Ragged,
    ground_costs: np.ndarray,
    *,
    plans_of: np.ndarray,
    duals: np.ndarray,
    threads: int,
) -> Transports | None:
    """Solve problems in which every row and column has mass; return None if one has not."""
    n, m = a.lengths, b.lengths
    cost_offsets = offsets_of(n * m)
    small, large = np.minimum(n, m), np.maximum(n, m)
    masses_a, masses_b = np.empty(a.values.size, np.int64), np.empty(b.values.size, np.int64)
    totals, true_totals = np.empty(len(a), np.int64), np.empty(len(a))
    without_mass = np.zeros(1, np.int64)
    wrong = integer_masses(
        a.values,
        a.offsets,
        b.values,
        b.offsets,
        masses_a,
        masses_b,
        totals,
        true_totals,
        without_mass,
    )
    if wrong >= 0:
        _check_matrices(a, b, ground_costs)  # finds it again and says what it is
        raise RuntimeError(f"problem {wrong} was refused without a reason")
    if without_mass[0]:
        return None
    space = _PlanSpace(plans_of, n + m)
    costs = np.empty(len(a))

    def run(first: int, last: int) -> None:
        part = slice(first, last)
        solve_matrices(
            ground_costs,
            ground_costs.view(np.int64),
            cost_offsets,
            masses_a,
            a.offsets,
            masses_b,
            b.offsets,
            totals,
            first,
            last,
            int(small[part].max()),
            int(large[part].max()),
            int((small[part] * ((large[part] + 7) & ~7)).max()),
            costs,
            space.starts,
            space.rows,
            space.columns,
            space.mass,
            space.counts,
            duals,
        )

    _in_slices(run, n * m * (small + 4), threads)
    if (space.counts < 0).any():
        _check_matrices(a, b, ground_costs)  # finds it again and says what it is
        return _solve_matrices(  # nothing is wrong but the sign of a zero
            a, b, ground_costs + 0.0, plans_of=plans_of, duals=duals, threads=threads
        )
    costs *= true_totals
    return Transports(costs, space.plans(true_totals / totals))


# Batches of point clouds


def _solve_clouds(
    word_points: np.ndarray,
    sentence_points: np.ndarray,
    texts: Clouds,
    splits: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    problems: int,
    kind: int,
    plans_of: np.ndarray,
    threads: int,
) -> tuple[np.ndarray, Plans | None]:
    offsets = texts.members.offsets
    left = np.ascontiguousarray(left, dtype=np.int64)
    right = np.ascontiguousarray(right, dtype=np.int64)
    sizes = texts.members.lengths
    n, m = sizes[left], sizes[right]
    too_large = np.flatnonzero(n * m > MAX_CELLS)
    if too_large.size:
        pair = too_large[0]
        raise ValueError(
            f"the ground cost of pair {pair} must have at most {MAX_CELLS} cells, "
            f"got {n[pair]} x {m[pair]}; score shorter texts"
        )
    space = _PlanSpace(plans_of, n + m)
    costs = np.full((left.size, 3), np.nan)
    pair_totals = np.empty(left.size)
    small, large = np.minimum(n, m), np.maximum(n, m)
    weights, totals = _integer_weights(texts, splits, int(small.max(initial=1)))

    def run(first: int, last: int) -> None:
        part = slice(first, last)
        solve_clouds(
            word_points,
            sentence_points,
            texts.members.values,
            weights,
            offsets,
            splits,
            totals,
            left,
            right,
            first,
            last,
            problems,
            kind,
            int(small[part].max()),
            int(large[part].max()),
            int((small[part] * ((large[part] + 7) & ~7)).max()),
            costs,
            space.starts,
            space.rows,
            space.columns,
            space.mass,
            space.counts,
            pair_totals,
        )

    _in_slices(run, n * m * (small + 40), threads)
    refused = np.flatnonzero(space.counts < 0)
    if refused.size:
        rule = "finite, and not zero for `cosine`"
        raise ValueError(f"points must be {rule}, got others in pair {refused[0]}")
    return costs, space.plans(1.0 / pair_totals)


# Masses, plans, slices


def _as_floats(weights: Ragged) -> Ragged:
    return Ragged(np.ascontiguousarray(weights.values, dtype=np.float64), weights.offsets)


def _sums(weights: Ragged) -> np.ndarray:
    """Sum of every row; no row is empty."""
    return np.add.reduceat(weights.values, weights.offsets[:-1]) if len(weights) else np.empty(0)


def _integer_weights(
    clouds: Clouds, splits: np.ndarray, rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return integer weights of every cloud and the sum of its words (or sentences)."""
    offsets, values = clouds.members.offsets, clouds.weights.values
    if values.dtype.kind in "iu":
        has_words = splits > offsets[:-1]
        running = offsets_of(values)
        totals = running[np.where(has_words, splits, offsets[1:])] - running[offsets[:-1]]
        if totals.size == 0 or totals.max() <= _MAX_COUNT:
            return np.ascontiguousarray(values, dtype=np.int64), totals
    values = np.ascontiguousarray(values, dtype=np.float64)
    masses = np.empty(values.size, dtype=np.int64)
    total = np.int64(1) << room_for_mass(rows)
    bounds = np.unique(np.concatenate([offsets, splits]))
    sums = _sums(Ragged(values, bounds))
    for first, end, weight in zip(bounds[:-1], bounds[1:], sums, strict=True):
        scale_weights(values, first, end, weight, total, masses)
    return masses, np.full(len(clouds.members), total)


class _PlanSpace:
    """Room for the plans of the chosen problems, written by the kernels."""

    def __init__(self, problems: np.ndarray, sizes: np.ndarray) -> None:
        self.problems = problems
        self.offsets = offsets_of(2 * sizes[problems])
        self.starts = np.full(sizes.size, -1, dtype=np.int64)
        self.starts[problems] = self.offsets[:-1]
        self.counts = np.zeros(sizes.size, dtype=np.int64)
        self.rows = np.zeros(self.offsets[-1], dtype=np.int64)
        self.columns = np.zeros(self.offsets[-1], dtype=np.int64)
        self.mass = np.zeros(self.offsets[-1], dtype=np.int64)

    def plans(self, unit: np.ndarray) -> Plans | None:
        """Cut the filled part out; `unit` is the true mass of one integer unit, per problem."""
        if not self.problems.size:
            return None
        counts = self.counts[self.problems]
        kept = ranges(self.offsets[:-1], counts)
        mass = self.mass[kept] * np.repeat(unit[self.problems], counts)
        return Plans(
            self.problems,
            Ragged.from_lengths(self.rows[kept], counts),
            Ragged.from_lengths(self.columns[kept], counts),
            Ragged.from_lengths(mass, counts),
        )


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


# Zero weights and checks


def _one_row(values: np.ndarray) -> Ragged:
    return Ragged(values.ravel(), np.array([0, values.size]))


def _with_mass(weights: Ragged) -> Ragged:
    """Return the positions within each row that have mass."""
    kept = np.flatnonzero(weights.values > 0)
    row = np.repeat(np.arange(len(weights)), weights.lengths)[kept]
    counts = np.bincount(row, minlength=len(weights))
    return Ragged.from_lengths(kept - weights.offsets[row], counts)


def _check_shapes(a: Ragged, b: Ragged, ground_costs: np.ndarray) -> None:
    if len(a) != len(b):
        raise ValueError(f"`a` and `b` must have as many problems, got {len(a)} and {len(b)}")
    cost_offsets = offsets_of(a.lengths * b.lengths)
    if ground_costs.shape != (cost_offsets[-1],):
        raise ValueError(
            f"`ground_costs` must hold {cost_offsets[-1]} cells for these weights, "
            f"got shape {ground_costs.shape}"
        )


def _check_matrices(a: Ragged, b: Ragged, ground_costs: np.ndarray) -> None:
    """Raise for the first value that breaks a rule; the compiled check only says that one does."""
    for name, side in (("a", a), ("b", b)):
        empty = np.flatnonzero(side.lengths == 0)
        if empty.size:
            raise ValueError(f"`{name}` must not be empty, got no weight in problem {empty[0]}")
        _refuse(~(side.values >= 0), side, f"`{name}` must be >= 0")
        _refuse(side.values > LARGEST, side, f"`{name}` must be below {LARGEST:g}")
    costs = Ragged(ground_costs, offsets_of(a.lengths * b.lengths))
    _refuse(~(ground_costs >= 0), costs, "`ground_costs` must be >= 0")
    _refuse(ground_costs > LARGEST, costs, f"`ground_costs` must be below {LARGEST:g}")
    sums_a, sums_b = _sums(a), _sums(b)
    differ = ~(np.abs(sums_a - sums_b) <= MASS_RTOL * np.maximum(sums_a, sums_b))
    if differ.any():
        p = np.flatnonzero(differ)[0]
        raise ValueError(
            f"`a` and `b` must have the same sum, got {sums_a[p]:.9g} and {sums_b[p]:.9g} "
            f"in problem {p}"
        )


def _checked_problems(problems: Sequence[int] | np.ndarray, n_problems: int) -> np.ndarray:
    asked = np.asarray(problems, dtype=np.int64)
    if asked.size and (asked.min() < 0 or asked.max() >= n_problems):
        raise ValueError(f"`plans_of` must lie in 0 to {n_problems - 1}, got {asked.tolist()}")
    if np.unique(asked).size != asked.size:
        raise ValueError(f"`plans_of` must not name a problem twice, got {asked.tolist()}")
    return asked


def _check_halves(texts: Clouds, splits: np.ndarray) -> None:
    offsets = texts.members.offsets
    running = offsets_of(texts.weights.values)
    words = running[splits] - running[offsets[:-1]]
    sentences = running[offsets[1:]] - running[splits]
    differ = (words != sentences) & (words > 0) & (sentences > 0)
    if differ.any():
        text = np.flatnonzero(differ)[0]
        raise ValueError(
            f"`texts` must weigh words and sentences alike, got {words[text]} and "
            f"{sentences[text]} in text {text}"
        )


def _check_clouds(
    points: np.ndarray, clouds: Clouds, left: np.ndarray, right: np.ndarray, ground_cost: str
) -> None:
    if ground_cost not in GROUND_COSTS:
        raise ValueError(f"`ground_cost` must be one of {list(GROUND_COSTS)}, got {ground_cost!r}")
    members, weights = clouds.members, clouds.weights
    if not np.array_equal(members.offsets, weights.offsets):
        raise ValueError("`clouds` must have as many weights as members")
    if len(left) != len(right):
        raise ValueError(f"`left` and `right` must pair up, got {len(left)} and {len(right)}")
    if clouds_are_sound(members.values, members.offsets, weights.values, len(points), left, right):
        return
    used = np.unique(np.concatenate([left, right]))
    if used.size and (used[0] < 0 or used[-1] >= len(members)):
        raise ValueError(
            f"`left` and `right` must lie in 0 to {len(members) - 1}, got {used[[0, -1]].tolist()}"
        )
    empty = used[members.lengths[used] == 0]
    if empty.size:
        pair = np.flatnonzero((left == empty[0]) | (right == empty[0]))[0]
        raise ValueError(f"clouds must not be empty, got cloud {empty[0]} in pair {pair}")
    _refuse(~(weights.values > 0), weights, "weights must be > 0")
    _refuse(weights.values > LARGEST, weights, f"weights must be below {LARGEST:g}")
    rises = np.diff(members.values, prepend=-1) > 0
    rises[members.offsets[:-1][members.lengths > 0]] = True
    _refuse(~rises, members, "members must be increasing")
    _refuse(
        (members.values < 0) | (members.values >= len(points)), members,
        f"members must be rows of the {len(points)} points",
    )  # fmt: skip


def _refuse(wrong: np.ndarray, rows: Ragged, rule: str) -> None:
    """Raise for the first wrong value, naming its row of the packed batch."""
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        row = int(np.searchsorted(rows.offsets, at, side="right")) - 1
        raise ValueError(f"{rule}, got {rows.values[at]} in problem {row}")
