"""Judgements of people read, compared and reported; sheets for judges made and read back."""

import itertools
import json
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

import assay
from assay import preferences as compare_preferences
from pipelines.cli.app import run
from tests.row_files import write_rows

CLARK_CRITERIA = ("non-redundancy", "coherence", "focus", "overall")
"""Table 6 of Clark et al. (2019)."""

SYSTEMS = ("old", "new", "third")
NAMES = {"system_a": "x", "system_b": "y"}
COUNTED = ("system_a", "system_b", "wins", "losses", "ties")


def make_sheet(corpus, **given):
    return assay.preferences((), make_sheet=corpus, **given)


@pytest.fixture
def write(tmp_path):
    """Write rows as a file of the kind its name says."""

    def call(rows, name="judgements.csv"):
        return str(write_rows(tmp_path / name, rows))

    return call


@pytest.fixture
def corpus(write):
    rows = [
        {"document_id": f"d{i}", "system_id": system, "candidate": f"{i} by its number {k}"}
        for i in range(12)
        for k, system in enumerate(SYSTEMS)
    ]
    rows[-1]["candidate"] = " "  # document d11 lacks the third system
    return write(rows, "corpus.jsonl")


@pytest.fixture
def sheet(corpus, tmp_path):
    """Make a sheet of two systems and fill it by a rule: document and criterion to an entry."""

    def call(rule, *, judge="ann"):
        out, key = tmp_path / "sheet.csv", tmp_path / "sheet.key.csv"
        if not out.exists():
            make_sheet(corpus, out=out, systems=SYSTEMS[:2], n=10)
        keyed = {row["item"]: row for row in pl.read_csv(key).iter_rows(named=True)}
        rows = pl.read_csv(out, infer_schema=False).to_dicts()
        for row, criterion in itertools.product(rows, CLARK_CRITERIA):
            entry = keyed[row["item"]]
            winner = rule(entry["document_id"], criterion)
            side = "Left" if winner == entry["left"] else "right"
            row[criterion] = side if winner in SYSTEMS else winner
        filled = tmp_path / f"{judge}.csv"
        pl.DataFrame(rows).write_csv(filled)
        return str(filled), str(key)

    return call


def judgement(document, winner, *, judge="ann", criterion="overall", pair=("old", "new")):
    row = {"document_id": document, "judge": judge, "criterion": criterion}
    return {**row, "system_a": pair[0], "system_b": pair[1], "winner": winner}


def judgements(criterion, n_first, n_second, n_ties, pair=("old", "new")):
    """Of so many items, each judged once."""
    winners = [pair[0]] * n_first + [pair[1]] * n_second + ["tie"] * n_ties
    return [judgement(str(i), w, criterion=criterion, pair=pair) for i, w in enumerate(winners)]


BY_HAND = [
    judgement("1", "old"),
    judgement("2", "new"),
    judgement("3", "new", pair=("new", "old")),
    judgement("4", "tie"),
    judgement("1", "new", judge="bo"),
    judgement("2", "new", judge="bo"),
    judgement("3", " = ", judge="bo"),
    judgement("4", "", judge="bo"),
]


@pytest.mark.parametrize("name", ["j.csv", "j.jsonl", "j.parquet"])
def test_counts_by_hand_from_every_format(write, name):
    result = compare_preferences([write(BY_HAND, name)])
    (row,) = result.rows
    assert (row.system_a, row.system_b) == ("old", "new")
    assert (row.wins_a, row.wins_b, row.ties) == (1, 4, 2)
    assert row.share_b == pytest.approx(0.8)
    assert row.p_value == pytest.approx(2 * 6 / 2**5)
    assert (row.items_a, row.items_b, row.items_tied) == (0, 2, 2)
    assert row.p_items == pytest.approx(0.5)
    assert (row.n_items, row.n_judges, row.n_items_repeated) == (4, 2, 3)
    assert row.share_equal == pytest.approx(1 / 3)
    assert (row.preferred, result.n_missing) == (None, 1)


def test_systems_choose_pairs_and_which_is_a(write):
    rows = judgements("overall", 0, 4, 0) + judgements("overall", 4, 0, 0, ("third", "old"))
    path = write(rows)
    assert len(compare_preferences([path]).rows) == 2
    (row,) = compare_preferences([path], systems=("new", "old")).rows
    assert (row.system_a, row.wins_a, row.wins_b) == ("new", 4, 0)


def test_holm_is_over_all_rows(write):
    counts = {"focus": (4, 20), "overall": (5, 17), "coherence": (9, 11)}
    rows = [row for name, (a, b) in counts.items() for row in judgements(name, a, b, 0)]
    found = {row.criterion: row for row in compare_preferences([write(rows)]).rows}
    for place, name in enumerate(counts):
        assert found[name].p_holm == pytest.approx(min(1, (3 - place) * found[name].p_value))
    assert [found[name].preferred for name in counts] == ["b", "b", None]
    assert found["overall"].p_holm < 0.05 < 3 * found["overall"].p_value


def test_many_judges_of_few_items_prefer_no_system(write):
    """Twelve judges who agree give twelve times the judgements, but not items."""
    pairs = itertools.product(range(5), range(12))
    rows = [judgement(f"d{i}", "old" if i else "new", judge=f"j{judge}") for i, judge in pairs]
    (row,) = compare_preferences(write(rows)).rows
    assert row.p_value < 0.001
    assert row.p_holm == row.p_items == pytest.approx(0.375)
    assert row.preferred is None


def test_renamed_columns_are_read(write):
    rows = [{"a": "x", "b": "y", "choice": "x", "winner": "?"}]
    names = {"system_a": "a", "system_b": "b", "winner": "choice"}
    (row,) = compare_preferences([write(rows)], columns=names).rows
    assert (row.criterion, row.wins_a, row.n_items, row.n_judges) == ("overall", 1, 0, 0)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (BY_HAND, "`--systems` must name judged systems, got `odl`"),
        ([judgement("1", "nobody")], "`winner` must be one of the two systems, or tie or =, got"),
        ([judgement("1", "old", pair=("old", "old"))], "must be two different systems"),
        ([judgement("1", "old")] * 2, "a judge must judge each item once per criterion"),
        ([judgement("1", "old"), judgement(None, "old")], "must have a `document_id`"),
        ([judgement("1", "tie", pair=("old", "Tie"))], "a system must not be called tie or =, wh"),
        ([judgement("1", "")], "no judgement in .*: every entry is blank"),
        ([NAMES], "column `wins` is missing"),
        ([{**NAMES, "wins": "2.5", "losses": 1, "ties": 0}], "whole numbers from 0, got .*'2.5'"),
        ([judgement("1", "old", criterion=["x"])], "`criterion` in .* must be text or a number"),
    ],
)
def test_wrong_judgements_rejected(write, rows, message):
    systems = ("odl", "new") if rows is BY_HAND else ()
    with pytest.raises(ValueError, match=message):
        compare_preferences([write(rows, "j.parquet")], systems=systems)


def test_table_6_through_the_command_line(write, tmp_path, capsys):
    """Clark et al. (2019), page 8: two rows of table 6, one turned; and one of ties alone."""
    rows = [
        ("non-redundancy", "ROUGE-L", "SMS", 64, 144, 92),
        ("overall", "SMS", "ROUGE-L", 179, 85, 36),
        ("focus", "ROUGE-L", "SMS", 0, 0, 2),
    ]
    path = write([dict(zip(("criterion", *COUNTED), row, strict=True)) for row in rows], "t6.csv")
    outs = [tmp_path / f"out{suffix}" for suffix in (".md", ".csv", ".json")]
    for out in outs:
        assert run(["preferences", path, "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    assert lines[1] == "non-redundancy ROUGE-L SMS 64 144 92 69.2 [62.7, 75.1]"
    assert "non-redundancy ROUGE-L SMS < 0.001 < 0.001 B" in lines  # of 80 columns
    assert "focus ROUGE-L SMS 0 0 2 – –" in lines
    assert "| overall | ROUGE-L | SMS | 85 | 179 | 36 | 67.8 |" in outs[0].read_text("utf-8")
    table = {row["criterion"]: row for row in pl.read_csv(outs[1]).iter_rows(named=True)}
    assert table["overall"]["share_b"] == pytest.approx(179 / 264)
    assert (table["overall"]["n_items"], table["overall"]["n_judges"]) == (0, 0)
    written = {row["criterion"]: row for row in json.loads(outs[2].read_text("utf-8"))["rows"]}
    assert [written[name]["wins_b"] for name, *_ in rows] == [144, 179, 0]
    assert written["focus"]["p_value"] is written["focus"]["preferred"] is None


def test_counts_may_be_zero_or_huge(write):
    """Nobody who won nothing is left out or changes sides, and no judgement is held."""
    rows = [("x", "y", 0, 5, 1), ("z", "x", 0, 0, 0), ("z", "y", 3_000_000_000, 0, 10**12)]
    path = write([dict(zip(COUNTED, row, strict=True)) for row in rows])
    found = compare_preferences([path]).rows
    counted = [(r.system_a, r.system_b, r.wins_a, r.wins_b, r.ties) for r in found]
    assert counted == [("x", "y", 0, 5, 1), ("x", "z", 0, 0, 0), ("y", "z", 0, rows[2][2], 10**12)]
    nameless = write([dict(zip(COUNTED, ("", "b", 30, 4, 5), strict=True))], "nameless.jsonl")
    (row,) = compare_preferences([nameless]).rows
    assert (row.system_a, row.wins_a, row.wins_b, row.ties) == ("", 30, 4, 5)


def test_wrong_requests_are_one_line(write, capsys):
    path = write(BY_HAND)
    for arguments, message in (
        ([], "name at least one file of judgements"),
        ([path, "--out", "x.txt"], "`--out` must end in .csv, .json, .md"),
        ([path, "--make-sheet", path], "leave out the judgements"),
        (["--make-sheet", path, "--out", "s.csv"], "`--systems` must name two different systems"),
        (["--make-sheet", path, "--systems", "a,b"], "`--out` must name the new sheet"),
    ):
        assert run(["preferences", *arguments]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert message in line


# Sheets


def test_sheet_is_blind_and_balanced(corpus, tmp_path):
    out = tmp_path / "sheet.csv"
    made = make_sheet(corpus, systems=SYSTEMS, n=10, out=str(out), seed=5)
    assert (made.n_rows, made.n_documents, made.n_eligible) == (30, 10, 11)
    assert not any(system in out.read_text("utf-8") for system in SYSTEMS)
    sheet, key = (pl.read_csv(path, infer_schema=False) for path in (out, made.key))
    assert sheet.columns == ["item", "left", "right", "judge", *CLARK_CRITERIA, "comment"]
    assert set(sheet["item"]) == set(key["item"])
    lefts = Counter(key.select("system_a", "system_b", "left").iter_rows())
    all_pairs = list(itertools.combinations(SYSTEMS, 2))
    assert lefts == {(*pair, left): 5 for pair in all_pairs for left in pair}
    assert key["document_id"].n_unique() == 10
    # the key is in the order of the systems, which becomes A before B; the sheet is not
    assert key.select("system_a", "system_b").unique(maintain_order=True).rows() == all_pairs
    assert key["system_b"].rle().len() == 2
    assert sheet["item"].is_sorted()
    assert not key["item"].is_sorted()


def test_sheet_depends_on_the_seed_only(corpus, tmp_path, capsys):
    def made(name, seed):
        words = ["preferences", "--make-sheet", corpus, "--systems", "old,new", "--n", "7"]
        out, key = tmp_path / f"{name}.csv", tmp_path / f"{name}.key.csv"
        assert run([*words, "--seed", str(seed), "--out", str(out)]) == 0
        printed = capsys.readouterr().out
        assert f"Sheet: {out}, 7 rows on 7 of 12 documents" in printed
        assert f"Key: {key}; keep it from the judges" in printed
        assert sorted(Counter(pl.read_csv(key)["left"]).values()) == [3, 4]
        return out.read_text("utf-8"), key.read_text("utf-8")

    assert made("a", 1) == made("b", 1)
    assert made("c", 2) != made("d", 1)


def test_systems_may_be_called_like_columns(write, tmp_path):
    names = ("document_id", "*")
    rows = [
        {"document_id": f"d{i}", "system_id": n, "candidate": n} for i in range(2) for n in names
    ]
    made = make_sheet(write(rows), systems=names, n=2, out=str(tmp_path / "sheet.csv"))
    assert made.n_rows == 2


def test_filled_sheet_is_read_with_its_key(sheet):
    def prefers_new_on_even(document, criterion):
        return "=" if criterion == "focus" else SYSTEMS[int(document[1:]) % 2 == 0]

    filled, key = sheet(prefers_new_on_even)
    n_even = sum(int(name[1:]) % 2 == 0 for name in pl.read_csv(key)["document_id"])
    rows = compare_preferences([filled], key=key).rows
    for row in rows:
        expected = (0, 0, 10) if row.criterion == "focus" else (10 - n_even, n_even, 0)
        assert (row.system_a, row.system_b) == ("old", "new")
        assert (row.wins_a, row.wins_b, row.ties) == expected
        assert (row.n_items, row.n_judges) == (10, 1)
    assert [row.criterion for row in rows] == list(CLARK_CRITERIA)


def test_judges_are_called_like_their_sheets(sheet):
    always_new, key = sheet(lambda document, criterion: "new")
    mostly_new, _ = sheet(lambda document, criterion: "new" if document != "d3" else "", judge="bo")
    result = compare_preferences([always_new, mostly_new], key=key)
    n_blank = int("d3" in pl.read_csv(key)["document_id"].to_list())
    assert (result.rows[0].n_judges, result.rows[0].wins_b) == (2, 20 - n_blank)
    assert (result.n_missing, result.rows[0].share_equal) == (4 * n_blank, 1.0)
    link = Path(always_new).with_name("cy.csv")
    link.symlink_to(always_new)
    with pytest.raises(ValueError, match="every file must be named once"):
        compare_preferences([always_new, str(link)], key=key)


def test_sheet_with_another_key_or_entry_rejected(sheet, corpus, tmp_path):
    filled, key = sheet(lambda document, criterion: "new")
    wrong, _ = sheet(lambda document, criterion: "both", judge="wrong")
    other = make_sheet(corpus, systems=SYSTEMS[:2], n=10, out=str(tmp_path / "o.csv"), seed=9).key
    for path, of, message in (
        (filled, other, "every item must be in the key, got item"),
        (filled, None, "is a sheet for judges; name the file of its key"),
        (wrong, key, "an entry must be left, right, tie, = or blank, got item"),
    ):
        with pytest.raises(ValueError, match=message):
            compare_preferences([path], key=of)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"systems": ("old",)}, "`--systems` must name two different systems or more"),
        ({"systems": ("old", "odl")}, "`systems` must be in .*, got `odl`; there are new, old, th"),
        ({"n": 13}, "`n` must be at most 12, the number of documents for which all"),
        ({"n": 0}, "`n` must be at least 1, got 0"),
        ({"criteria": ("focus", "left")}, "`criteria` must be different names, none of item, jud"),
        ({"out": "sheet.txt"}, "`out` must end in .csv"),
        ({"out": "corpus.csv"}, "`out` must not exist yet, got .*corpus.csv; choose"),
        ({"key": "sheet.key.csv"}, "`--key` names the key of filled sheets"),
    ],
)
def test_wrong_sheet_rejected(corpus, tmp_path, options, message):
    (tmp_path / "corpus.csv").write_text("")
    given = {"systems": SYSTEMS[:2], "n": 3, "out": "sheet.csv"} | options
    given["out"] = str(tmp_path / given["out"])
    with pytest.raises(ValueError, match=message):
        make_sheet(corpus, **given)
    assert not list(tmp_path.glob("sheet*"))
