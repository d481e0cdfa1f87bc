"""Agreement among raters: Krippendorff's published example, laws, leave-one-out."""

import numpy as np
import pytest

from agreement import correlate, krippendorff_alpha, leave_one_out

# Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", section C: four observers,
# twelve units, missing values. 0 stands for missing.
PUBLISHED = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3],
        [0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0],
    ],
    dtype=float,
)
PUBLISHED[PUBLISHED == 0] = np.nan


@pytest.mark.parametrize(
    ("measurement", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_alpha_matches_publication(measurement, alpha):
    result = krippendorff_alpha(PUBLISHED, measurement=measurement)
    assert result.value == pytest.approx(alpha, abs=5e-4)
    # The twelfth unit has one rating only and is not pairable.
    assert result.n_units == 11


def test_leave_one_out_by_hand(rng):
    ratings = rng.integers(1, 6, size=(3, 6, 5)).astype(float)
    ratings[1, 2, 3] = np.nan
    how = {"level": "system", "coefficient": "kendall_b"}
    others = [np.nanmean(np.delete(ratings, k, axis=0), axis=0) for k in range(3)]
    values = [correlate(*each, **how).value for each in zip(ratings, others, strict=True)]
    assert leave_one_out(ratings, **how).value == pytest.approx(np.mean(values))


@pytest.mark.parametrize(
    "ratings",
    [
        [[0.1, 0.9, 0.5], [0.2, 0.3, 0.9], [0.3, 0.2, 0.9]],  # one taken off
        [[0.1, 0.4, 0.2], [0.1, 0.3, 0.9], [0.2, 0.2, 0.9], [0.3, 0.1, 0.9]],  # another order
    ],
)
def test_equal_means_of_the_others_are_tied(ratings):
    stack = np.array(ratings)[..., None]
    found, exact = (
        leave_one_out(each, level="summary", coefficient="kendall_b").value
        for each in (stack, np.round(10 * stack))  # whole numbers have no rounding
    )
    assert found == exact


@pytest.mark.parametrize(
    ("measure", "ratings", "reason"),
    [
        (krippendorff_alpha, np.array([[1, np.nan], [np.nan, 2]]), "no unit has two ratings"),
        (krippendorff_alpha, np.full((2, 3), 4.0), "all ratings are equal"),
        (leave_one_out, np.ones((1, 3, 2)), "needs at least 2 raters, got 1"),
        (leave_one_out, np.ones((2, 3, 2)), "undefined for every rater; first: scores and ratings"),
    ],
)
def test_undefined_with_its_reason(measure, ratings, reason):
    how = {"level": "system"} if measure is leave_one_out else {}
    result = measure(ratings, **how)
    assert np.isnan(result.value)
    assert result.reason.startswith(reason)
