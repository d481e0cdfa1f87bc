"""Preferences of people: sign tests, shares of wins, agreement, Davidson's strengths."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from agreement.preferences import (
    davidson_strengths,
    judge_agreement,
    majorities,
    redrawn_counts,
    resampled_counts,
    sign_test,
    strength_intervals,
    win_share,
)

TWO = np.array([[0, 1]])
THREE = np.array([[0, 1], [0, 2], [1, 2]])


@pytest.mark.parametrize(("first", "second"), [(0, 3), (4, 9), (7, 7), (12, 2)])
def test_sign_test_sums_the_tails(first, second):
    n = first + second
    tail = sum(math.comb(n, k) for k in range(min(first, second) + 1)) / 2**n
    assert sign_test(first, second) == pytest.approx(min(2 * tail, 1.0), abs=1e-12)
    upper = sum(math.comb(n, k) for k in range(second, n + 1)) / 2**n
    assert sign_test(first, second, alternative="greater") == pytest.approx(upper, abs=1e-12)


def test_all_ties_are_undefined():
    assert math.isnan(sign_test(0, 0))
    share = win_share(0, 0)
    assert math.isnan(share.value)
    assert share.reason == "no judgement prefers either"


def test_negative_count_rejected():
    with pytest.raises(ValueError, match=r"`n_second` must not be negative, got -1"):
        sign_test(3, -1)


def test_wilson_interval_by_its_formula():
    n, p, z = 50, 0.7, stats.norm.ppf(0.975)
    middle = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    found = win_share(15, 35)
    assert (found.low, found.high) == pytest.approx((middle - half, middle + half), abs=1e-12)
    assert found.method == "wilson"


def test_clopper_pearson_interval_by_beta_quantiles():
    found = win_share(15, 35, confidence=0.9, method="clopper-pearson")
    ends = stats.beta.ppf(0.05, 35, 16), stats.beta.ppf(0.95, 36, 15)
    assert (found.low, found.high) == pytest.approx(ends, abs=1e-9)


def test_unknown_interval_rejected():
    with pytest.raises(ValueError, match="`method` must be one of wilson, clopper-pearson"):
        win_share(1, 2, method="wald")


def test_majorities_by_hand():
    items = np.array([[3, 0, 0], [1, 2, 0], [1, 1, 1], [0, 1, 2], [0, 0, 0], [0, 0, 3]])
    assert majorities(items).tolist() == [1, 2, 2]


def test_agreement_by_hand():
    # items: three of a kind (3 equal pairs of 3), two and one (1 of 3), one judge only
    outcomes = np.array([[1, 0, 2], [1, 0, np.nan], [1, 2, np.nan]])
    found = judge_agreement(outcomes)
    assert found.share_equal == pytest.approx(4 / 6)
    assert found.n_items == 2
    # observed disagreement (2 + 2) / (2 * 6); expected: 1 - sum n_c (n_c - 1) / (n (n - 1))
    expected = 1 - (3 * 2 + 2 * 1 + 1 * 0) / (6 * 5)
    assert found.alpha.value == pytest.approx(1 - (1 / 3) / expected)


def test_agreement_without_repeats_is_undefined():
    found = judge_agreement(np.array([[0.0, 1.0, 2.0]]))
    assert math.isnan(found.share_equal)
    assert math.isnan(found.alpha.value)


@pytest.mark.parametrize(("first", "second", "ties"), [(10, 40, 20), (76, 122, 102), (5, 3, 0)])
def test_strengths_of_two_systems_in_closed_form(first, second, ties):
    """As many parameters as shares: odds = wins / wins, nu = ties / sqrt(wins * wins)."""
    found = davidson_strengths(np.array([[first, second, ties]]), TWO, 2)
    gap = np.diff(found.log_strengths)[0]
    assert gap == pytest.approx(math.log(second / first), abs=1e-9)
    assert found.tie_rate == pytest.approx(ties / math.sqrt(first * second), abs=1e-9)
    assert found.log_strengths.sum() == pytest.approx(0.0, abs=1e-12)


def negative_log_likelihood(parameters, counts, pairs):
    """Davidson 1970, written out pair by pair."""
    strengths, nu = np.exp(np.append(0.0, parameters[:-1])), np.exp(parameters[-1])
    total = 0.0
    for (i, j), (wins_i, wins_j, ties) in zip(pairs, counts, strict=True):
        tie = nu * math.sqrt(strengths[i] * strengths[j])
        whole = strengths[i] + strengths[j] + tie
        total += wins_i * math.log(strengths[i] / whole) + wins_j * math.log(strengths[j] / whole)
        total += ties * math.log(tie / whole)
    return -total


@pytest.mark.parametrize("seed", range(5))
def test_strengths_match_a_general_optimiser(seed):
    counts = np.random.default_rng(seed).integers(1, 60, (3, 3))
    best = optimize.minimize(
        negative_log_likelihood, np.zeros(3), (counts, THREE), method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 5_000},
    )  # fmt: skip
    found = davidson_strengths(counts, THREE, 3)
    np.testing.assert_allclose(np.diff(found.log_strengths), np.diff([0.0, *best.x[:2]]), atol=1e-5)
    assert math.log(found.tie_rate) == pytest.approx(best.x[2], abs=1e-5)


def test_fit_repeats_wins_and_ties():
    """At the maximum, expected wins plus half ties of each system, and all ties, are observed."""
    counts = np.random.default_rng(8).integers(0, 9, (6, 3)) + 1
    pairs = np.array([[0, 1], [0, 2], [3, 0], [1, 2], [1, 3], [3, 2]])
    fit = davidson_strengths(counts, pairs, 4)
    strengths = np.exp(fit.log_strengths)
    observed, expected = np.zeros(4), np.zeros(4)
    ties = 0.0
    for (i, j), row in zip(pairs, counts, strict=True):
        weights = np.array([strengths[i], strengths[j], 0.0])
        weights[2] = fit.tie_rate * math.sqrt(strengths[i] * strengths[j])
        shares = row.sum() * weights / weights.sum()
        ties += shares[2]
        for points, (a, b, tie) in ((observed, row), (expected, shares)):
            points[i] += a + tie / 2
            points[j] += b + tie / 2
    np.testing.assert_allclose(expected, observed, rtol=1e-9)
    assert ties == pytest.approx(counts[:, 2].sum(), rel=1e-9)


def test_turning_a_pair_changes_nothing():
    counts = np.array([[5, 9, 4], [7, 3, 2], [6, 6, 1]])
    turned, pairs = counts.copy(), THREE.copy()
    turned[1, :2], pairs[1] = counts[1, 1::-1], THREE[1, ::-1]
    one, other = davidson_strengths(counts, THREE, 3), davidson_strengths(turned, pairs, 3)
    np.testing.assert_allclose(one.log_strengths, other.log_strengths, atol=1e-10)


def test_rows_of_one_pair_are_added_up():
    """In whatever order the rows are, and whichever way round the pair is in them."""
    whole = davidson_strengths(np.array([[10, 45, 20]]), TWO, 2)
    halves = np.array([[10, 40, 20], [0, 5, 0]])
    turned = np.array([[10, 40, 20], [5, 0, 0]])
    for counts, pairs in (
        (halves, TWO.repeat(2, axis=0)),
        (halves[::-1], TWO.repeat(2, axis=0)),
        (turned, np.array([[0, 1], [1, 0]])),
    ):
        found = davidson_strengths(counts, pairs, 2)
        np.testing.assert_allclose(found.log_strengths, whole.log_strengths, atol=1e-9)
        assert found.tie_rate == pytest.approx(whole.tie_rate, abs=1e-9)


UNDEFINED = [
    pytest.param([[10, 0, 0]], TWO, 2, id="one-never-wins"),
    pytest.param([[10, 0, 5]], TWO, 2, id="one-only-ties"),
    pytest.param([[0, 0, 5]], TWO, 2, id="only-ties"),
    pytest.param([[3, 2, 1], [4, 0, 0], [2, 0, 0]], THREE, 3, id="third-never-wins"),
    pytest.param([[3, 2, 0], [3, 2, 0]], np.array([[0, 1], [2, 3]]), 4, id="not-connected"),
]


@pytest.mark.parametrize(("counts", "pairs", "n_systems"), UNDEFINED)
def test_strengths_without_a_finite_maximum_are_undefined(counts, pairs, n_systems):
    found = davidson_strengths(np.array(counts), pairs, n_systems)
    assert not found.is_defined
    assert np.isnan(found.log_strengths).all()


def test_circle_of_wins_is_enough():
    """No pair in which both win, yet everybody beats somebody: equal strengths by symmetry."""
    found = davidson_strengths(np.array([[4, 0, 1], [0, 4, 1], [4, 0, 1]]), THREE, 3)
    np.testing.assert_allclose(found.log_strengths, 0.0, atol=1e-9)


def test_sets_of_counts_are_fitted_apart():
    rng = np.random.default_rng(4)
    counts = rng.integers(0, 6, (50, 3, 3))
    together = davidson_strengths(counts, THREE, 3)
    assert 0 < together.is_defined.sum() <= 50
    for k in range(50):
        alone = davidson_strengths(counts[k], THREE, 3)
        np.testing.assert_allclose(together.log_strengths[k], alone.log_strengths, atol=1e-6)


def test_large_and_lopsided_counts_settle():
    counts = np.array([[1, 1_000_000, 3], [2, 900_000, 1], [500_000, 400_000, 1]])
    found = davidson_strengths(counts, THREE, 3)
    assert found.is_defined
    assert found.log_strengths[0] < found.log_strengths[2] < found.log_strengths[1]


WRONG = [
    ([[1, 2]], TWO, "the last one of 3 outcomes"),
    ([[1, 2, -3]], TWO, "`counts` must not be negative, got -3"),
    ([[1, 2, 3]], np.array([[0, 2]]), "`pairs` must number 2 systems from 0"),
    ([[1, 2, 3]], np.array([[1, 1]]), "`pairs` must hold two different systems a row"),
    ([[1, 2, 3]] * 2, TWO, "`counts` must have a row for each of 1 pairs"),
]


@pytest.mark.parametrize(("counts", "pairs", "message"), WRONG)
def test_wrong_counts_rejected(counts, pairs, message):
    with pytest.raises(ValueError, match=message):
        davidson_strengths(np.array(counts), pairs, 2)


def intervals(items, *, n_resamples=400):
    resamples = resampled_counts(items, n_resamples=n_resamples, rng=np.random.default_rng(1))
    return strength_intervals(items.sum(0), resamples, TWO, 2, method="bootstrap-items")


def test_three_judges_who_always_agree_count_as_one():
    """The same items are drawn, and tripled counts have the same strengths."""
    items = np.random.default_rng(3).multinomial(1, [0.3, 0.5, 0.2], size=(60, 1))
    once, thrice = intervals(items), intervals(3 * items)
    for one, three in zip(once, thrice, strict=True):
        assert (three.low, three.high) == pytest.approx((one.low, one.high), abs=1e-6)


def test_redrawn_judgements_keep_their_number_and_match_the_delta_method():
    counts = np.array([[300, 600, 100]])
    resamples = redrawn_counts(counts, n_resamples=4_000, rng=np.random.default_rng(0))
    assert (resamples.sum(-1) == 1_000).all()
    found = strength_intervals(counts, resamples, TWO, 2, method="bootstrap-judgements")[1]
    # The gap of log-strengths has variance 1/300 + 1/600; each strength is half of it.
    half = 0.5 * stats.norm.ppf(0.975) * math.sqrt(1 / 300 + 1 / 600)
    assert found.high - found.low == pytest.approx(2 * half, rel=0.06)
    assert found.value == pytest.approx(0.5 * math.log(2))


def test_undefined_resamples_are_counted():
    counts = np.array([[1, 12, 0]])
    resamples = redrawn_counts(counts, n_resamples=500, rng=np.random.default_rng(0))
    found = strength_intervals(counts, resamples, TWO, 2, method="bootstrap-judgements")[0]
    assert found.n_undefined == (resamples[:, 0, 0] == 0).sum() > 0


def test_undefined_strengths_say_why():
    counts = np.array([[9, 0, 0]])
    found = strength_intervals(counts, counts[None], TWO, 2, method="bootstrap-items")
    assert math.isnan(found[0].low)
    assert "some systems never lose to the others" in found[0].reason
