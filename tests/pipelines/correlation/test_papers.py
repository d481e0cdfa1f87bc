"""The papers' tables from a study, as files, and on SummEval."""

import dataclasses
import json

import altair as alt
import numpy as np
import polars as pl
import pytest

from pipelines.papers.from_study import PAPERS, paper_tables, write_paper_tables
from pipelines.papers.published import (
    PublishedTable,
    base_of,
    is_against_source,
    laid_out,
    typed,
    variant_of,
)
from pipelines.tables.ratings import read_ratings
from pipelines.tables.scores import find_scores, read_scores
from pipelines.tables.study import Study, make_study

PEERS = ("rouge1_f", "rougeL_f", "bertscore_f", "qaeval_f1")


@pytest.fixture
def study():
    """Two metrics and the length, 6 systems on 12 documents, a name that LaTeX would trip over."""
    rng = np.random.default_rng(4)
    ratings = rng.normal(size=(1, 6, 12))
    scores = ratings + rng.normal(size=(3, 6, 12))
    return Study(
        systems=[f"s_{i}" for i in range(6)],
        documents=[f"d{i}" for i in range(12)],
        metrics=["sms", "rougeL_f", "length"],
        aspects=["over_all"],
        scores=scores,
        ratings=ratings,
        pool="mean column",
    )


@pytest.fixture(scope="module")
def summeval(data_dir):
    """Some peer metrics and experts' mean ratings of SummEval."""
    ratings = read_ratings(
        str(data_dir / "summeval_ratings.parquet"), raters=["expert-*"], columns={}
    )
    peers = find_scores(str(data_dir / "summeval_peer_scores.parquet"))
    return make_study(ratings, read_scores([peers], ratings.keys, metrics=PEERS, columns={}))


@pytest.fixture(scope="module")
def sun_and_bao(summeval):
    tables = (paper_tables(name, summeval, signatures={}) for name in ("sun2019", "bao2020"))
    return {table.name: table for paper in tables for table in paper}


@pytest.fixture(scope="module")
def nlpstats(data_dir):
    """Correlations of the same scores and ratings, by aspect, metric, level and coefficient."""
    path = data_dir.parent / "oracles" / "summeval_correlations.json"
    if not path.is_file():
        pytest.skip(f"no published values at {path}")
    return json.loads(path.read_text(encoding="utf-8"))["values"]


@pytest.mark.parametrize("name", PAPERS)
def test_every_table_is_named_after_its_paper_and_written(study, name, tmp_path):
    tables = paper_tables(name, study, signatures={})
    assert len({table.name for table in tables}) == len(tables)
    assert all(table.name.startswith(f"{name}-") for table in tables)
    written = write_paper_tables(tmp_path, tables)
    assert sorted(written) == sorted(path for path in tmp_path.rglob("*") if path.is_file())
    for table in tables:
        suffixes = {path.suffix for path in written if path.stem == table.name}
        is_figure = table.make_chart is not None
        assert suffixes == {".csv", ".md"} | ({".svg", ".png"} if is_figure else {".tex"})
        text = (tmp_path / "papers" / f"{table.name}.csv").read_text(encoding="utf-8")
        assert text.splitlines()[0].split(",") == table.frame.columns
        assert len(text.splitlines()) == len(table.frame) + 1


def test_unknown_paper_is_refused(study):
    with pytest.raises(ValueError, match="one of clark2019, sun2019, bao2020, got 'clark2020'"):
        paper_tables("clark2020", study, signatures={})


def test_markdown_and_latex_hold_the_printed_text(study, tmp_path):
    tables = paper_tables("sun2019", study, signatures={})
    write_paper_tables(tmp_path, tables)
    markdown = (tmp_path / "papers" / "sun2019-table3.md").read_text(encoding="utf-8")
    latex = (tmp_path / "papers" / "sun2019-table3.tex").read_text(encoding="utf-8")
    value = next(t for t in tables if t.name == "sun2019-table3").printed.filter(metric="sms")
    assert f"| reference | sms | {value['over_all'].item()} |" in markdown
    assert f"reference & sms & {value['over_all'].item()} \\\\" in latex
    assert r"\begin{tabular}{llr}" in latex
    assert r"over\_all" in latex
    assert "From 6 systems, 12 documents, 72 summaries, 0 missing cells." in markdown


def test_plots_are_real_pictures_with_every_system(study, tmp_path):
    write_paper_tables(tmp_path, paper_tables("sun2019", study, signatures={}))
    svg = (tmp_path / "plots" / "sun2019-figure3.svg").read_text(encoding="utf-8")
    assert svg.startswith("<svg")
    assert all(svg.count(f">{system}</text>") == 3 for system in study.systems)
    png = (tmp_path / "plots" / "sun2019-figure3.png").read_bytes()
    assert png.startswith(b"\x89PNG")


def test_plot_of_more_rows_than_altair_allows_on_pages(tmp_path):
    frame = pl.DataFrame({"x": range(5_001)})
    figure = PublishedTable(
        name="figure",
        title="",
        frame=frame,
        make_chart=lambda: alt.Chart(frame).mark_tick().encode(x="x:Q"),
    )
    assert [path.suffix for path in write_paper_tables(tmp_path, [figure])] == [
        ".csv", ".md", ".svg", ".png",
    ]  # fmt: skip


def test_seed_decides_the_draws_and_nothing_else(study):
    first, again, other = (
        {t.name: t.frame for t in paper_tables("sun2019", study, signatures={}, seed=seed)}
        for seed in (1, 1, 2)
    )
    different = {name for name, frame in first.items() if not frame.equals(other[name])}
    assert different == {"sun2019-figure1"}
    assert all(frame.equals(again[name]) for name, frame in first.items())


def test_undefined_numbers_are_null_in_every_frame(study):
    flat = dataclasses.replace(study, scores=np.ones_like(study.scores))
    for name in PAPERS:
        for table in paper_tables(name, flat, signatures={}):
            text = json.dumps(table.frame.to_dicts(), allow_nan=False)
            if "value" in table.frame.columns:
                assert '"value": null' in text


@pytest.mark.parametrize("shape", [(1, 5), (2, 1), (1, 1)])
@pytest.mark.parametrize("name", PAPERS)
def test_tiny_studies_give_marked_cells(name, shape):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(3, *shape))
    scores[2] = np.nan
    study = Study(
        systems=[f"s{i}" for i in range(shape[0])],
        documents=[f"d{i}" for i in range(shape[1])],
        metrics=["rougeL_f", "sms", "all_null"],
        aspects=["overall"],
        scores=scores,
        ratings=rng.normal(size=(1, *shape)),
        pool="all",
    )
    for table in paper_tables(name, study, signatures={}):
        if {"value", "metric", "reason"} <= set(table.frame.columns):
            null = table.frame.filter(metric="all_null")
            assert null["value"].null_count() == len(null)
            assert null["reason"].null_count() == 0


@pytest.mark.parametrize(
    ("metric", "base", "variant", "is_source"),
    [
        ("sms", "sms", "", False),
        ("sms@glove:reference", "sms:reference", "glove", False),
        ("runs/a/sms@glove", "sms", "runs/a glove", False),
        ("s3://bucket/a/cosine:source", "cosine:source", "s3://bucket/a", True),
        ("reffree@runs/news:source", "reffree:source", "runs/news", True),
        ("somebody's: score", "somebody's: score", "", False),
    ],
)
def test_parts_of_a_name(metric, base, variant, is_source):
    assert (base_of(metric), variant_of(metric)) == (base, variant)
    assert is_against_source(metric) == is_source


def test_cell_that_is_not_given_stays_empty():
    frame = laid_out(["metric"], [(["a"], "x", "1"), (["b"], "y", "2")])
    assert frame.rows() == [("a", "1", ""), ("b", "", "2")]


def test_frame_without_rows_has_its_columns():
    assert typed([], {"value": float}).columns == ["value"]


@pytest.mark.data
def test_table_2_of_clark_on_summeval_matches_nlpstats(summeval, nlpstats):
    (table, *_) = paper_tables("clark2019", summeval, signatures={})
    rows = table.frame.to_dicts()
    assert len(rows) == 4 * len(PEERS) * 3
    for row in rows:
        expected = nlpstats[row["aspect"]][row["metric"]][row["level"]]["spearman"]
        assert row["value"] == pytest.approx(expected, abs=1e-6)
    assert set(table.frame["n_cells"]) == {1600}


@pytest.mark.data
@pytest.mark.parametrize("name", ["sun2019-table1", "bao2020-table7", "bao2020-table8"])
def test_other_tables_on_summeval_match_nlpstats(sun_and_bao, nlpstats, name):
    frame = sun_and_bao[name].frame
    rows = frame.to_dicts()
    assert len(rows) == 4 * len(PEERS) * frame["coefficient"].n_unique()
    for row in rows:
        expected = nlpstats[row["aspect"]][row["metric"]][row["level"]][row["coefficient"]]
        assert row["value"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.data
def test_figure_1_on_summeval_settles_with_more_articles(sun_and_bao):
    frame = sun_and_bao["sun2019-figure1"].frame
    by_size = frame.filter(metric="rouge1_f", aspect="relevance")
    assert by_size["n_documents"].to_list() == [11, 21, 31, 41, 50, 60, 70, 80, 90, 100]
    deviations = by_size["deviation"].to_list()
    assert deviations[0] > 3 * deviations[-2] > 0
    assert deviations[-1] == pytest.approx(0.0, abs=1e-12)
