"""sacrerouge's JSON lines, both ways."""

import json

import polars as pl
import pytest

from tests.rare import run

PEER = {"instance_id": "d1", "summarizer_id": "7", "summarizer_type": "peer"}
PERSON = {"instance_id": "d1", "summarizer_id": "A", "summarizer_type": "reference"}


def text(content, **more):
    return {"text": content, **more}


def test_instances_by_hand(importing, write):
    lines = [
        PEER
        | {
            "summary": text(["A ship sank.", "Nine saved."], summarizer_id="7"),
            "references": [text("A tug saved nine.", summarizer_id="A"), text(["One.", "Two."])],
        },
        PERSON | {"summary": text("A tug saved nine."), "reference": text("One."), "documents": []},
    ]
    documents = [{"instance_id": "d1", "documents": [text([["A.", "B."], ["C."]]), text("D.")]}]
    found = importing(
        "sacrerouge", write("summaries.jsonl.gz", lines), write("documents.jsonl", documents)
    )
    assert found.row("7") == {
        "document_id": "d1",
        "system_id": "7",
        "candidate": "A ship sank.\nNine saved.",
        "references": ["A tug saved nine.", "One.\nTwo."],
        "source": ["A.\nB.\nC.", "D."],
    }
    assert found.row("human-A")["references"] == ["One."]


def test_instance_without_documents_has_no_source(importing, write):
    lines = [{"instance_id": "d1", "documents": []}, PEER | {"summary": text("A.")}]
    assert importing("sacrerouge", write("a.jsonl", lines)).row("7")["source"] is None


def test_metrics_are_flattened_and_lists_averaged(importing, write):
    summary = PEER | {"summary": text("A."), "references": []}
    metrics = PEER | {
        "metrics": {"rouge-1": {"f1": 0.5, "recall": 1}, "expert": {"coherence": [1, 2, 3]}, "n": 4}
    }
    found = importing(
        "sacrerouge",
        write("summaries.jsonl", [summary]),
        write("metrics.jsonl", [metrics]),
        ratings=True,
        scores=True,
    )
    assert found.ratings.rows(named=True) == [
        {
            "document_id": "d1",
            "system_id": "7",
            "rouge-1_f1": 0.5,
            "rouge-1_recall": 1.0,
            "expert_coherence": 2.0,
            "n": 4.0,
        }
    ]
    assert found.scores.equals(found.ratings)


def test_metrics_of_a_candidate_may_be_in_several_files(importing, write):
    found = importing(
        "sacrerouge",
        write("people.jsonl", [PEER | {"summary": text("A."), "metrics": {"overall": 3}}]),
        write("rouge.jsonl", [PEER | {"metrics": {"rouge-1": {"f1": 0.5}, "overall": 3}}]),
        write("other.jsonl", [PEER | {"metrics": {"overall": 4}}]),
        scores=True,
    )
    assert found.scores.select("overall", "rouge-1_f1").rows() == [(3.0, 0.5)]
    assert "Left out: 1, values of metrics that differ from the first, which is kept" in found.said


def test_number_that_is_nan_is_null(importing, write):
    nan = float("nan")
    row = PEER | {"summary": text("A."), "metrics": {"a": nan, "b": {"c": [1, nan]}, "d": 1}}
    found = importing("sacrerouge", write("a.jsonl", [row, row]), scores=True)
    assert found.scores.rows() == [("d1", "7", None, None, 1.0)]
    assert "values of metrics that differ" not in found.said


def test_columns_that_turn_up_late_are_null_before(importing, write):
    rows = [PEER | {"instance_id": f"d{i}", "summary": text("A.")} for i in range(2_100)]
    for i, row in enumerate(rows):
        row["metrics"] = {"a": i, "b": i} if i == 2_050 else {"a": i}
    found = importing("sacrerouge", write("all.jsonl", rows), ratings=True).ratings
    assert found["a"].to_list() == list(range(2_100))
    assert found["b"].drop_nulls().to_list() == [2_050]
    assert found["b"][2_050] == 2_050


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"summarizer_id": "human-A"}, "must not begin with `human-` unless"),
        ({"summary": {"text": 3}}, "must be text or lists of text, got 3"),
        ({"metrics": {"a": {"b": "high"}}}, "`b` in `a` in `metrics` in "),
        ({"metrics": {"a": {"b": 1}, "a_b": 2}}, "must have one number called `a_b`, got two"),
        ({"metrics": {"a": [10**400]}}, "must be a number, got 1000"),
        ({"instance_id": None}, "`instance_id` in "),
    ],
)
def test_line_of_another_form_named(refused, write, changes, message):
    row = PEER | {"summary": text("A.")} | changes
    said = refused("sacrerouge", write("a.jsonl", [row]))
    assert message in said
    assert "a.jsonl, line 1" in said


def test_metric_called_like_a_key_rejected(refused, write):
    row = PEER | {"summary": text("A."), "metrics": {"system_id": 1}}
    said = refused("sacrerouge", write("a.jsonl", [row]), ratings=True)
    assert "must not be called `system_id`, which names a column of keys" in said


def test_corpus_and_scores_come_back_from_sacrerouge(importing, tmp_path, capsys):
    corpus = pl.DataFrame(
        {
            "document_id": ["d 1", "d 1", "d2"],
            "system_id": ["7", "human-A", "7"],
            "candidate": ["A ship\nsank – now.", "B.", "C."],
            "references": [["r1", "r2"], ["r2"], None],
            "source": [["s1", "s2"], ["s1", "s2"], None],
        }
    )
    scores = pl.DataFrame(
        {
            "document_id": ["d 1", "d 1", "d2"],
            "system_id": ["7", "human-A", "7"],
            "sms@glove:source": [0.1, 1 / 3, None],
            "rougeL_f": [1e-17, 1.0, 0.5],
        }
    )
    corpus.write_parquet(tmp_path / "corpus.parquet")
    scores.write_parquet(tmp_path / "scores.parquet")
    out = tmp_path / "exported"
    given = [str(tmp_path / f"{name}.parquet") for name in ("corpus", "scores")]
    assert run(["export", "sacrerouge", *given, "--out", str(out)]) == 0
    assert "3 candidates and 3 rows of scores" in capsys.readouterr().out
    found = importing("sacrerouge", out, scores=True)
    assert found.corpus.equals(corpus)
    assert found.scores.equals(scores)


def test_line_we_write_by_hand(importing, tmp_path):
    frame = pl.DataFrame(
        {"document_id": ["d"], "system_id": ["human-A"], "candidate": ["B."], "reference": ["r"]}
    )
    frame.write_parquet(tmp_path / "c.parquet")
    out = tmp_path / "out"
    assert run(["export", "sacrerouge", str(tmp_path / "c.parquet"), "--out", str(out)]) == 0
    (line,) = (out / "summaries.jsonl").read_text().splitlines()
    assert json.loads(line) == {
        "instance_id": "d",
        "summarizer_id": "A",
        "summarizer_type": "reference",
        "summary": {"text": "B."},
        "references": [{"text": "r"}],
        "documents": [],
    }
    assert not (out / "metrics.jsonl").exists()


def test_row_without_a_text_is_not_exported(tmp_path, capsys):
    frame = pl.DataFrame({"document_id": ["d"], "system_id": ["x"], "candidate": [None]})
    frame.cast(pl.String).write_parquet(tmp_path / "c.parquet")
    out = tmp_path / "out"
    assert run(["export", "sacrerouge", str(tmp_path / "c.parquet"), "--out", str(out)]) == 2
    assert "must be filled in, got none for document d, system x" in capsys.readouterr().err
    assert not out.exists()


def test_candidate_that_is_there_twice_is_not_exported(tmp_path, capsys):
    frame = pl.DataFrame({"document_id": ["d", "e"], "system_id": ["x", "x"]})
    frame.with_columns(candidate=pl.lit("A.")).write_parquet(tmp_path / "c.parquet")
    out, given = tmp_path / "out", str(tmp_path / "c.parquet")
    assert run(["export", "sacrerouge", given, given, "--out", str(out)]) == 2
    assert "but (d, x) in" in (said := capsys.readouterr().err)
    assert "repeats; keep one row of each" in said
    assert not out.exists()


@pytest.mark.parametrize(("document", "system"), [(" d", "x"), ("d", "x\n"), ("d", "human-")])
def test_id_that_would_come_back_changed_is_not_exported(tmp_path, capsys, document, system):
    frame = pl.DataFrame({"document_id": [document], "system_id": [system], "candidate": ["A."]})
    frame.write_parquet(tmp_path / "c.parquet")
    out = tmp_path / "out"
    assert run(["export", "sacrerouge", str(tmp_path / "c.parquet"), "--out", str(out)]) == 2
    assert "have no spaces around them, got" in capsys.readouterr().err
    assert not out.exists()


def test_numbers_keep_the_order_of_the_first_input(tmp_path):
    keys = pl.DataFrame({"document_id": [f"d{i}" for i in range(9)], "system_id": ["x"] * 9})
    keys.with_columns(a=pl.lit(0.5)).write_parquet(tmp_path / "a.parquet")
    keys.reverse().with_columns(b=pl.lit(0.5)).write_parquet(tmp_path / "b.parquet")
    given = [str(tmp_path / f"{name}.parquet") for name in "ab"]
    assert run(["export", "sacrerouge", *given, "--out", str(tmp_path / "out")]) == 0
    lines = (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["instance_id"] for line in lines] == keys["document_id"].to_list()


def test_row_that_cannot_be_read_is_named_by_its_place(tmp_path, capsys):
    good = json.dumps({"document_id": "d", "system_id": "x", "candidate": "a"})
    (tmp_path / "c.jsonl").write_text(f"{good}\n{good[:-2]}\n")
    out = tmp_path / "out"
    assert run(["export", "sacrerouge", str(tmp_path / "c.jsonl"), "--out", str(out)]) == 2
    assert "cannot read row 2 of" in (said := capsys.readouterr().err)
    assert said.endswith("c.jsonl: malformed JSON; correct it or leave it out\n")
    assert not out.exists()


def export(tmp_path, **columns):
    frame = pl.DataFrame({"document_id": ["d"] * 2, "system_id": ["x"] * 2} | columns)
    frame.write_parquet(tmp_path / "ratings.parquet")
    given = (str(tmp_path / "ratings.parquet"), "--out", str(tmp_path / "out"))
    return run(["export", "sacrerouge", *given])


def test_ratings_of_one_pool_are_averaged_and_text_is_named(tmp_path, capsys):
    columns = {"rater": ["r1", "r2"], "overall": [1, 4], "share": ["12.3%", "9%"], "n": ["a", "b"]}
    assert export(tmp_path, **columns) == 0
    (line,) = (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line)["metrics"] == {"overall": 2.5}
    said = capsys.readouterr().out
    assert "Column `share` of " in said
    assert "is left out because its cells are not numbers: '12.3%'" in said
    assert "`n`" not in said


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"rater": ["r1"] * 2, "overall": [1, 5]}, "1 repeat, for example (d, x, r1); keep one"),
        ({"rater": ["expert-1", "turker-1"], "overall": [1, 4]}, "of one pool to be averaged, got"),
        ({"overall": [1, 4]}, "1 repeat, for example (d, x); keep one row of each"),
        ({"rater": ["r1", "r2"], "overall": ["1%", "4%"]}, "must have a column of numbers besides"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(tmp_path, capsys, columns, message):
    assert export(tmp_path, **columns) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_unknown_format_and_existing_folder_are_refused(tmp_path, capsys):
    assert run(["export", "sacrerogue", "x.parquet", "--out", str(tmp_path / "x")]) == 2
    assert "did you mean `sacrerouge`?" in capsys.readouterr().err
    assert run(["export", "sacrerouge", "x.parquet", "--out", str(tmp_path)]) == 2
    assert "`--out` must not exist yet" in capsys.readouterr().err
