"""Exact optimal transport for many pairs of texts in one call.

`mover_costs` solves the word, sentence and joint problems of pairs of texts from one block of
distances, and `mover_plan` one of these with its plan. The method and why it always ends are
described in `simplex`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sms.compiled import available_threads, thread_pool
from sms.ragged import Ragged, offsets_of
from sms.simplex import MASS_BITS
from sms.transport_kernels import JOINT, SENTENCES, WORDS, solve_clouds

MAX_CELLS = 1 << 26
"""Largest cost matrix that is attempted; the solver needs 20 bytes for each of its cells."""
_SLICES_PER_THREAD = 4
_MAX_COUNT = 1 << 20  # larger totals of counts are scaled like floats


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
        fewer, more = small[first:last], large[first:last]
        sizes = int(fewer.max()), int(more.max()), int((fewer * ((more + 7) & ~7)).max())
        solve_clouds(
            texts.word_points, texts.sentence_points, texts.members.values, weights,
            texts.members.offsets, texts.splits, totals, left, right, first, last, problems,
            *sizes, costs, cells, counts, pair_totals,
        )  # fmt: skip

    _in_slices(run, n * m * (small + 40), threads)
    refused = np.flatnonzero(counts < 0)
    if refused.size:
        raise ValueError(f"points must be finite, but some of pair {refused[0]} are not")
    if not plan:
        return costs, Plan(*cells)
    rows, columns, mass = cells[:, : counts[0]]
    return costs, Plan(rows, columns, mass * (1.0 / pair_totals[0]))


def _integer_weights(texts: Clouds, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return weights of every text, of no large sum, and the sum of its words (or sentences)."""
    offsets, splits = texts.members.offsets, texts.splits
    values = np.ascontiguousarray(texts.weights.values, dtype=np.int64)
    running = offsets_of(values)
    totals = running[np.where(splits > offsets[:-1], splits, offsets[1:])] - running[offsets[:-1]]
    if totals.max(initial=0) <= _MAX_COUNT:
        return values, totals
    masses, total = np.empty_like(values), 1 << (MASS_BITS - 2 - (2 * rows + 1).bit_length())
    for first, end in pairwise(np.unique(np.concatenate([offsets, splits])).tolist()):
        own = values[first:end]
        scaled = np.maximum(np.rint(own / own.sum() * total).astype(np.int64), 1)
        scaled[scaled.argmax()] -= scaled.sum() - total  # the largest bears the rounding
        masses[first:end] = scaled
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
