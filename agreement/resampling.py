"""Coefficients of many metrics and aspects under thousands of resamples, all at once.

A resample is a vector of counts, how often each system and each document was drawn. Counts
are drawn once and shared by every metric, aspect and level, which makes differences of two
metrics paired, and turns the work into matrix products:

- system level: resampled system means are one product of scores with document counts;
- summary level: documents are visited one after the other, with all metrics, aspects and
  resamples of systems together, then weighted with the document counts;
- global level: cells are weighted with the product of their two counts. Kendall, quadratic in
  cells, is folded over unordered pairs of systems and of documents, a quarter of the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from agreement.cell_pairs import exact_kind, resampled_kendall_of_cells, rows_of
from agreement.coefficients import (
    COEFFICIENTS,
    all_pairs,
    all_pairs_of_fixed,
    blank_nearly_constant,
    combine_all,
    kendall_norms,
    merge_close,
    tie_classes,
)
from agreement.intervals import CONFIDENCE
from agreement.levels import LEVELS
from agreement.matrices import as_stack, require_choice

CHUNK_NUMBERS = 200_000
"""Numbers in the largest array of one step; resamples are taken so many at a time that it fits.
Twice as much or half as much is as quick; ten times as much leaves the processor's cache."""

Array = np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Resamples:
    """How often each system and each document was drawn, in every resample."""

    system_counts: Array
    """Shape (n_resamples, n_systems), or (1, n_systems) of ones where systems stay."""
    document_counts: Array
    """Shape (n_resamples, n_documents), or (1, n_documents) of ones where documents stay."""

    @property
    def n_resamples(self) -> int:
        """How many there are."""
        return max(len(self.system_counts), len(self.document_counts))


@dataclass(frozen=True, slots=True, eq=False)
class SampleSizeCurve:
    """Correlations against the number of documents: (n_sizes, n_metrics, n_aspects) each."""

    means: np.ndarray
    deviations: np.ndarray
    """Standard deviation over draws; 0 where all documents are drawn."""
    low: np.ndarray
    high: np.ndarray
    """Percentiles over draws."""
    n_undefined: np.ndarray
    """Draws left undefined; not in the other numbers."""


def draw_resamples(
    n_systems: int, n_documents: int, *, n_resamples: int, rng: np.random.Generator
) -> Resamples:
    """Draw systems and documents with replacement, as counts for matrices of this size."""
    return Resamples(
        *(draw_counts(n, n_resamples=n_resamples, rng=rng) for n in (n_systems, n_documents))
    )


def draw_counts(n: int, *, n_resamples: int, rng: np.random.Generator) -> Array:
    """Draw n of n with replacement; how often each was drawn, shape (n_resamples, n)."""
    return rng.multinomial(n, np.full(n, 1.0 / n), size=n_resamples).astype(np.float64)


def resampled_correlations(
    scores: Array, ratings: Array, resamples: Resamples, *, level: str, coefficient: str = "pearson"
) -> Array:
    """Compute every metric's coefficient with every aspect in every resample.

    Equal to building each resampled pair of matrices and calling `correlate`, several hundred
    times faster. Each metric and aspect are compared on the cells both have. Kendall at global
    level takes time quadratic in cells.

    Scores have shape (n_metrics, n_systems, n_documents), ratings (n_aspects, ...), the result
    (n_resamples, n_metrics, n_aspects): NaN where the resample leaves the coefficient undefined.
    Raises `ValueError` if sizes disagree, or a name is not known.
    """
    require_choice("level", level, LEVELS)
    require_choice("coefficient", coefficient, COEFFICIENTS)
    metrics, aspects = as_stack("scores", scores, 3), as_stack("ratings", ratings, 3)
    drawn = resamples.system_counts.shape[1], resamples.document_counts.shape[1]
    if not drawn == metrics.shape[1:] == aspects.shape[1:]:
        raise ValueError(
            f"`resamples` must be drawn for {metrics.shape[1:]} systems and documents, and "
            f"`ratings` cover these, got {drawn} and {aspects.shape[1:]}"
        )
    chunk = max(64, CHUNK_NUMBERS // _numbers_per_resample(metrics, aspects, level, coefficient))
    parts = []
    for start in range(0, resamples.n_resamples, chunk):
        rows = slice(start, min(start + chunk, resamples.n_resamples))
        system_counts = rows_of(resamples.system_counts, rows)
        document_counts = rows_of(resamples.document_counts, rows)
        given = system_counts, document_counts, coefficient
        if level == "summary":
            parts.append(_summary_level(metrics, aspects, *given))
            continue
        n_rows = max(len(system_counts), len(document_counts))
        part = np.full((n_rows, len(metrics), len(aspects)), np.nan)
        step = _system_level if level == "system" else _global_level
        for m, a, joint in _blocks(~np.isnan(metrics), ~np.isnan(aspects)):
            if joint.sum() >= 2:
                part[:, m[:, None], a] = step(metrics[m], aspects[a], joint, *given)
        parts.append(part)
    return np.concatenate(parts)


def sample_size_curve(
    scores: np.ndarray,
    ratings: np.ndarray,
    sizes: np.ndarray,
    *,
    level: str,
    coefficient: str = "pearson",
    n_draws: int = 50,
    rng: np.random.Generator,
) -> SampleSizeCurve:
    """Correlate on random subsets of documents of growing size (Sun and Nenkova's Figure 1).

    Scores have shape (n_metrics, n_systems, n_documents), ratings (n_aspects, ...); all share the
    `n_draws` subsets of each size. Subsets of nearly all documents overlap, so the bars shrink to
    nothing at the right end: they show how the number was come by, not its error.
    """
    n_systems, n_documents = scores.shape[1:]
    drawn = np.concatenate(
        [
            (np.argsort(rng.random((n_draws, n_documents)), axis=1) < size).astype(np.float64)
            for size in sizes
        ]
    )
    subsets = Resamples(np.ones((1, n_systems)), drawn)
    values = resampled_correlations(
        scores, ratings, subsets, level=level, coefficient=coefficient
    ).reshape(len(sizes), n_draws, len(scores), len(ratings))
    n_undefined = np.isnan(values).sum(1)
    tail = 0.5 * (1.0 - CONFIDENCE)
    curve = np.full((4, *n_undefined.shape), np.nan)
    for s, m, k in np.argwhere(n_undefined < n_draws):
        defined = values[s, :, m, k][~np.isnan(values[s, :, m, k])]
        ends = np.quantile(defined, [tail, 1.0 - tail])
        curve[:, s, m, k] = defined.mean(), defined.std(), *ends
    means, deviations, low, high = curve
    return SampleSizeCurve(means, deviations, low, high, n_undefined)


def _numbers_per_resample(metrics: Array, aspects: Array, level: str, coefficient: str) -> int:
    n_variables, n_systems, n_documents = len(metrics) + len(aspects), *metrics.shape[1:]
    is_kendall = coefficient.startswith("kendall")
    n_pairs = n_systems * (n_systems - 1) // 2
    if level == "global":
        return 1 if is_kendall else n_variables * n_systems * n_documents
    if level == "summary" and is_kendall:
        return max(len(metrics) * len(aspects), n_pairs, 1)
    return n_variables * (n_pairs if is_kendall else n_systems) + 1


def _blocks(metrics_have: Array, aspects_have: Array) -> Iterator[tuple[Array, Array, Array]]:
    """Yield the metrics and aspects that share one pattern of cells, and the pattern."""
    for which_metrics, pattern in _patterns(metrics_have):
        for which_aspects, other in _patterns(aspects_have):
            yield which_metrics, which_aspects, pattern & other


def _patterns(have: Array) -> list[tuple[Array, Array]]:
    groups: dict[bytes, list[int]] = {}
    for index, pattern in enumerate(have):
        groups.setdefault(pattern.tobytes(), []).append(index)
    return [(np.array(members), have[members[0]]) for members in groups.values()]


def _system_level(
    x: Array, y: Array, joint: Array, system_counts: Array, document_counts: Array, coefficient: str
) -> Array:
    n_cells = document_counts @ joint.T.astype(np.float64)
    x, y = (_resampled_means(each, joint, document_counts, n_cells) for each in (x, y))
    return all_pairs(x, y, system_counts * (n_cells > 0), coefficient)


def _resampled_means(stack: Array, joint: Array, document_counts: Array, n_cells: Array) -> Array:
    """System means, shape (n_rows, n_variables, n_systems); NaN without a cell."""
    filled = np.where(joint, stack, 0.0)
    n_cells = n_cells[:, None, :]

    def means_of(cells: Array) -> Array:
        sums = document_counts @ cells.reshape(-1, cells.shape[-1]).T
        sums = sums.reshape(len(document_counts), *cells.shape[:2])
        return np.where(n_cells > 0, sums / np.maximum(n_cells, 1.0), np.nan)

    means = means_of(filled)
    return merge_close(means, means_of(np.abs(filled)) if (filled < 0).any() else means)


def _summary_level(
    metrics: Array, aspects: Array, system_counts: Array, document_counts: Array, coefficient: str
) -> Array:
    n_rows = max(len(system_counts), len(document_counts))
    sums = np.zeros((n_rows, len(metrics), len(aspects)))
    n_defined = np.zeros_like(sums)
    correlate = _inside_documents(system_counts, coefficient)
    for document in range(metrics.shape[-1]):
        x, y = metrics[..., document], aspects[..., document]
        counts = document_counts[:, document, None, None]
        for m, a, joint in _blocks(~np.isnan(x), ~np.isnan(y)):
            if joint.sum() < 2:
                continue
            values = correlate(x[m], y[a], joint)
            is_defined = ~np.isnan(values)
            values[~is_defined] = 0.0
            block = slice(None), m[:, None], a
            sums[block] += counts * values
            n_defined[block] += counts * is_defined
    return np.where(n_defined > 0, sums / np.maximum(n_defined, 1.0), np.nan)


def _inside_documents(
    system_counts: Array, coefficient: str
) -> Callable[[Array, Array, Array], Array]:
    """Make the function that correlates across the `joint` systems inside one document.

    It makes (n_rows, n_metrics, n_aspects) of (n_metrics, n_systems) and (n_aspects, n_systems).
    """
    is_kendall, n_systems = coefficient.startswith("kendall"), system_counts.shape[1]
    i, j = np.triu_indices(n_systems, 1)
    kind = exact_kind(n_systems)
    if is_kendall:
        pair_counts = (system_counts[:, i] * system_counts[:, j]).astype(kind)

    def signs(classes: Array, joint: Array) -> Array:
        """Signs of the differences of all pairs of systems, 0 for a pair not in `joint`."""
        of_all = np.zeros((len(classes), joint.size), dtype=np.int64)
        of_all[:, joint] = classes
        return (np.sign(of_all[:, i] - of_all[:, j]) * (joint[i] & joint[j])).astype(kind)

    def correlate(x: Array, y: Array, joint: Array) -> Array:
        counts = np.ascontiguousarray(system_counts[:, joint])
        x, y = x[:, joint], y[:, joint]
        if not is_kendall:
            return all_pairs_of_fixed(x, y, counts, coefficient)
        classes = tie_classes(x), tie_classes(y)
        left, right = (signs(each, joint) for each in classes)
        products = (left[:, None] * right[None]).reshape(-1, i.size)
        numerator = (pair_counts @ products.T).reshape(-1, len(x), len(y))
        x_norms, y_norms = (kendall_norms(each, counts) for each in classes)
        result = combine_all(numerator, x_norms, y_norms)
        return blank_nearly_constant(result, x, y, counts)

    return correlate


def _global_level(
    x: Array, y: Array, joint: Array, system_counts: Array, document_counts: Array, coefficient: str
) -> Array:
    if coefficient.startswith("kendall"):
        return resampled_kendall_of_cells(x, y, joint, system_counts, document_counts)
    cells = (system_counts[:, :, None] * document_counts[:, None, :])[:, joint]
    return all_pairs_of_fixed(x[:, joint], y[:, joint], cells, coefficient)
