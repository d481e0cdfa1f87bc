"""Judged summaries: Newsroom's evaluation, SummEval, Chaganty et al., ASAP-SAS."""

import csv
import io

import polars as pl
import pytest

NEWSROOM_COLUMNS = [
    "ArticleID",
    "System",
    "ArticleText",
    "SystemSummary",
    "ArticleTitle",
    "CoherenceRating",
    "FluencyRating",
    "InformativenessRating",
    "RelevanceRating",
]


def newsroom_csv(*rows):
    text = io.StringIO()
    csv.writer(text).writerows([NEWSROOM_COLUMNS, *rows])
    return text.getvalue()


def newsroom_row(article, system, ratings, title="Tug saves nine &amp; a dog"):
    text = "<p>A ship sank.</p><p>Nine were saved,\n&quot;all of them&quot;.</p>"
    return [article, system, text, f"Tug of {system}&#39;s", title, *ratings]


def test_newsroom_evaluation_by_hand(importing, write):
    text = newsroom_csv(
        newsroom_row(7, "lede3", [1, 2, 3, 4]),
        newsroom_row(7, "lede3", [5, 5, 5, 5]),
        newsroom_row(7, "textrank", [2, 2, 2, 2]),
    )
    found = importing("newsroom-human", write("newsroom-human-eval.csv", text), ratings=True)
    assert found.corpus["system_id"].to_list() == ["lede3", "textrank"]
    assert found.row("lede3") == {
        "document_id": "7",
        "system_id": "lede3",
        "candidate": "Tug of lede3's",
        "references": None,
        "source": ['A ship sank.\nNine were saved,\n"all of them".'],
    }
    assert found.ratings.rows() == [
        ("7", "lede3", "rater-1", 1, 2, 3, 4),
        ("7", "lede3", "rater-2", 5, 5, 5, 5),
        ("7", "textrank", "rater-1", 2, 2, 2, 2),
    ]
    aspects = ["coherence", "fluency", "informativeness", "relevance"]
    assert found.ratings.columns[3:] == aspects


def test_newsroom_reference_found_by_title(importing, write):
    text = newsroom_csv(
        newsroom_row(7, "lede3", [1, 2, 3, 4]),
        newsroom_row(8, "lede3", [1, 2, 3, 4], title="Nobody wrote this"),
    )
    lines = [
        {"title": "Other", "summary": "Another.", "text": "x", "archive": "a"},
        {"title": "TUG saves nine &  a dog", "summary": "A tug saved nine.", "text": "x"},
    ]
    found = importing(
        "newsroom-human", write("eval.csv", text), write("test.jsonl.gz", lines), ratings=True
    )
    assert found.row("lede3", "7")["references"] == ["A tug saved nine."]
    assert found.row("lede3", "8")["references"] is None
    assert "Left out: 1, references: no article of Newsroom has the title." in found.said


def test_newsroom_article_without_title_gets_no_reference(importing, write):
    text = newsroom_csv(newsroom_row(7, "lede3", [1, 2, 3, 4], title=""))
    lines = [{"title": None, "summary": "Of another article.", "text": "x"}]
    found = importing("newsroom-human", write("eval.csv", text), write("test.jsonl", lines))
    assert found.row("lede3", "7")["references"] is None
    assert "Left out: 1, references: no article of Newsroom has the title." in found.said


def test_newsroom_title_that_is_no_text_named(refused, write):
    text = newsroom_csv(newsroom_row(7, "lede3", [1, 2, 3, 4]))
    lines = [{"title": 7, "summary": "A tug.", "text": "x"}]
    said = refused("newsroom-human", write("eval.csv", text), write("test.jsonl", lines))
    assert "`title` in " in said
    assert "test.jsonl, line 1 must be text, got 7" in said


def test_csv_line_with_missing_cells_named(refused, write):
    text = newsroom_csv(newsroom_row(7, "lede3", [1, 2, 3, 4])) + "8,lede3\n"
    said = refused("newsroom-human", write("eval.csv", text))
    assert "eval.csv, line 4 must have 9 columns" in said


def test_rating_that_is_no_number_named(refused, write):
    text = newsroom_csv(newsroom_row(7, "lede3", [1, "n/a", 3, 4]))
    said = refused("newsroom-human", write("eval.csv", text))
    assert "`FluencyRating` in " in said
    assert "line 3 must be a number, got 'n/a'" in said


def test_rating_that_is_nan_is_null(importing, write):
    text = newsroom_csv(newsroom_row(7, "lede3", [1, "nan", 3, 4]))
    found = importing("newsroom-human", write("eval.csv", text), ratings=True)
    assert found.ratings["fluency"].to_list() == [None]


def summeval_row(**changes):
    annotation = {"coherence": 2, "consistency": 1, "fluency": 4, "relevance": 2}
    return {
        "id": "dm-test-1",
        "decoded": "a tug saved nine .",
        "expert_annotations": [annotation, annotation | {"coherence": 5}],
        "turker_annotations": [annotation | {"relevance": 3}],
        "references": ["Tug saves nine.", "Nine saved."],
        "model_id": "M11",
        "filepath": "cnndm/dailymail/stories/1.story",
        "text": "A ship sank.",
        **changes,
    }


def test_summeval_by_hand(importing, write):
    found = importing(
        "summeval", write("model_annotations.aligned.paired.jsonl", [summeval_row()]), ratings=True
    )
    assert found.corpus.rows() == [
        (
            "dm-test-1",
            "M11",
            "a tug saved nine .",
            ["Tug saves nine.", "Nine saved."],
            ["A ship sank."],
        )
    ]
    assert found.ratings.columns == [
        *("document_id", "system_id", "rater"),
        *("coherence", "consistency", "fluency", "relevance"),
    ]
    assert [row[2:] for row in found.ratings.rows()] == [
        ("expert-1", 2, 1, 4, 2),
        ("expert-2", 5, 1, 4, 2),
        ("turker-1", 2, 1, 4, 3),
    ]


def test_unpaired_summeval_has_no_source(importing, write):
    row = summeval_row()
    del row["text"]
    found = importing("summeval", write("model_annotations.aligned.jsonl", [row]))
    assert found.corpus["source"].to_list() == [None]
    columns = "document_id, system_id, rater, coherence, consistency, fluency, relevance"
    assert f"3 rows of ratings not written; name a file with --ratings ({columns})" in found.said


def test_paired_summeval_is_read_instead_of_the_unpaired_beside_it(importing, write):
    unpaired = summeval_row()
    del unpaired["text"]
    write("model_annotations.aligned.jsonl", [unpaired])
    path = write("model_annotations.aligned.paired.jsonl", [summeval_row()])
    found = importing("summeval", path.parent, ratings=True)
    assert found.row("M11")["source"] == ["A ship sank."]
    assert (found.ratings.height, "Left out" in found.said) == (3, False)


def test_text_with_other_references_is_not_called_the_same(importing, write):
    rows = [summeval_row(), summeval_row(references=["Tug saves nine."])]
    found = importing("summeval", write("a.jsonl", rows))
    assert found.corpus["references"].to_list() == [["Tug saves nine.", "Nine saved."]]
    assert "Left out: 1, texts that differ from those the candidate already had" in found.said


def test_missing_aspect_named(refused, write):
    row = summeval_row(turker_annotations=[{"coherence": 1}])
    said = refused("summeval", write("a.jsonl", [row]))
    assert "`consistency` in `turker_annotations` in " in said
    assert "line 1 must be a number, got nothing" in said


def test_candidate_that_is_there_twice_is_kept_once(importing, write):
    rows = [summeval_row(), summeval_row(), summeval_row(decoded="another text")]
    found = importing("summeval", write("a.jsonl", rows), ratings=True)
    assert found.corpus["candidate"].to_list() == ["a tug saved nine ."]
    assert found.ratings.height == 3
    assert "Left out: 1, texts that are there twice." in found.said
    assert "Left out: 1, texts that differ from those the candidate already had" in found.said
    assert "Left out: 6, ratings that are there twice." in found.said


@pytest.mark.data
def test_summeval_written_in_its_format_comes_back(importing, write, data_dir):
    corpus = pl.read_parquet(data_dir / "summeval.parquet").head(40)
    ratings = pl.read_parquet(data_dir / "summeval_ratings.parquet")
    aspects = ["coherence", "consistency", "fluency", "relevance"]
    lines = []
    for row in corpus.iter_rows(named=True):
        keys = [row["document_id"], row["system_id"]]
        own = ratings.filter(document_id=keys[0], system_id=keys[1]).sort("rater")
        line = {"id": keys[0], "model_id": keys[1], "decoded": row["candidate"]}
        line |= {"text": row["source"], "references": row["references"]}
        for pool in ("expert", "turker"):
            annotations = own.filter(pl.col("rater").str.starts_with(pool)).select(aspects)
            line[f"{pool}_annotations"] = annotations.to_dicts()
        lines.append(line)
    found = importing("summeval", write("annotations.jsonl", lines), ratings=True)
    assert found.corpus["candidate"].to_list() == corpus["candidate"].to_list()
    expected = ratings.join(corpus, on=["document_id", "system_id"], how="semi")
    by = ["document_id", "system_id", "rater"]
    assert found.ratings.sort(by).rows() == expected.select(found.ratings.columns).sort(by).rows()


TSV = (
    "Id\tEssaySet\tScore1\tScore2\tEssayText\n"
    '1\t3\t2\t1\t The setting "affects him\n'
    "2\t4\t0\t0\tAnother question.\n"
    "3\t3\t0\t0\tHot sun.\n"
)


def test_answers_to_question_3(importing, write):
    found = importing(
        "asap-sas", write("train_rel_2.tsv", TSV), write("sample.txt", "It is hot.\n"), ratings=True
    )
    assert found.corpus.rows() == [
        ("question-3", "1", 'The setting "affects him', ["It is hot."], None),
        ("question-3", "3", "Hot sun.", ["It is hot."], None),
    ]
    assert found.ratings.rows()[:2] == [
        ("question-3", "1", "rater-1", 2.0),
        ("question-3", "1", "rater-2", 1.0),
    ]
    assert "Left out: 1, answers to other questions than 3." in found.said


def test_empty_sample_answer_rejected(refused, write):
    said = refused("asap-sas", write("train_rel_2.tsv", TSV), write("sample.txt", " \n"))
    assert "sample.txt must have a sample answer, got none" in said


def test_leaderboard_file_without_scores_rejected(refused, write):
    text = "Id\tEssaySet\tEssayText\n1\t3\tHot.\n"
    said = refused("asap-sas", write("public_leaderboard.tsv", text))
    assert "`Score1` in " in said
    assert "line 2 must be a number, got nothing" in said


def test_line_with_too_many_tabs_named(refused, write):
    assert "train.tsv, line 5 must have 5 columns, as the header has" in refused(
        "asap-sas", write("train.tsv", f"{TSV}4\t3\t1\t1\tHot\tsun.\n")
    )
