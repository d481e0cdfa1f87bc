"""How many systems or documents would be needed, and what more documents would change.

By formula where there is one: Fisher's z for numbers of systems, components of variance for
numbers of documents. By simulation, from a pilot, for the power to tell two metrics apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from agreement.differences import NOT_JOINTLY_POSSIBLE, dependent_test
from agreement.intervals import fisher_interval
from agreement.levels import correlate, level_values
from agreement.matrices import (
    as_matrices,
    require_fraction,
    require_positive,
    shared_cells,
)

MOST_UNITS = 10**9
"""More than this counts as out of reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSize:
    """A number of systems or documents that would be enough."""

    n: int | None
    """None where no number is enough; then `reason` says why."""
    unit: str
    """"systems" or "documents"."""
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceComponents:
    """What makes two matrices vary together, or one vary (with itself): sources per cell."""

    systems: float
    """Covariance of the systems' true means."""
    documents: float
    """Covariance of the documents' means."""
    residual: float
    """Covariance of the rest: how a system does on a document in particular, and noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemCorrelationForecast:
    """What the system-level Pearson correlation would be with other numbers of documents."""

    value: float
    """Expected with `n_documents`; NaN where undefined."""
    limit: float
    """Expected with endless documents."""
    n_documents: int
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleSizeCurve:
    """A correlation against the number of documents it is computed from."""

    sizes: np.ndarray
    """Shape (n_sizes,); documents drawn without replacement."""
    means: np.ndarray
    deviations: np.ndarray
    """Standard deviation over draws; 0 where all documents are drawn."""
    low: np.ndarray
    high: np.ndarray
    """Percentiles over draws, all of shape (n_sizes,)."""
    n_draws: int
    n_undefined: np.ndarray
    """Draws left undefined, per size; not in the other numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedPower:
    """How often two metrics would be told apart in a study of another size."""

    value: float
    """Share of simulated studies with a two-sided p-value up to alpha."""
    standard_error: float
    """Of the share, from the number of simulations."""
    n_systems: int
    n_documents: int
    n_simulations: int
    n_undefined: int
    """Simulated studies without a p-value; they count as no difference found."""


def systems_for_correlation(r: float, *, power: float = 0.8, alpha: float = 0.05) -> SampleSize:
    """Count the systems needed to find a correlation different from zero, two-sided.

    By Fisher's z: n = ((z_alpha + z_power) / atanh(r))^2 + 3, which is for independent systems
    and Pearson; what documents add in noise is not in it (`forecast_system_correlation`).

    Parameters
    ----------
    r : float
        The correlation expected.
    power : float
        Probability of finding it.
    alpha : float
        Level of the test.

    Returns
    -------
    SampleSize
        In systems.

    Examples
    --------
    >>> systems_for_correlation(0.5).n
    30
    """
    _require_open_correlations(r=r)
    if r == 0.0:
        return SampleSize(n=None, unit="systems", reason="a correlation of 0 has nothing to find")
    wanted = _normal_sum(power, alpha) / abs(math.atanh(r))
    return _enough(wanted**2 + 3.0)


def systems_for_difference(
    r_a: float, r_b: float, r_ab: float, *, power: float = 0.8, alpha: float = 0.05
) -> SampleSize:
    """Count the systems needed to tell two metrics' correlations apart, two-sided.

    Inverts Dunn and Clark's (1969) statistic: the difference of Fisher's z over
    sqrt((2 - 2c) / (n - 3)), with c the covariance of the two.

    Parameters
    ----------
    r_a, r_b : float
        Expected correlations of the two metrics with ratings.
    r_ab : float
        Expected correlation of the metrics with each other; the higher, the fewer systems.
    power, alpha : float
        See `systems_for_correlation`.

    Returns
    -------
    SampleSize
        In systems.
    """
    _require_open_correlations(r_a=r_a, r_b=r_b, r_ab=r_ab)
    if r_a == r_b:
        return SampleSize(n=None, unit="systems", reason="equal correlations do not differ")
    # The statistic grows with sqrt(n - 3): read its size off any n.
    found = dependent_test(r_a, r_b, r_ab, 4, test="dunn1969")
    if found.reason is not None:
        return SampleSize(n=None, unit="systems", reason=found.reason)
    return _enough((_normal_sum(power, alpha) / abs(found.statistic)) ** 2 + 3.0)


def systems_for_width(r: float, width: float, *, confidence: float = 0.95) -> SampleSize:
    """Count the systems needed for a Fisher interval no wider than `width`.

    Parameters
    ----------
    r : float
        The correlation expected.
    width : float
        Upper end minus lower end.
    confidence : float
        Nominal; the interval is too narrow, so the number is a lower bound.

    Returns
    -------
    SampleSize
        In systems.
    """
    _require_open_correlations(r=r)
    if not 0.0 < width < 2.0:
        raise ValueError(f"`width` must lie between 0 and 2, both excluded, got {width:g}")

    def is_enough(n: int) -> bool:
        interval = fisher_interval(r, n, confidence=confidence)
        return interval.high - interval.low <= width

    # More systems are never wider: large steps will do.
    return _smallest(is_enough, 4, "systems", "no number of systems makes it so narrow", ratio=32.0)


def variance_components(first: np.ndarray, second: np.ndarray | None = None) -> VarianceComponents:
    """Split (co)variance over cells into systems, documents and the rest.

    Two-way analysis without replication: mean products are set equal to their expectations.
    A component may come out negative by chance.

    Parameters
    ----------
    first : ndarray, shape (n_systems, n_documents)
        NaN where missing; documents that a system lacks are left out for all.
    second : ndarray, shape (n_systems, n_documents), optional
        For covariances; without it, variances of `first`.

    Returns
    -------
    VarianceComponents
        NaN with fewer than two systems or two complete documents.
    """
    x, y = shared_cells(*as_matrices(first=first, second=first if second is None else second))
    complete = ~np.isnan(x).any(0)
    x, y = x[:, complete], y[:, complete]
    n_systems, n_documents = x.shape
    if min(n_systems, n_documents) < 2:
        return VarianceComponents(systems=np.nan, documents=np.nan, residual=np.nan)
    x, y = x - x.mean(), y - y.mean()
    by_system = n_documents * (x.mean(1) @ y.mean(1)) / (n_systems - 1)
    by_document = n_systems * (x.mean(0) @ y.mean(0)) / (n_documents - 1)
    x_rest = x - x.mean(1, keepdims=True) - x.mean(0)
    y_rest = y - y.mean(1, keepdims=True) - y.mean(0)
    rest = (x_rest * y_rest).sum() / ((n_systems - 1) * (n_documents - 1))
    return VarianceComponents(
        systems=float((by_system - rest) / n_documents),
        documents=float((by_document - rest) / n_systems),
        residual=float(rest),
    )


def forecast_system_correlation(
    scores: np.ndarray, ratings: np.ndarray, *, n_documents: int
) -> SystemCorrelationForecast:
    r"""Expect the system-level Pearson correlation for another number of documents.

    .. math:: r_D = \frac{\sigma_{xy,s} + \sigma_{xy,e} / D}
              {\sqrt{(\sigma^2_{x,s} + \sigma^2_{x,e}/D)(\sigma^2_{y,s} + \sigma^2_{y,e}/D)}}

    with components of (co)variance for systems (s) and the rest (e) from the pilot; no
    simulation. Noise that metric and ratings do not share pulls the correlation towards 0,
    and more documents undo that.

    Parameters
    ----------
    scores, ratings : ndarray, shape (n_systems, n_documents)
        The pilot; NaN where missing.
    n_documents : int
        Documents per system in the study to be planned.

    Returns
    -------
    SystemCorrelationForecast
        Undefined where the pilot shows no variance between systems.
    """
    require_positive("n_documents", n_documents)
    parts = _components(scores, ratings)
    reason = _forecast_reason(*parts)
    value = limit = np.nan
    if reason is None:
        value, limit = _forecast(parts, n_documents), _forecast(parts, math.inf)
    return SystemCorrelationForecast(
        value=value, limit=limit, n_documents=n_documents, reason=reason
    )


def documents_for_correlation(
    scores: np.ndarray, ratings: np.ndarray, *, tolerance: float = 0.05
) -> SampleSize:
    """Count the documents after which the system-level correlation no longer moves.

    Parameters
    ----------
    scores, ratings : ndarray, shape (n_systems, n_documents)
        The pilot; NaN where missing.
    tolerance : float
        Largest distance allowed between the expected correlation and its limit for endless
        documents; see `forecast_system_correlation`.

    Returns
    -------
    SampleSize
        In documents.
    """
    require_fraction("tolerance", tolerance)
    parts = _components(scores, ratings)
    reason = _forecast_reason(*parts)
    if reason:
        return SampleSize(n=None, unit="documents", reason=reason)
    limit = _forecast(parts, math.inf)

    def is_enough(n: int) -> bool:
        return abs(_forecast(parts, n) - limit) <= tolerance

    # The expected correlation has at most one turn, and is smooth in the logarithm of n.
    return _smallest(is_enough, 1, "documents", "no number of documents comes so close", ratio=1.1)


def sample_size_curve(
    scores: np.ndarray,
    ratings: np.ndarray,
    sizes: np.ndarray,
    *,
    level: str,
    coefficient: str = "pearson",
    n_draws: int = 50,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> SampleSizeCurve:
    """Correlate on random subsets of documents of growing size (Sun and Nenkova's Figure 1).

    Parameters
    ----------
    scores, ratings : ndarray, shape (n_systems, n_documents)
        NaN where missing.
    sizes : ndarray of int
        Numbers of documents, each at most the number there is.
    level, coefficient : str
        See `correlate`.
    n_draws : int
        Subsets per size. Subsets of nearly all documents overlap, so the bars shrink to
        nothing at the right end: they show how the number was come by, not its error.
    confidence : float
        Share of draws between `low` and `high`.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    SampleSizeCurve
        One point per size.
    """
    require_fraction("confidence", confidence)
    require_positive("n_draws", n_draws)
    x, y = shared_cells(*as_matrices(scores=scores, ratings=ratings))
    wanted = np.asarray(sizes, dtype=np.int64)
    outside = (wanted < 1) | (wanted > x.shape[1])
    if outside.any():
        raise ValueError(
            f"`sizes` must lie between 1 and the {x.shape[1]} documents, got {wanted[outside][0]}"
        )
    correlate(x, y, level=level, coefficient=coefficient)  # refuses unknown names early
    tail = 0.5 * (1.0 - confidence)
    rows = np.full((wanted.size, 4), np.nan)
    n_undefined = np.zeros(wanted.size, dtype=np.int64)
    for row, size in enumerate(wanted):
        values = np.empty(n_draws)
        for draw in range(n_draws):
            kept = np.sort(rng.permutation(x.shape[1])[:size])
            values[draw] = level_values(x[:, kept], y[:, kept], level, coefficient)
        defined = values[~np.isnan(values)]
        n_undefined[row] = n_draws - defined.size
        if defined.size:
            ends = np.quantile(defined, [tail, 1.0 - tail])
            rows[row] = defined.mean(), defined.std(), *ends
    return SampleSizeCurve(
        sizes=wanted,
        means=rows[:, 0],
        deviations=rows[:, 1],
        low=rows[:, 2],
        high=rows[:, 3],
        n_draws=n_draws,
        n_undefined=n_undefined,
    )


def simulated_power(
    scores_a: np.ndarray,
    scores_b: np.ndarray,
    ratings: np.ndarray,
    *,
    n_systems: int,
    n_documents: int,
    coefficient: str = "pearson",
    test: str = "williams1959",
    alpha: float = 0.05,
    n_simulations: int = 1_000,
    rng: np.random.Generator,
) -> SimulatedPower:
    """Estimate how often a study of a given size would tell two metrics apart, system level.

    Each simulated study draws systems and documents of the pilot with replacement, so it
    takes the difference seen in the pilot for the true one: with a small pilot the answer is
    as uncertain as that difference. A study with fewer than four different systems has no
    p-value and finds nothing.

    Parameters
    ----------
    scores_a, scores_b, ratings : ndarray, shape (n_systems, n_documents)
        The pilot; NaN where missing.
    n_systems, n_documents : int
        Size of the study to be planned; may exceed the pilot's.
    coefficient : str
        See `correlate`; not "kendall_c".
    test : str
        See `dependent_test`.
    alpha : float
        Level of the test.
    n_simulations : int
        Simulated studies.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    SimulatedPower
        The share, and its standard error.
    """
    if coefficient == "kendall_c":
        raise ValueError(f"`coefficient` must not be kendall_c: {NOT_JOINTLY_POSSIBLE}")
    require_fraction("alpha", alpha)
    for name, value in (
        ("n_systems", n_systems),
        ("n_documents", n_documents),
        ("n_simulations", n_simulations),
    ):
        require_positive(name, value)
    a, b, y = shared_cells(*as_matrices(scores_a=scores_a, scores_b=scores_b, ratings=ratings))
    n_found = n_undefined = 0
    for _ in range(n_simulations):
        systems = rng.integers(0, y.shape[0], n_systems)
        documents = rng.integers(0, y.shape[1], n_documents)
        cells = np.ix_(systems, documents)
        left, right = (
            np.stack([a[cells], b[cells], a[cells]]),
            np.stack([y[cells], y[cells], b[cells]]),
        )
        r_a, r_b, r_ab = level_values(left, right, "system", coefficient)
        p_value = np.nan
        if np.unique(systems).size > 3 and not np.isnan(r_a + r_b + r_ab):
            p_value = dependent_test(r_a, r_b, r_ab, n_systems, test=test).p_value
        n_undefined += int(np.isnan(p_value))
        n_found += int(p_value <= alpha)
    share = n_found / n_simulations
    return SimulatedPower(
        value=share,
        standard_error=math.sqrt(share * (1.0 - share) / n_simulations),
        n_systems=n_systems,
        n_documents=n_documents,
        n_simulations=n_simulations,
        n_undefined=n_undefined,
    )


def _components(
    scores: np.ndarray, ratings: np.ndarray
) -> tuple[VarianceComponents, VarianceComponents, VarianceComponents]:
    x, y = shared_cells(*as_matrices(scores=scores, ratings=ratings))
    return variance_components(x), variance_components(y), variance_components(x, y)


def _forecast_reason(x: VarianceComponents, y: VarianceComponents, _: object) -> str | None:
    if math.isnan(x.systems):
        return "needs at least two systems and two documents that all systems have"
    for name, part in (("scores", x), ("ratings", y)):
        if part.systems <= 0.0:
            return f"the {name} show no variance between systems beyond that within them"
    return None


def _forecast(
    parts: tuple[VarianceComponents, VarianceComponents, VarianceComponents], n: float
) -> float:
    x, y, both = parts
    variance = (x.systems + x.residual / n) * (y.systems + y.residual / n)
    value = (both.systems + both.residual / n) / math.sqrt(variance)
    return min(max(value, -1.0), 1.0)


def _smallest(
    is_enough: Callable[[int], bool], first: int, unit: str, reason: str, *, ratio: float
) -> SampleSize:
    """Smallest number from which on the condition holds, down from `MOST_UNITS`, then halving.

    From the top, since it may hold for small numbers and no longer for larger ones; `ratio`
    between the numbers tried must be small next to such a turn.
    """
    above = below = MOST_UNITS
    if not is_enough(above):
        return SampleSize(n=None, unit=unit, reason=reason)
    while above > first:
        below = max(first, min(above - 1, int(above / ratio)))
        if not is_enough(below):
            break
        above = below
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if is_enough(middle) else (middle, above)
    return SampleSize(n=above, unit=unit)


def _enough(wanted: float) -> SampleSize:
    if wanted > MOST_UNITS:
        return SampleSize(n=None, unit="systems", reason="more than any study could have")
    return SampleSize(n=max(math.ceil(wanted), 4), unit="systems")


def _normal_sum(power: float, alpha: float) -> float:
    require_fraction("power", power)
    require_fraction("alpha", alpha)
    return float(stats.norm.ppf(1.0 - 0.5 * alpha) + stats.norm.ppf(power))


def _require_open_correlations(**named: float) -> None:
    for name, value in named.items():
        if not -1.0 < value < 1.0:
            raise ValueError(f"`{name}` must lie strictly between -1 and 1, got {value:g}")
