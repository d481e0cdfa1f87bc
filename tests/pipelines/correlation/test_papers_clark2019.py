"""Table 2 and Figure 3 of Clark et al. 2019: values, stars, and encoders side by side."""

import numpy as np
import pytest
from scipy import stats

from agreement.differences import dependent_test
from pipelines.papers.clark2019_tables import clark2019_tables, stars, williams_table

# Table 2: summaries, ROUGE-L, then WMS, SMS, S+WMS with GloVe, then with ELMo.
SUMMARIES = (
    2085,
    0.117,
    {0.180: "**", 0.258: "**", 0.214: "**"},
    {0.160: "**", 0.253: "**", 0.204: "**"},
)
ESSAYS = (1088, 0.441, {0.429: "", 0.457: "", 0.488: "*"}, {0.443: "", 0.451: "", 0.490: "*"})

NAMED = {"sms@glove": "sms", "rougeL_f": "rougeL_f", "sms@elmo": "noise"}


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.fixture
def made_up(rng):
    """Scores of two metrics and ratings, 6 systems on 40 documents: sms good, noise not."""
    ratings = rng.normal(size=(6, 40))
    scores = {
        "rougeL_f": ratings + 2.0 * rng.normal(size=(6, 40)),
        "sms": ratings + 0.7 * rng.normal(size=(6, 40)),
        "noise": rng.normal(size=(6, 40)),
    }
    return scores, {"overall": ratings}


def tables_of(scores, ratings, **options):
    return {table.name: table for table in clark2019_tables(scores, ratings, **options)}


@pytest.mark.parametrize(
    ("p_value", "expected"),
    [(0.0, "**"), (0.00999, "**"), (0.01, "*"), (0.0499, "*"), (0.05, ""), (1.0, ""), (np.nan, "")],
)
def test_stars_by_hand(p_value, expected):
    assert stars(p_value) == expected


@pytest.mark.parametrize("printed", [SUMMARIES, ESSAYS], ids=["summaries", "essays"])
def test_published_stars_with_one_correlation_between_metrics(printed):
    # The paper does not print how the metrics correlate with ROUGE-L; .65 gives all its stars.
    n, rouge, *by_encoder = printed
    for values in by_encoder:
        for value, expected in values.items():
            assert stars(dependent_test(value, rouge, 0.65, n).p_greater) == expected


def test_test_of_williams_matches_scipy_on_ranks(made_up):
    scores, ratings = made_up
    frame = williams_table(scores, ratings, baseline="rougeL_f").frame
    row = frame.filter(level="global", metric="sms").row(0, named=True)
    a, b, y = (matrix.ravel() for matrix in (scores["sms"], scores["rougeL_f"], ratings["overall"]))
    r_a, r_b, r_ab = (stats.spearmanr(*pair).statistic for pair in ((a, y), (b, y), (a, b)))
    n = a.size
    determinant = 1 - r_a**2 - r_b**2 - r_ab**2 + 2 * r_a * r_b * r_ab
    below = 2 * determinant * (n - 1) / (n - 3) + (r_a + r_b) ** 2 / 4 * (1 - r_ab) ** 3
    t = (r_a - r_b) * np.sqrt((n - 1) * (1 + r_ab) / below)
    assert row["value"] == pytest.approx(r_a, abs=1e-12)
    assert row["statistic"] == pytest.approx(t, rel=1e-9)
    assert row["degrees_of_freedom"] == n - 3 == 237
    assert row["p_greater"] == pytest.approx(stats.t.sf(t, n - 3), rel=1e-9)
    assert row["stars"] == "**"


def test_a_worse_metric_gets_no_star(made_up):
    scores, ratings = made_up
    frame = williams_table(scores, ratings, baseline="sms").frame
    row = frame.filter(level="global", metric="noise").row(0, named=True)
    assert row["p_greater"] > 0.99
    assert row["stars"] == ""


def test_levels_are_told_apart_and_the_papers_comes_first(made_up):
    scores, ratings = made_up
    table = williams_table(scores, ratings, baseline="rougeL_f")
    levels = table.frame["level"].unique(maintain_order=True).to_list()
    assert levels == ["global", "system", "summary"]
    by_summary = table.frame.filter(level="summary", metric="sms")
    assert by_summary["stars"].to_list() == [""]
    assert "mean over documents" in by_summary["test_reason"].item()
    by_system = table.frame.filter(level="system", metric="sms")
    assert by_system["degrees_of_freedom"].item() == 3


def test_printed_as_in_the_paper_with_rouge_under_every_encoder(made_up):
    scores, ratings = made_up
    scores = {
        "sms@glove": scores["sms"],
        "rougeL_f": scores["rougeL_f"],
        "sms@elmo": scores["noise"],
    }
    tables = tables_of(scores, ratings)
    printed = tables["clark2019-table2"].printed
    assert printed.columns == ["level", "metric", "overall (glove)", "overall (elmo)"]
    rouge, sms = printed.filter(level="global").to_dicts()
    value = stats.spearmanr(scores["rougeL_f"].ravel(), ratings["overall"].ravel()).statistic
    assert rouge["overall (glove)"] == rouge["overall (elmo)"] == f"{value:.3f}"
    assert sms["metric"] == "sms"
    assert sms["overall (glove)"].startswith("**0.")
    assert tables["clark2019-figure3"].frame["variant"].to_list() == ["", "glove", "elmo"]


def test_encoders_are_compared_one_sided(made_up):
    scores, ratings = made_up
    scores = {
        "glove/sms": scores["sms"],
        "elmo/sms": scores["noise"],
        "rougeL_f": scores["rougeL_f"],
    }
    frame = tables_of(scores, ratings)["clark2019-footnote12"].frame
    (row,) = frame.to_dicts()
    assert (row["metric_a"], row["metric_b"], row["n_cells"]) == ("glove/sms", "elmo/sms", 240)
    assert row["p_greater"] == pytest.approx(row["p_value"] / 2)
    assert row["p_greater"] < 0.001


def test_one_encoder_needs_no_comparison(made_up):
    assert "clark2019-footnote12" not in tables_of(*made_up)


def test_constant_metric_is_a_marked_cell(made_up):
    scores, ratings = made_up
    table = williams_table(scores | {"flat": np.ones((6, 40))}, ratings, baseline="rougeL_f")
    flat = table.frame.filter(metric="flat")
    assert flat["value"].null_count() == len(flat) == 3
    assert flat["reason"].to_list()[0] == "scores are constant"
    assert flat["p_greater"].null_count() == 3
    assert table.printed.filter(metric="flat")["overall"].to_list() == ["–"] * 3
    assert "3 values are undefined (–): scores are constant" in table.notes[-1]


def test_three_systems_are_too_few_for_the_test_at_system_level(made_up):
    scores, ratings = made_up
    table = williams_table(
        {name: matrix[:3] for name, matrix in scores.items()},
        {name: matrix[:3] for name, matrix in ratings.items()},
        baseline="rougeL_f",
    )
    row = table.frame.filter(level="system", metric="sms").row(0, named=True)
    assert row["p_greater"] is None
    assert row["test_reason"] == "needs at least 4 units, got 3"


def test_trivial_baselines_come_last(made_up):
    scores, ratings = made_up
    table = williams_table({"length": scores["noise"], **scores}, ratings, baseline="rougeL_f")
    assert table.printed.filter(level="global")["metric"].to_list() == [
        "rougeL_f", "sms", "noise", "length",
    ]  # fmt: skip


def test_scores_without_rouge_are_refused(made_up):
    scores, ratings = made_up
    with pytest.raises(ValueError, match=r"no ROUGE-L among sms; score with `--metrics rougeL`"):
        clark2019_tables({"sms": scores["sms"]}, ratings)
    with pytest.raises(ValueError, match=r"got wms among rougeL_f, sms, noise"):
        clark2019_tables(scores, ratings, baseline="wms")
