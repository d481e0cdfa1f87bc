"""Tables and figures of Sun and Nenkova 2019; Table 4 as printed is in `reproduction`."""

import numpy as np
import polars as pl
import pytest
from scipy import stats

from agreement import correlate
from pipelines.papers.sun2019_figures import N_DRAWS, source_cuts
from pipelines.papers.sun2019_tables import average_ranks, correlation_table, sun2019_tables


def with_correlation(y, r, rng):
    """Make a vector whose Pearson correlation with `y` is exactly `r`."""
    y = (y - y.mean()) / np.linalg.norm(y - y.mean())
    noise = rng.normal(size=y.size)
    noise -= noise.mean()
    noise -= (noise @ y) * y
    return r * y + np.sqrt(1 - r**2) * noise / np.linalg.norm(noise)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def study(rng):
    """Scores and ratings of 7 systems on 30 documents."""
    ratings = rng.normal(size=(7, 1)) + rng.normal(size=(7, 30))
    noisy = {
        name: ratings + rng.normal(size=ratings.shape)
        for name in ("cosine", "cosine:source", "rouge1_f", "rougeL_f", "length")
    }
    return noisy, {"coverage": ratings}


def tables_of(scores, ratings, signatures=(), **options):
    systems = [f"s{i}" for i in range(len(next(iter(scores.values()))))]
    tables = sun2019_tables(
        scores, ratings, systems=systems, signatures=dict(signatures), **options
    )
    return {table.name: table for table in tables}


def test_average_rank_by_hand():
    frame = pl.DataFrame(
        {
            "data_set": ["x", "x", "x", "y", "y", "y"],
            "against": ["reference"] * 6,
            "coefficient": ["pearson"] * 6,
            "metric": ["a", "b", "c"] * 2,
            "value": [0.9, 0.9, 0.5, 0.1 + 0.2, 0.3, None],
        }
    )
    assert average_ranks(frame).select("metric", "value", "n_data_sets", "reason").rows() == [
        ("a", 1.0, 2, None),
        ("b", 1.0, 2, None),
        ("c", None, 1, "undefined on 1 of 2"),
    ]


@pytest.mark.parametrize(
    ("value", "printed"),
    [  # Table 1, DUC2001 and DUC2002
        (0.683, "0.683*"), (0.315, "0.315"), (0.661, "0.661*"), (0.505, "0.505"),
        (0.625, "0.625*"), (0.538, "0.538"), (0.445, "0.445"), (0.644, "0.644*"),
        (0.628, "0.628*"), (0.486, "0.486"), (0.106, "0.106"), (0.954, "0.954*"),
    ],
)  # fmt: skip
def test_stars_of_table_1_with_twelve_systems(value, printed, rng):
    ratings = rng.normal(size=12)
    scores = with_correlation(ratings, value, rng)
    table = correlation_table({"enc-2": scores[:, None]}, {"DUC": ratings[:, None]})
    assert table.printed["DUC P"].item() == printed
    row = table.frame.filter(coefficient="pearson").row(0, named=True)
    assert row["p_value"] == pytest.approx(stats.pearsonr(scores, ratings).pvalue, rel=1e-9)
    assert (row["n_systems"], row["n_documents"], row["n_cells"]) == (12, 1, 12)


def test_reference_and_document_stand_in_one_cell(study):
    printed = tables_of(*study)["sun2019-table1"].printed
    assert printed.columns == ["metric", "coverage P", "coverage S"]
    assert printed["metric"].to_list() == ["cosine", "rouge1_f", "rougeL_f", "length"]
    assert printed["coverage P"][0].count(" / ") == 1
    assert printed["coverage P"][1].count(" / ") == 0
    alone = {"cosine:source": study[0]["cosine:source"]}
    assert tables_of(alone, study[1])["sun2019-table1"].printed["metric"].item() == "cosine (doc)"


def test_table_3_puts_aspects_side_by_side_in_blocks(study):
    tables = tables_of(*study)
    printed = tables["sun2019-table3"].printed
    assert printed["against"].to_list() == ["ROUGE", "ROUGE", "reference", "source", "baseline"]
    assert printed.columns == ["against", "metric", "coverage"]
    expected = correlate(
        study[0]["cosine"], study[1]["coverage"], level="system", coefficient="spearman"
    )
    assert printed.filter(metric="cosine")["coverage"].item() == f"{expected.value:.3f}"
    assert set(tables["sun2019-appendix-table2"].frame["coefficient"]) == {"pearson"}


def test_table_4_ranks_rouge_and_baselines_on_both_sides(study):
    frame = tables_of(*study)["sun2019-table4"].frame
    by_side = frame.filter(coefficient="pearson").group_by("against", maintain_order=True)
    assert {side: group["metric"].to_list() for (side,), group in by_side} == {
        "reference": ["cosine", "rouge1_f", "length"],
        "source": ["cosine:source", "rouge1_f", "length"],
    }
    assert sorted(frame.filter(against="source", coefficient="pearson")["value"]) == [1, 2, 3]


def test_table_4_without_a_metric_to_rank_is_empty(study):
    table = tables_of({"rouge1_f": study[0]["rouge1_f"]}, study[1])["sun2019-table4"]
    assert table.frame.is_empty()
    assert table.printed.is_empty()


def test_figure_1_ends_at_the_correlation_on_all_articles(study):
    scores, ratings = study
    figure = tables_of(scores, ratings)["sun2019-figure1"]
    assert figure.frame["n_draws"].unique().to_list() == [N_DRAWS] == [50]
    sizes = figure.frame.filter(metric="cosine")["n_documents"].to_list()
    assert sizes == sorted(set(sizes))
    last = figure.frame.filter(metric="cosine", n_documents=30).row(0, named=True)
    expected = correlate(scores["cosine"], ratings["coverage"], level="system")
    assert last["mean"] == pytest.approx(expected.value, abs=1e-12)
    assert last["deviation"] == pytest.approx(0.0, abs=1e-12)
    first = figure.frame.filter(metric="cosine", n_documents=sizes[0]).row(0, named=True)
    assert first["deviation"] > 0.01


def test_figure_1_draws_the_same_articles_for_every_metric(study):
    scores, ratings = study
    twice = {"cosine": scores["cosine"], "cosine@twin": scores["cosine"]}
    frame = tables_of(twice, ratings, seed=3)["sun2019-figure1"].frame
    one, other = (frame.filter(metric=name).drop("metric") for name in twice)
    assert one.equals(other)
    assert not one.equals(
        tables_of(twice, ratings, seed=4)["sun2019-figure1"]
        .frame.filter(metric="cosine")
        .drop("metric")
    )


def test_figure_1_with_one_article(study):
    one = ({name: matrix[:, :1] for name, matrix in part.items()} for part in study)
    frame = tables_of(*one)["sun2019-figure1"].frame
    assert frame["n_documents"].unique().to_list() == [1]


def test_figure_2_reads_the_cut_from_the_signatures(study):
    scores, ratings = study
    runs = {f"{run}/cosine:source": scores["cosine"] for run in ("all", "cut400", "cut750")}
    signatures = {
        f"{run}/cosine:source": f"cosine:source|enc:x|source:mean|first:{first}|v:1"
        for run, first in (("all", "all"), ("cut400", "400"), ("cut750", "750"))
    }
    frame = tables_of(runs, ratings, signatures)["sun2019-figure2"].frame
    by_length = frame.filter(coefficient="pearson").select("source_tokens", "cut_metric", "metric")
    assert by_length.rows() == [
        (400, "cut400/cosine:source", "all/cosine:source"),
        (750, "cut750/cosine:source", "all/cosine:source"),
        (None, "all/cosine:source", "all/cosine:source"),
    ]
    assert frame["value"].null_count() == 0


def test_figure_2_needs_runs_that_differ_in_the_cut_alone(study):
    scores, ratings = study
    signatures = {
        "a/cosine:source": "cosine:source|enc:x|first:400|v:1",
        "b/cosine:source": "cosine:source|enc:y|first:all|v:1",
        "lead3": "lead3|first:400|v:1",
        "c/lead3": "lead3|first:all|v:1",
    }
    assert source_cuts(signatures, list(signatures)) == {}
    assert source_cuts({}, ["cosine:source"]) == {}
    assert "sun2019-figure2" not in tables_of(scores, ratings)


def test_figure_3_averages_over_shared_documents():
    scores = np.array([[1.0, 3.0], [5.0, np.nan], [np.nan, np.nan]])
    ratings = np.array([[1.0, 2.0], [4.0, 5.0], [1.0, 1.0]])
    frame = tables_of({"sms": scores}, {"overall": ratings})["sun2019-figure3"].frame
    assert frame.select("system_id", "score", "rating", "n_documents").rows() == [
        ("s0", 2.0, 1.5, 2),
        ("s1", 5.0, 4.0, 1),
        ("s2", None, None, 0),
    ]
