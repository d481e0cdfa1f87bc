"""The published data sets, each by hand from small files in its true format."""

import csv
import io

import polars as pl
import pytest

# Pairs


STORY = """A ship sank off Ald Point on Monday

Its captain said: \u201cWe were lucky\u201d

@highlight

Ship sinks off Ald Point

@highlight

NEW: All nine sailors saved!
"""


def test_stories_by_hand(importing, write):
    found = importing("cnn-dailymail", write("stories/0a1b.story", STORY).parent).corpus
    article = "A ship sank off Ald Point on Monday . Its captain said: \u201cWe were lucky\u201d"
    highlights = "Ship sinks off Ald Point .\nNEW: All nine sailors saved!"
    assert found.rows() == [("0a1b", article, highlights)]


def test_files_of_a_folder_are_read_once(importing, write):
    row = {"id": "1", "article": "A ship sank.", "highlights": "Ship sinks."}
    path = write("cnn/train.jsonl", [row])
    write("cnn/README", "of another kind")
    write("cnn/._train.jsonl", b"\x00\x05\x16\x07")
    found = importing("cnn-dailymail", path, path.parent, path.parent.parent).corpus
    assert found.rows() == [("1", "A ship sank.", "Ship sinks.")]


def test_hub_columns_of_cnn_dailymail_keep_their_order(importing, tmp_path):
    rows = [(str(i), f"article {i}", f"high {i}") for i in range(2_500)]  # more than a batch
    frame = pl.DataFrame(rows, ["id", "article", "highlights"], orient="row")
    frame.write_parquet(tmp_path / "train.parquet")
    assert importing("cnn-dailymail", tmp_path / "train.parquet").corpus.rows() == rows


NEWSROOM = {
    "archive": "http://archive.example/1",
    "url": "http://paper.example/1",
    "title": "Tug saves nine",
    "text": "A ship sank.\n\nNine were saved.",
    "summary": "A tug saved nine sailors.",
    "density": 1.25,
}


@pytest.mark.parametrize("name", ["test.jsonl", "test.dataset"])
def test_newsroom_lines(importing, write, name):
    found = importing("newsroom", write(name, [NEWSROOM, NEWSROOM | {"summary": None}]))
    assert found.corpus.rows() == [tuple(NEWSROOM[key] for key in ("archive", "text", "summary"))]
    assert "Left out: 1, pairs without a document or without a summary." in found.said


def test_bigpatent_files_in_folders(importing, write):
    for kind, i in (("d", 1), ("f", 3)):
        patent = {"publication_number": f"US-{i}", "abstract": "pump .", "description": "a b"}
        folder = write(f"train/{kind}/0.gz", [patent]).parent.parent
    found = importing("bigpatent", folder).corpus
    assert found.rows() == [("US-1", "a b", "pump ."), ("US-3", "a b", "pump .")]


# Newsroom's human evaluation

ASPECTS = ("Coherence", "Fluency", "Informativeness", "Relevance")
ARTICLE = "<p>A ship sank.</p><p>Nine were saved,\n&quot;all of them&quot;.</p>"


def newsroom_csv(*rows):
    columns = ["ArticleID", "System", "ArticleText", "SystemSummary", "ArticleTitle"]
    text = io.StringIO()
    csv.writer(text).writerows([[*columns, *(f"{aspect}Rating" for aspect in ASPECTS)], *rows])
    return text.getvalue()


def newsroom_row(article, system, ratings, title="Tug saves nine &amp; a dog"):
    return [article, system, ARTICLE, f"Tug of {system}&#39;s", title, *ratings]


def test_newsroom_evaluation_by_hand(importing, write):
    text = newsroom_csv(
        newsroom_row(7, "lede3", [1, 2, 3, 4]),
        newsroom_row(7, "lede3", [5, "nan", 5, 5]),
        newsroom_row(7, "textrank", [2, 2, 2, 2]),
    )
    found = importing("newsroom-human", write("newsroom-human-eval.csv", text), ratings=True)
    source = ['A ship sank.\nNine were saved,\n"all of them".']
    assert found.corpus.rows() == [
        ("7", "lede3", "Tug of lede3's", None, source),
        ("7", "textrank", "Tug of textrank's", None, source),
    ]
    assert found.ratings.rows() == [
        ("7", "lede3", "rater-1", 1, 2, 3, 4),
        ("7", "lede3", "rater-2", 5, None, 5, 5),
        ("7", "textrank", "rater-1", 2, 2, 2, 2),
    ]
    assert found.ratings.columns[3:] == [aspect.lower() for aspect in ASPECTS]


def test_newsroom_reference_found_by_title(importing, write):
    titled = newsroom_row(8, "a", [1, 2, 3, 4], "Not there"), newsroom_row(9, "a", [1, 2, 3, 4], "")
    text = newsroom_csv(newsroom_row(7, "a", [1, 2, 3, 4]), *titled)
    lines = [
        {"title": "Other", "summary": "Another.", "text": "x", "archive": "a"},
        {"title": None, "summary": "Of another article.", "text": "x"},
        {"title": "TUG saves nine &  a dog", "summary": "A tug saved nine.", "text": "x"},
    ]
    found = importing("newsroom-human", write("a.csv", text), write("test.jsonl.gz", lines))
    assert found.corpus["references"].to_list() == [["A tug saved nine."], None, None]
    assert "Left out: 2, references: no article of Newsroom has the title." in found.said


# SummEval


def summeval_row(**changes):
    annotation = {"coherence": 2, "consistency": 1, "fluency": 4, "relevance": 2}
    row = {
        "id": "dm-test-1",
        "decoded": "a tug saved nine .",
        "expert_annotations": [annotation, annotation | {"coherence": 5}],
        "turker_annotations": [annotation | {"relevance": 3}],
        "references": ["Tug saves nine.", "Nine saved."],
        "model_id": "M11",
        "text": "A ship sank.",
        **changes,
    }
    return {name: value for name, value in row.items() if value is not None}


def test_summeval_by_hand(importing, write):
    # The file without articles beside it is passed over.
    write("model_annotations.aligned.jsonl", [summeval_row(text=None)])
    row = summeval_row()
    path = write("model_annotations.aligned.paired.jsonl", [row])
    found = importing("summeval", path.parent, ratings=True)
    references = ["Tug saves nine.", "Nine saved."]
    expected = ("dm-test-1", "M11", "a tug saved nine .", references, ["A ship sank."])
    assert found.corpus.rows() == [expected]
    assert found.ratings.columns[2:] == ["rater", *row["expert_annotations"][0]]
    assert [row[2:] for row in found.ratings.rows()] == [
        ("expert-1", 2, 1, 4, 2),
        ("expert-2", 5, 1, 4, 2),
        ("turker-1", 2, 1, 4, 3),
    ]
    assert "Left out" not in found.said


def test_unpaired_summeval_has_no_source_and_ratings_need_a_name(importing, write):
    path = write("model_annotations.aligned.jsonl", [summeval_row(text=None)])
    found = importing("summeval", path)
    assert found.corpus["source"].to_list() == [None]
    columns = "document_id, system_id, rater, coherence, consistency, fluency, relevance"
    assert f"3 rows of ratings not written; name a file with --ratings ({columns})" in found.said


def test_candidate_that_is_there_twice_is_kept_once(importing, write):
    others = [summeval_row(decoded="another text"), summeval_row(references=["Tug saves nine."])]
    path = write("a.jsonl", [summeval_row(), summeval_row(), *others])
    found = importing("summeval", path, ratings=True)
    assert found.corpus["candidate"].to_list() == ["a tug saved nine ."]
    assert found.corpus["references"].to_list() == [["Tug saves nine.", "Nine saved."]]
    assert found.ratings.height == 3
    assert "Left out: 1, texts that are there twice." in found.said
    assert "Left out: 2, texts that differ from those the candidate already had" in found.said
    assert "Left out: 9, ratings that are there twice." in found.said


# ASAP

TSV = (
    "Id\tEssaySet\tScore1\tScore2\tEssayText\n"
    '1\t3\t2\t1\t The setting "affects him\n'
    "2\t4\t0\t0\tAnother question.\n"
    "3\t3\t0\t0\tHot sun.\n"
)


def test_answers_to_question_3(importing, write):
    files = write("train_rel_2.tsv", TSV), write("sample.txt", "It is hot.\n")
    found = importing("asap-sas", *files, ratings=True)
    assert found.corpus.rows() == [
        ("question-3", "1", 'The setting "affects him', ["It is hot."], None),
        ("question-3", "3", "Hot sun.", ["It is hot."], None),
    ]
    assert found.ratings.rows()[:2] == [
        ("question-3", "1", "rater-1", 2.0),
        ("question-3", "1", "rater-2", 1.0),
    ]
    assert "Left out: 1, answers to other questions than 3." in found.said


# data set, files, what is said
GOOD_ROW = newsroom_row(7, "lede3", [1, 2, 3, 4])
WRONG = [
    ("cnn-dailymail", {"1.story": "He tweeted @highlight today.\n"},
     "1.story must be a story with `@highlight` lines, got none"),
    ("newsroom", {"thin/dev.jsonl.gz": [{"archive": "a", "url": "b"}]},
     "dev.jsonl.gz, line 1 must be text, got nothing"),
    ("newsroom-human", {"eval.csv": newsroom_csv(GOOD_ROW) + "8,lede3\n"},
     "eval.csv, line 4 cannot be read: malformed CSV: 9 columns expected"),
    ("newsroom-human", {"eval.csv": newsroom_csv(newsroom_row(7, "lede3", [1, "n/a", 3, 4]))},
     "line 2 must be a number, got 'n/a'"),
    ("newsroom-human", {"eval.csv": newsroom_csv(GOOD_ROW),
                        "test.jsonl": [{"title": 7, "summary": "A tug.", "text": "x"}]},
     "test.jsonl, line 1 must be text, got 7"),
    ("summeval", {"a.jsonl": [summeval_row(turker_annotations=[{"coherence": 1}])]},
     "line 1 must be a number, got nothing"),
    ("asap-sas", {"sample.txt": " \n"}, "sample.txt must have a sample answer, got none"),
    ("asap-sas", {"public_leaderboard.tsv": "Id\tEssaySet\tEssayText\n1\t3\tHot.\n"},
     "line 2 must be a number, got nothing"),
    ("asap-sas", {"train.tsv": f"{TSV}4\t3\t1\t1\tHot\tsun.\n"},
     "train.tsv, line 5 cannot be read: malformed CSV: 5 columns expected"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "files", "message"), WRONG)
def test_file_of_another_form_is_named_with_its_line(refused, write, name, files, message):
    assert message in refused(name, *(write(*file) for file in files.items()))
