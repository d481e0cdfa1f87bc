"""Two sets of scores without ratings: what is compared, how sure the order is, what is refused."""

import csv
import json
import math
import re
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from scipy import stats

from agreement import holm
from assay import compare
from pipelines.cli.app import run
from pipelines.reports.comparison import PAIRS, RUNS, SYSTEMS, comparison_sheet, render_comparison
from pipelines.reports.tables import MAX_ROWS
from tests.row_files import write_rows


@pytest.fixture
def write(tmp_path):
    """Write a file of scores: {system: {metric: values by document}}."""

    def call(name, by_system, first_document=0):
        rows = [
            {"document_id": f"d{first_document + i:03d}", "system_id": system}
            | {metric: values[i] for metric, values in metrics.items()}
            for system, metrics in by_system.items()
            for i in range(len(next(iter(metrics.values()))))
        ]
        return str(write_rows(tmp_path / name, rows))

    return call


@pytest.fixture
def compared(write):
    """Compare scores of two systems or runs, given as `write` takes them."""

    def call(of_a, of_b, **options):
        return compare(write("a.csv", of_a), write("b.csv", of_b), **options)

    return call


@pytest.fixture
def scored(tmp_path):
    """Score texts of one system, the reference cut or whole, by command; return the folder."""

    def call(name, system, n_words, *options):
        words = "the cat sat on the mat and looked at the grey rain outside".split()  # noqa: SIM905
        texts = [" ".join(words[i % 3 : i % 3 + n_words]) for i in range(12)]
        rows = {"document_id": range(12), "system_id": system, "candidate": texts}
        corpus, out = tmp_path / f"{name}.csv", tmp_path / name
        pl.DataFrame(rows | {"reference": " ".join(words)}).write_csv(corpus)
        metrics = () if "--metrics" in options else ("--metrics", "rouge1_f,length")
        arguments = ["score", str(corpus), "--out", str(out), "--local", "--quiet"]
        assert run([*arguments, *metrics, *options]) == 0
        return str(out)

    return call


@pytest.fixture
def refused(capsys):
    """Run `assay compare`, which must refuse in one line, and return the line."""

    def call(*arguments):
        capsys.readouterr()
        assert run(["compare", *map(str, arguments)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert len(captured.err.splitlines()) == 1
        return captured.err.removeprefix("assay: ").rstrip("\n")

    return call


def test_wins_ties_losses_and_means_by_hand(compared):
    (row,) = compared(
        {"s": {"sms": [0.5, 0.1 + 0.2, 0.9, 0.2, 0.0]}}, {"s": {"sms": [0.4, 0.3, 0.5, 0.3, 0.0]}}
    ).rows
    assert (row.wins, row.ties, row.losses) == (2, 2, 1)
    assert (row.mean_a, row.mean_b) == pytest.approx((0.38, 0.30))
    assert row.difference == pytest.approx(0.08)
    assert (row.n_documents, row.n_missing) == (5, 0)


def test_holm_is_over_all_rows_that_could_be_tested(compared):
    rng = np.random.default_rng(0)
    metrics = {f"m{i}": rng.normal(0.3 * i, 1.0, 40) for i in range(4)}
    others = {name: rng.normal(size=40) for name in metrics}
    apart = np.where(np.arange(40) < 20, 1.0, None)
    result = compared({"s": metrics | {"no": apart}}, {"s": others | {"no": apart[::-1]}})
    *rows, untested = result.rows
    expected = holm(np.array([row.p_value for row in rows]))
    assert [row.p_holm for row in rows] == pytest.approx(list(expected))
    assert all((row.higher is not None) == (row.p_holm <= 0.05) for row in rows)
    assert math.isnan(untested.p_value)
    assert (untested.reason, untested.higher) == ("no document has both scores", None)
    assert result.frame()["p_value"].to_list()[-1] is None


def test_command_compares_two_systems(scored, tmp_path, capsys):
    whole, half = scored("whole", "whole", 9), scored("half", "half", 4)
    capsys.readouterr()
    out = tmp_path / "out" / "comparison.json"
    assert run(["compare", whole, half, "--out", str(out), "--resamples", "500"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "A with B, on the documents both have"
    assert max(map(len, lines[4:12])) <= 80  # the table is cut into blocks that fit
    first, *_, last = (line.split() for line in lines if line.startswith("length "))
    assert first[1:3] == ["9.0000", "4.0000"]  # the lines above name the two systems
    assert last[1:] == ["0", "0", "12", "A"]  # ties, losses, documents, higher
    assert "Higher means longer: length" in lines
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["kind"] == "systems"
    assert found["signatures"]["rouge1_f"].startswith("rouge1_f|tok:")
    assert [row["higher"] for row in found["rows"]] == ["a", "a"]
    assert found["rows"][1]["p_value"] == pytest.approx(1 / 501)
    assert {len(record["sha256"]) for record in found["inputs"]} == {64}


def test_command_writes_tables(write, tmp_path):
    paths = write("a.csv", {"s_1": {"sms": [1.0, 2.0]}}), write("b.csv", {"s_1": {"sms": [5, 7.0]}})
    table, text = tmp_path / "table.csv", tmp_path / "table.md"
    for out in (table, text):
        assert run(["compare", *paths, "--out", str(out)]) == 0
    (row,) = csv.DictReader(table.read_text("utf-8").splitlines())
    assert (row["system_a"], float(row["difference"]), row["reason"]) == ("s_1", -4.5, "")
    assert r"| sms | s\_1 | 1.500 | 6.000 | -4.5000 |" in text.read_text("utf-8")
    assert "Two runs of the same systems" in text.read_text("utf-8")


def test_page_shows_the_difference_of_each_document(write, tmp_path):
    a = write("a.csv", {"<b>": {"sms": [1.0, 2.0, 9.0], "one": [1.0, None, None]}})
    b = write("b.csv", {"<i>": {"sms": [5.0, 7.0, 1.0], "one": [2.0, 1.0, None]}})
    out = tmp_path / "page.html"
    assert run(["compare", a, b, "--out", str(out)]) == 0
    page = out.read_text(encoding="utf-8")
    assert "<h1>No significant difference in 1 comparison (1 could not be tested)</h1>" in page
    assert f"A: &lt;b&gt;, {a}" in page
    assert '<td data-label="mean A">4.000</td>' in page
    shown = re.findall(r"<bdi>(d\d+)</bdi></th><td>(.*?)</td>", page)
    assert shown[:3] == [("d002", "8.0000"), ("d000", "-4.0000"), ("d001", "-5.0000")]
    columns = re.findall(r'class="(\w+)" [^>]*height="(.*?)"><title>(.*?)</title>', page)
    assert columns == [
        *(("above", "1.000", "d002: 8.0000"), ("below", "0.500", "d000: -4.0000")),
        ("below", "0.625", "d001: -5.0000"),
        *(("below", "1.000", "d000: -1.0000"),),
    ]
    assert "Undefined: one, &lt;b&gt;, &lt;i&gt;: needs at least 2 documents, got 1" in page


def test_text_is_cut_and_says_what_is_undefined_and_known(compared):
    names = [f"m{i:02d}" for i in range(MAX_ROWS)]
    a = {"sms": [0.5, 0.5000001], **{name: [1.0, 2.0] for name in names}, "m00": [1.0, None]}
    b = {"sms": [0.5, 0.5000003], **{name: [3.0, 4.0] for name in names}, "m00": [None, 1.0]}
    text = comparison_sheet(compared({"s": a}, {"s": b}, resamples=10)).text()
    # a difference that rounds to zero has no sign
    assert re.search(r" 0\.00000 +\[0\.00000, 0\.00000\]", text)
    assert "-0.00000" not in text
    lines = text.splitlines()
    assert sum(line.startswith("m") for line in lines[5:]) == 2 * MAX_ROWS - 1  # and a heading
    assert "and 1 more row; `--out` writes all" in lines
    assert "Undefined: m00, s, s: no document has both scores" in lines
    shown = [line.split() for line in lines if line.startswith("m00 ")]
    assert [cell for cells in shown for cell in cells].count("–") == 7
    # nothing is said of the direction of another tool's column
    said = [line for line in lines if line.startswith("Higher means")]
    assert said == ["Higher means closer, 0 to 1: sms"]


def test_what_could_not_be_tested_is_not_called_insignificant(compared):
    a = {"s": {"one": [1.0, None], "two": [1.0, 2.0]}}
    b = {"s": {"one": [2.0, 1.0], "two": [2.0, 1.0]}}
    untested = render_comparison(compared(a, b, metrics=["one"]))
    assert "<h1>No difference could be tested: needs at least 2 documents, got 1</h1>" in untested
    apart = compared(a | {"t": {"one": [None, 1.0]}}, b | {"t": {"one": [1.0, None]}})
    assert '<td class="text">no document has both scores</td>' in render_comparison(apart)
    foot = comparison_sheet(compared(a, b)).text()
    assert "Holm over 1 test;" in foot
    assert "With fewer than 6 documents that differ, no p-value can be below 0.05" in foot


@pytest.mark.parametrize(("n_documents", "said"), [(6, 8), (7, 8), (8, None), (5, 8)])
def test_too_few_documents_for_so_many_tests_are_told(compared, n_documents, said):
    a = {"s": {f"m{i}": [1.0 + i] * n_documents for i in range(6)}}
    b = {"s": {name: [0.0] * n_documents for name in a["s"]}}
    result = compared(a, b)
    text = comparison_sheet(result).text()
    note = f"With fewer than {said} documents that differ, no p-value by Holm over 6 tests can be"
    assert (note in text) == (said is not None)
    assert {row.higher for row in result.rows} == ({None} if said else {"a"})


def test_too_few_resamples_for_so_many_tests_are_told(compared):
    a = {"s": {f"m{i}": [1.0 + i] * 12 for i in range(6)}}
    b = {"s": {name: [0.0] * 12 for name in a["s"]}}
    few, enough = (compared(a, b, resamples=n) for n in (99, 120))
    said = "99 resamples are too few for 6 tests: no p (Holm) can be below 0.06; set `resamples`"
    assert said in comparison_sheet(few).text()
    assert {row.higher for row in few.rows} == {None}
    assert "too few" not in comparison_sheet(enough).text()
    assert {row.higher for row in enough.rows} == {"a"}


def test_flipped_bit_of_a_scores_file_is_not_read_as_a_score(scored, refused):
    a, b = scored("a", "a", 5), scored("b", "b", 8)
    (part,) = Path(a, "scores").iterdir()
    data = bytearray(part.read_bytes())
    pages = pq.ParquetFile(part).metadata.row_group(0).column(0)
    data[pages.data_page_offset + pages.total_compressed_size - 2] ^= 4  # among the values
    part.write_bytes(data)
    for named in (a, part):  # as a run, and as a file
        assert f"scores file {part} is damaged" in refused(named, b)


S, T, U = {"s": {"sms": [1.0, 2.0]}}, {"t": {"sms": [5.0, 7.0]}}, {"u": {"sms": [1.0, 1.0]}}


@pytest.mark.parametrize(
    ("of_a", "of_b", "sides", "kind", "rows"),
    [
        (S | T | U, T | {"s": U["u"]}, {}, RUNS, [("s", "s", 0.5), ("t", "t", 0.0)]),
        (S, T | U, {}, SYSTEMS, [("s", "t", -4.5), ("s", "u", 0.5)]),
        (S | T, None, {"systems_a": ["s"], "systems_b": ["t"]}, SYSTEMS, [("s", "t", -4.5)]),
    ],
    ids=["two runs of the same systems", "different systems", "two systems of one file"],
)
def test_systems_that_meet(write, of_a, of_b, sides, kind, rows):
    a = write("a.csv", of_a)
    with Path(a).open("a", encoding="utf-8") as stream:
        stream.write(",s,9.0\n")
    result = compare(a, write("b.csv", of_b) if of_b else a, **sides)
    assert result.kind == kind
    assert [(row.system_a, row.system_b, row.difference) for row in result.rows] == rows
    left_out = "Systems that only one side has are left out: u"
    assert any(left_out in note for note in result.notes) == (kind == RUNS)
    assert result.notes.count(f"1 row of {a} lacks an id and is left out") == 1


def test_only_what_both_have_counts_and_the_rest_is_named(write):
    a = write("a.csv", {"s": {"sms": [9.0, 9.0, 1.0, 2.0, None], "wms": [1.0] * 5}})
    b = write("b.csv", {"s": {"sms": [0.0, 4.0, 5.0, 7.0], "rouge": [1.0] * 4}}, first_document=2)
    result = compare(a, b)
    (row,) = result.rows
    assert (row.n_documents, row.n_missing) == (2, 4)
    assert (row.mean_a, row.mean_b) == (1.5, 2.0)
    notes = "\n".join([*result.notes, ""])
    for end in (
        "a.csv only: d000, d001",
        "a.csv has are left out: wms",
        "b.csv has are left out: r",
    ):
        assert end in notes
    assert "A signature is missing, so both sides may not have computed the same: sms\n" in notes


def test_other_signatures_are_refused_and_say_what_differs(scored, refused, tmp_path):
    metrics = ("--metrics", "rouge1_f,rouge2_f,length")
    best = scored("best", "s", 5, *metrics)
    first = scored("first", "s", 5, *metrics, "--multi-reference", "first")
    differ = "must be the same metric in both, but its signatures differ:"
    assert refused(best, first) == (
        f"`rouge1_f` {differ} `ref:best` against `ref:first` (and so do rouge2_f); score both with "
        "the same settings, or choose others with `--metrics`"
    )
    assert run(["compare", best, first, "--metrics", "length"]) == 0
    folders = []  # of vectors with one name and other content
    for number, name in enumerate("ab"):
        vectors = tmp_path / f"vectors-{name}" / "v.txt"
        vectors.parent.mkdir()
        vectors.write_text(f"cat 1 {number}\ngrey 3 4\nrain 0 1\n")
        options = ("--encoder", f"glove:{vectors}", "--metrics", "sms")
        folders.append(scored(f"scores-{name}", "s", 5, *options))
    assert f"`sms` {differ} `hash:" in refused(*folders)


# All pairs of one run


@pytest.fixture
def paired(write):
    """Compare all systems of one file, given as `write` takes them."""

    def call(by_system, **options):
        return compare(write("run.csv", by_system), **options)

    return call


def near(values, shift, scale, seed):
    return values + shift + scale * np.random.default_rng(seed).normal(size=values.size)


BASE = np.random.default_rng(7).normal(size=40)
RUN = {
    "low": {"m": BASE, "same": np.ones(40)},
    "high": {"m": near(BASE, 2.0, 0.1, 1), "same": np.ones(40)},
    "as low": {"m": near(BASE, 0.0, 0.1, 2), "same": np.ones(40)},
    "between": {"m": near(BASE, 0.05, 0.15, 3), "same": np.ones(40)},
}


def test_every_pair_of_a_run_is_tested_as_by_scipy(paired):
    result = paired(RUN, resamples=4_000)
    assert (result.kind, result.scores_b) == (PAIRS, None)
    pairs = [(row.metric, {row.system_a, row.system_b}) for row in result.rows]
    assert len(pairs) == 12
    assert all((name, {*pair}) in pairs for name in ("m", "same") for pair in combinations(RUN, 2))
    p_values = []
    for row in result.rows:
        a, b = (RUN[system][row.metric] for system in (row.system_a, row.system_b))
        assert row.difference == pytest.approx((a - b).mean())
        expected = stats.permutation_test(
            (a, b), lambda x, y, axis: (x - y).mean(axis), permutation_type="samples",
            vectorized=True, n_resamples=4_000, rng=np.random.default_rng(0),
        ).pvalue  # fmt: skip
        assert row.p_value == pytest.approx(expected, abs=0.03)
        p_values.append(row.p_value)
    assert [row.p_holm for row in result.rows] == pytest.approx(list(holm(np.array(p_values))))


def test_letters_say_which_pairs_differ(paired):
    result = paired(RUN, resamples=4_000)
    letters = {(each.metric, each.system): {*each.letters} for each in result.means}
    for row in result.rows:
        shared = letters[row.metric, row.system_a] & letters[row.metric, row.system_b]
        assert (row.higher is None) == bool(shared)
    assert letters["m", "high"] == {"a"}  # which has the highest mean
    assert not letters["m", "high"] & letters["m", "low"]
    assert {frozenset(each) for (name, _), each in letters.items() if name == "same"} == {
        frozenset("a")
    }


def test_means_of_a_run_by_hand(paired):
    result = paired(
        {"s": {"m": [1.0, 3.0, None]}, "t": {"m": [2.0, 8.0, 2.0]}, "none": {"m": [None] * 3}}
    )
    assert [(each.system, each.mean, each.n_documents) for each in result.means][:2] == [
        ("t", 4.0, 3),
        ("s", 2.0, 2),
    ]
    last = result.means[-1]
    assert (last.system, math.isnan(last.mean), last.letters) == ("none", True, "")
    assert all(each.low <= each.mean <= each.high for each in result.means[:2])
    text = comparison_sheet(result).text()
    assert re.search(r"^t +4\.000 \[.*\] a$", text, re.MULTILINE)
    assert re.search(r"^none +–", text, re.MULTILINE)
    assert "A (s) has a score for 2, B (t) for 3" in text


def test_system_without_scores_comes_last_wherever_its_name_stands(paired):
    means = {"a": 1.0, "b": 5.0, "c": None, "d": 3.0, "e": 9.0, "f": 2.0}
    result = paired({name: {"m": [mean] * 3} for name, mean in means.items()})
    assert [each.system for each in result.means] == ["e", "b", "d", "f", "a", "c"]


def test_command_writes_the_table_of_a_paper(write, tmp_path, capsys):
    run_file = write("run.csv", {"s_1": {"m": range(8)}, "t": {"m": range(10, 18)}})
    outs = {
        suffix: tmp_path / f"table{suffix}" for suffix in (".md", ".tex", ".json", ".csv", ".html")
    }
    for out in outs.values():
        assert run(["compare", run_file, "--out", str(out), "--resamples", "300"]) == 0
    shown = capsys.readouterr().out
    assert f"Every pair of 2 systems of {run_file}" in shown
    said = "p at most 0.05 after Holm's correction for 1 test"
    written = {suffix: out.read_text("utf-8") for suffix, out in outs.items()}
    assert all(said in text for text in (shown, written[".md"], written[".tex"]))
    assert re.search(r"\| s\\_1 \| 3\.50 \[.*\] <sup>b</sup> \|", written[".md"])
    assert re.search(r"t & 13\.50 \[.*\]\\textsuperscript\{a\} \\\\", written[".tex"])
    found = json.loads(written[".json"])
    assert [(each["system"], each["letters"]) for each in found["means"]] == [
        ("t", "a"),
        ("s_1", "b"),
    ]
    assert found["rows"][0]["difference"] == -10.0
    assert len(written[".csv"].splitlines()) == 2
    assert "<h1>1 significant difference in 1 comparison of two systems</h1>" in written[".html"]
    assert re.search(r"<bdi>t</bdi></th><td>13\.50 \[.*?\] <sup>a</sup></td>", written[".html"])


def test_systems_of_one_run_can_be_chosen(write):
    path = write("run.csv", S | T | U)
    one = compare(path, systems_a=["s", "t"])
    assert [(row.system_a, row.system_b) for row in one.rows] == [("s", "t")]
    sides = compare(path, systems_a=["s"], systems_b=["t", "u"])  # as with the same file twice
    assert sides == compare(path, path, systems_a=["s"], systems_b=["t", "u"])


@pytest.mark.parametrize(
    ("of_a", "of_b", "options", "message"),
    [
        (S, {"s": {"wms": [1.0, 2.0]}}, (), "the two must share a metric"),
        (S, None, (), "twice with s; choose different systems"),
        (S, T, ("--metrics", "rouge*"), "`--metrics` must match a name, got `rouge*`"),
        (S, T, ("--systems-b", "x"), "`--systems-b` must match a name, got `x`"),
        (S, {"s": {"sms": ["1.0", "good"]}}, (), "must hold numbers, got 'good'"),
        (S, T, ("--out", "table.xlsx"), "`--out` must end in .csv, .json, .md"),
        (S, T, ("--resamples", "0"), "at least 1, got 0"),
    ],
)
def test_wrong_requests_are_refused(write, refused, of_a, of_b, options, message):
    a = write("a.csv", of_a)
    assert message in refused(a, write("b.csv", of_b) if of_b else a, *options)


def test_one_system_alone_has_nothing_to_be_compared_with(write, refused):
    assert "must have two systems to compare, but" in refused(write("a.csv", S))
    assert "`--systems-a` must match a name" in refused(write("a.csv", S), "--systems-a", "x")


def test_wrong_files_are_refused(write, refused, tmp_path):
    a, far = write("a.csv", S), write("far.csv", S, first_document=50)
    (tmp_path / "empty.csv").write_text("document_id,system_id,sms\n", encoding="utf-8")
    (tmp_path / "empty.jsonl").touch()
    for path, message in (
        (far, f"the two must share documents, but {a} has d000, d001 and "),
        ("empty.csv", "must have rows with `document_id` and `system_id`, got none"),
        ("empty.jsonl", "must have rows, got an empty file"),
        ("none.csv", "o such file"),
    ):
        assert message in refused(a, tmp_path / path)
