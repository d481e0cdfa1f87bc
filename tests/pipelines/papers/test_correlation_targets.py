"""Tables and figures that need judged summaries, made from small files in the true formats."""

import json
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from scipy import stats

from pipelines.papers.printed import printed_table
from pipelines.papers.sun2019 import CUT_ENCODERS
from sms import score_texts

KEYS = ["document_id", "system_id"]


def filled(result):
    """Return our numbers by row and column."""
    return {(*row, column): ours.value for (row, column), ours in result.ours.items()}


def judged(writer, name):
    """Return the corpus and the mean rating of each of its rows, as a table has used them."""
    work = writer.root.parent / "out" / "work" / "data"
    corpus = pl.read_parquet(work / f"{name}-kept.parquet")
    ratings = pl.read_parquet(work / f"{name}-kept_ratings.parquet")
    means = ratings.group_by(KEYS).agg(pl.col("^overall|coverage$").mean().name.map(lambda _: "y"))
    return corpus.join(means, on=KEYS, maintain_order="left")


def test_clark_tables_1_and_3_score_the_printed_texts(made):
    found = filled(made("clark2019-table1"))
    human, order, repeated = "Human summary", "Word order", "Repetition"
    for metric in ("WMS", "SMS", "S+WMS"):
        assert found[order, metric] == pytest.approx(found[human, metric], rel=1e-12)
        assert found[repeated, metric] < found[human, metric]
    for row in (human, order, repeated):
        bound = np.sqrt(found[row, "WMS"] * found[row, "SMS"])
        assert found[row, "S+WMS"] >= bound * (1 - 1e-12)
        # rouge-score's tokens are not the paper's: near, not equal
        printed = printed_table("clark2019-table1").column("ROUGE-L")[row,]
        assert found[row, "ROUGE-L"] == pytest.approx(printed, abs=3)

    found = filled(made("clark2019-table3"))
    assert found["Sample #2", "ROUGE-L"] > found["Sample #1", "ROUGE-L"]
    assert len(found) == 8
    without_weights = made("clark2019-table1", encoders={})
    assert {column for _, column in without_weights.ours} == {"ROUGE-L"}
    assert [text.split(" (")[0] for text in without_weights.missing] == ["weights GloVe"]


def test_clark_table_2_by_hand(made, writer, vectors):
    writer.chaganty2018()
    writer.asap_sas()
    result = made("clark2019-table2")
    assert result.frame()["difference"].count() == 16
    assert "17 summaries" in result.notes[0]  # 6 x 3 less 1
    assert result.notes[1].startswith("Essays: from 10 systems, 1 document, 10 summaries")
    assert result.missing == []
    corpus = judged(writer, "chaganty2018")
    scores = score_texts(
        corpus["candidate"].to_list(),
        corpus["references"].to_list(),
        metrics=("sms",),
        encoders={"GloVe": f"glove:{vectors}"},
        preset="clark2019",
    )
    expected = stats.spearmanr(scores["sms"].to_numpy(), corpus["y"].to_numpy()).statistic
    assert filled(result)["SMS", "Summaries GloVe"] == pytest.approx(expected, abs=1e-9)


def test_clark_table_2_with_one_data_set_and_one_encoder(made, writer, vectors):
    writer.asap_sas()
    result = made("clark2019-table2", encoders={"GloVe": f"glove:{vectors}"})
    columns = {column for (row,), column in result.ours if row != "ROUGE-L"}
    assert columns == {"Essays GloVe"}
    named = " ".join(result.missing)
    assert "weights ELMo" in named
    assert "data chaganty2018" in named
    assert result.differs[0] == (
        f"GloVe is glove:{vectors}, not GloVe of Common Crawl, 300 dimensions."
    )


def test_clark_footnotes_and_figure(made, writer):
    writer.chaganty2018()
    found = filled(made("clark2019-footnotes"))
    assert set(found) == {(m, "Summaries") for m in ("SMS", "S+WMS", "WMS")}
    assert all(0 < p <= 0.5 for p in found.values())
    figure = made("clark2019-figure3")
    assert [each.name for each in figure.figures] == ["clark2019-figure3-summaries"]
    out = writer.root.parent / "out"
    assert (out / "clark2019-figure3-summaries.svg").read_text().startswith("<svg")
    assert "clark2019-figure3-summaries.svg" in (out / "clark2019-figure3.md").read_text()


def test_clark_table_4_from_results_of_reinforce(made, tmp_path):
    folder = tmp_path / "scorers" / "clark2019-summarisers"
    (folder / "scores" / "scores").mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps({"pairs": {"test": 11_490}}))
    (folder / "scores" / "run.json").write_text(json.dumps({"signatures": {"sms": "sms|enc:x"}}))
    metrics = {name: [0.1, 0.2] * 3 for name in ("rouge2_f", "rougeL_f", "wms", "s+wms")}
    systems = ["mle", "mle", "mle+sms", "mle+sms", "lead-3", "lead-3"]
    scores = {"rouge1_f": [0.25, 0.5] * 3, "sms": [0.08, 0.1] * 3, **metrics}
    pl.DataFrame({"system_id": systems, **scores}).write_parquet(
        folder / "scores" / "scores" / "part-0.parquet"
    )
    result = made("clark2019-table4", encoders={}, scorers=tmp_path / "scorers")
    found = filled(result)
    for row in (("MLE+Pgen", "none"), ("MLE+Pgen+RL", "SMS")):
        assert found[(*row, "ROUGE-1")] == 37.5
        assert found[(*row, "SMS")] == pytest.approx(90.0)
    assert {row[1] for row, _ in result.ours} == {"none", "SMS"}
    assert result.notes == ["11,490 test pairs. SMS: sms|enc:x", "Not in the table: lead-3."]


def test_sun_table_1_by_hand(made, writer, vectors):
    writer.duc(2001, 2002)
    result = made("sun2019-table1")
    assert result.frame()["difference"].count() == 88
    assert result.notes == [  # without systems 17 and 30
        f"{data}: from 5 systems, 4 documents, 20 summaries, 0 missing cells."
        for data in ("DUC2001", "DUC2002")
    ]
    corpus = judged(writer, "duc2002")
    table = score_texts(
        corpus["candidate"].to_list(),
        sources=corpus["source"].to_list(),
        metrics=("cosine:source",),
        encoders={"tiny": f"glove:{vectors}"},
    )
    scored = corpus.with_columns(x=pl.Series(table["cosine:source"].to_pylist()))
    means = scored.group_by("system_id").agg(pl.col("x", "y").mean())
    expected = stats.pearsonr(means["x"], means["y"]).statistic
    assert filled(result)["enc-2", "DUC2002 P(doc)"] == pytest.approx(expected, abs=1e-9)
    alone = made("sun2019-table1", encoders={"avg": f"glove:{vectors}"})
    rows = {row for (row,), _ in alone.ours}
    assert "avg" in rows
    assert "enc-avg" not in rows  # needs all encoders
    assert sum("weights" in text for text in alone.missing) == 6


def test_statistics_of_texts_by_hand(made, writer):
    writer.asap_sas()
    writer.duc(2001)
    n_sentences = sum(5 + i % 3 for i in range(2, 12))  # ten essays, with five words in each
    essays, found = filled(made("clark2019-table7")), filled(made("sun2019-table2"))
    kept = pl.read_parquet(writer.root.parent / "out" / "work" / "data" / "asap-sas-kept.parquet")
    assert essays == {
        ("# types", "Essays"): kept["candidate"].str.split(" ").explode().n_unique(),
        ("# documents", "Essays"): 10,
        ("# tokens", "Essays"): 5 * n_sentences,
        ("average length (tokens)", "Essays"): n_sentences / 2,
        ("average length (sent.)", "Essays"): n_sentences / 10,
    }
    lengths = [found[f"Avg. {text} length", "DUC2001"] for text in ("document", "reference")]
    assert lengths == [40, 15]
    assert found["# of systems", "DUC2001"] == 5
    assert found["Avg annotated article per sys", "DUC2001"] == 4
    assert 0 <= found["Min coverage score", "DUC2001"] < found["Max coverage range", "DUC2001"] <= 1


@pytest.mark.parametrize("name", ["sun2019-table3", "sun2019-appendix-table2"])
def test_sun_newsroom_tables_fill_two_columns(made, writer, name):
    writer.newsroom_human()
    result = made(name)
    assert {column for _, column in result.ours} == {"IN", "RL"}
    assert result.frame()["difference"].count() == 2 * 22
    assert "from 4 systems, 4 documents" in result.notes[0]  # without the oracle


def test_sun_table_4_from_data_and_from_print(made, writer):
    from_print = made("sun2019-table4")
    assert filled(from_print)["enc-2", "P(ref)"] == pytest.approx(6.667, abs=0.001)
    assert len(from_print.missing) == 3
    writer.duc(2001, 2002)
    writer.newsroom_human()
    result = made("sun2019-table4")
    assert (result.frame()["difference"].count(), result.missing) == (40, [])
    assert all(1 <= rank <= 10 for rank in filled(result).values())
    assert filled(result) != filled(from_print)


def said(chart, name):
    """The texts or titles of a chart."""
    root = ElementTree.fromstring(chart)
    return [each.text for each in root.iter(f"{{http://www.w3.org/2000/svg}}{name}")]


def test_sun_figures(made, writer):
    writer.duc(2001)
    (figure,) = made("sun2019-figure1").figures
    assert figure.name == "sun2019-figure1-duc2001"
    drawn = figure.frame.drop_nulls("mean")
    dots = [title for title in said(figure.chart, "title") if " articles: " in title]
    assert len(dots) == len(drawn)
    first = drawn.row(0, named=True)
    assert f"{first['aspect']}, {first['n_documents']} articles: " in dots[0]
    assert set(figure.frame["metric"]) & set(said(figure.chart, "text"))
    (figure,) = made("sun2019-figure2").figures
    assert figure.frame["source_tokens"].unique().to_list() == [None, 400, 750]
    assert set(figure.frame["metric"]) == set(figure.frame["cut_metric"]) == set(CUT_ENCODERS)
    assert {"400", "750", "all", *CUT_ENCODERS} <= set(said(figure.chart, "text"))
    (figure,) = made("sun2019-figure3").figures
    assert set(figure.frame["system_id"]) == {"1", "A1", "B2", "C3", "D4"}
    assert set(figure.frame["metric"]) >= {"enc-avg", "R1-F", "ELMo-m"}
    drawn = figure.frame.drop_nulls(["score", "rating"])
    assert len(said(figure.chart, "title")) == len(drawn)
