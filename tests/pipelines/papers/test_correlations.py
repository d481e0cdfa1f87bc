"""Correlations, stars and ranks of the tables, against other implementations."""

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from scipy import stats

from agreement.differences import dependent_test
from pipelines.papers import clark2019, sun2019
from pipelines.papers.run import TABLES
from pipelines.papers.table import Scored


def made(name, scores, ratings, *, names=None, systems=None):
    """Make a table from scores and ratings."""
    n_systems = len(next(iter(ratings.values())))
    scored = Scored(
        data="Data",
        systems=systems or [f"m{i}" for i in range(n_systems)],
        scores=scores,
        ratings=ratings,
        names=names or {metric: metric for metric in scores},
        heads=dict.fromkeys(ratings, "Data"),
    )
    table = TABLES[name]
    return table.make(SimpleNamespace(fill=lambda _table: [scored]), table)


@pytest.fixture
def study():
    """Scores and ratings of 6 systems on 30 documents: sms good, noise not, people first."""
    rng = np.random.default_rng(11)
    ratings = rng.normal(size=(6, 30)) + rng.normal(size=(6, 1))
    scores = {
        "rougeL_f": ratings + 2.0 * rng.normal(size=(6, 30)),
        "sms@GloVe": ratings + 0.7 * rng.normal(size=(6, 30)),
        "sms@ELMo": rng.normal(size=(6, 30)),
    }
    return scores, {"overall": ratings}


def test_undefined_numbers_are_none_and_marked(study):
    scores, ratings = study
    flat = {**scores, "wms@ELMo": np.ones((6, 30)), "wms@GloVe": np.full((6, 30), np.nan)}
    ours = made("clark2019-table2", flat, ratings).ours
    for encoder in ("ELMo", "GloVe"):
        undefined = ours[(f"wms@{encoder}",), f"Data {encoder}"]
        assert (undefined.value, undefined.text(3)) == (None, "–")


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
        test = dependent_test(value, rouge, 0.65, n, test="williams1959")
        assert clark2019.stars(test.p_greater) == expected


def test_clark_table_2_and_its_footnotes_match_scipy(study):
    scores, ratings = study
    ours = made("clark2019-table2", scores, ratings).ours
    a, b, other, y = (m.ravel() for m in (*scores.values(), *ratings.values()))

    def p_of_williams(x, z):
        r_x, r_z, r_xz = (stats.spearmanr(*pair).statistic for pair in ((x, y), (z, y), (x, z)))
        n = x.size
        determinant = 1 - r_x**2 - r_z**2 - r_xz**2 + 2 * r_x * r_z * r_xz
        below = 2 * determinant * (n - 1) / (n - 3) + (r_x + r_z) ** 2 / 4 * (1 - r_xz) ** 3
        t = (r_x - r_z) * np.sqrt((n - 1) * (1 + r_xz) / below)
        return stats.t.sf(t, n - 3)

    assert ours[("sms@GloVe",), "Data GloVe"].value == pytest.approx(stats.spearmanr(b, y)[0])
    assert p_of_williams(b, a) < 0.01
    assert ours[("sms@GloVe",), "Data GloVe"].form == "**{}"
    assert p_of_williams(other, a) > 0.05
    assert ours[("sms@ELMo",), "Data ELMo"].form == "{}"
    rouge = {ours[("rougeL_f",), f"Data {encoder}"] for encoder in ("GloVe", "ELMo")}
    assert [each.form for each in rouge] == ["{}"]
    footnotes = made("clark2019-footnotes", scores, ratings).ours
    expected = pytest.approx(p_of_williams(b, other), rel=1e-9)
    assert {cell: each.value for cell, each in footnotes.items()} == {
        (("sms@GloVe",), "Data"): expected
    }


def with_correlation(y, r, rng):
    """Make a vector whose Pearson correlation with `y` is exactly `r`."""
    y = (y - y.mean()) / np.linalg.norm(y - y.mean())
    noise = rng.normal(size=y.size)
    noise -= noise.mean()
    noise -= (noise @ y) * y
    return r * y + np.sqrt(1 - r**2) * noise / np.linalg.norm(noise)


@pytest.mark.parametrize("printed", ["0.683*", "0.315", "0.661*", "0.538", "0.644*", "0.954*"])
def test_stars_of_sun_table_1_with_twelve_systems(printed):
    rng = np.random.default_rng(7)
    ratings = rng.normal(size=12)
    scores = with_correlation(ratings, float(printed.strip("*")), rng)
    result = made("sun2019-table1", {"x:source": scores[:, None]}, {"y": ratings[:, None]})
    assert result.ours[("x:source",), "Data P(doc)"].text(3) == printed
    assert result.notes == ["Data: from 12 systems, 1 document, 12 summaries, 0 missing cells."]


def test_average_rank_by_hand():
    columns = ("data_set", "metric", "value")
    rows = [("x", "a", 0.9), ("x", "b", 0.9), ("x", "c", 0.5)]
    rows += [("y", "a", 0.1 + 0.2), ("y", "b", 0.3), ("y", "c", None)]
    frame = pl.DataFrame(rows, columns, orient="row").with_columns(
        against=pl.lit("ref"), coefficient=pl.lit("pearson")
    )
    ranks = {
        metric: ours.value for ((metric,), _), ours in sun2019.average_ranks(frame, []).items()
    }
    assert ranks == {"a": 1.0, "b": 1.0, "c": None}


@pytest.mark.parametrize(("number", "of"), [(5, "pearsonr"), (6, "spearmanr"), (7, "pearsonr")])
def test_bao_correlations_over_all_summaries_match_scipy(study, number, of):
    x, y = study[0]["sms@GloVe"], study[1]["overall"]
    x[0] -= 6.0
    systems = ["human-A", *(f"m{i}" for i in range(5))]
    scores = {"rouge1_f": x, "sms": x}
    made_of = made(f"bao2020-table{number}", scores, study[1], systems=systems)
    ours = {row: own.value for ((row,), _), own in made_of.ours.items()}
    every, machines = (
        pytest.approx(getattr(stats, of)(x[kept].ravel(), y[kept].ravel()).statistic, abs=1e-12)
        for kept in (slice(None), slice(1, None))
    )
    if number == 7:
        assert ours == {"rouge1_f": machines, "sms": machines}
    else:
        assert ours == {"sms": every, "sms on machines'": machines}
        assert ours["sms"] + 0.1 < ours["sms on machines'"]
    alone = made(f"bao2020-table{number}", scores, study[1]).ours
    assert not any(row.endswith("machines'") for (row,), _ in alone)
