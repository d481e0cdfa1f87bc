"""Published values through the command line: SummEval with nlpstats, and small worked examples."""

import json

import polars as pl
import pytest

COEFFICIENTS = {"pearson": "pearson", "spearman": "spearman", "kendall": "kendall_b"}


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
    frame = (
        pl.DataFrame(columns, strict=False)
        .cast(pl.Float64)
        .with_columns(document_id=pl.lit("d"), system_id=pl.format("s{}", pl.int_range(pl.len())))
    )
    keys = ["document_id", "system_id"]
    metrics = [name for name in columns if name != "overall"]
    return {
        "scores": [bench.write("scores.parquet", frame.select(*keys, *metrics))],
        "ratings": bench.write("ratings.parquet", frame.select(*keys, "overall")),
    }


@pytest.mark.slow
@pytest.mark.data
def test_every_correlation_of_summeval(bench, data_dir, oracle):
    published = oracle("summeval_correlations.json")["values"]
    metrics = {metric for by_metric in published.values() for metric in by_metric}
    status, _, _ = bench.correlate(
        *("--raters", "expert-*", "--coefficients", "pearson,spearman,kendall_b"),
        *("--metrics", ",".join(metrics)),
        scores=[str(data_dir / "summeval_peer_scores.parquet")],
        ratings=str(data_dir / "summeval_ratings.parquet"),
        n_resamples=2,
    )
    assert status == 0
    found = {
        (row["aspect"], row["metric"], row["level"], row["coefficient"]): row
        for row in bench.table().iter_rows(named=True)
    }
    n_checked = 0
    for aspect, by_metric in published.items():
        for metric, expected in by_metric.items():
            for level in ("system", "summary", "global"):
                for name, coefficient in COEFFICIENTS.items():
                    row = found[aspect, metric, level, coefficient]
                    assert row["value"] == pytest.approx(expected[level][name], abs=1e-6)
                    assert (row["n_systems"], row["n_documents"], row["n_missing"]) == (16, 100, 0)
                    skipped = expected["documents_with_undefined_correlation"]
                    assert row["n_skipped"] == (skipped if level == "summary" else 0)
                    n_checked += 1
    assert n_checked == len(found) == 4 * 10 * 3 * 3


@pytest.mark.data
def test_some_correlations_of_summeval(bench, data_dir, oracle):
    status, out, _ = bench.correlate(
        *("--raters", "expert-*", "--coefficients", "pearson,kendall_b"),
        *("--metrics", "bertscore_f,rougeL_f", "--aspects", "consistency"),
        scores=[str(data_dir / "summeval_peer_scores.parquet")],
        ratings=str(data_dir / "summeval_ratings.parquet"),
        n_resamples=2,
    )
    assert status == 0
    values = oracle("summeval_correlations.json")["values"]["consistency"]
    for row in bench.table().iter_rows(named=True):
        name = {"pearson": "pearson", "kendall_b": "kendall"}[row["coefficient"]]
        assert row["value"] == pytest.approx(values[row["metric"]][row["level"]][name], abs=1e-6)
    assert "1,600 rows of 16 systems and 100 documents, raters: expert-*" in out
    assert "up to 4 documents skipped" in out


@pytest.mark.data
def test_kendall(bench, oracle):
    expected = oracle("statistics.json")["kendall_variants"]
    inputs = one_document(bench, metric=expected["metric"], overall=expected["gold"])
    bench.correlate("--coefficients", "kendall_b", **inputs)
    values = dict(bench.table(level="system").select("coefficient", "value").iter_rows())
    assert values["kendall_b"] == pytest.approx(expected["b"], abs=1e-9)


@pytest.mark.data
def test_williams_with_n_minus_3_degrees_of_freedom(bench, oracle):
    expected = oracle("statistics.json")["williams_small"]
    inputs = one_document(bench, m1=expected["m1"], m2=expected["m2"], overall=expected["gold"])
    bench.correlate(**inputs)
    row = bench.table("differences", test="williams").row(0, named=True)
    assert round(row["p_value"] / 2, 3) == expected["p_one"]
    assert round(row["value_a"], 3) == expected["r1"]
    assert round(row["value_b"], 3) == expected["r2"]
    assert row["statistic"] > 0
