"""Exact optimal transport between many pairs of texts, each a set of weighted points.

A chunk of pairs goes through two compiled loops: `clouds` says what each pair has to move and how
far apart it is, `simplex` moves it at the least cost, and says why it always ends. Not here:
entropic regularisation, or anything approximate; problems that are given as matrices, which POT
solves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sms.compiled import thread_pool
from sms.process import available_threads
from sms.ragged import Ragged, offsets_of, starts_of_runs
from sms.transport.clouds import JOINT, SENTENCES, WORDS, lay_out
from sms.transport.distances import SPARE_COLUMNS, SPARE_ROWS, padded_dimension
from sms.transport.simplex import Problems, Solution, room_for_mass, solve

MAX_CELLS = 1 << 26
"""Largest cost matrix that is attempted; the solver needs 20 bytes for each of its cells."""
_CHUNK_CELLS, _CHUNK_PAIRS = 1 << 18, 1 << 12
"""Most of a chunk of pairs; two megabytes of distances stay near a core between the two loops."""
_MAX_COUNT = 1 << 20  # larger totals of counts are scaled
_COLUMN = {WORDS: 0, SENTENCES: 1, JOINT: 2}
_IN_TURN = (SENTENCES, WORDS, JOINT)  # the plan of words is the head that the joint one starts from


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


@dataclass(frozen=True, slots=True)
class Plan:
    """The cells of a plan that carry mass."""

    rows: np.ndarray
    columns: np.ndarray
    mass: np.ndarray
    """Greater than 0; all of shape (n_cells,)."""


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
    if not left.size:
        return np.empty((0, 3))
    n_points = texts.members.lengths
    masses = _Masses.of(texts, int(np.minimum(n_points[left], n_points[right]).max()))
    costs = np.full((left.size, 3), np.nan)

    def solve(first: int, last: int) -> None:
        chunk = _Chunk(texts, masses, left[first:last], right[first:last], problems)
        asked = [problem for problem in _IN_TURN if problems & problem]
        solved = chunk.solve(asked).costs.reshape(-1, len(asked))
        for problem, sums in zip(asked, solved.T, strict=True):
            costs[first:last, _COLUMN[problem]] = sums / chunk.totals(problem)

    n_words = texts.splits - texts.members.offsets[:-1]
    n_read = {WORDS: n_words, SENTENCES: n_points - n_words}.get(problems, n_points)
    bounds = _chunks(n_read[left] * n_read[right])
    threads = min(threads or available_threads(), len(bounds) - 1)
    in_order = map if threads == 1 else thread_pool(threads).map  # a pool costs more than one pair
    list(in_order(solve, bounds[:-1], bounds[1:]))
    return costs


def mover_plan(texts: Clouds, left: int, right: int, problem: int) -> tuple[float, Plan]:
    """Solve one problem of a pair of texts; rows and columns count within them, words first."""
    masses = _Masses.of(texts, int(texts.members.lengths[[left, right]].min()))
    chunk = _Chunk(texts, masses, np.array([left]), np.array([right]), problem)
    solved, (total,) = chunk.solve([problem]), chunk.totals(problem)
    stays = _stays(texts, masses, left, right, problem)
    rows, columns, mass = np.concatenate([stays, chunk.moves(solved, problem)], axis=1)
    return float(solved.costs[0] / total), Plan(rows, columns, mass / total)


def _stays(texts: Clouds, masses: _Masses, left: int, right: int, problem: int) -> np.ndarray:
    """Return rows, columns and masses of the points that two texts share."""
    offsets, splits = texts.members.offsets, texts.splits
    totals = masses.totals[[left, right]]
    factors = np.lcm(*totals) // totals
    found = []
    for is_asked, start, stop in (
        (problem != SENTENCES, offsets[:-1], splits),
        (problem != WORDS, splits, offsets[1:]),
    ):
        if is_asked:
            i, j = (slice(start[text], stop[text]) for text in (left, right))
            members = texts.members.values
            _, rows, columns = np.intersect1d(
                members[i], members[j], assume_unique=True, return_indices=True
            )
            rows, columns = rows + i.start, columns + j.start
            mass = np.minimum(
                masses.weights[rows] * factors[0], masses.weights[columns] * factors[1]
            )
            found.append(np.array([rows - offsets[left], columns - offsets[right], mass]))
    return np.concatenate(found, axis=1)


@dataclass(frozen=True, slots=True)
class _Masses:
    """Weights as integers of no large sum."""

    weights: np.ndarray
    """Of every point, as in `Clouds.members`."""
    totals: np.ndarray
    """Sum over the words of each text, or over its sentences."""

    @classmethod
    def of(cls, texts: Clouds, n_rows: int) -> _Masses:
        """Scale weights down where problems of so many rows have no room for their sum."""
        weights = np.ascontiguousarray(texts.weights.values, dtype=np.int64)
        offsets, splits = texts.members.offsets, texts.splits
        running = offsets_of(weights)
        ends = np.where(splits > offsets[:-1], splits, offsets[1:])
        totals = running[ends] - running[offsets[:-1]]
        if totals.max(initial=0) <= _MAX_COUNT:
            return cls(weights, totals)
        total = 1 << room_for_mass(n_rows)
        parts = Ragged(weights.copy(), np.unique(np.concatenate([offsets, splits])))
        for part in range(len(parts)):
            scaled = parts[part]  # a view, which is written into
            scaled[:] = np.maximum(np.rint(scaled / scaled.sum() * total), 1)
            scaled[scaled.argmax()] -= scaled.sum() - total  # the largest bears the rounding
        return cls(parts.values, np.full(len(texts.members), total))


class _Chunk:
    """Pairs whose shared mass has cancelled, and the distances between what is left.

    Raises `ValueError` if a point is not finite.
    """

    def __init__(
        self, texts: Clouds, masses: _Masses, left: np.ndarray, right: np.ndarray, problems: int
    ) -> None:
        n, m = texts.members.lengths[left], texts.members.lengths[right]
        self._texts, self._masses, self._left, self._right = texts, masses, left, right
        self._blocks_at = offsets_of((n + SPARE_ROWS) * (m + SPARE_COLUMNS))
        self._blocks = np.empty(self._blocks_at[-1])
        # both sides are in one array, so that a problem can be turned round
        self._left_at, self._right_at = offsets_of(n)[:-1], n.sum() + offsets_of(m)[:-1]
        self._mass, self._place = np.empty((2, int(n.sum() + m.sum())), dtype=np.int64)
        self._n_words, self._m_words, self._n, self._m = np.empty((4, left.size), dtype=np.int64)
        most = int(max(n.max(), m.max())) + SPARE_ROWS
        x, y = np.zeros((2, most, padded_dimension(texts.word_points.shape[1])))
        squares_x, squares_y = np.empty((2, most))
        rows_x, rows_y = np.empty((2, most), np.int64)
        refused = lay_out(
            texts.word_points, texts.sentence_points, texts.members.values, masses.weights,
            texts.members.offsets, texts.splits, masses.totals, left, right, problems,
            rows_x, rows_y, x, y, squares_x, squares_y, self._blocks_at, self._blocks,
            self._left_at, self._right_at, self._mass, self._place,
            self._n_words, self._m_words, self._n, self._m,
        )  # fmt: skip
        if refused >= 0:
            raise ValueError(
                f"points must be finite, but some of the pair of texts {left[refused]} and "
                f"{right[refused]} are not"
            )

    def totals(self, problem: int) -> np.ndarray:
        """Return the integer mass of each side of every pair."""
        totals = np.lcm(self._masses.totals[self._left], self._masses.totals[self._right])
        return totals * (2 if problem == JOINT else 1)

    def solve(self, problems: Sequence[int]) -> Solution:
        """Solve some problems of every pair, all of a pair before the next pair's."""
        places = [self._places(problem) for problem in problems]
        in_turn = {
            name: np.stack([of[name] for of in places], axis=1).ravel() for name in places[0]
        }
        return solve(Problems(costs=self._blocks, masses=self._mass, **in_turn))

    def _places(self, problem: int) -> dict[str, np.ndarray]:
        """Return the fields of `Problems` that say where a problem of every pair is."""
        row, column = self._corner(problem)
        n, m = (self._n_words, self._m_words) if problem == WORDS else (self._n, self._m)
        none, width = np.zeros_like(n), self._m + SPARE_COLUMNS
        return {
            "first_cost": self._blocks_at[:-1] + row * width + column,
            "row_stride": width,
            "n_rows": n - row,
            "n_columns": m - column,
            "first_supply": self._left_at + row,
            "first_demand": self._right_at + column,
            "n_head_rows": self._n_words if problem == JOINT else none,
            "n_head_columns": self._m_words if problem == JOINT else none,
        }

    def _corner(self, problem: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the first row and column of a problem in the block of each pair."""
        if problem == SENTENCES:
            return self._n_words, self._m_words
        return np.zeros_like(self._n_words), np.zeros_like(self._m_words)

    def moves(self, solved: Solution, problem: int) -> np.ndarray:
        """Return rows, columns and masses of the last pair's plan, as places in its texts."""
        row, column = (int(of_pairs[-1]) for of_pairs in self._corner(problem))
        rows, columns, masses = solved.cells()
        rows = self._place[self._left_at[-1] + row + rows]
        columns = self._place[self._right_at[-1] + column + columns]
        return np.array([rows, columns, masses])


def _chunks(n_cells: np.ndarray) -> list[int]:
    """Cut pairs into chunks; return where each begins, and the end."""
    chunk = np.cumsum(n_cells) // _CHUNK_CELLS + np.arange(n_cells.size) // _CHUNK_PAIRS
    return [*starts_of_runs(chunk).tolist(), n_cells.size]
