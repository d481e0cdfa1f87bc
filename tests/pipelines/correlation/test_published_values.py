"""Correlations of SummEval through the command line, as nlpstats has them."""

import json

import pytest

COEFFICIENTS = {"pearson": "pearson", "spearman": "spearman", "kendall_b": "kendall"}


@pytest.mark.data
@pytest.mark.parametrize(
    ("metrics", "aspects", "coefficients"),
    [
        (["bertscore_f", "rougeL_f"], ["consistency"], ["pearson", "kendall_b"]),
        pytest.param(None, None, list(COEFFICIENTS), marks=pytest.mark.slow),
    ],
    ids=["some", "all"],
)
def test_correlations_of_summeval(bench, data_dir, metrics, aspects, coefficients):
    path = data_dir.parent / "oracles" / "summeval_correlations.json"
    if not path.is_file():
        pytest.skip(f"no published values at {path}")
    published = json.loads(path.read_text(encoding="utf-8"))["values"]
    aspects = aspects or list(published)
    metrics = metrics or sorted({metric for each in published.values() for metric in each})
    status, out, _ = bench.correlate(
        *("--raters", "expert-*", "--coefficients", ",".join(coefficients)),
        *("--metrics", ",".join(metrics), "--aspects", ",".join(aspects)),
        scores=[str(data_dir / "summeval_peer_scores.parquet")],
        ratings=str(data_dir / "summeval_ratings.parquet"),
        n_resamples=2,
    )
    assert status == 0
    assert "1,600 rows of 16 systems and 100 documents, raters: expert-*" in out
    rows = bench.table().to_dicts()
    assert len(rows) == len(aspects) * len(metrics) * 3 * len(coefficients)
    for row in rows:
        expected = published[row["aspect"]][row["metric"]]
        value = expected[row["level"]][COEFFICIENTS[row["coefficient"]]]
        assert row["value"] == pytest.approx(value, abs=1e-6)
        assert (row["n_systems"], row["n_documents"], row["n_missing"]) == (16, 100, 0)
        skipped = expected["documents_with_undefined_correlation"]
        assert row["n_skipped"] == (skipped if row["level"] == "summary" else 0)
