"""mt-metrics-eval's folders and score files, both ways."""

import math
import os
import resource

import polars as pl
import pytest

from pipelines.datasets.mt_metrics_eval import read
from tests.rare import run

TEST_SET = {
    "documents/en-de.docs": "news\tstory-a\nnews\tstory-a\nsocial\tstory-b\n",
    "sources/en-de.txt": "Ship sinks.\nNine saved.\nSun.\n",
    "references/en-de.refA.txt": "Schiff sinkt.\nNeun gerettet.\nSonne.\n",
    "references/en-de.refB.txt": "Ein Schiff sinkt.\n\nDie Sonne.\n",
    "system-outputs/en-de/online-x.txt": "Schiff.\nNeun.\nSonne\u2028!\n",
    "system-outputs/en-de/refB.txt": "Ein Schiff sinkt.\n\nDie Sonne.\n",
    "human-scores/en-de.mqm.seg.score": "online-x\t-1.5\nonline-x None\nonline-x 0\n",
    "human-scores/en-de.mqm.sys.score": "online-x -0.75\n",
    "metric-scores/en-de/BLEU-refA.seg.score": "".join(
        f"{system}\t{score}\n"
        for system, score in zip(["online-x"] * 3 + ["refB"] * 3, range(6), strict=True)
    ),
}


@pytest.fixture
def test_set(write):
    """Write the test set, with changes, and return its folder."""

    def call(changes=None):
        for name, content in {**TEST_SET, **(changes or {})}.items():
            path = write(f"wmt/{name}", content)
        return path.parents[len(name.split("/")) - 1]

    return call


def test_test_set_by_hand(importing, test_set):
    found = importing("mt-metrics-eval", test_set(), ratings=True, scores=True)
    assert found.corpus["document_id"].unique(maintain_order=True).to_list() == [
        "story-a:1",
        "story-a:2",
        "story-b",
    ]
    assert found.row("online-x", "story-a:1") == {
        "document_id": "story-a:1",
        "system_id": "online-x",
        "candidate": "Schiff.",
        "references": ["Schiff sinkt.", "Ein Schiff sinkt."],
        "source": ["Ship sinks."],
    }
    assert found.row("online-x", "story-b")["candidate"] == "Sonne\u2028!"
    assert found.row("human-refB", "story-b")["references"] == ["Sonne."]
    assert found.ratings.rows() == [
        ("story-a:1", "online-x", -1.5),
        ("story-a:2", "online-x", None),
        ("story-b", "online-x", 0.0),
    ]
    assert found.ratings.columns[2] == "mqm"
    assert found.scores.columns[2] == "BLEU-refA"
    assert found.scores.rows()[4] == ("story-a:2", "human-refB", 4.0)


def test_reference_that_is_judged_but_no_output_is_human(importing, test_set):
    scores = "refA\t-1\nrefA None\nrefA 0\n"
    folder = test_set({"human-scores/en-de.mqm.seg.score": scores})
    found = importing("mt-metrics-eval", folder, ratings=True)
    assert found.ratings["system_id"].unique().to_list() == ["human-refA"]


def test_one_of_several_language_pairs_is_named(importing, refused, test_set):
    folder = test_set({"documents/en-ru.docs": "news\tx\n"})
    assert "with 2 *.docs files" in refused("mt-metrics-eval", folder)
    found = importing("mt-metrics-eval", folder / "documents" / "en-de.docs")
    assert found.corpus.height == 6


def test_json_lines_and_texts_that_are_not_there(importing, test_set):
    folder = test_set(
        {
            "sources/en-de.txt": "Ship sinks.\n[No translation supplied]\nSun.\n",
            "system-outputs/en-de/llm.jsonl": "".join(
                f'{{"hypothesis": "two\\nlines {i}"}}\n' for i in range(3)
            ),
            "system-outputs/en-de/online-x.txt": "Schiff.\n[No translation supplied]\nSonne.\n",
        }
    )
    found = importing("mt-metrics-eval", folder)
    llm = found.row("llm", "story-a:2")
    assert (llm["candidate"], llm["source"]) == ("two\nlines 1", None)
    assert found.corpus.filter(system_id="online-x").height == 2
    assert "Left out: 1, texts: the system wrote none for the document." in found.said


def test_more_systems_than_files_may_be_open(importing, test_set, monkeypatch):
    outputs = {f"system-outputs/en-de/{i}.txt": f"{i}\nb {i}\nc\n" for i in range(200)}
    folder = test_set(outputs)
    plain = importing("mt-metrics-eval", folder)
    monkeypatch.setattr("pipelines.datasets.mt_metrics_eval._LINES_AT_ONCE", 2)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/dev/fd")) + 100, hard))
    try:
        assert importing("mt-metrics-eval", folder).corpus.equals(plain.corpus)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert plain.row("7", "story-a:2")["candidate"] == "b 7"


def test_mark_before_the_first_line_is_no_text(importing, test_set):
    marked = {name: f"\ufeff{content}" for name, content in TEST_SET.items()}
    found = importing("mt-metrics-eval", test_set(marked), ratings=True, scores=True)
    plain = importing("mt-metrics-eval", test_set(), ratings=True, scores=True)
    for table in ("corpus", "ratings", "scores"):
        assert getattr(found, table).equals(getattr(plain, table))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("sources/en-de.txt", "one\ntwo\n", "en-de.txt must have 3 lines, one per document, got 2"),
        ("references/en-de.refA.txt", "1\n2\n3\n4\n", "refA.txt must have 3 lines"),
        ("human-scores/en-de.mqm.seg.score", "online-x 1\n", "must have 3 scores of `online-x`"),
        ("human-scores/en-de.mqm.seg.score", "a 1\na b c\n", "line 2 must be `SYSTEM SCORE`"),
        ("documents/en-de.docs", "n x\nn x\nn x:1\n", "different names, got `x:1` for a document"),
        ("system-outputs/en-de/online-x.jsonl", "", "got online-x.jsonl and online-x.txt"),
        ("sources/en-de.jsonl", "", "`en-de` once, got en-de.jsonl and en-de.txt"),
        ("documents/en-de.docs", "news x\nnews\nnews y\n", "line 2 must be `DOMAIN DOCUMENT`"),
    ],
)
def test_file_of_another_length_or_form_named(refused, test_set, name, content, message):
    assert message in refused("mt-metrics-eval", test_set({name: content}))


def corpus_and_scores():
    keys = {"document_id": ["d1", "d1", "d2", "d2"], "system_id": ["x", "human-B", "x", "human-B"]}
    references = [["r1", "b1"], ["r1"], ["r2", "b2"], ["r2"]]
    corpus = pl.DataFrame(
        {**keys, "candidate": ["x1", "b1", "x2", "b2"], "references": references}
        | {"source": [["s1"], ["s1"], ["s2"], ["s2"]]}
    )
    numbers = {
        "rougeL_f": [0.1, 1 / 3, 1e-17, 1.0],
        "reffree@runs/a.b:source": [0.0, 1.0, 2.0, 3.0],
    }
    return corpus, pl.DataFrame({**keys, **numbers})


def export(tmp_path, *frames):
    paths = []
    for i, frame in enumerate(frames):
        paths.append(str(tmp_path / f"given{i}.parquet"))
        frame.write_parquet(paths[-1])
    return run(["export", "mt-metrics-eval", *paths, "--out", str(tmp_path / "exported")])


def test_corpus_and_scores_come_back_from_mt_metrics_eval(importing, tmp_path, capsys):
    corpus, scores = corpus_and_scores()
    assert export(tmp_path, corpus, scores) == 0
    capsys.readouterr()
    found = importing("mt-metrics-eval", tmp_path / "exported", scores=True)
    keys = ["document_id", "system_id"]
    assert found.corpus.sort(keys).equals(corpus.sort(keys))
    assert found.scores.select(scores.columns).sort(keys).equals(scores.sort(keys))


def test_eleven_references_come_back_in_their_order(importing, tmp_path, capsys):
    references = [f"r{i}" for i in range(11)]
    keys = {"document_id": ["d"], "system_id": ["x"], "candidate": ["a"]}
    assert export(tmp_path, pl.DataFrame({**keys, "references": [references]})) == 0
    capsys.readouterr()
    found = importing("mt-metrics-eval", tmp_path / "exported")
    assert found.row("x")["references"] == references


def test_test_set_is_the_same_after_import_export_import(importing, test_set, tmp_path, capsys):
    first = importing("mt-metrics-eval", test_set(), scores=True)
    assert export(tmp_path, first.corpus, first.scores) == 0
    capsys.readouterr()
    again = importing("mt-metrics-eval", tmp_path / "exported", scores=True)
    keys = ["document_id", "system_id"]
    # A line of the format ends at U+2028 for some readers, so we write a space.
    plain = first.corpus.with_columns(pl.col("candidate").str.replace_all("\u2028", " "))
    assert again.corpus.sort(keys).equals(plain.sort(keys))
    assert again.scores.sort(keys).equals(first.scores.sort(keys))


def test_score_files_by_hand(tmp_path):
    _, scores = corpus_and_scores()
    assert export(tmp_path, scores) == 0
    folder = tmp_path / "exported" / "metric-scores" / "en-en"
    assert sorted(path.name for path in folder.iterdir()) == [
        "reffree@runs%2Fa.b%3Asource-src.seg.score",
        "reffree@runs%2Fa.b%3Asource-src.sys.score",
        "rougeL_f-all.seg.score",
        "rougeL_f-all.sys.score",
    ]
    segments = (folder / "rougeL_f-all.seg.score").read_text().splitlines()
    assert [line.split("\t")[0] for line in segments] == ["x", "x", "human-B", "human-B"]
    assert [float(line.split("\t")[1]) for line in segments] == [0.1, 1e-17, 1 / 3, 1.0]
    means = (folder / "rougeL_f-all.sys.score").read_text().splitlines()
    systems = dict(line.split("\t") for line in means)
    assert math.isclose(float(systems["human-B"]), 2 / 3)
    documents = (tmp_path / "exported" / "documents" / "en-en.docs").read_text()
    assert documents == "all\td1\nall\td2\n"


def test_missing_score_rejected(tmp_path, capsys):
    corpus, scores = corpus_and_scores()
    assert export(tmp_path, corpus, scores.head(3)) == 2
    said = capsys.readouterr().err
    assert "none of `rougeL_f` for document d2, system human-B" in said
    assert not (tmp_path / "exported").exists()


def test_missing_text_rejected(tmp_path, capsys):
    corpus, _ = corpus_and_scores()
    assert export(tmp_path, corpus.head(3)) == 2
    assert "got 3 rows of 2 systems and 2 documents" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("column", "texts", "system"),
    [
        ("references", [["r1"], ["r1"], ["other"]], "y"),
        ("references", [["r1"], ["r1"], None], "y"),
        ("references", [["r1"], ["other"], ["r1"]], "human-B"),
        ("source", [["s1"], ["s1"], ["other"]], "y"),
    ],
)
def test_other_references_for_one_of_the_systems_rejected(tmp_path, capsys, column, texts, system):
    corpus = pl.DataFrame(
        {"document_id": ["d"] * 3, "system_id": ["x", "human-B", "y"], "candidate": ["x", "b", "y"]}
    ).with_columns(pl.Series(column, texts))
    assert export(tmp_path, corpus) == 2
    said = capsys.readouterr().err
    assert "has one set of" in said
    assert f"got others for document d, system {system}; leave the document out" in said


def test_people_alone_keep_all_their_references(importing, tmp_path, capsys):
    corpus = pl.DataFrame(
        {"document_id": ["d"] * 3, "system_id": ["human-A", "human-B", "human-C"]}
        | {"candidate": ["a", "b", "c"], "references": [["b", "c"], ["a", "c"], ["a", "b"]]}
    )
    assert export(tmp_path, corpus) == 0
    capsys.readouterr()
    found = importing("mt-metrics-eval", tmp_path / "exported").corpus
    assert [sorted(texts) for texts in found["references"]] == corpus["references"].to_list()


def test_name_with_a_space_rejected(tmp_path, capsys):
    corpus, _ = corpus_and_scores()
    assert export(tmp_path, corpus.with_columns(pl.col("system_id").replace("x", "my system"))) == 2
    assert "without spaces and slashes, got 'my system'" in capsys.readouterr().err


def test_system_named_like_a_reference_rejected(tmp_path, capsys):
    corpus, _ = corpus_and_scores()
    assert export(tmp_path, corpus.with_columns(pl.col("system_id").replace("x", "ref2"))) == 2
    assert "named like a reference for the person who wrote it, got 'ref2'" in (
        capsys.readouterr().err
    )


def test_ratings_of_several_raters_are_averaged(tmp_path):
    ratings = pl.DataFrame(
        {"document_id": ["d"] * 2, "system_id": ["x"] * 2, "rater": ["1", "2"], "overall": [1, 4]}
    )
    assert export(tmp_path, ratings) == 0
    (row,) = [row for row in read([str(tmp_path / "exported")]) if hasattr(row, "values")]
    assert (row.kind, row.values) == ("ratings", {"overall": 2.5})


def test_ratings_come_back_as_ratings(importing, tmp_path, capsys):
    corpus, scores = corpus_and_scores()
    keys = {"document_id": ["d1", "d1", "d2"], "system_id": ["x", "human-B", "x"]}
    ratings = pl.DataFrame({**keys, "rater": ["r"] * 3, "fluency/5": [1.0, None, 2.0]})
    assert export(tmp_path, corpus, scores, ratings) == 0
    capsys.readouterr()
    found = importing("mt-metrics-eval", tmp_path / "exported", ratings=True, scores=True)
    assert found.ratings.sort("document_id").rows() == [("d1", "x", 1.0), ("d2", "x", 2.0)]
    assert found.ratings.columns[2] == "fluency/5"
    assert sorted(found.scores.columns) == sorted(scores.columns)


def test_rating_that_is_missing_is_none(tmp_path):
    ratings = pl.DataFrame(
        {"document_id": ["d1", "d2"], "system_id": ["x"] * 2, "rater": ["r"] * 2}
    ).with_columns(overall=pl.Series([None, 0.5]))
    assert export(tmp_path, ratings) == 0
    folder = tmp_path / "exported" / "human-scores"
    assert (folder / "en-en.overall.seg.score").read_text() == "x\tNone\nx\t0.5\n"
    assert (folder / "en-en.overall.sys.score").read_text() == "x\t0.5\n"


def test_two_ratings_of_one_rater_are_not_averaged(tmp_path, capsys):
    ratings = pl.DataFrame(
        {"document_id": ["d"] * 2, "system_id": ["A"] * 2, "rater": ["r1"] * 2, "overall": [1, 5]}
    )
    assert export(tmp_path, ratings) == 2
    said = capsys.readouterr().err
    assert "1 repeat, for example (d, A, r1); keep one row of each" in said


def test_raters_of_two_pools_are_not_averaged(tmp_path, capsys):
    ratings = pl.DataFrame(
        {"document_id": ["d"] * 2, "system_id": ["x"] * 2, "rater": ["expert-1", "turker-1"]}
    ).with_columns(overall=pl.Series([1, 4]))
    assert export(tmp_path, ratings) == 2
    assert "must be of one pool to be averaged, got expert, turker" in capsys.readouterr().err


def test_scores_that_are_there_twice_rejected(tmp_path, capsys):
    _, scores = corpus_and_scores()
    assert export(tmp_path, pl.concat([scores, scores])) == 2
    assert "keep one row of each" in capsys.readouterr().err


def test_scores_of_another_corpus_rejected(tmp_path, capsys):
    corpus, scores = corpus_and_scores()
    assert export(tmp_path, corpus.filter(document_id="d1"), scores) == 2
    assert "got document d2, system x, which it has not" in capsys.readouterr().err


def test_unknown_format_gets_the_nearest_name(tmp_path, capsys):
    assert run(["export", "sacrerogue", "x.parquet", "--out", str(tmp_path / "x")]) == 2
    assert "did you mean `sacrerouge`?" in capsys.readouterr().err


def test_existing_folder_kept(tmp_path, capsys):
    assert run(["export", "sacrerouge", "x.parquet", "--out", str(tmp_path)]) == 2
    assert "`--out` must not exist yet" in capsys.readouterr().err
