"""Published values through the command line: SummEval with nlpstats, and small worked examples."""

import json

import polars as pl
import pytest

COEFFICIENTS = {"pearson": "pearson", "spearman": "spearman", "kendall_b": "kendall"}


@pytest.fixture
def oracle(data_dir):
    """Read one of the files of published values; skip where there are none."""

    def read(name):
        path = data_dir.parent / "oracles" / name
        if not path.is_file():
            pytest.skip(f"no published values at {path}")
        return json.loads(path.read_text(encoding="utf-8"))

    return read


def one_document(bench, **columns):
    """Write metrics and ratings of systems on one document, as files."""
    frame = pl.DataFrame(columns, strict=False).cast(pl.Float64).with_row_index("system_id")
    frame = frame.with_columns(document_id=pl.lit("d"))
    ratings = bench.ratings(frame.select("document_id", "system_id", "overall"))
    return {"scores": [bench.scores(frame)], "ratings": ratings}


@pytest.mark.data
@pytest.mark.parametrize(
    ("metrics", "aspects", "coefficients"),
    [
        (["bertscore_f", "rougeL_f"], ["consistency"], ["pearson", "kendall_b"]),
        pytest.param(None, None, list(COEFFICIENTS), marks=pytest.mark.slow),
    ],
    ids=["some", "all"],
)
def test_correlations_of_summeval(bench, data_dir, oracle, metrics, aspects, coefficients):
    published = oracle("summeval_correlations.json")["values"]
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


@pytest.mark.data
def test_kendall_and_calibrated_accuracy(bench, oracle):
    expected = oracle("statistics.json")["kendall_variants"]
    inputs = one_document(bench, m1=expected["metric"], overall=expected["gold"])
    bench.correlate("--coefficients", "kendall_b,pairwise_accuracy", **inputs)
    values = dict(bench.table(level="system").select("coefficient", "value").iter_rows())
    assert values["kendall_b"] == pytest.approx(expected["b"], abs=1e-9)
    assert values["pairwise_accuracy"] == pytest.approx(expected["acc23_tie_opt"], abs=1e-9)


@pytest.mark.data
def test_williams_with_n_minus_3_degrees_of_freedom(bench, oracle):
    expected = oracle("statistics.json")["williams_small"]
    inputs = one_document(bench, m1=expected["m1"], m2=expected["m2"], overall=expected["gold"])
    bench.correlate(**inputs)
    row = bench.table("differences", test="williams").row(0, named=True)
    found = [round(x, 3) for x in (row["p_value"] / 2, row["value_a"], row["value_b"])]
    assert found == [expected[name] for name in ("p_one", "r1", "r2")]
    assert row["statistic"] > 0
