"""`assay explain`: the right rows, the numbers of the scores files, pages and pictures as files."""

import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster import list_inputs
from pipelines.explain import Explainer, open_explainer
from pipelines.reports.explain_page import ExplainedSystem, picture_of, render_explanations
from pipelines.reports.file_names import explain_file
from pipelines.score import score_corpus
from sms.explaining import explain
from tests.rare import run

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
        path = tmp_path / name
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=2)
        return path

    return call


@pytest.fixture
def corpus(write):
    return write(rows_of())


@pytest.fixture
def scores(corpus, tmp_path, encoders):
    """A scores folder of the corpus."""
    out = tmp_path / "scores"
    score_corpus(corpus, out, metrics=METRICS, encoders=encoders, local=True, workers=1)
    return out


def refusal(capsys, *arguments):
    """The one line a wrong request is answered with."""
    assert run(["explain", *map(str, arguments)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


# Rows


def test_document_and_systems_are_found_by_their_text(corpus, encoders):
    explainer = open_explainer([corpus], metric="wms", encoders=encoders)
    found = explainer.explain({"008": ["c", "a"], "7": []})
    assert list(found) == ["008", "7"]
    assert [system.system_id for system in found["008"]] == ["a", "c"]
    assert [system.system_id for system in found["7"]] == ["a", "b", "c"]
    assert found["008"][1].explanation.candidate.text == "Bird. Cat cat. Market."


def test_other_column_names_and_number_ids(write, encoders):
    rows = [
        {"document_id": 12, "system_id": 3, "summary": "Cat.", "references": ["Dog."]},
        {"document_id": 12, "system_id": 4, "summary": "Dog.", "references": ["Dog."]},
    ]
    explainer = open_explainer(
        [write(rows)], metric="wms", encoders=encoders, columns={"candidate": "summary"}
    )
    (found,) = explainer.explain({"12": ["4"]})["12"]
    assert found.explanation.score == 1.0


def test_unknown_ids_are_answered_with_the_nearest(corpus, encoders, capsys, tmp_path):
    vectors = ("--encoder", encoders["small"], "--out", tmp_path / "page.html")
    assert "has no document '0008'; did you mean '008'?" in refusal(
        capsys, corpus, "--document", "0008", *vectors
    )
    assert "has no document 'zzz'; there are 2: '7', '008'" in refusal(
        capsys, corpus, "--document", "zzz", *vectors
    )
    assert "document '7' has no system 'q'; there are 3: 'a', 'b', 'c'" in refusal(
        capsys, corpus, "--document", "7", "--system", "q", *vectors
    )


def test_rows_with_one_key_and_different_texts_rejected(write, encoders):
    rows = rows_of()[:2]
    same = open_explainer([write([*rows, rows[0]])], metric="wms", encoders=encoders)
    assert len(same.explain({"7": []})["7"]) == 2
    other = {**rows[0], "candidate": "Something else."}
    different = open_explainer([write([*rows, other])], metric="wms", encoders=encoders)
    with pytest.raises(ValueError, match="several rows of system 'a' with different texts"):
        different.explain({"7": []})
    assert len(different.explain({"7": ["b"]})["7"]) == 1


def test_row_that_cannot_be_read_rejected(tmp_path, encoders):
    path = tmp_path / "broken.jsonl"
    path.write_bytes(json.dumps(rows_of()[0]).encode().replace(b"Cat dog", b"Cat \xff dog") + b"\n")
    explainer = open_explainer([path], metric="wms", encoders=encoders)
    with pytest.raises(ValueError, match="system 'a' cannot be read: `candidate` is not valid UTF"):
        explainer.explain({"7": []})


def test_any_scorer_of_rows_will_do(corpus):
    class Letters:
        input_columns = ("candidate", "references", "sources")
        score_fields = ("letters",)

        def prepare(self, rows):
            return rows["candidate"].to_pylist()

        def compare(self, prepared):
            letters = [float(len(text)) for text in prepared]
            return pa.table({"letters": letters, "status": pa.nulls(len(letters), pa.string())})

    explainer = Explainer(
        files=list_inputs([str(corpus)]), columns={}, scorer=Letters(), column="letters"
    )
    found = explainer.explain({"7": ["a"]})["7"][0].explanation
    assert (found.score, found.effects[0].drop) == (15.0, 9.0)
    assert [text.side for text in found.others] == ["reference", "reference", "source"]
    assert "Reference 2" in explainer.page("7", ["a"])


def test_drop_that_rounds_to_zero_is_no_effect(corpus):
    class Noise:
        input_columns = ("candidate",)
        score_fields = ("noise",)

        def prepare(self, rows):
            return rows["candidate"].to_pylist()

        def compare(self, prepared):
            scores = [0.3 if "River" in text else 0.1 + 0.2 for text in prepared]
            return pa.table({"noise": scores, "status": pa.nulls(len(scores), pa.string())})

    explainer = Explainer(
        files=list_inputs([str(corpus)]), columns={}, scorer=Noise(), column="noise"
    )
    explained = explainer.explain({"7": ["a"]})["7"]
    picture = ElementTree.fromstring(picture_of("7", explained))
    bars = [e.get("fill") for e in picture.iter() if e.tag.endswith("rect") and e.get("rx") == "2"]
    assert len(bars) == 2
    assert set(bars) == {"#6b6862"}  # neither of those that help nor of those that hurt


# Scores and ratings


@pytest.mark.parametrize("metric", [*METRICS, "rouge1_p"])
def test_scores_equal_the_scores_file(scores, metric):
    column = "rouge1_f" if metric == "rouge1" else metric
    found = open_explainer(metric=metric, scores=scores).explain({"7": [], "008": []})
    rows = {
        (row["document_id"], row["system_id"]): row[column]
        for part in scores.glob("scores/*.parquet")
        for row in pq.read_table(part).to_pylist()
    }
    explained = {
        (document, system.system_id): system.explanation.score
        for document, systems in found.items()
        for system in systems
    }
    assert explained == rows
    assert all(
        system.recorded == system.explanation.score for each in found.values() for system in each
    )


def test_scores_of_other_texts_rejected(scores, write, capsys, tmp_path):
    rows = rows_of()
    rows[0]["candidate"] = "Dog river."
    changed = write(rows, "changed.parquet")
    explainer = open_explainer([changed], metric="wms", scores=scores)
    with pytest.raises(ValueError, match=r"wms of document '7', system 'a' is .* here and"):
        explainer.explain({"7": []})
    assert "leave out encoders" in refusal(
        capsys, changed, "--document", "7", "--scores", scores, "--encoder", "minilm",
        "--out", tmp_path / "page.html",
    )  # fmt: skip


def test_score_of_a_text_that_had_none_rejected(write, encoders, tmp_path):
    rows = rows_of()[:2]
    rows[0]["candidate"] = ""
    out = tmp_path / "run"
    score_corpus(write(rows), out, metrics=("wms",), encoders=encoders, local=True, workers=1)
    found = open_explainer(metric="wms", scores=out).explain({"7": []})["7"]
    assert [system.recorded for system in found] == [None, found[1].explanation.score]
    rows[0]["candidate"] = "Cat."
    explainer = open_explainer([write(rows, "changed.parquet")], metric="wms", scores=out)
    with pytest.raises(ValueError, match=r"is \d\.\d+ here and undefined in the scores folder"):
        explainer.explain({"7": []})


def test_metric_that_was_not_scored_rejected(scores):
    with pytest.raises(ValueError, match="`metric` must be one of sms, wms, s\\+wms, cosine"):
        open_explainer(metric="rougeL", scores=scores)


def test_ratings_are_means_over_raters(corpus, encoders, tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text(
        "document_id,system_id,rater,fluency,focus\n"
        "7,a,r1,2,1\n7,a,r2,5,2\n7,b,r1,4,3\n008,a,r1,1,1\n",
        encoding="utf-8",
    )
    explainer = open_explainer([corpus], metric="wms", encoders=encoders, ratings=path)
    found = {each.system_id: each.ratings for each in explainer.explain({"7": []})["7"]}
    assert found == {
        "a": {"fluency": 3.5, "focus": 1.5},
        "b": {"fluency": 4.0, "focus": 3.0},
        "c": {},
    }


# Files


class Page(HTMLParser):
    """Elements and data of a page."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.data, self.inside = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.inside.append(tag)

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data):
        if "script" not in self.inside and "style" not in self.inside:
            self.data.append(data)


def test_page_holds_hostile_text_as_text(write, encoders):
    rows = rows_of()[:2]
    rows[0] |= {"candidate": HOSTILE, "system_id": HOSTILE, "references": [HOSTILE + " Bird."]}
    text = open_explainer([write(rows)], metric="wms", encoders=encoders).page("7")
    page = Page(text)
    scripts = [attributes for tag, attributes in page.elements if tag == "script"]
    assert {each.get("type") for each in scripts} == {None, "application/json"}
    assert sum("type" not in each for each in scripts) == 1
    assert "img" not in {tag for tag, _ in page.elements}
    assert not any(name.startswith("on") for _, each in page.elements for name in each)
    assert "onerror=alert(2)" in "".join(page.data)
    loaded = {"src", "href", "srcset", "action", "poster"}
    assert all(
        each[name].startswith("#") for _, each in page.elements for name in loaded & set(each)
    )


def test_printed_contributions_add_up_to_the_printed_distance(corpus, encoders):
    text = open_explainer([corpus], metric="s+wms", encoders=encoders).page("7", ["a"])
    parts = re.findall(r'class="numeric part">([\d.]+)<', text)
    (distance,) = re.findall(r'class="numeric distance">([\d.]+)<', text)
    digits = len(distance.partition(".")[2])
    assert len(parts) > 1
    assert f"{sum(map(float, parts)):.{digits}f}" == distance
    moved = re.findall(r'<data value="([\d.]+)">\1</data>', text)
    assert f"{sum(map(float, moved)):.{digits}f}" == distance


@pytest.mark.parametrize(
    ("references", "multi_reference", "expected"),
    [
        pytest.param(["Cat bird.", "Dog."], "best", "The best of 2 references counts.", id="best"),
        pytest.param(
            ["Cat bird.", "Dog."], "mean", "The score is the mean over 2 texts", id="mean"
        ),
        pytest.param(["", "Dog."], "mean", "Only one of 2 references could be compared", id="one"),
        pytest.param(
            ["", "Dog."], "best", "Only one of 2 references could be compared", id="one-best"
        ),
    ],
)
def test_page_says_how_several_texts_become_one_score(
    write, encoders, references, multi_reference, expected
):
    row = {**rows_of()[0], "references": references}
    explainer = open_explainer(
        [write([row])], metric="wms", encoders=encoders, multi_reference=multi_reference
    )
    (said,) = set(re.findall(r"<p>((?:The best|The score|Only)[^<]*)</p>", explainer.page("7")))
    assert said.startswith(expected)


def test_equal_scores_have_one_rank(write, encoders):
    texts = {"a": "Cat.", "b": "Cat dog.", "c": "Cat dog.", "d": "", "e": "Snow market."}
    rows = [{**rows_of()[0], "system_id": name, "candidate": text} for name, text in texts.items()]
    rows = [{**row, "references": ["Cat dog."]} for row in rows]
    page = open_explainer([write(rows)], metric="wms", encoders=encoders).page("7")
    found = re.findall(r'<tr><td class="numeric">([^<]*)</td><th.*?>(\w)</button>', page)
    assert found == [("1", "b"), ("1", "c"), ("3", "e"), ("4", "a"), ("–", "d")]


def test_page_without_a_score_explains_none(write, encoders):
    row = {**rows_of()[0], "references": [""]}
    page = open_explainer([write([row])], metric="s+wms", encoders=encoders).page("7")
    assert "No score: reference:empty." in page
    assert "<code>s+wms</code> has no score here." in page
    assert "without each sentence" not in page
    assert "loses" not in page.partition("<main")[2].partition("<script")[0]
    assert "<svg" not in page  # there is no plan to look at


def test_page_of_identical_texts(write, encoders):
    row = {**rows_of()[0], "references": ["Cat dog. River."]}
    text = open_explainer([write([row])], metric="s+wms", encoders=encoders).page("7")
    assert "exp(\N{MINUS SIGN}0.000000)" in text
    assert "Nothing: all of its mass stays where it is." in text


def test_pages_written_for_candidates(corpus, encoders, tmp_path):
    explainer = open_explainer([corpus], metric="wms", encoders=encoders)
    wanted = [("7", "a"), ("008", "c"), ("7", "b")]
    written = explainer.write_pages(wanted, tmp_path / "explain")
    assert written == {key: explain_file(*key, "wms") for key in wanted}
    assert {path.name for path in (tmp_path / "explain").iterdir()} == set(written.values())


def test_command_writes_page_and_picture(corpus, encoders, tmp_path, capsys):
    page, picture = tmp_path / "page.html", tmp_path / "picture.svg"
    for kind, out in (("Page", page), ("Picture", picture)):
        status = run(
            ["explain", str(corpus), "--document", "7", "--metric", "wms@small", "--encoder",
             encoders["small"], "--out", str(out)]
        )  # fmt: skip
        assert status == 0
        *lines, last = capsys.readouterr().out.splitlines()
        assert [line.split("\t")[:2] for line in lines] == [[name, "wms@small"] for name in "abc"]
        assert last == f"{kind}: {out}"
    assert "<title>7: wms@small explained</title>" in page.read_text(encoding="utf-8")
    root = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    assert root.tag.endswith("svg")


def test_command_says_why_there_is_no_score(write, encoders, tmp_path, capsys):
    rows = [{"document_id": "1", "system_id": "a", "candidate": "", "references": ["Dog."]}]
    status = run(
        ["explain", str(write(rows)), "--document", "1", "--metric", "wms@small", "--encoder",
         encoders["small"], "--out", str(tmp_path / "page.html")]
    )  # fmt: skip
    assert status == 0
    assert capsys.readouterr().out.startswith("a\twms@small\tno score: candidate:empty\n")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["--out", "x.html"], "`--document ID` is missing: explain", id="document"),
        pytest.param(["--document", "7"], "`--out FILE` is missing: name", id="out"),
        pytest.param(
            ["--document", "7", "--out", "x.html", "--metric", "wmd"],
            "unknown metric 'wmd'; did you mean `wms`?",
            id="metric",
        ),
    ],
)
def test_wrong_request_is_one_line(corpus, capsys, arguments, expected):
    assert expected in refusal(capsys, corpus, *arguments)


def test_output_over_what_is_read_rejected(corpus, tmp_path, capsys):
    before = corpus.read_bytes()
    asked = (corpus, "--document", "7", "--metric", "length")
    line = refusal(capsys, *asked, "--out", corpus)
    assert "`--out` must end in .html, .svg" in line
    assert corpus.read_bytes() == before


def test_raters_of_several_pools_are_chosen_in_the_file_of_settings(corpus, tmp_path):
    ratings = tmp_path / "ratings.csv"
    ratings.write_text("document_id,system_id,rater,focus\n7,a,expert-1,2\n7,a,turker-1,4\n")
    with pytest.raises(ValueError, match=r"choose with `raters = 'expert\*'` in a `--config` file"):
        open_explainer([corpus], metric="wms", ratings=ratings)


def test_aspects_without_ratings_rejected(corpus, tmp_path, capsys):
    line = refusal(
        capsys, corpus, "--document", "7", "--metric", "length", "--aspects", "focus",
        "--out", tmp_path / "page.html",
    )  # fmt: skip
    assert "name `--ratings`, too" in line


def test_corpus_or_scores_must_be_named(capsys, tmp_path):
    line = refusal(capsys, "--document", "7", "--metric", "length", "--out", tmp_path / "x.html")
    assert "name the corpus" in line


def test_legend_tells_small_costs_apart(tmp_path):
    path = tmp_path / "near.txt"
    path.write_text("cat 0.0 0.0\ndog 0.03 0.04\nbird 0.0 0.01\n", encoding="utf-8")
    found = explain("Cat dog.", "Cat bird.", metric="wms", encoder=f"glove:{path}")
    page = render_explanations("d", [ExplainedSystem(system_id="s", explanation=found)])
    steps = re.findall(r'class="step">.*?</span>([^<]*)</span>', page)
    assert steps[:2] == ["0.000–0.007", "0.007–0.014"]
    assert len(set(steps)) == len(steps)


def test_named_rater_column_is_added_to_the_columns_of_the_run(write, encoders, tmp_path):
    rows = [
        {"document_id": "1", "system": "a", "summary": "Cat.", "references": ["Dog."]},
        {"document_id": "1", "system": "b", "summary": "Dog.", "references": ["Dog."]},
    ]
    names = {"system_id": "system", "candidate": "summary"}
    out = tmp_path / "run"
    score_corpus(
        write(rows), out, metrics=("wms",), encoders=encoders, columns=names, local=True, workers=1
    )
    ratings = tmp_path / "ratings.csv"
    ratings.write_text("document_id,system,judge,focus\n1,a,ann,2\n1,a,bo,4\n1,b,ann,5\n1,b,bo,5\n")
    explainer = open_explainer(
        metric="wms", scores=out, ratings=ratings, columns={"rater": "judge"}
    )
    found = {system.system_id: system.ratings for system in explainer.explain({"1": []})["1"]}
    assert found == {"a": {"focus": 3.0}, "b": {"focus": 5.0}}
