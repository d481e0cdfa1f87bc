"""Correlations on SummEval reproduce those computed with another library."""

import pytest

from agreement import LEVELS, correlate

COEFFICIENTS = {"pearson": "pearson", "spearman": "spearman", "kendall": "kendall_b"}
# Aspect, metric, level, coefficient, value; computed with nlpstats (Deutsch et al. 2021) from
# the published metric scores and the mean of three experts.
SOME = [
    ("coherence", "bertscore_f", "system", "pearson", 0.637137),
    ("coherence", "rougeL_f", "summary", "kendall", 0.099499),
    ("consistency", "qaeval_f1", "summary", "spearman", 0.229716),
    ("consistency", "qaeval_f1", "global", "pearson", 0.207785),
    ("relevance", "rougeL_f", "global", "kendall", 0.193738),
    ("relevance", "rougeL_f", "system", "spearman", 0.476471),
]


@pytest.mark.data
@pytest.mark.parametrize(("aspect", "metric", "level", "coefficient", "expected"), SOME)
def test_correlation_matches_nlpstats(summeval, aspect, metric, level, coefficient, expected):
    metrics, ratings = summeval
    result = correlate(
        metrics[metric], ratings[aspect], level=level, coefficient=COEFFICIENTS[coefficient]
    )
    assert result.value == pytest.approx(expected, abs=1e-6)
    assert (result.n_systems, result.n_documents, result.n_missing) == (16, 100, 0)


@pytest.mark.data
def test_every_correlation_of_the_file(summeval, oracle):
    metrics, ratings = summeval
    for aspect, by_metric in oracle("summeval_correlations.json")["values"].items():
        for metric, expected in by_metric.items():
            for level in LEVELS:
                for name, coefficient in COEFFICIENTS.items():
                    result = correlate(
                        metrics[metric], ratings[aspect], level=level, coefficient=coefficient
                    )
                    assert result.value == pytest.approx(expected[level][name], abs=1e-6)
                    if level == "summary":
                        skipped = expected["documents_with_undefined_correlation"]
                        assert result.n_skipped == skipped
