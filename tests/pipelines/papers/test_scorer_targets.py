"""Tables of Bao et al.: scorers that are given, and people's judgements."""

import json
import shutil

import polars as pl
import pytest

from assay import reproduce, train
from pipelines.papers import bao2020
from pipelines.papers.bench import Bench
from pipelines.settings.reproduce import ReproduceSettings
from tests.reffree.tiny_bert import write_tiny_bert

pytestmark = pytest.mark.usefixtures("one_thread")


def by_cell(result):
    return {(*row, column): ours.value for (row, column), ours in result.ours.items()}


def bench_of(writer, tmp_path, seed=0):
    return Bench(ReproduceSettings(seed=seed, data=writer.root), tmp_path / "work")


@pytest.fixture
def scorers(writer, tmp_path):
    """Train a tiny scorer, and give it the names of others."""
    writer.pairs()
    pairs = bench_of(writer, tmp_path).pairs(bao2020.PAIRS["cnn-dailymail"], 30_000)
    encoder = f"hf:{write_tiny_bert(tmp_path / 'tiny', n_positions=512)}"
    folder = tmp_path / "scorers"
    train(pairs, out=folder / "one", preset="bao2020", encoder=encoder, epochs=1, batch_size=16)

    def call(*needs):
        for need in needs:
            shutil.copytree(folder / "one", folder / need.name)
        shutil.rmtree(folder / "one")
        return folder

    return call


def held_out_scorers(folder, cells):
    """Write what Tables 1 and 2 read of scorers: their held-out figures."""
    for i, (((block, _), _), need) in enumerate(cells.items()):
        (folder / need.name).mkdir(parents=True)
        figures = {"accuracy": 0.5 + i / 100, "pearson": 0.4 + i / 100}
        settings = {"held_out": {block if block in bao2020.EDITS else "cross-pair": figures}}
        (folder / need.name / "scorer.json").write_text(json.dumps(settings))


@pytest.mark.parametrize(
    ("table", "cells", "first"),
    [("bao2020-table1", bao2020._TABLE1, 50.0), ("bao2020-table2", bao2020._TABLE2, 40.0)],
)
def test_held_out_figures_of_trained_scorers(tmp_path, table, cells, first):
    held_out_scorers(tmp_path, cells)
    (result,) = reproduce(table, scorers=tmp_path)
    assert result.missing == []
    assert result.frame()["difference"].count() == len(cells) == 39
    values = [result.ours[cell].value for cell in cells]
    assert values == pytest.approx([first + i for i in range(39)])

    shutil.rmtree(tmp_path / next(iter(cells.values())).name)
    (result,) = reproduce(table, scorers=tmp_path)
    assert result.frame()["difference"].count() == 38
    (missing,) = result.missing
    assert missing.startswith("trained cnn-dailymail-30k-")
    assert "-glove-100-fc (word on " in missing


def test_every_scorer_has_a_name_of_its_own():
    needs = {need for table in (bao2020._TABLE1, bao2020._TABLE2) for need in table.values()}
    needs |= {*bao2020._TABLE4.values(), *bao2020._BY_NEGATIVES.values()}
    assert len({need.name for need in needs}) == len(needs)


def test_tables_of_other_domains_and_sizes(writer, scorers, tmp_path):
    folder = scorers(*bao2020._TABLE3.values())
    options = {"data": writer.root, "out": tmp_path / "out", "scorers": folder}
    domains, sizes = reproduce(["bao2020-table3", "bao2020-table4"], **options)
    assert domains.frame()["difference"].count() == 5
    found = by_cell(domains)
    home = found["Accuracy (%)", "CNN/DailyMail"]
    assert 0 <= home <= 100
    assert found["change", "Newsroom"] == pytest.approx(found["Accuracy (%)", "Newsroom"] - home)
    assert "%" in domains.to_markdown()
    values = by_cell(sizes)
    assert values["CNN/DM itself", "30k"] == home
    assert set(values) == {("CNN/DM itself", "30k")} | {
        ("Newsroom", size) for size in ("30k", "100k", "300k")
    }
    assert sum(text.startswith("trained") for text in sizes.missing) == 2


def test_tables_against_people(writer, scorers, tmp_path):
    folder = scorers(bao2020._BY_NEGATIVES["mix"])
    writer.tac2010()
    names = [f"bao2020-table{i}" for i in (5, 6, 7, 8)]
    made = reproduce(names, data=writer.root, out=tmp_path / "out", scorers=folder)
    results = dict(zip(names, made, strict=True))
    rows = {name: {row for (row,), _ in result.ours} for name, result in results.items()}
    assert rows["bao2020-table5"] == rows["bao2020-table6"] == {"mix", "mix on machines'"}
    assert len(rows["bao2020-table7"]) == len(rows["bao2020-table8"]) == 13
    best = results["bao2020-table7"].ours[("Our best",), "Overall score"]
    assert results["bao2020-table5"].ours[("mix on machines'",), "Overall score"] == best
    assert "from 5 to 7 systems" in results["bao2020-table5"].notes[0].lower()
    kept = pl.read_parquet(tmp_path / "out" / "work" / "data" / "tac2010-kept.parquet")
    assert kept["source"].list.len().unique().to_list() == [2]
    assert sum(text.startswith("trained") for text in results["bao2020-table6"].missing) == 4
    (run,) = (tmp_path / "out" / "work" / "scores").glob("*/run.json")
    signatures = json.loads(run.read_text())["signatures"]
    assert "|stem:porter|" in signatures["rouge1_f"]
    assert all("stem:porter" in text for name, text in signatures.items() if "rouge" in name)


def test_pairs_are_drawn_by_the_seed_from_the_data_at_hand(writer, tmp_path):
    def drawn(seed):
        path = bench_of(writer, tmp_path, seed).pairs(bao2020.PAIRS["newsroom"], 5)
        return pl.read_parquet(path)["document_id"].to_list()

    writer.pairs(n=30)
    first, second = drawn(0), drawn(1)
    assert len(first) == 5
    assert first not in (second, [f"n{i}" for i in range(5)])
    assert drawn(0) == first
    writer.pairs(n=300)
    assert drawn(0) != first
