"""`assay train` with human ratings or preferences: what it says of itself, and what it keeps."""

import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agreement.intervals import Interval
from pipelines.cli.train import verdict
from pipelines.train_on_ratings import RatedFit
from reffree.scorer import load_scorer
from tests.pipelines.test_train_scorer import news, rated
from tests.rare import run, wrong

pytestmark = pytest.mark.usefixtures("one_thread")


def test_ratings_train_a_head_for_each_rated_aspect(tmp_path, capsys):
    rows, ratings = rated()
    for name, table in (("corpus", rows), ("ratings", ratings)):
        pq.write_table(pa.Table.from_pylist(table), tmp_path / f"{name}.parquet")
    config = tmp_path / "c.toml"
    config.write_text("learning_curve = [3, 10, 11]\n")  # 10 is what a fold has
    given = ["--ratings", str(tmp_path / "ratings.parquet"), "--config", str(config)]
    out = str(tmp_path / "mine")
    assert run(["train", str(tmp_path / "corpus.parquet"), "--out", out, *given, "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert "72 rated candidates of 12 documents by 6 systems" in printed
    assert "fitted to other documents, but the same systems" in printed
    rows_of_table = [line.split() for line in printed.splitlines() if line.startswith("quality ")]
    assert [row[1] for row in rows_of_table] == ["3", "10"]  # "10 of 12"
    held_out = json.loads((tmp_path / "mine" / "scorer.json").read_text())["held_out"]
    assert set(held_out) == {"quality, 3 documents", "quality, 12 documents"}
    fit = held_out["quality, 12 documents"]
    assert fit["cross_validated"] > 0.9
    assert {"reffree@news", "reffree@news.fluency", "length", "density"} <= set(fit["others"])
    assert load_scorer(f"{out}.quality").head == "quality"
    curve = json.loads((tmp_path / "mine" / "learning_curve.json").read_text())
    assert curve == list(held_out.values())
    assert [one["n_fitted"] for one in curve] == [3, 10]
    difference = fit["differences"]["reffree@news"]
    assert difference["value"] == fit["cross_validated"] - fit["others"]["reffree@news"]
    assert difference["low"] <= difference["value"] <= difference["high"]
    told = "better" if difference["low"] > 0 else "not shown to be better"
    assert f"quality: {told} than reffree@news ({difference['value']:+.3f} [" in printed
    assert fit["differences"]["length"]["low"] is None  # all are as long
    assert "; no verdict on length (" in printed
    assert fit["others"]["density"] > 0  # so it is compared as it is
    assert "density" in fit["differences"]

    given = ["evaluate", out, "--corpus", str(tmp_path / "corpus.parquet"), "--quiet"]
    assert run([*given, "--ratings", str(tmp_path / "ratings.parquet")]) == 0
    assert "was trained on at least 12 of these 12 documents" in capsys.readouterr().out


def test_systems_are_left_out_where_there_are_ten(tmp_path, capsys):
    rows, ratings = rated(5)
    ratings = [{**row, "quality": -row["quality"]} for row in ratings]
    copies = [
        [{**row, "system_id": f"{row['system_id']}-{k}"} for row in table for k in (1, 2)]
        for table in (rows, ratings)
    ]
    for name, table in zip(("corpus", "ratings"), copies, strict=True):
        pq.write_table(pa.Table.from_pylist(table), tmp_path / f"{name}.parquet")
    given = ["--ratings", str(tmp_path / "ratings.parquet"), "--out", str(tmp_path / "s")]
    assert run(["train", str(tmp_path / "corpus.parquet"), *given, "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert "fitted to other documents and other systems." in printed
    assert "quality: no verdict on reffree@news (needs 6 documents, got 5), " in printed
    fit = json.loads((tmp_path / "s" / "learning_curve.json").read_text())[0]
    assert fit["others"]["density"] < 0
    assert fit["differences"]["-density"]["value"] == pytest.approx(
        fit["cross_validated"] + fit["others"]["density"]
    )


def test_fit_that_is_worse_is_called_so():
    interval = Interval(value=-0.19, low=-0.37, high=-0.03, method="bootstrap-documents")
    fit = RatedFit(
        aspect="flow",
        n_documents=9,
        n_fitted=7,
        cross_validated=0.1,
        others={},
        differences={"density": interval},
    )
    assert verdict(fit) == "flow: worse than density (-0.190 [-0.37, -0.03])"


def test_fold_is_not_said_to_be_fitted_to_all_of_few_documents(tmp_path, capsys):
    rows, ratings = rated(4)
    for name, table in (("corpus", rows), ("ratings", ratings)):
        pq.write_table(pa.Table.from_pylist(table), tmp_path / f"{name}.parquet")
    given = ["--ratings", str(tmp_path / "ratings.parquet"), "--out", str(tmp_path / "s")]
    assert run(["train", str(tmp_path / "corpus.parquet"), *given, "--quiet"]) == 0
    (line,) = [own for own in capsys.readouterr().out.splitlines() if own.startswith("quality  ")]
    assert line.split()[1:4] == ["3", "of", "4"]


def test_rated_table_without_references_is_told_of_ratings(tmp_path, capsys):
    table = tmp_path / "rated.csv"
    table.write_text("document_id,system_id,source,candidate,quality\nd,s,A cat sat.,A cat.,3\n")
    given = ["train", str(table), "--out", str(tmp_path / "s"), "--quiet"]
    assert "if people rated these summaries, give `--ratings FILE`" in wrong(
        capsys, (run(given), None)
    )


def preferences(tmp_path, **columns):
    """Ten documents with a good and a bad summary each, which cannot be told by length."""
    rows = [
        {"document_id": row["document_id"], "source": row["source"], "candidate": text,
         "label": label, **{name: side(k) for name, side in columns.items()}}
        for k, row in enumerate(news(10))
        for text, label in ((row["reference"], 1), ("zyx " * len(row["reference"].split()), 0))
    ]  # fmt: skip
    table = tmp_path / "prefs.csv"
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return str(table)


def test_preferences_without_split_are_all_fitted_and_cross_validated(tmp_path, capsys):
    out = tmp_path / "s"
    assert run(["train", preferences(tmp_path), "--out", str(out), "--quiet"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith(
        "overall: fitted to 10 preferences of 10 documents. It agrees with 10 of 10 preferences "
        "that it had not seen; reffree@news"
    )
    assert "length 5, " in lines[2]  # all tied
    assert "cross-validated" in lines[2]
    assert not [line for line in lines if "accuracy" in line]
    assert lines[-2].startswith("Signature: ")
    (told,) = json.loads((out / "scorer.json").read_text())["trained_on"]["preferences"]
    assert (told["n_fitted"], told["n_right"], told["is_cross_validated"]) == (10, 10, True)


def test_learning_curve_of_preferences_is_refused(tmp_path, capsys):
    config = tmp_path / "c.toml"
    config.write_text("learning_curve = [3, 5]\n")
    given = ["train", preferences(tmp_path), "--out", str(tmp_path / "s"), "--quiet"]
    message = wrong(capsys, (run([*given, "--config", str(config)]), None))
    assert "`learning_curve` must be left out for a table with labels" in message
    assert not (tmp_path / "s").exists()


def test_too_few_preferences_are_not_judged(tmp_path, capsys):
    table = preferences(tmp_path)
    path = tmp_path / "prefs.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:5]))
    assert run(["train", table, "--out", str(tmp_path / "s"), "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert "fitted to 2 preferences of 2 documents. That is too few documents to say" in printed


def test_preferences_with_split_are_judged_by_their_test_documents(tmp_path, capsys):
    table = preferences(tmp_path, split=lambda k: "test" if k < 3 else "train")
    assert run(["train", table, "--out", str(tmp_path / "s"), "--quiet"]) == 0
    (line,) = [own for own in capsys.readouterr().out.splitlines() if own.startswith("overall")]
    assert "fitted to 7 preferences of 7 documents. It agrees with 3 of 3 preferences" in line
    assert "test documents" in line


def test_preferences_on_a_later_side_too_are_left_out(tmp_path, capsys):
    table = preferences(tmp_path, split=lambda k: "train")
    rows = list(csv.DictReader((tmp_path / "prefs.csv").read_text().splitlines()))
    renamed = [{**row, "document_id": f"again-{row['document_id']}"} for row in rows[:6]]
    with (tmp_path / "prefs.csv").open("a", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writerows({**row, "split": "test"} for row in renamed)
        writer.writerow({**rows[0], "candidate": "", "split": "train"})
    assert run(["train", table, "--out", str(tmp_path / "s"), "--quiet"]) == 0
    printed = capsys.readouterr().out
    assert "fitted to 7 preferences of 7 documents. It agrees with 3 of 3 preferences" in printed
    assert "Left out: 6, document_id or text also on a later side." in printed
    assert "Left out: 1, no candidate." in printed


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"kind": "positive", "label": 0}, "of a `positive` must be the highest of its document"),
        ({"label": [1]}, "`label`, `weight` and `number` must be numbers"),
        ({"source": ["One text.", "Another text."]}, "must have one source, got 2 for document"),
    ],
)
def test_rows_that_cannot_be_trained_on_are_refused(tmp_path, capsys, changed, message):
    table, lines = tmp_path / "t.jsonl", []
    for row in news(3):
        good = {"document_id": row["document_id"], "source": row["source"], "label": 1}
        lines += [{**good, "candidate": row["reference"]} | changed]
        lines += [
            {**good, "candidate": "zyx", "kind": "swap"}
            | ({"label": 0} if "kind" not in changed else {})
        ]
    table.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    given = ["train", str(table), "--out", str(tmp_path / "s"), "--quiet"]
    assert message in wrong(capsys, (run(given), None))


def test_copies_of_an_article_count_as_one_document(tmp_path, capsys):
    rows, ratings = rated()
    copies = [
        [{**row, "document_id": f"{row['document_id']}-{k}"} for k in range(2) for row in table]
        for table in (rows, ratings)
    ]
    printed = []
    for corpus, table in ((rows, ratings), copies):
        for name, own in (("corpus", corpus), ("ratings", table)):
            pq.write_table(pa.Table.from_pylist(own), tmp_path / f"{name}.parquet")
        out = ["--out", str(tmp_path / str(len(corpus))), "--quiet"]
        given = ["train", str(tmp_path / "corpus.parquet"), *out]
        assert run([*given, "--ratings", str(tmp_path / "ratings.parquet")]) == 0
        printed.append(capsys.readouterr().out)
    assert (
        "Documents that count as one with another, for their source: 12." in printed[1].splitlines()
    )
    figures = [
        json.loads((tmp_path / str(len(own)) / "learning_curve.json").read_text())[-1]
        for own in (rows, copies[0])
    ]
    assert figures[1]["cross_validated"] == pytest.approx(figures[0]["cross_validated"], abs=1e-9)
    first, second = (own["differences"]["reffree@news"] for own in figures)
    assert (second["low"], second["high"]) == pytest.approx((first["low"], first["high"]), abs=1e-9)


def test_what_is_not_fitted_to_is_told(tmp_path, capsys):
    rows, ratings = rated()
    rows[0]["candidate"], rows[1]["candidate"], rows[2]["source"] = None, "...", None
    del rows[-1]
    ratings[5]["system_id"] = None
    for name, table in (("corpus", rows), ("ratings", ratings)):
        pq.write_table(pa.Table.from_pylist(table), tmp_path / f"{name}.parquet")
    given = ["train", str(tmp_path / "corpus.parquet"), "--out", str(tmp_path / "s"), "--quiet"]
    given += ["--ratings", str(tmp_path / "ratings.parquet")]
    assert run(given) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("67 rated candidates of 12 documents")
    assert any(line.startswith("1 rows of ") and "have no key" in line for line in lines)
    assert "Rated summaries that the corpus lacks: 1 of 71." in lines
    assert "Left out: 2, no candidate." in lines
    assert "Left out: 1, no source." in lines

    rows.append({**rows[7], "candidate": "Quite another text."})
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "corpus.parquet")
    given[3] = str(tmp_path / "other")
    assert "must name one row of the corpus" in wrong(capsys, (run(given), None))
    given = ["evaluate", "news", "--corpus", given[1], *given[-2:], "--quiet"]
    assert "must name one row of the corpus" in wrong(capsys, (run(given), None))
