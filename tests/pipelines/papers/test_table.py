"""What the papers' tables make of scores and ratings, against other implementations."""

import json

import numpy as np
import polars as pl
import pytest
from scipy import stats

from agreement.differences import dependent_test
from pipelines.papers import bao2020, clark2019, sun2019
from pipelines.papers.run import TABLES
from pipelines.papers.table import (
    Scored,
    base_of,
    is_against_source,
    is_rouge_f,
    variant_of,
)
from pipelines.tables.ratings import read_ratings
from pipelines.tables.scores import find_scores, read_scores
from pipelines.tables.study import make_study

PEERS = ("rouge1_f", "rougeL_f", "bertscore_f", "qaeval_f1")


def shown(name, scores, ratings, **more):
    n_systems = len(next(iter(ratings.values())))
    systems = [f"s{i}" for i in range(n_systems)]
    return TABLES[name].shows(
        Scored(**{"systems": systems, "signatures": {}, **more}, scores=scores, ratings=ratings)
    )


@pytest.fixture
def study():
    """Scores and ratings of 6 systems on 30 documents: sms good, noise not, people first."""
    rng = np.random.default_rng(11)
    ratings = rng.normal(size=(6, 30)) + rng.normal(size=(6, 1))
    scores = {
        "length": rng.normal(size=(6, 30)),
        "sms@glove": ratings + 0.7 * rng.normal(size=(6, 30)),
        "rougeL_f": ratings + 2.0 * rng.normal(size=(6, 30)),
        "sms@elmo": rng.normal(size=(6, 30)),
        "rouge1_f": ratings + 1.5 * rng.normal(size=(6, 30)),
        "cosine:source": ratings + rng.normal(size=(6, 30)),
    }
    return scores, {"overall": ratings}


def test_undefined_numbers_are_null_and_marked(study):
    scores, ratings = study
    flat = {**scores, "flat": np.ones((6, 30)), "absent": np.full((6, 30), np.nan)}
    for name, table in TABLES.items():
        if table.shows and not table.is_figure and name != "clark2019-footnotes":
            found = shown(name, flat, ratings)
            json.dumps(found.frame.to_dicts(), allow_nan=False)
            rows = found.frame.filter(pl.col("metric").is_in(["flat", "absent"]))
            assert rows["value"].null_count() == len(rows) > 0
            assert rows["reason"].null_count() == 0
            assert set(found.printed.filter(metric="flat")[found.printed.columns[-1]]) <= {"–", ""}
            assert "values are undefined (–): " in found.notes[-1]


NAMES = [  # metric, what it computes, its run and encoder, whether against the source
    ("sms", "sms", "", False),
    ("sms@glove:reference", "sms:reference", "glove", False),
    ("runs/a/sms@glove", "sms", "runs/a glove", False),
    ("s3://bucket/a/cosine:source", "cosine:source", "s3://bucket/a", True),
    ("reffree@runs/news:source", "reffree:source", "runs/news", True),
    ("somebody's: score", "somebody's: score", "", False),
]


def test_parts_of_a_name():
    parts = [(m, base_of(m), variant_of(m), is_against_source(m)) for m, *_ in NAMES]
    assert parts == NAMES
    rouges = ("rougeL_f", "ROUGE-L", "rougeL_p", "rougeLsum_f")
    assert [is_rouge_f(name, "l") for name in rouges] == [True, True, False, False]


@pytest.mark.parametrize("shape", [(1, 5), (2, 1), (1, 1)])
def test_tiny_studies_give_marked_cells(shape):
    rng = np.random.default_rng(0)
    scores = {"rougeL_f": rng.normal(size=shape), "sms": np.full(shape, np.nan)}
    for name in ("clark2019-table2", "sun2019-table1", "bao2020-table7", "sun2019-figure1"):
        frame = shown(name, scores, {"overall": rng.normal(size=shape)}).frame
        column = "mean" if name == "sun2019-figure1" else "value"
        assert frame.filter(metric="sms")[column].null_count() == len(frame.filter(metric="sms"))


# Clark et al.


@pytest.mark.parametrize(
    ("n", "rouge", "printed"),
    [
        (2085, 0.117, {0.180: "**", 0.258: "**", 0.214: "**", 0.160: "**", 0.253: "**"}),
        (1088, 0.441, {0.429: "", 0.457: "", 0.488: "*", 0.443: "", 0.451: "", 0.490: "*"}),
    ],
)
def test_published_stars_with_one_correlation_between_metrics(n, rouge, printed):
    # The paper does not print how the metrics correlate with ROUGE-L; .65 gives all its stars.
    for value, expected in printed.items():
        p_greater = dependent_test(value, rouge, 0.65, n, test="williams1959").p_greater
        assert clark2019.stars(p_greater) == expected


def test_test_of_williams_matches_scipy_on_ranks(study):
    scores, ratings = study
    frame = shown("clark2019-table2", scores, ratings).frame
    levels = frame["level"].unique(maintain_order=True).to_list()
    assert levels == ["global", "system", "summary"]
    row = frame.filter(level="global", metric="sms@glove").row(0, named=True)
    a, b, y = (m.ravel() for m in (scores["sms@glove"], scores["rougeL_f"], ratings["overall"]))
    r_a, r_b, r_ab = (stats.spearmanr(*pair).statistic for pair in ((a, y), (b, y), (a, b)))
    n = a.size
    determinant = 1 - r_a**2 - r_b**2 - r_ab**2 + 2 * r_a * r_b * r_ab
    below = 2 * determinant * (n - 1) / (n - 3) + (r_a + r_b) ** 2 / 4 * (1 - r_ab) ** 3
    t = (r_a - r_b) * np.sqrt((n - 1) * (1 + r_ab) / below)
    assert row["value"] == pytest.approx(r_a, abs=1e-12)
    assert row["statistic"] == pytest.approx(t, rel=1e-9)
    assert row["degrees_of_freedom"] == n - 3
    assert row["p_greater"] == pytest.approx(stats.t.sf(t, n - 3), rel=1e-9)
    assert row["stars"] == "**"
    worse = frame.filter(level="global", metric="sms@elmo").row(0, named=True)
    assert (worse["p_greater"] > 0.99, worse["stars"]) == (True, "")
    by_system, by_summary = frame.filter(pl.col("level") != "global", metric="sms@glove").to_dicts()
    x, y = scores["sms@glove"], ratings["overall"]
    of_documents = [stats.spearmanr(*pair).statistic for pair in zip(x.T, y.T, strict=True)]
    assert by_summary["value"] == pytest.approx(np.mean(of_documents), abs=1e-12)
    assert "mean over documents" in by_summary["test_reason"]
    of_means = stats.spearmanr(x.mean(1), y.mean(1)).statistic
    assert by_system["value"] == pytest.approx(of_means, abs=1e-12)


def test_clark_has_a_column_per_encoder_and_compares_them(study):
    scores, ratings = study
    printed = shown("clark2019-table2", scores, ratings).printed.filter(level="global")
    assert printed.columns == ["level", "metric", "overall glove", "overall elmo"]
    names = ["rougeL_f", "sms", "rouge1_f", "cosine:source", "length"]
    assert printed["metric"].to_list() == names
    value = stats.spearmanr(scores["rougeL_f"].ravel(), ratings["overall"].ravel()).statistic
    assert set(printed.row(0)[2:]) == {f"{value:.3f}"}  # it has no encoder
    assert printed.row(1, named=True)["overall glove"].startswith("**")
    frame = shown("clark2019-footnotes", scores, ratings).frame
    assert frame.select("metric_a", "metric_b").rows() == [("sms@glove", "sms@elmo")]
    assert frame["p_greater"].item() < 0.01
    assert shown("clark2019-footnotes", {"rougeL_f": scores["rougeL_f"]}, ratings) is None
    figure = shown("clark2019-figure3", scores, ratings).frame
    assert figure.filter(base="sms")["variant"].to_list() == ["glove", "elmo"]
    with pytest.raises(ValueError, match=r"no ROUGE-L among sms; score with `--metrics rougeL`"):
        shown("clark2019-table2", {"sms": scores["sms@glove"]}, ratings)


# Sun and Nenkova


def with_correlation(y, r, rng):
    """Make a vector whose Pearson correlation with `y` is exactly `r`."""
    y = (y - y.mean()) / np.linalg.norm(y - y.mean())
    noise = rng.normal(size=y.size)
    noise -= noise.mean()
    noise -= (noise @ y) * y
    return r * y + np.sqrt(1 - r**2) * noise / np.linalg.norm(noise)


@pytest.mark.parametrize("printed", ["0.683*", "0.315", "0.661*", "0.538", "0.644*", "0.954*"])
def test_stars_of_table_1_with_twelve_systems(printed):
    rng = np.random.default_rng(7)
    ratings = rng.normal(size=12)
    scores = with_correlation(ratings, float(printed.strip("*")), rng)
    found = shown("sun2019-table1", {"enc-2": scores[:, None]}, {"DUC": ratings[:, None]})
    assert found.printed["DUC P(ref)"].item() == printed
    row = found.frame.filter(coefficient="pearson").row(0, named=True)
    assert row["p_value"] == pytest.approx(stats.pearsonr(scores, ratings).pvalue, rel=1e-9)
    assert (row["n_systems"], row["n_documents"], row["n_cells"]) == (12, 1, 12)


def test_average_rank_by_hand():
    columns = ("data_set", "metric", "value")
    rows = [("x", "a", 0.9), ("x", "b", 0.9), ("x", "c", 0.5)]
    rows += [("y", "a", 0.1 + 0.2), ("y", "b", 0.3), ("y", "c", None)]
    frame = pl.DataFrame(rows, columns, orient="row").with_columns(
        against=pl.lit("ref"), coefficient=pl.lit("pearson")
    )
    ranks = sun2019.average_ranks(frame, ["ref"], []).select("metric", "value", "reason")
    undefined = ("c", None, "undefined on 1 of 2")
    assert ranks.rows() == [("a", 1.0, None), ("b", 1.0, None), undefined]


def test_figure_1_ends_at_the_correlation_on_all_articles(study):
    scores, ratings = study
    twice = {"a": scores["sms@glove"], "b": scores["sms@glove"]}
    frame = shown("sun2019-figure1", twice, ratings, seed=3).frame
    one, other = (frame.filter(metric=name).drop("metric") for name in twice)
    assert one.equals(other)  # the same articles for every metric
    drawn = shown("sun2019-figure1", twice, ratings, seed=4).frame
    assert not one.equals(drawn.filter(metric="a").drop("metric"))
    last = one.filter(n_documents=30).row(0, named=True)
    means = (matrix.mean(1) for matrix in (scores["sms@glove"], ratings["overall"]))
    assert last["mean"] == pytest.approx(stats.pearsonr(*means).statistic, abs=1e-12)
    assert last["deviation"] == pytest.approx(0.0, abs=1e-12)
    assert one["deviation"][0] > 0.01
    assert set(one["n_draws"]) == {50}


def test_figure_2_reads_the_cut_from_the_signatures(study):
    runs = ("all", "400", "750")
    scores = {f"{run}/cosine:source": study[0]["cosine:source"] for run in runs}
    signatures = {
        f"{run}/cosine:source": f"cosine:source|enc:x|source:mean|first:{run}|v:1" for run in runs
    }
    frame = shown("sun2019-figure2", scores, study[1], signatures=signatures).frame
    by_length = frame.filter(coefficient="pearson").select("source_tokens", "cut_metric", "metric")
    assert by_length.rows() == [
        (400, "400/cosine:source", "all/cosine:source"),
        (750, "750/cosine:source", "all/cosine:source"),
        (None, "all/cosine:source", "all/cosine:source"),
    ]
    signatures["all/cosine:source"] = "cosine:source|enc:y|source:mean|first:all|v:1"
    del scores["750/cosine:source"]
    assert shown("sun2019-figure2", scores, study[1], signatures=signatures) is None


def test_figure_3_averages_over_shared_documents():
    scores = np.array([[1.0, 3.0], [5.0, np.nan], [np.nan, np.nan]])
    ratings = np.array([[1.0, 2.0], [4.0, 5.0], [1.0, 1.0]])
    frame = shown("sun2019-figure3", {"sms": scores}, {"overall": ratings}).frame
    found = frame.select("system_id", "score", "rating", "n_documents").rows()
    assert found == [("s0", 2.0, 1.5, 2), ("s1", 5.0, 4.0, 1), ("s2", None, None, 0)]


# Bao et al.


@pytest.mark.parametrize(("table", "of"), [("table5", "pearsonr"), ("table6", "spearmanr")])
def test_correlations_over_all_summaries_match_scipy(study, table, of):
    scores, ratings = study
    scores["sms@glove"][0] -= 6.0
    systems = ["human-A", *(f"m{i}" for i in range(5))]
    found = shown(f"bao2020-{table}", scores, ratings, systems=systems)
    assert set(found.frame["metric"]) == {m for m in scores if not m.startswith("rouge")}
    for part, kept in ((bao2020.ALL, slice(None)), (bao2020.MACHINES, slice(1, None))):
        row = found.frame.filter(metric="sms@glove", summaries=part).row(0, named=True)
        x, y = scores["sms@glove"][kept].ravel(), ratings["overall"][kept].ravel()
        assert row["value"] == pytest.approx(getattr(stats, of)(x, y).statistic, abs=1e-12)
        assert (row["n_cells"], row["level"]) == (x.size, "global")
    # with the summaries of people as one more system, the number is another
    printed = dict(found.printed.select("metric", "overall").rows())
    assert float(printed["sms@glove"]) + 0.1 < float(printed["sms@glove on machines'"])
    without_people = shown(f"bao2020-{table}", *study)
    assert set(without_people.frame["summaries"]) == {"all"}
    assert "No system is called human* or reference*: all 6 count" in without_people.notes[0]
    people = [f"reference-{i}" for i in range(6)]
    only = shown("bao2020-table7", *study, systems=people)
    assert only.frame["value"].null_count() == len(only.frame)
    assert only.notes[0].startswith("Written by people, and left out of the machine-made: ref")


# On real data


@pytest.mark.data
def test_tables_on_summeval_match_nlpstats(data_dir):
    path = data_dir.parent / "oracles" / "summeval_correlations.json"
    if not path.is_file():
        pytest.skip(f"no published values at {path}")
    published = json.loads(path.read_text(encoding="utf-8"))["values"]
    rated = read_ratings(
        data_dir / "summeval_ratings.parquet", aspects=(), raters=["expert-*"], columns={}
    )
    inputs = [find_scores(data_dir / "summeval_peer_scores.parquet")]
    read = read_scores(inputs, rated.keys, metrics=PEERS, columns={})
    scored = Scored.of(make_study(rated, read), signatures={})
    tables = ("clark2019-table2", "sun2019-table1", "bao2020-table7", "bao2020-table8")
    for name, n_kinds in zip(tables, (3, 2, 1, 1), strict=True):
        frame = TABLES[name].shows(scored).frame
        assert len(frame) == 4 * len(PEERS) * n_kinds
        assert set(frame["n_cells"]) == {1600}
        for row in frame.iter_rows(named=True):
            of_metric = published[row["aspect"]][row["metric"]]
            expected = of_metric[row["level"]][row["coefficient"]]
            assert row["value"] == pytest.approx(expected, abs=1e-6)
