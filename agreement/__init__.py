"""Statistics on matrices of scores and human ratings: numpy and scipy only, nothing is read.

A matrix has shape (n_systems, n_documents), NaN where a cell is missing. Every function is
pure; randomness comes in as a generator; what cannot be computed is NaN with a reason.
"""

from agreement.accuracy import calibrate_ties, soft_pairwise_accuracy
from agreement.coefficients import COEFFICIENTS
from agreement.differences import DifferenceTest, compare_correlations, holm
from agreement.intervals import Interval
from agreement.letters import compact_letters
from agreement.levels import (
    LEVELS,
    Correlation,
    correlate,
    correlation_test,
    partial_correlate,
    system_means,
)
from agreement.matrices import TIE_RTOL, duplicate_systems, shared_cells
from agreement.power import documents_for_correlation, systems_for_correlation
from agreement.ranking import compare_systems, mean_intervals
from agreement.raters import krippendorff_alpha, leave_one_out
from agreement.resampling import (
    Resamples,
    draw_resamples,
    resampled_correlations,
    sample_size_curve,
)
from agreement.swapping import swap_tests

__all__ = [
    "COEFFICIENTS",
    "LEVELS",
    "TIE_RTOL",
    "Correlation",
    "DifferenceTest",
    "Interval",
    "Resamples",
    "calibrate_ties",
    "compact_letters",
    "compare_correlations",
    "compare_systems",
    "correlate",
    "correlation_test",
    "documents_for_correlation",
    "draw_resamples",
    "duplicate_systems",
    "holm",
    "krippendorff_alpha",
    "leave_one_out",
    "mean_intervals",
    "partial_correlate",
    "resampled_correlations",
    "sample_size_curve",
    "shared_cells",
    "soft_pairwise_accuracy",
    "swap_tests",
    "system_means",
    "systems_for_correlation",
]
