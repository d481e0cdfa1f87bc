"""Tables 5 to 8 of Bao et al. 2020: all summaries, and those made by machines."""

import numpy as np
import pytest
from scipy import stats

from pipelines.papers.bao2020_tables import bao2020_tables

SYSTEMS = ["human-A", "m1", "m2", "m3"]


@pytest.fixture
def study():
    """Four systems on ten documents, the first of them people whom the scorer does not know."""
    rng = np.random.default_rng(2)
    ratings = rng.normal(size=(4, 10))
    ratings[0] += 4.0
    noise = rng.normal(size=(3, 4, 10))
    scores = {
        "reffree@news": ratings + noise[0],
        "rouge2_f": ratings + noise[1],
        "length": noise[2],
    }
    scores["reffree@news"][0] -= 6.0
    return scores, {"overall": ratings}


def tables_of(study, **options):
    tables = bao2020_tables(*study, systems=SYSTEMS, **options)
    return {table.name: table for table in tables}


def test_four_tables_in_the_order_of_the_paper(study):
    assert list(tables_of(study)) == [f"bao2020-table{i}" for i in (5, 6, 7, 8)]


@pytest.mark.parametrize(
    ("table", "coefficient"), [("bao2020-table5", "pearsonr"), ("bao2020-table6", "spearmanr")]
)
def test_correlations_over_all_summaries_match_scipy(study, table, coefficient):
    scores, ratings = study
    frame = tables_of(study)[table].frame
    of_summaries = getattr(stats, coefficient)
    for summaries, kept in (("all", slice(None)), ("machine-made", slice(1, None))):
        row = frame.filter(metric="reffree@news", summaries=summaries).row(0, named=True)
        x, y = scores["reffree@news"][kept].ravel(), ratings["overall"][kept].ravel()
        assert row["value"] == pytest.approx(of_summaries(x, y).statistic, abs=1e-12)
        assert row["n_cells"] == x.size
        assert row["level"] == "global"


def test_people_as_one_more_system_change_the_number(study):
    # FINDINGS of others: a published .85 became .47 this way
    printed = tables_of(study)["bao2020-table5"].printed
    rows = dict(zip(printed["metric"], printed["overall"], strict=True))
    assert float(rows["reffree@news"]) < 0.1 < 0.5 < float(rows["reffree@news on machines'"])


def test_rouge_is_only_in_the_tables_on_machine_made_summaries(study):
    tables = tables_of(study)
    for name in ("bao2020-table5", "bao2020-table6"):
        assert set(tables[name].frame["metric"]) == {"reffree@news", "length"}
    for name in ("bao2020-table7", "bao2020-table8"):
        assert tables[name].printed["metric"].to_list() == ["reffree@news", "rouge2_f", "length"]
        assert set(tables[name].frame["summaries"]) == {"machine-made"}
        assert set(tables[name].frame["n_systems"]) == {3}


def test_filter_is_in_the_notes(study):
    note = tables_of(study)["bao2020-table7"].notes[0]
    assert note.startswith("Written by people, and left out of the machine-made: human-A.")


def test_other_names_of_people(study):
    frame = tables_of(study, human_systems=["m[12]"])["bao2020-table7"].frame
    assert set(frame["n_systems"]) == {2}


def test_no_people_means_no_second_kind_of_rows(study):
    tables = tables_of(study, human_systems=["nobody"])
    assert tables["bao2020-table5"].printed["metric"].to_list() == ["reffree@news", "length"]
    assert "No system matches nobody: all 4 count as machines" in tables["bao2020-table5"].notes[0]
    assert set(tables["bao2020-table7"].frame["n_systems"]) == {4}


def test_only_people_leave_nothing_to_correlate(study):
    table = tables_of(study, human_systems=["*"])["bao2020-table7"]
    assert table.frame["value"].null_count() == len(table.frame)
    assert set(table.printed["overall"]) == {"–"}
