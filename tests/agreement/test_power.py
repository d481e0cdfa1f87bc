"""Numbers of systems and documents needed."""

import numpy as np
import pytest
from scipy import linalg

from agreement import documents_for_correlation, systems_for_correlation
from agreement.power import variance_components


# r and n for 80 % power at 5 %, two-sided: any table of the correlation t-test, to one unit.
@pytest.mark.parametrize(("r", "n"), [(0.1, 783), (-0.5, 30), (0.7, 14), (0.0, None)])
def test_systems_for_correlation_matches_tables(r, n):
    assert systems_for_correlation(r) == n


def expected_correlation(pilot, n_documents):
    """Of system means over so many documents, by the formula, from the pilot's components."""
    x, y, both = (variance_components(*each) for each in ((pilot[0],), (pilot[1],), pilot))
    shared = both.systems + both.residual / n_documents
    variances = [part.systems + part.residual / n_documents for part in (x, y)]
    return shared / np.sqrt(variances[0] * variances[1])


def test_documents_for_correlation_is_the_smallest_number(rng):
    quality = rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], size=100).T
    pilot = quality[:, :, None] + 2.0 * rng.normal(size=(2, 100, 30))
    found = documents_for_correlation(*pilot)
    distances = [abs(expected_correlation(pilot, n) - found.limit) for n in (found.n, found.n - 1)]
    assert distances[0] <= 0.05 < distances[1]
    clear = quality[:, :, None] + 0.01 * rng.normal(size=(2, 100, 30))
    assert documents_for_correlation(*clear).n == 1


def test_documents_for_correlation_looks_past_a_small_number_that_happens_to_be_close():
    """With one document r is near its limit, with ten far above: shared noise goes first."""
    of_systems, of_rest = np.array([[1, 0.5], [0.5, 1]]), np.array([[50, 4.3], [4.3, 1]])
    contrasts, document = linalg.hadamard(4)[1:].astype(float), linalg.hadamard(8)[1]
    # Four systems, eight documents; mean products are these covariances exactly.
    means = np.linalg.cholesky(3 / 4 * (of_systems + of_rest / 8)) @ contrasts[:2]
    rest = np.linalg.cholesky(21 / 32 * of_rest) @ contrasts[:2]
    scores, ratings = means[..., None] + rest[..., None] * document

    n = np.arange(1, 10_000)
    (xx, xy), (_, yy) = of_systems[..., None] + of_rest[..., None] / n
    is_far = np.abs(xy / np.sqrt(xx * yy) - 0.5) > 0.05
    assert not is_far[0]
    assert documents_for_correlation(scores, ratings).n == n[is_far][-1] + 1


def test_pilot_without_system_variance_forecasts_nothing(rng):
    noise = rng.normal(size=(2, 5, 50))
    noise -= noise.mean(axis=2, keepdims=True)
    result = documents_for_correlation(*noise)
    assert result.n is None
    assert np.isnan(result.limit)
    assert "no variance between systems" in result.reason
    assert "two documents" in documents_for_correlation(np.ones((1, 3)), np.ones((1, 3))).reason
