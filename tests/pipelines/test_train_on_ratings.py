"""`assay train` with human ratings or preferences: what it says of itself, and what it keeps."""

import json
from types import SimpleNamespace

import pytest

from agreement.intervals import Interval
from pipelines.cli.app import run
from pipelines.cli.train import verdict
from reffree.scorers.scorer import load_scorer
from tests.commands import wrong
from tests.pipelines.test_train_model import news, rated, settings_of
from tests.row_files import write_rows

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def on_ratings(tmp_path, capsys):
    """Train on rated rows; return the folder and what is printed."""

    def call(rows, ratings, *options, out="s"):
        corpus = str(write_rows(tmp_path / "corpus.parquet", rows))
        people = str(write_rows(tmp_path / "ratings.parquet", ratings))
        given = ["--out", str(tmp_path / out), "--quiet", *options]
        assert run(["train", corpus, "--ratings", people, *given]) == 0
        return tmp_path / out, capsys.readouterr().out

    return call


@pytest.fixture
def on_table(tmp_path, capsys):
    """Train on the rows of a table; return the status and what is printed."""

    def call(rows, out="s"):
        table = tmp_path / "table.jsonl"
        table.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        status = run(["train", str(table), "--out", str(tmp_path / out), "--quiet"])
        return status, capsys.readouterr()

    return call


@pytest.mark.slow
def test_ratings_train_a_head_for_each_rated_aspect(on_ratings, tmp_path):
    config = tmp_path / "c.toml"
    config.write_text("learning_curve = [3, 10, 11]\n")  # 10 is what a fold has
    out, printed = on_ratings(*rated(), "--config", str(config))
    assert "72 rated candidates of 12 documents by 6 systems" in printed
    assert "fitted to other documents, but the same systems" in printed
    rows_of_table = [line.split() for line in printed.splitlines() if line.startswith("quality ")]
    assert [row[1] for row in rows_of_table] == ["3", "10"]  # "10 of 12"
    held_out = settings_of(out)["held_out"]
    assert set(held_out) == {"quality, 3 documents", "quality, 12 documents"}
    fit = held_out["quality, 12 documents"]
    assert fit["cross_validated"] > 0.9
    assert {"reffree@news", "reffree@news.fluency", "length", "density"} <= set(fit["others"])
    assert load_scorer(f"{out}.quality").head == "quality"
    assert [one["n_fitted"] for one in held_out.values()] == [3, 10]
    difference = fit["differences"]["reffree@news"]
    assert difference["value"] == fit["cross_validated"] - fit["others"]["reffree@news"]
    assert difference["low"] <= difference["value"] <= difference["high"]
    told = "better" if difference["low"] > 0 else "not shown to be better"
    assert f"quality: {told} than reffree@news ({difference['value']:+.3f} [" in printed
    assert fit["differences"]["length"]["low"] is None  # all are as long
    assert "; no verdict on length (" in printed
    assert fit["others"]["density"] > 0  # so it is compared as it is
    assert "density" in fit["differences"]


@pytest.mark.slow
def test_systems_are_left_out_where_there_are_ten(on_ratings):
    rows, ratings = rated(5)
    ratings = [{**row, "quality": -row["quality"]} for row in ratings]
    copies = [
        [{**row, "system_id": f"{row['system_id']}-{k}"} for row in table for k in (1, 2)]
        for table in (rows, ratings)
    ]
    out, printed = on_ratings(*copies)
    assert "fitted to other documents and other systems." in printed
    assert "quality: no verdict on reffree@news (needs 6 documents, got 5), " in printed
    (fit,) = settings_of(out)["held_out"].values()
    assert fit["others"]["density"] < 0
    assert fit["differences"]["-density"]["value"] == pytest.approx(
        fit["cross_validated"] + fit["others"]["density"]
    )


def test_fit_that_is_worse_is_called_so():
    interval = Interval(value=-0.19, low=-0.37, high=-0.03, method="bootstrap-documents")
    fit = SimpleNamespace(aspect="flow", differences={"density": interval})
    assert verdict(fit) == "flow: worse than density (-0.190 [-0.37, -0.03])"


def test_rated_table_without_references_is_told_of_ratings(tmp_path, capsys):
    table = tmp_path / "rated.csv"
    table.write_text("document_id,system_id,source,candidate,quality\nd,s,A cat sat.,A cat.,3\n")
    given = ["train", str(table), "--out", str(tmp_path / "s"), "--quiet"]
    assert "if people rated these summaries, give `--ratings FILE`" in wrong(
        capsys, (run(given), None)
    )


def preferences(n=10):
    """Documents with a good and a bad summary each, which cannot be told by length."""
    return [
        {"document_id": row["document_id"], "source": row["source"], "candidate": text,
         "label": label, "aspect": "style"}
        for row in news(n)
        for text, label in ((row["reference"], 1), ("zyx " * len(row["reference"].split()), 0))
    ]  # fmt: skip


@pytest.mark.slow
def test_preferences_without_split_are_all_fitted_and_cross_validated(on_table, tmp_path):
    status, printed = on_table(preferences())
    assert status == 0
    lines = printed.out.splitlines()
    assert lines[2].startswith(
        "style: fitted to 10 preferences of 10 documents. It agrees with 10 of 10 preferences "
        "that it had not seen; reffree@news"
    )
    assert "length 5, " in lines[2]  # all tied
    assert "cross-validated" in lines[2]
    assert not [line for line in lines if "accuracy" in line]
    assert lines[-2].startswith("Signature: ")
    (told,) = settings_of(tmp_path / "s")["trained_on"]["preferences"]
    assert (told["n_fitted"], told["n_right"], told["is_cross_validated"]) == (10, 10, True)
    said = "fitted to 2 preferences of 2 documents. These are too few documents to say"
    assert said in on_table(preferences(2), out="few")[1].out


def test_preferences_with_split_are_judged_by_their_test_documents(on_table):
    rows = [{**row, "split": "train"} for row in preferences()]
    again = [{**row, "document_id": f"again-{row['document_id']}"} for row in rows[:6]]
    rows += [{**row, "split": "test"} for row in again]
    rows.append({**rows[0], "candidate": ""})
    _, printed = on_table(rows)
    said = "fitted to 7 preferences of 7 documents. It agrees with 3 of 3 preferences"
    assert said in printed.out
    assert "test documents" in printed.out
    # the same texts on a later side, too
    assert "Left out: 6, document_id or text also on a later side." in printed.out
    assert "Left out: 1, no candidate." in printed.out


# what is changed in every row, what is said
REFUSED = [
    ({}, "of a `positive` must be the highest of its document"),
    ({"label": 1}, "nothing to compare in 6 training rows: a document"),
    ({"label": float("nan")}, "`label` must be finite and `weight` above 0"),
    ({"label": [1]}, "`label`, `weight` and `number` must be numbers"),
    ({"source": ["A b.", "C d."]}, "must have one source, got 2 for doc"),
    ({"split": None}, "`split` must be train, validation or test, got None for document n0"),
]


@pytest.mark.parametrize(("changed", "message"), REFUSED)
def test_rows_that_cannot_be_trained_on_are_refused(on_table, changed, message, tmp_path):
    kinds = ["swap", "positive"] if not changed else ["", ""]  # of the better, and the worse
    rows = [{**row, "kind": kinds[i % 2], **changed} for i, row in enumerate(preferences(3))]
    status, said = on_table(rows)
    assert (status, len(said.err.splitlines())) == (2, 1)
    assert message in said.err
    assert not (tmp_path / "s").exists()


@pytest.mark.slow
def test_copies_of_an_article_count_as_one_document(on_ratings):
    rows, ratings = rated()
    copies = [
        [{**row, "document_id": f"{row['document_id']}-{k}"} for k in range(2) for row in table]
        for table in (rows, ratings)
    ]
    once, _ = on_ratings(rows, ratings, out="once")
    twice, printed = on_ratings(*copies, out="twice")
    said = "Documents counted with another one that has the same source: 12."
    assert said in printed.splitlines()
    figures = [list(settings_of(folder)["held_out"].values())[-1] for folder in (once, twice)]
    assert figures[1]["cross_validated"] == pytest.approx(figures[0]["cross_validated"], abs=1e-9)
    first, second = (fit["differences"]["reffree@news"] for fit in figures)
    assert (second["low"], second["high"]) == pytest.approx((first["low"], first["high"]), abs=1e-9)


def test_what_is_not_fitted_to_is_told(on_ratings, tmp_path, capsys):
    rows, ratings = rated()
    rows[0]["candidate"], rows[1]["candidate"], rows[2]["source"] = None, "...", None
    del rows[-1]
    ratings[5]["system_id"] = None
    lines = on_ratings(rows, ratings)[1].splitlines()
    assert lines[0].startswith("67 rated candidates of 12 documents")
    assert any(line.startswith("1 row of ") and "lacks an id" in line for line in lines)
    assert "Rated summaries that are not in the corpus: 1 of 71." in lines
    assert "Left out: 2, no candidate." in lines
    assert "Left out: 1, no source." in lines

    rows.append({**rows[7], "candidate": "Quite another text."})
    corpus = str(write_rows(tmp_path / "corpus.parquet", rows))
    given = ["train", corpus, "--out", str(tmp_path / "other"), "--quiet"]
    given += ["--ratings", str(tmp_path / "ratings.parquet")]
    assert "must name one row of the corpus" in wrong(capsys, (run(given), None))
