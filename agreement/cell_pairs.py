"""Kendall over all cells of two matrices, in thousands of resamples of systems and documents."""

from __future__ import annotations

import numpy as np

from agreement.coefficients import blank_nearly_constant, combine_all, kendall_norms, tie_classes

FORM_NUMBERS = 4_000_000
"""Numbers in one block of signs, and in one block of products of counts."""

EXACT_IN_FLOAT32 = 2**24
"""Whole numbers up to here survive float32, which multiplies matrices twice as fast."""

Array = np.ndarray


def resampled_kendall_of_cells(
    metrics: Array,
    aspects: Array,
    joint: Array,
    system_counts: Array,
    document_counts: Array,
) -> Array:
    """Compute tau-b over the `joint` cells, shape (n_resamples, n_metrics, n_aspects).

    The weight of a pair of cells (i, d) and (j, e) is s_i s_j w_d w_e, so the sum runs over
    unordered pairs of systems times unordered pairs of documents, each standing for two pairs
    of cells (or one, where a system or a document is paired with itself).
    """
    x, y = metrics[:, joint], aspects[:, joint]
    classes = tie_classes(x), tie_classes(y)
    products = _PairForms(joint, system_counts, document_counts).sums(*classes)
    result = np.empty_like(products)
    chunk = max(1, FORM_NUMBERS // joint.size)
    for start in range(0, len(result), chunk):
        rows = slice(start, start + chunk)
        systems, documents = rows_of(system_counts, rows), rows_of(document_counts, rows)
        cells = (systems[:, :, None] * documents[:, None, :])[:, joint]
        x_norms, y_norms = (kendall_norms(each, cells) for each in classes)
        values = combine_all(products[rows], x_norms, y_norms)
        result[rows] = blank_nearly_constant(values, x, y, cells)
    return result


def exact_kind(n: int) -> type[np.floating]:
    """Kind of float that holds sums of up to n squared exactly, the faster one if it does."""
    return np.float32 if n**2 < EXACT_IN_FLOAT32 else np.float64


def rows_of(counts: Array, rows: slice) -> Array:
    """Return these resamples' counts, or the one row that holds for all of them."""
    return counts if len(counts) == 1 else counts[rows]


class _PairForms:
    """Sums of products of signs over all pairs of cells, weighted with resamples' counts."""

    def __init__(self, joint: Array, system_counts: Array, document_counts: Array) -> None:
        self._joint = joint
        self._i, self._j = np.triu_indices(joint.shape[0])
        self._d, self._e = np.triu_indices(joint.shape[1])
        self._system_pairs = system_counts[:, self._i] * system_counts[:, self._j]
        self._document_counts = document_counts.astype(exact_kind(joint.shape[1]))
        self._n_resamples = max(len(system_counts), len(document_counts))

    def sums(self, x: Array, y: Array) -> Array:
        """Concordant minus discordant weight, shape (n_resamples, n_x, n_y); by tie classes."""
        x, y = (self._laid_out(classes) for classes in (x, y))
        result = np.zeros((self._n_resamples, len(x), len(y)))
        step = max(1, FORM_NUMBERS // (self._d.size * (len(y) + 1)))
        for start in range(0, self._i.size, step):
            pairs = slice(start, start + step)
            y_signs = [self._signs(classes, pairs) for classes in y]
            for row, classes in enumerate(x):
                straight, crossed = self._signs(classes, pairs)
                forms = [straight * a + crossed * b for a, b in y_signs]
                result[:, row] += self._weighted(forms, pairs)
        return result

    def _laid_out(self, classes: Array) -> Array:
        matrices = np.zeros((len(classes), *self._joint.shape), dtype=np.int32)
        matrices[:, self._joint] = classes
        return matrices

    def _signs(self, classes: Array, pairs: slice) -> tuple[Array, Array]:
        """Signs of cell (i, d) against (j, e), and of (i, e) against (j, d), 0 if no other pair."""
        i, j, d, e = self._i[pairs], self._j[pairs], self._d, self._e
        have, is_missing = self._joint, not self._joint.all()

        def signs(columns_i: Array, columns_j: Array) -> Array:
            left, right = classes[i][:, columns_i], classes[j][:, columns_j]
            result = np.sign(left - right).astype(np.int8)
            if is_missing:
                result *= have[i][:, columns_i] & have[j][:, columns_j]
            return result

        crossed = signs(e, d)
        crossed[i == j] = 0
        crossed[:, d == e] = 0
        return signs(d, e), crossed

    def _weighted(self, forms: list[Array], pairs: slice) -> Array:
        """Weigh forms (pairs of systems, pairs of documents); shape (n_resamples, n_forms)."""
        system_pairs = self._system_pairs[:, pairs]
        if len(system_pairs) == 1:
            forms = [system_pairs @ form for form in forms]
            system_pairs = np.ones((1, 1))
        stacked = np.concatenate(forms).astype(self._document_counts.dtype).T
        result = np.zeros((self._n_resamples, len(forms)))
        chunk = max(1, FORM_NUMBERS // self._d.size)
        for start in range(0, self._n_resamples, chunk):
            rows = slice(start, start + chunk)
            documents = rows_of(self._document_counts, rows)
            folded = (documents[:, self._d] * documents[:, self._e]) @ stacked
            folded = folded.reshape(len(folded), len(forms), -1)
            systems = rows_of(system_pairs, rows)
            result[rows] = np.matmul(folded, systems[:, :, None])[..., 0]
        return result
