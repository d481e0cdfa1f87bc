"""`assay negatives`: what is written, what is refused, and that no text crosses a side."""

import json
from collections import Counter

import polars as pl
import pyarrow.parquet as pq
import pytest

from pipelines.cli.app import run
from pipelines.negatives import SCHEMA
from reffree.training_pairs.rows import text_key
from sms.text.words import split_words
from tests.commands import wrong
from tests.row_files import write_rows

KINDS = "cross-pair,add,delete,replace,sentence-shuffle,truncate"


def rows_of(n):
    return [
        {
            "document_id": f"d{i}",
            "source": f"Town{i} has cats. Here is story{i}. Dogs sleep in house{i} all day long.",
            "reference": f"Story{i} is told. Town{i} listens and sleeps.",
        }
        for i in range(n)
    ]


def with_split(rows):
    sides = ["train"] * 6 + ["dev"] * 2 + ["test"] * 2
    return [row | {"split": sides[i % 10]} for i, row in enumerate(rows)]


@pytest.fixture
def call(tmp_path):
    """Run `assay negatives` on rows or a file; return exit status and output file."""

    def call(rows, *options, out="out.parquet"):
        path = write_rows(tmp_path / "pairs.parquet", rows) if isinstance(rows, list) else rows
        given = ["negatives", str(path), "--out", str(tmp_path / out), "--quiet"]
        return run([*given, *map(str, options)]), tmp_path / out

    return call


@pytest.fixture
def negatives(call):
    """Return the table that a run writes."""

    def read(rows, *options):
        status, out = call(rows, *options)
        assert status == 0
        table = pl.read_parquet(out)
        out.unlink()
        return table

    return read


def words_of(text):
    return {word for chunk in text.split() for word in split_words(chunk)}


def check_no_leak(table):
    """Check that no true text is on two sides."""
    true = table.filter(pl.col("kind") == "positive")
    for column in ("source", "candidate"):
        keys = true.select("split", pl.col(column).map_elements(text_key, pl.UInt64))
        assert keys.unique()[column].is_unique().all()


def test_written_rows(call, capsys):
    options = ("--kinds", KINDS, "--seed", 5)
    status, out = call(rows_of(100), *options)
    assert status == 0
    assert pq.read_schema(out).remove_metadata() == SCHEMA
    assert json.loads(pq.read_schema(out).metadata[b"assay.negatives"])["seed"] == 5
    table = pl.read_parquet(out)
    counts = Counter(table["kind"])
    empty = 100 - counts["delete"]  # deletions that left only a full stop
    assert 0 < empty < 10
    assert f"Left out: {empty}, delete: empty." in capsys.readouterr().out
    assert counts == dict.fromkeys(["positive", *KINDS.split(",")], 100) | {"delete": 100 - empty}
    assert table["label"].is_between(0, 1).all()
    assert (table.filter(kind="positive")["label"] == 1).all()
    assert (table.filter(kind="cross-pair")["label"] == 0).all()
    assert set(table["seed"]) == {5}
    sources = {row["document_id"]: row["source"] for row in rows_of(100)}
    assert all(sources[name] == text for name, text in table.select("document_id", "source").rows())
    check_no_leak(table)


def test_added_words_come_from_training_references(negatives):
    table = negatives(rows_of(100), "--kinds", "add,replace")
    training = table.filter(kind="positive", split="train")["candidate"]
    known = set().union(*map(words_of, training))
    references = {row["document_id"]: words_of(row["reference"]) for row in rows_of(100)}
    tested = table.filter(pl.col("kind") != "positive", split="test")
    assert len(tested) >= 6
    for name, candidate in tested.select("document_id", "candidate").rows():
        assert words_of(candidate) - references[name] <= known


def test_duplicate_documents_are_on_the_same_side(negatives, capsys):
    rows = rows_of(60)
    copies = [
        {
            "document_id": f"copy-{row['document_id']}",
            "source": row["source"].upper().replace(".", " ."),
            "reference": f"Other text{i}. Yes, it is.",
        }
        for i, row in enumerate(rows)
    ]
    table = negatives(rows + copies, "--kinds", "delete,cross-pair")
    side = dict(table.select("document_id", "split").rows())
    assert len(set(side.values())) == 3
    assert all(side[f"d{i}"] == side[f"copy-d{i}"] for i in range(60))
    check_no_leak(table)
    references = {row["document_id"]: row["reference"] for row in rows + copies}
    for name, text in table.filter(kind="cross-pair").select("document_id", "candidate").rows():
        assert text not in (references[name.removeprefix("copy-")], references.get(f"copy-{name}"))
    assert "120 documents share a text with another one" in capsys.readouterr().out


def test_own_split_is_kept_but_for_a_leak_which_the_earlier_side_loses(negatives, capsys):
    rows = with_split(rows_of(40))
    rows[0]["reference"] = rows[9]["reference"].upper()  # training document, test document
    found = dict(negatives(rows, "--kinds", "delete").select("document_id", "split").rows())
    names = {"train": "train", "dev": "validation", "test": "test"}
    assert found == {row["document_id"]: names[row["split"]] for row in rows[1:]}
    printed = capsys.readouterr().out
    assert "(split by the column `split`)" in printed
    assert "Left out: 1, document_id or text also on a later side." in printed


def test_mixture_and_balance(negatives):
    counts = Counter(negatives(rows_of(60), "--kinds", "add=3,delete=1")["kind"])
    assert counts["positive"] == 60 > 2 * counts["delete"]
    assert 55 <= counts["add"] + counts["delete"] <= 60
    counts = Counter(negatives(rows_of(60), "--preset", "bao2020")["kind"])
    four = dict.fromkeys(("cross-pair", "add", "replace"), 60)
    assert counts == {"positive": 180 + counts["delete"], "delete": counts["delete"], **four}


def test_rows_that_give_no_pair_are_reported(negatives, capsys):
    bad = [("x", None, "R."), ("y", "S.", None), (None, "S.", "R."), ("z", "S.", " ")]
    names = ("document_id", "source", "reference")
    bad = [dict(zip(names, row, strict=True)) for row in bad]
    rows = rows_of(60)
    assert len(negatives([*rows, rows[0], *bad], "--kinds", "add")) == 120
    text = capsys.readouterr().out
    assert "65 rows read" in text
    reasons = ("no source", "no reference", "no document_id", "empty reference")
    for reason in (*reasons, "pair repeated, used once"):
        assert f"Left out: 1, {reason}." in text


def test_order_format_names_and_a_split_that_is_not_asked_for_change_nothing(negatives, tmp_path):
    rows, kinds = rows_of(60), ("--kinds", KINDS)
    plain = negatives(rows, *kinds)
    assert plain.equals(negatives(rows[30:] + rows[:30][::-1], *kinds))
    rows = [row | {"split": "train"} for row in rows]
    assert plain.equals(negatives(rows, *kinds, "--split-anew"))
    named = pl.DataFrame(rows_of(60)).rename({"source": "article", "document_id": "id"})
    named.write_csv(tmp_path / "named.csv")
    columns = ("--columns", "source=article,document_id=id")
    assert plain.equals(negatives(tmp_path / "named.csv", *kinds, *columns))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--kinds", "ad"), "unknown kind of negative `ad`; did you mean `add`?"),
        (("--kinds", "add=1,delete"), "has a weight, all must have one, got `delete`"),
        (("--columns", "source=article"), "column `article` is missing"),
        (("--columns", "split=fold"), "column `fold` must be in every file"),
        (("--limit", "0"), "`limit` must be at least 1, got 0"),
    ],
)
def test_wrong_request_says_so_in_one_line(call, capsys, options, message):
    assert message in wrong(capsys, call(rows_of(30), *options))


def test_one_class_only_says_why(call, capsys):
    rows = [row | {"reference": f"Alone{i}"} for i, row in enumerate(rows_of(60))]
    status, out = call(rows, "--kinds", "delete,sentence-shuffle")
    line = wrong(capsys, (status, out))
    assert "no negatives can be made for train" in line
    assert "delete: one word only" in line
    assert not out.exists()


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "fewest_exchanged"), [("cnndm", 0.99), ("scitldr", 0.9), ("pubmed", 0.99)]
)
def test_real_pairs(negatives, data_dir, name, fewest_exchanged):
    kinds = "cross-pair,add,exchange,unimportant,repeat"
    path = data_dir / f"{name}_pairs.parquet"
    table = negatives(path, "--kinds", kinds, "--limit", 120, "--split-anew")
    check_no_leak(table)
    made = Counter(table["kind"])
    assert made["cross-pair"] == made["add"] == made["repeat"] == made["positive"]
    assert made["exchange"] > fewest_exchanged * made["positive"]
    assert made["unimportant"] > 0.95 * made["positive"]
