"""`assay explain`: the right rows, the numbers of the scores files, pages and pictures as files."""

import json
import re
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest

import assay
from pipelines.cli.app import run
from pipelines.explain import open_explainer
from pipelines.reports.explain_page import ExplainedSystem, render_explanations
from pipelines.score import score_corpus
from pipelines.settings.explain import ExplainSettings
from pipelines.settings.score import ScoreSettings
from sms.explaining import explain
from tests.commands import page_of
from tests.row_files import write_rows

VECTORS = """cat 0.0 0.0
dog 3.0 4.0
bird 0.0 1.0
river -1.0 2.0
snow 0.5 -0.5
market 2.0 0.25
"""
HOSTILE = "</script><script>alert(1)</script><!-- \u2028 <img src=x onerror=alert(2)> cat & dog."
METRICS = ("sms", "wms", "s+wms", "cosine", "rouge1")


@pytest.fixture
def encoders(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text(VECTORS, encoding="utf-8")
    return {"small": f"glove:{path}"}


def rows_of():
    candidates = {"a": "Cat dog. River.", "b": "Snow on the market.", "c": "Bird. Cat cat."}
    return [
        {
            "document_id": document,
            "system_id": system,
            "candidate": f"{candidate} {extra}".strip(),
            "references": ["Cat bird. River market.", "Dog snow."],
            "source": "Cat dog bird. The river market. Snow.",
        }
        for document, extra in (("7", ""), ("008", "Market."))
        for system, candidate in candidates.items()
    ]


@pytest.fixture
def write(tmp_path):
    def call(rows, name="corpus.parquet"):
        return write_rows(tmp_path / name, rows)

    return call


@pytest.fixture
def opened(write, encoders):
    """An explainer of rows."""

    def call(rows, metric="wms", **options):
        return open_explainer(
            [write(rows)], ExplainSettings(document="", metric=metric, encoders=encoders, **options)
        )

    return call


@pytest.fixture
def score(encoders, tmp_path):
    """A scores folder of a corpus."""

    def call(corpus, metrics=METRICS, **options):
        out = tmp_path / "scores"
        options = {"encoders": encoders, "local": True, "workers": 1, **options}
        score_corpus(corpus, ScoreSettings(out=out, metrics=metrics, **options))
        return out

    return call


# Rows


def test_document_and_systems_are_found_by_their_text(opened):
    found = opened(rows_of()).explain({"008": ["c", "a"], "7": []})
    assert list(found) == ["008", "7"]
    assert [system.system_id for system in found["008"]] == ["a", "c"]
    assert [system.system_id for system in found["7"]] == ["a", "b", "c"]
    assert found["008"][1].explanation.candidate.text == "Bird. Cat cat. Market."


def test_unknown_ids_rejected(opened):
    for document, message in (
        ("0008", "has no document '0008'"),
        ("7", "document '7' has no system 'q'; there are a, b, c"),
    ):
        with pytest.raises(ValueError, match=message):
            opened(rows_of()).explain({document: ["q"]})


def test_rows_with_one_key_and_different_texts_rejected(opened):
    rows = rows_of()[:2]
    assert len(opened([*rows, rows[0]]).explain({"7": []})["7"]) == 2
    different = opened([*rows, {**rows[0], "candidate": "Something else."}])
    with pytest.raises(ValueError, match="several rows of system 'a' with different texts"):
        different.explain({"7": []})
    assert len(different.explain({"7": ["b"]})["7"]) == 1


def test_row_that_cannot_be_read_rejected(tmp_path, encoders):
    path = tmp_path / "broken.jsonl"
    path.write_bytes(json.dumps(rows_of()[0]).encode().replace(b"Cat dog", b"Cat \xff dog") + b"\n")
    explainer = open_explainer(
        [path], ExplainSettings(document="", metric="wms", encoders=encoders)
    )
    with pytest.raises(ValueError, match="system 'a' cannot be read: `candidate` is not valid UTF"):
        explainer.explain({"7": []})


# Scores and ratings


@pytest.mark.parametrize("metric", ["s+wms", "cosine", "rouge1", "rouge1_p"])
def test_scores_equal_the_scores_file(score, write, metric):
    theirs = {"system_id": "system", "candidate": "summary"}
    rows = [{theirs.get(name, name): cell for name, cell in row.items()} for row in rows_of()]
    scores = score(write(rows), columns=theirs)
    column = "rouge1_f" if metric == "rouge1" else metric
    found = open_explainer((), ExplainSettings(document="", metric=metric, scores=scores)).explain(
        {"7": [], "008": []}
    )
    rows = {
        (row["document_id"], row["system_id"]): row[column]
        for row in pq.read_table(scores / "scores").to_pylist()
    }
    explained = {
        (document, system.system_id): (system.explanation.score, system.recorded)
        for document, systems in found.items()
        for system in systems
    }
    assert explained == {key: (value, value) for key, value in rows.items()}


def test_other_texts_than_those_that_were_scored_rejected(score, write):
    rows = rows_of()[:2]
    rows[0]["candidate"] = ""
    scores = score(write(rows), metrics=["wms"])
    found = open_explainer((), ExplainSettings(document="", metric="wms", scores=scores)).explain(
        {"7": []}
    )["7"]
    assert [system.recorded for system in found] == [None, found[1].explanation.score]
    for system, said in (("a", r"\d\.\d+ here and undefined"), ("b", r"\d\.\d+ here and \d")):
        changed = [{**row, "candidate": "Cat river."} for row in rows]
        explainer = open_explainer(
            [write(changed, "other.parquet")],
            ExplainSettings(document="", metric="wms", scores=scores),
        )
        with pytest.raises(ValueError, match=rf"document '7', system '{system}' is {said}"):
            explainer.explain({"7": [system]})


def test_ratings_are_means_over_raters_beside_the_columns_of_the_run(score, write, tmp_path):
    rows = [
        {"document_id": 1, "system": name, "summary": text, "references": ["Dog."]}
        for name, text in (("a", "Cat."), ("b", "Dog."))
    ]
    columns = {"system_id": "system", "candidate": "summary"}
    out = score(write(rows), metrics=["wms"], columns=columns)
    ratings = tmp_path / "ratings.csv"
    ratings.write_text(
        "document_id,system,judge,focus\n1,a,expert-1,2\n1,a,expert-2,5\n1,a,turker-1,1\n"
    )
    page = tmp_path / "page.html"
    more = {"columns": {"rater": "judge"}, "ratings": ratings}
    asked = {"document": "1", "metric": "wms", "scores": out, "raters": "expert-*", "out": page}
    found = assay.explain((), **asked, **more)
    assert {each.system_id: each.ratings for each in found} == {"a": {"focus": 3.5}, "b": {}}
    assert '<data value="3.5">3.50</data>' in page.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match=r"choose with `--raters 'expert\*'`, or with `raters` in"):
        open_explainer((), ExplainSettings(document="", metric="wms", scores=out, **more))


def test_texts_are_read_as_the_settings_say(write, encoders):
    corpus = write([{**rows_of()[0], "references": ["River.", "Cat dog. River."]}])
    ((best,), (first,)) = (
        assay.explain(corpus, document="7", metric="wms", encoders=encoders["small"], **settings)
        for settings in ({}, {"multi_reference": "first", "preset": "clark2019"})
    )
    assert best.explanation.score == 1.0 > first.explanation.score
    assert "ref:first" in first.explanation.signature


def test_wrong_settings_rejected(score, write):
    corpus = write(rows_of())
    scores = score(corpus, metrics=["wms"])
    for corpora, settings, message in (
        ([], {"scores": scores, "metric": "rougeL"}, "`metric` must be one of wms, got 'rougeL'"),
        ([], {"scores": scores, "encoders": {}}, "leave out encoders"),
        ([], {"metric": "length"}, "name a corpus, or give a folder"),
        ([corpus], {"raters": "a"}, "give `--ratings`, too"),
    ):
        with pytest.raises(ValueError, match=message):
            open_explainer(corpora, ExplainSettings(document="", **settings))


# Pages


def test_page_holds_hostile_text_as_text(opened):
    rows = rows_of()[:2]
    tame = page_of(opened(rows), "7")
    rows[0] |= {"candidate": HOSTILE, "system_id": HOSTILE, "references": [HOSTILE + " Bird."]}
    page = page_of(opened(rows), "7")
    for mark in ("<script", "</script", "<img", "<!--"):
        assert page.count(mark) == tame.count(mark)
    assert "onerror=alert(2)" in page
    assert {*re.findall(r'(?:src|href|srcset|action|poster)="([^"])', page)} == {"#"}


def test_printed_contributions_add_up_to_the_printed_distance(opened):
    text = page_of(opened(rows_of(), "s+wms"), "7", ["a"])
    parts = re.findall(r'class="numeric part">([\d.]+)<', text)
    (distance,) = re.findall(r'class="numeric distance">([\d.]+)<', text)
    digits = len(distance.partition(".")[2])
    assert len(parts) > 1
    assert f"{sum(map(float, parts)):.{digits}f}" == distance
    moved = re.findall(r'<data value="([\d.]+)">\1</data>', text)
    assert f"{sum(map(float, moved)):.{digits}f}" == distance


@pytest.mark.parametrize(
    ("first", "how", "expected"),
    [
        ("Cat bird.", "best", "The best of 2 references counts."),
        ("Cat bird.", "mean", "The score is the mean over 2 texts"),
        ("", "best", "Only one of 2 references could be compared"),
    ],
)
def test_page_says_how_several_texts_become_one_score(opened, first, how, expected):
    row = {**rows_of()[0], "references": [first, "Dog."]}
    page = page_of(opened([row], multi_reference=how), "7")
    (said,) = set(re.findall(r"<p>((?:The best|The score|Only)[^<]*)</p>", page))
    assert said.startswith(expected)


def test_equal_scores_have_one_rank(opened):
    texts = {"a": "Cat.", "b": "Cat dog.", "c": "Cat dog.", "d": "", "e": "Snow market."}
    shared = {"references": ["Cat dog."], "document_id": "7"}
    page = page_of(
        opened([{"system_id": k, "candidate": v, **shared} for k, v in texts.items()]), "7"
    )
    found = re.findall(r'<tr><td class="numeric">([^<]*)</td><th.*?>(\w)</bdi></a>', page)
    assert found == [("1", "b"), ("1", "c"), ("3", "e"), ("4", "a"), ("–", "d")]


def test_page_without_a_score_and_page_of_identical_texts(opened):
    page = page_of(opened([{**rows_of()[0], "references": [""]}], "s+wms"), "7")
    assert "No score: reference:empty." in page
    assert "<code>s+wms</code> has no score here." in page
    assert "without each sentence" not in page
    assert "loses" not in page.partition("<main")[2].partition("<script")[0]
    assert "<svg" not in page  # there is no plan to look at
    page = page_of(opened([{**rows_of()[0], "references": ["Cat dog. River."]}], "s+wms"), "7")
    assert "exp(\N{MINUS SIGN}0.000000)" in page
    assert "Nothing: all of its mass stays where it is." in page


def test_legend_tells_small_costs_apart(tmp_path):
    path = tmp_path / "near.txt"
    path.write_text("cat 0.0 0.0\ndog 0.03 0.04\nbird 0.0 0.01\n", encoding="utf-8")
    found = explain("Cat dog.", "Cat bird.", metric="wms", encoder=f"glove:{path}")
    page = render_explanations("d", [ExplainedSystem(system_id="s", explanation=found)])
    steps = re.findall(r'class="step">.*?</span>([^<]*)</span>', page)
    assert steps[:2] == ["0.000–0.007", "0.007–0.014"]
    assert len(set(steps)) == len(steps)


# Files


def test_command_writes_page_and_picture(write, encoders, tmp_path, capsys):
    corpus = write([*rows_of(), {**rows_of()[0], "system_id": "d", "candidate": ""}])
    page, picture = tmp_path / "page.html", tmp_path / "picture.svg"
    for kind, out in (("Page", page), ("Picture", picture)):
        words = ["explain", str(corpus), "--document", "7", "--metric", "wms@small"]
        assert run([*words, "--encoder", f"small={encoders['small']}", "--out", str(out)]) == 0
        *lines, undefined, last = capsys.readouterr().out.splitlines()
        assert [line.split("\t")[:2] for line in lines] == [[name, "wms@small"] for name in "abc"]
        assert undefined == "d\twms@small\tno score: candidate:empty"
        assert last == f"{kind}: {out}"
    assert "<title>7: wms@small explained</title>" in page.read_text(encoding="utf-8")
    root = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    assert root.tag.endswith("svg")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--out", "x.html"], "`--document ID` is missing: explain"),
        (["--document", "7"], "`--out FILE` is missing: name"),
        (["--document", "7", "--out", "x.csv"], "`--out` must end in .html, .svg"),
        (["--document", "7", "--out", "x.html", "--metric", "wmss"], "did you mean `wms`?"),
        (["--document", "7", "--out", "x.html", "--metric", "wmd"], "'wmd'; write wms"),
    ],
)
def test_wrong_request_is_one_line(write, capsys, arguments, expected):
    assert run(["explain", str(write(rows_of())), *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert expected in line
