"""Statistics on matrices of scores and human ratings: numpy and scipy only, nothing is read.

A matrix has shape (n_systems, n_documents), NaN where a cell is missing. Every function is
pure; randomness comes in as a generator; what cannot be computed is NaN with a reason.
"""

from agreement.accuracy import calibrate_ties, soft_pairwise_accuracy
from agreement.checks import count_tied_cells, duplicate_systems
from agreement.coefficients import COEFFICIENTS
from agreement.differences import DifferenceTest, bonferroni, compare_correlations, holm
from agreement.intervals import Interval, fisher_interval
from agreement.levels import (
    LEVELS,
    Correlation,
    correlate,
    correlation_test,
    partial_correlate,
    system_means,
)
from agreement.matrices import TIE_RTOL, shared_cells
from agreement.power import (
    documents_for_correlation,
    sample_size_curve,
    systems_for_correlation,
    systems_for_difference,
    systems_for_width,
)
from agreement.ranking import compare_systems, rank_systems
from agreement.raters import krippendorff_alpha, leave_one_out
from agreement.resampling import Resamples, draw_resamples, resampled_correlations
from agreement.swapping import swap_tests

__all__ = [
    "COEFFICIENTS",
    "LEVELS",
    "TIE_RTOL",
    "Correlation",
    "DifferenceTest",
    "Interval",
    "Resamples",
    "bonferroni",
    "calibrate_ties",
    "compare_correlations",
    "compare_systems",
    "correlate",
    "correlation_test",
    "count_tied_cells",
    "documents_for_correlation",
    "draw_resamples",
    "duplicate_systems",
    "fisher_interval",
    "holm",
    "krippendorff_alpha",
    "leave_one_out",
    "partial_correlate",
    "rank_systems",
    "resampled_correlations",
    "sample_size_curve",
    "shared_cells",
    "soft_pairwise_accuracy",
    "swap_tests",
    "system_means",
    "systems_for_correlation",
    "systems_for_difference",
    "systems_for_width",
]
