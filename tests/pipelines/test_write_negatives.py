"""`assay negatives`: what is written, what is refused, and that no text crosses a side."""

import json
from collections import Counter

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.negatives import SCHEMA
from reffree.pairs import text_key
from sms.words import split_words
from tests.rare import run

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


@pytest.fixture
def negatives(tmp_path):
    """Run `assay negatives` on rows (or files) and return exit status and output file."""
    n_calls = 0

    def call(rows, *options, out=None):
        nonlocal n_calls
        n_calls += 1
        if isinstance(rows, list):
            path = tmp_path / f"pairs{n_calls}.parquet"
            pq.write_table(pa.Table.from_pylist(rows), path)
        else:
            path = rows
        out = out or tmp_path / f"out{n_calls}.parquet"
        status = run(["negatives", str(path), "--out", str(out), "--quiet", *map(str, options)])
        return status, out

    return call


@pytest.fixture
def wrong(capsys):
    """Check that a call was refused in one line, and return the line."""

    def check(result):
        status, _ = result
        captured = capsys.readouterr()
        assert status == 2
        assert len(captured.err.splitlines()) == 1, captured.err
        assert captured.err.startswith("assay: ")
        return captured.err

    return check


def words_of(text):
    return {word for chunk in text.split() for word in split_words(chunk)}


def check_no_leak(table):
    """Check that no true text is on two sides."""
    true = table.filter(pl.col("kind") == "positive")
    for column in ("source", "candidate"):
        keys = true.select("split", pl.col(column).map_elements(text_key, pl.UInt64))
        assert keys.unique()[column].is_unique().all()


def test_written_rows(negatives):
    status, out = negatives(
        rows_of(100), "--kinds", KINDS, "--rate", "0..0.5", "--per-positive", 2, "--seed", 5
    )
    assert status == 0
    assert pq.read_schema(out).remove_metadata() == SCHEMA
    table = pl.read_parquet(out)
    counts = Counter(table["kind"])
    assert counts == {"positive": 100, **dict.fromkeys(KINDS.split(","), 200)}
    assert table["label"].is_between(0, 1).all()
    assert (table.filter(kind="positive")["label"] == 1).all()
    assert (table.filter(kind="cross-pair")["label"] == 0).all()
    assert set(table["seed"]) == {5}
    metadata = json.loads(pq.read_schema(out).metadata[b"assay.negatives"])
    assert metadata["per_positive"] == 2
    sources = {row["document_id"]: row["source"] for row in rows_of(100)}
    assert all(sources[name] == text for name, text in table.select("document_id", "source").rows())
    check_no_leak(table)


def test_same_rows_in_any_order(negatives):
    rows = rows_of(60)
    _, out = negatives(rows, "--kinds", KINDS)
    _, shuffled = negatives(rows[30:] + rows[:30][::-1], "--kinds", KINDS)
    assert pl.read_parquet(out).equals(pl.read_parquet(shuffled))


def test_added_words_come_from_training_references(negatives):
    _, out = negatives(rows_of(100), "--kinds", "add,replace", "--rate", "0.5..1")
    table = pl.read_parquet(out)
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
            **row,
            "document_id": f"copy-{row['document_id']}",
            "reference": f"Other text{i}. Yes, it is.",
        }
        for i, row in enumerate(rows)
    ]
    for row in copies:
        row["source"] = row["source"].upper().replace(".", " .")
    status, out = negatives(rows + copies, "--kinds", "delete,cross-pair")
    assert status == 0
    table = pl.read_parquet(out)
    side = dict(table.select("document_id", "split").rows())
    assert len(set(side.values())) == 3
    assert all(side[f"d{i}"] == side[f"copy-d{i}"] for i in range(60))
    check_no_leak(table)
    references = {row["document_id"]: row["reference"] for row in rows + copies}
    for name, text in table.filter(kind="cross-pair").select("document_id", "candidate").rows():
        assert text not in (references[name.removeprefix("copy-")], references.get(f"copy-{name}"))
    assert "120 documents share a text with another one" in capsys.readouterr().out


def with_split(rows):
    sides = ["train"] * 6 + ["dev"] * 2 + ["test"] * 2
    return [row | {"split": sides[i % 10]} for i, row in enumerate(rows)]


def test_leak_is_dropped_from_the_earlier_side_and_reported(negatives, capsys):
    rows = with_split(rows_of(40))
    rows[0]["reference"] = rows[9]["reference"].upper()  # training document, test document
    status, out = negatives(rows, "--kinds", "delete")
    assert status == 0
    found = dict(pl.read_parquet(out).select("document_id", "split").rows())
    names = {"train": "train", "dev": "validation", "test": "test"}
    asked = {row["document_id"]: names[row["split"]] for row in rows[1:]}
    assert found == asked
    printed = capsys.readouterr().out
    assert "(split by the column `split`)" in printed
    assert "Left out: 1, document_id or text also on a later side." in printed


def test_split_anew_ignores_the_column(negatives):
    rows = rows_of(60)
    _, plain = negatives(rows, "--kinds", "delete")
    _, anew = negatives(
        [row | {"split": "train"} for row in rows], "--kinds", "delete", "--split-anew"
    )
    assert pl.read_parquet(plain).equals(pl.read_parquet(anew))


def test_one_side_only(negatives):
    rows = rows_of(60)
    _, out = negatives(rows, "--kinds", KINDS)
    _, part = negatives(rows, "--kinds", KINDS, "--split", "test")
    assert pl.read_parquet(part).equals(pl.read_parquet(out).filter(split="test"))


def test_mixture_and_balance(negatives):
    _, out = negatives(
        rows_of(60), "--kinds", "add=3,delete=1", "--rate", "0..0.5", "--per-positive", "4"
    )
    counts = Counter(pl.read_parquet(out)["kind"])
    assert counts["positive"] == 60
    assert counts["add"] + counts["delete"] == 240
    assert counts["add"] > 2 * counts["delete"]
    _, paper = negatives(rows_of(60), "--preset", "bao2020", "--rate", "0..0.5")
    counts = Counter(pl.read_parquet(paper)["kind"])
    assert counts == {"positive": 240} | dict.fromkeys(
        ("cross-pair", "add", "delete", "replace"), 60
    )


def test_rows_that_give_no_pair_are_reported(negatives, capsys):
    bad = [
        {"document_id": "x", "source": None, "reference": "R."},
        {"document_id": "y", "source": "S.", "reference": None},
        {"document_id": None, "source": "S.", "reference": "R."},
        {"document_id": "z", "source": "S.", "reference": " "},
    ]
    rows = rows_of(60)
    status, out = negatives([*rows, rows[0], *bad], "--kinds", "add")
    assert status == 0
    assert len(pl.read_parquet(out)) == 120
    text = capsys.readouterr().out
    assert "65 rows read" in text
    for reason in ("no source", "no reference", "no document_id", "empty reference"):
        assert f"Left out: 1, {reason}." in text
    assert "Left out: 1, pair repeated, used once." in text


def test_other_formats_and_names(negatives, tmp_path):
    rows = rows_of(60)
    _, out = negatives(rows, "--kinds", "delete")
    path = tmp_path / "named.csv"
    named = pl.DataFrame(rows).rename({"source": "article", "document_id": "id"})
    named.write_csv(path)
    status, again = negatives(
        path, "--kinds", "delete", "--columns", "source=article,document_id=id"
    )
    assert status == 0
    assert pl.read_parquet(out).equals(pl.read_parquet(again))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--kinds", "ad"), "unknown kind of negative `ad`; did you mean `add`?"),
        (("--kinds", "add=1,delete"), "has a weight, all must have one, got `delete`"),
        (("--kinds", "add=1, add=2"), "must be named once, got `add` twice"),
        (("--rate", "0.5"), "`rate` must be LOW..HIGH with 0 <= LOW <= HIGH <= 1, got `0.5`"),
        (("--rate", "0.5..0.1"), "`rate` must be LOW..HIGH"),
        (("--columns", "source=article"), "column `article` is missing"),
        (("--columns", "split=fold"), "column `fold` must be in every file"),
        (("--limit", "0"), "`limit` must be at least 1, got 0"),
    ],
)
def test_wrong_request_says_so_in_one_line(negatives, wrong, options, message):
    assert message in wrong(negatives(rows_of(30), *options))


def test_one_class_only_says_why(negatives, wrong):
    rows = [row | {"reference": f"Alone{i}"} for i, row in enumerate(rows_of(60))]
    status, out = negatives(rows, "--kinds", "delete,sentence-shuffle")
    line = wrong((status, out))
    assert "must give some for every side, got none for train" in line
    assert "delete: one word only" in line
    assert not out.exists()


def test_file_that_exists_is_not_replaced(negatives, wrong, tmp_path):
    out = tmp_path / "there.parquet"
    out.write_bytes(b"mine")
    assert "`--out` must not exist yet" in wrong(negatives(rows_of(30), out=out))
    assert out.read_bytes() == b"mine"


def test_files_that_disagree_about_a_split(negatives, wrong, tmp_path):
    folder = tmp_path / "several"
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(rows_of(30)), folder / "a.parquet")
    pq.write_table(pa.Table.from_pylist(with_split(rows_of(30))), folder / "b.parquet")
    line = wrong(negatives(folder))
    assert "column `split` must be in every file" in line
    assert "split_anew = true" in line


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "fewest_exchanged"), [("cnndm", 0.99), ("scitldr", 0.9), ("pubmed", 0.99)]
)
def test_real_pairs(negatives, data_dir, name, fewest_exchanged):
    kinds = "cross-pair,add,exchange,unimportant,repeat"
    path = data_dir / f"{name}_pairs.parquet"
    status, out = negatives(path, "--kinds", kinds, "--limit", 120, "--split-anew")
    assert status == 0
    table = pl.read_parquet(out)
    check_no_leak(table)
    made = Counter(table["kind"])
    assert made["cross-pair"] == made["add"] == made["repeat"] == made["positive"]
    assert made["exchange"] > fewest_exchanged * made["positive"]
    assert made["unimportant"] > 0.95 * made["positive"]


@pytest.mark.data
@pytest.mark.slow
def test_hard_cross_pairs_are_nearer_than_random_ones(negatives, data_dir):
    status, out = negatives(
        data_dir / "cnndm_pairs.parquet",
        "--kinds",
        "cross-pair,cross-pair-hard",
        "--limit",
        400,
    )
    assert status == 0
    table = pl.read_parquet(out)

    def shared(kind):
        rows = table.filter(kind=kind).select("source", "candidate").rows()
        return sum(
            len(words_of(source) & words_of(candidate)) / len(words_of(candidate))
            for source, candidate in rows
        ) / len(rows)

    assert shared("cross-pair-hard") > 1.05 * shared("cross-pair")
