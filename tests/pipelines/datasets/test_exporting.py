"""Tables of ours as JSON lines of sacrerouge."""

import json
import re

import polars as pl
import pytest

from pipelines.cli.app import run


@pytest.fixture
def export(tmp_path, capsys):
    """Export tables; return the status, the lines by file, and what was said."""

    def call(*tables):
        paths = [str(tmp_path / f"{k}.parquet") for k in range(len(tables))]
        for path, table in zip(paths, tables, strict=True):
            pl.DataFrame({"document_id": ["d"], "system_id": ["x"]} | table).write_parquet(path)
        out = tmp_path / "out"
        status = run(["export", "sacrerouge", *paths, "--out", str(out)])
        said = capsys.readouterr()
        assert (status == 0) == out.exists()
        lines = {
            file.stem: [json.loads(line) for line in file.read_text().splitlines()]
            for file in sorted(out.glob("*"))
        }
        return status, lines, said.out + said.err

    return call


def test_corpus_and_scores_by_hand(export):
    keys = {"document_id": ["d 1", "d2"], "system_id": ["human-A", "7"]}
    corpus = keys | {"candidate": ["A ship\nsank – now.", "B."], "references": [["r1", "r2"], None]}
    corpus |= {"source": [None, "s"]}
    scores = keys | {"sms@glove:source": [1 / 3, None], "rougeL_f": [1e-17, 0.5]}
    _, lines, said = export(corpus, scores)
    assert "2 candidates and 2 rows of scores" in said
    person = {"instance_id": "d 1", "summarizer_id": "A", "summarizer_type": "reference"}
    peer = {"instance_id": "d2", "summarizer_id": "7", "summarizer_type": "peer"}
    ship = {
        "summary": {"text": "A ship\nsank – now."},
        "references": [{"text": "r1"}, {"text": "r2"}],
    }
    assert lines == {
        "summaries": [
            person | ship | {"documents": []},
            peer | {"summary": {"text": "B."}, "references": [], "documents": [{"text": "s"}]},
        ],
        "metrics": [
            person | {"metrics": {"sms@glove:source": 1 / 3, "rougeL_f": 1e-17}},
            peer | {"metrics": {"rougeL_f": 0.5}},
        ],
    }


def test_corpus_alone_has_no_file_of_metrics(export):
    _, lines, _ = export({"document_id": ["d"], "system_id": ["x"], "candidate": ["A."]})
    assert [*lines] == ["summaries"]


def test_numbers_keep_the_order_of_the_first_input(export):
    keys = {"document_id": [f"d{i}" for i in range(9)], "system_id": ["x"] * 9}
    backwards = keys | {"document_id": keys["document_id"][::-1]}
    _, lines, _ = export(keys | {"a": [0.5] * 9}, backwards | {"b": [0.5] * 9})
    assert [line["instance_id"] for line in lines["metrics"]] == keys["document_id"]
    assert "summaries" not in lines


def test_ratings_of_one_pool_are_averaged_and_text_is_named(export):
    keys = {"document_id": ["d"] * 3, "system_id": ["x"] * 2 + [None], "rater": ["r1", "r2", "r1"]}
    columns = {"overall": [1, 4, 5], "share": ["12.3%", "9%", "1"], "n": ["a", "b", "c"]}
    _, lines, said = export(keys | columns)
    assert [line["metrics"] for line in lines["metrics"]] == [{"overall": 2.5}]
    assert re.search("Column `share` of .* left out because its cells are not .*: '12.3%'", said)
    assert "`n`" not in said
    assert "has no key and is left out" in said


TWICE = {"document_id": ["d"] * 2, "system_id": ["x"] * 2}
# tables, what is said
NOT_EXPORTED = [
    ([{"candidate": pl.Series([None], dtype=pl.String)}],
     "must be filled in, got none for document d, system x"),
    ([{"candidate": ["A."]}, {"candidate": ["A."]}], "but (d, x) in "),
    ([{"system_id": ["x\n"], "candidate": ["A."]}], "have no spaces around them, got 'x\\n'"),
    ([{"system_id": ["human-"], "candidate": ["A."]}], "ids that are not empty and have"),
    ([TWICE | {"rater": ["r1"] * 2, "overall": [1, 5]}],
     "1 repeats, for example (d, x, r1); keep one"),
    ([TWICE | {"rater": ["expert-1", "turker-1"], "overall": [1, 4]}],
     "of one pool to be averaged, got"),
    ([TWICE | {"overall": [1, 4]}], "1 repeats, for example (d, x); keep one row of each"),
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
