"""The page of a run."""

import html
import re
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from scipy import stats

import assay
from pipelines.reports.scores_page import document_means

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def corpus(tmp_path):
    """Three systems, one of them with a hostile name, and a row without text."""
    rng = np.random.default_rng(5)
    rows = [
        {
            "document_id": f"d{j}",
            "system_id": system,
            "candidate": " ".join(["word"] * int(rng.integers(3, 30))) if i + j else "",
            "reference": "word and another",
        }
        for i, system in enumerate(["M10", "M2", HOSTILE])
        for j in range(8)
    ]
    path = tmp_path / "corpus.parquet"
    pl.DataFrame(rows).write_parquet(path)
    return path


@pytest.fixture
def scored(corpus, tmp_path):
    out = tmp_path / "out"
    found = assay.score(corpus, metrics=["length", "rouge1"], out=out, rows_per_shard=6)
    return found, out


def test_interval_is_students_where_a_document_has_one_row():
    values = np.random.default_rng(0).normal(size=12)
    rows = pl.DataFrame(
        {"document_id": [f"d{i}" for i in range(12)], "system_id": "s", "m": values}
    )
    mean, low, high, n = document_means(rows, "m")["s"]
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert (mean, n) == (pytest.approx(values.mean()), 12)
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_rows_of_a_document_count_as_one_draw():
    """The same rows twice say nothing new; as documents of their own they would."""
    rows = pl.DataFrame(
        {"document_id": ["a", "a", "b", "c"], "system_id": "s", "m": [1.0, 2.0, 4.0, 6.0]}
    )
    once, twice = (document_means(each, "m")["s"] for each in (rows, pl.concat([rows, rows])))
    assert once == pytest.approx(twice, abs=1e-12)
    one = document_means(rows.filter(document_id="b"), "m")["s"]
    assert np.isnan(one[1:3]).all()


def test_page_has_every_mean_and_escapes_names(scored):
    found, out = scored
    page = (out / "scores.html").read_text()
    assert HOSTILE not in page
    table = page[page.index('aria-label="Means of length"') :]
    systems = re.findall(
        r'<tr><th scope="row"><bdi>(.*?)</bdi></th><td><data [^>]*>([\d.]+)', table
    )
    shown = dict(systems[:3])
    assert sorted(shown) == sorted(["M2", "M10", "&lt;script&gt;alert(1)&lt;/script&gt;"])
    assert shown["M2"] == f"{found.means['M2']['length']:.2f}"
    assert "rouge1_f" in page
    assert "rouge1_p" not in re.sub("(?s)<pre>.*?</pre>", "", page)
    for row in (f"| M2 | {shown['M2']} ± ", f"M2 &amp; {shown['M2']} $\\pm$ "):  # to copy
        assert row in page
    assert "1 × candidate:empty" in page
    assert f"assay explain --scores {out} --document " in page


def test_page_names_the_highest_and_the_lowest_system_of_each_metric(scored):
    found, out = scored
    page = (out / "scores.html").read_text()
    overview = page[: page.index("</table>")]
    for metric in ("length", "rouge1_f"):
        means = {system: found.means[system][metric] for system in found.means}
        row = re.search(rf'<tr><th scope="row"><a href="#metric-\d">{metric}.*?</tr>', overview)[0]
        lowest, highest = re.findall(r"<bdi>(.*?)</bdi>", row)
        assert html.unescape(lowest) == min(means, key=means.get)
        assert html.unescape(highest) == max(means, key=means.get)
        titles = re.findall(r"<title>(.*?)</title>", row)  # of the dots, from the highest
        ranked = sorted(means, key=means.get, reverse=True)
        assert [html.unescape(title).rpartition(":")[0] for title in titles] == ranked


def test_links_stand_where_explanations_are_written(corpus, scored):
    _, out = scored
    assert "Explanation</a>" not in (out / "scores.html").read_text()
    assay.score(
        corpus, metrics=["length", "rouge1"], out=out, rows_per_shard=6, explain=True
    )  # nothing is scored again
    page = (out / "scores.html").read_text()
    links = re.findall(r'<a href="(explain/[^"]+)">Explanation</a>', page)
    assert len(links) == 2 * 2 * 5  # metrics, ends, rows
    assert all((out / html.unescape(link)).is_file() for link in links)
    assert "assay explain --scores" not in page
    shown = re.findall(r'<svg [^>]*aria-label="(\w+) of a candidate, sentence by sentence"', page)
    assert sorted(shown) == ["length"] * 10 + ["rouge1_f"] * 10  # each below its row
    assert HOSTILE not in page
    assay.score(corpus, metrics=["length"], out=out, rows_per_shard=6, fresh=True)
    assert not list((out / "explain").iterdir())  # they were of another run


def test_of_a_large_run_a_sample_is_read_and_said(scored, monkeypatch, corpus):
    _, out = scored
    monkeypatch.setattr("pipelines.reports.scores_page.MOST_ROWS", 12)
    assay.score(corpus, metrics=["length", "rouge1"], out=out, rows_per_shard=6)
    page = (out / "scores.html").read_text()
    assert "are those of a sample of 12 rows" in page


def test_page_of_a_run_needs_no_statistics_that_are_slow_to_import():
    told = "import sys, pipelines.reports.scores_page; sys.exit('scipy.stats' in sys.modules)"
    subprocess.run([sys.executable, "-c", told], check=True)
