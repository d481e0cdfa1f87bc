"""Documents with summaries: CNN/DailyMail, Newsroom, BigPatent."""

import polars as pl
import pytest

from .conftest import tar_of

STORY = """A ship sank off Ald Point on Monday

All nine sailors were saved by the harbour's old tug, its captain said.

\u201cWe were lucky\u201d

@highlight

Ship sinks off Ald Point

@highlight

NEW: All nine sailors saved!
"""


def test_story_by_hand(importing, write):
    found = importing("cnn-dailymail", write("stories/0a1b.story", STORY)).corpus
    assert found.rows(named=True) == [
        {
            "document_id": "0a1b",
            "source": "A ship sank off Ald Point on Monday . All nine sailors were saved by the "
            "harbour's old tug, its captain said. \u201cWe were lucky\u201d",
            "reference": "Ship sinks off Ald Point .\nNEW: All nine sailors saved!",
        }
    ]


def test_story_without_highlights_rejected(refused, write):
    said = refused("cnn-dailymail", write("1.story", "He tweeted @highlight today.\n"))
    assert "1.story must be a story with `@highlight` lines, got none" in said


def test_hub_columns_of_cnn_dailymail(importing, tmp_path):
    path = tmp_path / "test-00000-of-00001.parquet"
    pl.DataFrame({"article": ["A b."], "highlights": ["A ."], "id": ["f00"]}).write_parquet(path)
    found = importing("cnn-dailymail", path).corpus
    assert found.rows() == [("f00", "A b.", "A .")]


def test_stories_of_an_archive_and_of_a_folder_are_equal(importing, write):
    files = {f"cnn/stories/{i}.story": STORY for i in range(3)}
    others = {"cnn/README": "not a story", "cnn/stories/._0.story": b"\x00\x05\x16\x07"}
    packed = write("cnn_stories.tgz", tar_of(files | others))
    for name in files:
        write(f"unpacked/{name}", STORY)
    folder = packed.parent / "unpacked"
    assert importing("cnn-dailymail", packed).corpus.equals(
        importing("cnn-dailymail", folder).corpus
    )


def test_file_that_is_named_twice_is_read_once(importing, write):
    path = write("stories/0.story", STORY)
    found = importing("cnn-dailymail", path, path.parent, path.parent.parent, path)
    assert found.corpus["document_id"].to_list() == ["0"]


def test_more_pairs_than_a_batch_keep_their_order(importing, tmp_path):
    n_rows = 2_500
    path = tmp_path / "train.parquet"
    frame = pl.DataFrame({"id": range(n_rows)}).with_columns(
        pl.format("article {}", "id").alias("article"),
        pl.format("high {}", "id").alias("highlights"),
    )
    frame.write_parquet(path)
    found = importing("cnn-dailymail", path).corpus
    assert found["document_id"].to_list() == [str(i) for i in range(n_rows)]
    assert found["source"].to_list() == [f"article {i}" for i in range(n_rows)]


NEWSROOM = {
    "archive": "http://archive.example/1",
    "url": "http://paper.example/1",
    "title": "Tug saves nine",
    "date": "20160302060024",
    "text": "A ship sank.\n\nNine were saved.",
    "summary": "A tug saved nine sailors.",
    "density": 1.25,
    "coverage_bin": "low",
}


@pytest.mark.parametrize("name", ["test.jsonl", "test.jsonl.gz", "test.dataset"])
def test_newsroom_lines(importing, write, name):
    found = importing("newsroom", write(name, [NEWSROOM, NEWSROOM | {"summary": None}]))
    assert found.corpus.rows() == [
        ("http://archive.example/1", NEWSROOM["text"], NEWSROOM["summary"])
    ]
    assert "Left out: 1, pairs without a document or without a summary." in found.said


def test_thin_newsroom_rejected_with_what_to_do(refused, write):
    thin = {name: NEWSROOM[name] for name in ("archive", "url")}
    said = refused("newsroom", write("thin/dev.jsonl.gz", [thin]))
    assert "line 1 must have `text` and `summary`, got archive, url" in said
    assert "newsroom-extract" in said


def patent(number):
    return {
        "publication_number": f"US-{number}-A",
        "application_number": f"US-1-{number}",
        "abstract": f"a pump {number} .",
        "description": f"the pump {number} has a valve .",
    }


def test_bigpatent_files_in_nested_archives(importing, write):
    train = tar_of({"train/d/0.gz": [patent(1), patent(2)], "train/f/0.gz": [patent(3)]})
    found = importing(
        "bigpatent", write("data.tar.gz", tar_of({"bigPatentData/train.tar.gz": train}))
    )
    assert found.corpus["document_id"].to_list() == ["US-1-A", "US-2-A", "US-3-A"]
    assert found.corpus.row(2) == ("US-3-A", "the pump 3 has a valve .", "a pump 3 .")
