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


@pytest.fixture
def export(tmp_path, capsys):
    """Export tables; return the status, the folder and what was said."""

    def call(*tables):
        paths = []
        for k, table in enumerate(tables):
            frame = pl.DataFrame({"document_id": ["d"], "system_id": ["x"]} | table)
            frame.write_parquet(tmp_path / f"{k}.parquet")
            paths.append(str(tmp_path / f"{k}.parquet"))
        out = tmp_path / "out"
        status = run(["export", "sacrerouge", *paths, "--out", str(out)])
        said = capsys.readouterr()
        assert (status == 0) == out.exists()
        return status, out, said.out + said.err

    return call


def lines_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_line_we_write_by_hand(export):
    _, out, _ = export({"system_id": ["human-A"], "candidate": ["B."], "reference": ["r"]})
    assert lines_of(out / "summaries.jsonl") == [
        {
            "instance_id": "d",
            "summarizer_id": "A",
            "summarizer_type": "reference",
            "summary": {"text": "B."},
            "references": [{"text": "r"}],
            "documents": [],
        }
    ]
    assert not (out / "metrics.jsonl").exists()


def test_numbers_keep_the_order_of_the_first_input(export):
    keys = {"document_id": [f"d{i}" for i in range(9)], "system_id": ["x"] * 9}
    backwards = keys | {"document_id": keys["document_id"][::-1]}
    _, out, _ = export(keys | {"a": [0.5] * 9}, backwards | {"b": [0.5] * 9})
    found = [line["instance_id"] for line in lines_of(out / "metrics.jsonl")]
    assert found == keys["document_id"]


def test_ratings_of_one_pool_are_averaged_and_text_is_named(export):
    keys = {"document_id": ["d"] * 2, "system_id": ["x"] * 2, "rater": ["r1", "r2"]}
    columns = {"overall": [1, 4], "share": ["12.3%", "9%"], "n": ["a", "b"]}
    _, out, said = export(keys | columns)
    (line,) = lines_of(out / "metrics.jsonl")
    assert line["metrics"] == {"overall": 2.5}
    assert "Column `share` of " in said
    assert "is left out because its cells are not numbers: '12.3%'" in said
    assert "`n`" not in said


TWICE = {"document_id": ["d"] * 2, "system_id": ["x"] * 2}
# tables, what is said
NOT_EXPORTED = [
    ([{"candidate": pl.Series([None], dtype=pl.String)}],
     "must be filled in, got none for document d, system x"),
    ([{"candidate": ["A."]}, {"candidate": ["A."]}], "but (d, x) in "),
    ([{"document_id": [" d"], "candidate": ["A."]}], "have no spaces around them, got ' d'"),
    ([{"system_id": ["x\n"], "candidate": ["A."]}], "have no spaces around them, got 'x\\n'"),
    ([{"system_id": ["human-"], "candidate": ["A."]}], "ids that are not empty and have"),
    ([TWICE | {"rater": ["r1"] * 2, "overall": [1, 5]}],
     "1 repeat, for example (d, x, r1); keep one"),
    ([TWICE | {"rater": ["expert-1", "turker-1"], "overall": [1, 4]}],
     "of one pool to be averaged, got"),
    ([TWICE | {"overall": [1, 4]}], "1 repeat, for example (d, x); keep one row of each"),
    ([TWICE | {"rater": ["r1", "r2"], "overall": ["1%", "4%"]}],
     "must have a column of numbers besides"),
    ([{"a": [1]}, {"a": [2]}], "`a` must be in only one of the inputs"),
]  # fmt: skip


@pytest.mark.parametrize(("tables", "message"), NOT_EXPORTED)
def test_what_does_not_fit_is_not_exported(export, tables, message):
    status, _, said = export(*tables)
    assert status == 2
    assert message in said


def test_row_that_cannot_be_read_is_named_by_its_place(tmp_path, capsys):
    good = json.dumps({"document_id": "d", "system_id": "x", "candidate": "a"})
    (tmp_path / "c.jsonl").write_text(f"{good}\n{good[:-2]}\n")
    out = tmp_path / "out"
    assert run(["export", "sacrerouge", str(tmp_path / "c.jsonl"), "--out", str(out)]) == 2
    assert "cannot read row 2 of" in (said := capsys.readouterr().err)
    assert said.endswith("c.jsonl: malformed JSON; correct it or leave it out\n")
    assert not out.exists()


def test_unknown_format_and_existing_folder_are_refused(tmp_path, capsys):
    assert run(["export", "sacrerogue", "x.parquet", "--out", str(tmp_path / "x")]) == 2
    assert "did you mean `sacrerouge`?" in capsys.readouterr().err
    assert run(["export", "sacrerouge", "x.parquet", "--out", str(tmp_path)]) == 2
    assert "`--out` must not exist yet" in capsys.readouterr().err
