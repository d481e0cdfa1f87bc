import dataclasses
import html
import re
from html.parser import HTMLParser

import polars as pl
import pytest

from pipelines.reports.agreement_report import grids, render_report, report_view, write_report
from pipelines.reports.numbers import MINUS, interval_text, number_text, p_value_text
from pipelines.reports.pages import file_stem
from pipelines.reports.verdict import NOTHING_JUDGED, AspectVerdict, Verdict, verdict_of
from pipelines.tables.records import TABLES
from tests.pipelines.reports.made_up import (
    ASPECTS,
    COEFFICIENTS,
    LEVELS,
    METRICS,
    UNDEFINED_REASON,
    value_of,
)

PLOTTED = {
    "correlations": LEVELS,
    "differences": LEVELS,
    "sample_size": ["system"],
    "systems": ["system"],
}


class Tables(HTMLParser):
    """The texts of all cells of a page, row by row, by the label of their table."""

    def __init__(self, page):
        super().__init__()
        self.rows = {}
        self._rows = None
        self._cell = None
        self.elements = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag == "table":
            self._rows = self.rows.setdefault(dict(attributes)["aria-label"], [])
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._cell = []

    def handle_data(self, data):
        if self._cell is not None:
            self._cell.append(data)

    def handle_endtag(self, tag):
        if tag in ("td", "th") and self._cell is not None:
            self._rows[-1].append("".join(self._cell).strip())
            self._cell = None


@pytest.fixture(scope="module")
def page(result):
    return render_report(result)


@pytest.fixture(scope="module")
def parsed(page):
    return Tables(page)


def label_of(row):
    name = {"pearson": "Pearson r", "kendall_b": "Kendall τ-b"}[row["coefficient"]]
    return f"Correlations, {row['aspect']}: {name}, {row['level']} level"


def test_every_number_of_the_page_is_the_record(page, parsed, result):
    for row in result.correlations.drop_nulls("value").iter_rows(named=True):
        shown = number_text(row["value"])
        shown = f"<strong>{shown}</strong>" if row["is_best"] else shown
        assert f'<data value="{row["value"]}">{shown}</data>' in page
        name = f"{row['metric']} baseline" if row["is_baseline"] else row["metric"]
        cells = next(each for each in parsed.rows[label_of(row)] if each[0] == name)
        p_best = f"p {p_value_text(row['p_best'])}"
        against = {"sms": "the best", "rouge_L": f"tied {p_best}"}.get(row["metric"], p_best)
        interval = interval_text(row["low"], row["high"])
        assert cells[1:] == [f"{number_text(row['value'])} {interval}", "", against]
        counts = f"p against 0: {p_value_text(row['p_value'])}"
        counts += f"; skipped documents: {row['n_skipped']}" * bool(row["n_skipped"])
        counts += f"; undefined resamples: {row['n_undefined']}"
        assert f'<td title="{html.escape(counts)}"><data value="{row["value"]}">' in page


def test_best_metric_first_and_undefined_last_with_its_reason(parsed):
    rows = parsed.rows["Correlations, relevance: Pearson r, system level"]
    names = ["sms", "rouge_L", "<script>alert(1)</script>", "length baseline"]
    assert [row[0] for row in rows[1:]] == names
    sorted_columns = {each.get("aria-sort") for tag, each in parsed.elements if tag == "th"}
    assert sorted_columns == {None, "none", "descending"}
    rows = parsed.rows["Correlations, relevance: Pearson r, summary level"]
    assert rows[-1][:2] == ["length baseline", f"undefined {UNDEFINED_REASON}"]
    overview = parsed.rows["Overview, Pearson r, summary level"]
    assert overview[-1][1] == f"undefined: {UNDEFINED_REASON}–"


def test_hostile_texts_stay_text_and_nothing_comes_from_elsewhere(page, parsed):
    assert [tag for tag, _ in parsed.elements].count("script") == 1
    assert "alert(1)</script>" not in page
    assert "alert(3)>" not in page
    for tag, attributes in parsed.elements:
        assert tag != "img"
        assert "src" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        assert (attributes.get("href") or "#")[0] == "#"
        assert "url(" not in (attributes.get("style") or "")
    styles = "".join(re.findall(r"<style>(.*?)</style>", page, flags=re.DOTALL))
    assert "@import" not in styles
    assert "url(" not in styles


# what the page has, and how often; None: at least once
SAID = {
    "assay correlate scores --ratings ratings.csv --out &#39;a &amp; b&#39;": None,
    "sms|enc:&lt;tiny&gt;|v:0.1.0": None,
    "ab" * 32: None,
    "4,321 bytes": None,
    "numpy 2.4.0": None,
    "17, with 999 resamples": None,
    "same as another system’s &lt;b&gt;here&lt;/b&gt;": None,
    # panels, overviews, verdicts
    "; 4,929 rows of 4 systems and 1,234 documents": 12 + 6 + 6,
    "4,929 rows of 4 systems and 1,234 documents; raters: expert-*; without reference": 6,
    "Orange line: one rater with the mean of the others, 0.912": 2,  # Pearson, system level
}


def test_page_says_where_the_numbers_come_from(page):
    for text, n in SAID.items():
        assert page.count(text) == n or (n is None and text in page), text


def test_verdict_by_hand(parsed):
    """The shown intervals and p-values: sms is the best, and nothing is known of density."""
    head, *rows = parsed.rows["Verdict, System level, Pearson r"]
    assert [*head[:2], *head[3:]] == [
        *("For", "use (Pearson r)", "Cannot be told apart from it", "Better than length")
    ]
    assert [[row[0], row[1], row[3]] for row in rows] == [
        ["relevance", "sms 0.81 [0.69, 0.91]", "rouge_L"],
        ["fluency & flow", "sms 0.79 [0.67, 0.89]", "rouge_L"],
    ]
    assert rows[0][4].startswith("sms, rouge_L and ")
    # all metrics drawn, with the numbers of each
    drawn = [line for line in rows[0][2].split("]") if line]
    assert [line.partition(":")[0] for line in drawn] == [
        *("<script>alert(1)</script>", "length", "rouge_L", "sms")
    ]
    assert drawn[-1] == "sms: 0.812 [0.69, 0.91"


def made_verdict(*aspects):
    shared = {"aspect": "focus", "value": 0.5, "low": 0.3, "high": 0.7, "tied": ("wms", "cosine")}
    shared |= {"metric": "sms", "weak": (), "beating": (), "n_others": 5}
    made = tuple(AspectVerdict(**{**shared, **aspect}) for aspect in aspects)
    return Verdict(level="summary", coefficient="spearman", aspects=made)


def verdict_lines(*aspects):
    return made_verdict(*aspects).lines()


STYLE = {"aspect": "style"}
BELIEFS = [
    ([{}, STYLE], "Other metrics may be as good: tests cannot tell them apart from the best."),
    (
        [{"tied": ()}, STYLE | {"tied": ()}],
        "The best metric is significantly better than every other.",
    ),
    (
        [{"tied": ()}, STYLE],
        "On focus the best metric is significantly better than every other; on style others may "
        "be as good.",
    ),
    ([{"is_tested": False}], "No other metric was tested against the best."),
    ([{"tied": (), "n_others": 0}], "No other metric was tested against the best."),
    ([{"weak": ("length",)}], "No test shows that it is better than length."),
    (
        [{"weak": ("length", "density"), "beating": ("cosine", "sms")}],
        "It is significantly better than length and density.",
    ),
    (
        [{"weak": ("length",), "beating": ("sms",)}, STYLE | {"weak": ("length",)}],
        "It is significantly better than length on focus, but not on style.",
    ),
]


@pytest.mark.parametrize(("aspects", "said"), BELIEFS)
def test_page_says_how_sure_the_verdict_is(aspects, said):
    assert said in made_verdict(*aspects).belief


def test_headline_names_the_best_metrics():
    other = {"aspect": "style", "metric": "wms"}
    assert made_verdict({}, STYLE).headline == "sms agrees best with people"
    assert made_verdict({}, other).headline == "sms and wms agree best with people"
    falling = {**other, "value": -0.1}
    assert made_verdict({}, falling).headline == (
        "sms agrees best with people, none can be recommended for style"
    )
    assert made_verdict(falling).headline == "No metric can be recommended for style"
    assert made_verdict({"weak": ("length",)}).headline == (
        "sms agrees best with people; no test shows a metric better than length"
    )
    assert made_verdict({"weak": ("length",), "beating": ("wms",)}).headline == (
        "sms agrees best with people"
    )
    assert made_verdict({"metric": None}).headline == NOTHING_JUDGED


def test_metric_that_falls_as_ratings_rise_is_not_recommended():
    assert verdict_lines({}, {"aspect": "style", "value": -0.3})[0] == (
        "Use sms for focus (0.50 [0.30, 0.70]); "
        "no metric for style (sms, the best, has -0.30 [0.30, 0.70])"
    )


def test_metric_that_may_agree_by_chance_is_not_recommended():
    assert verdict_lines({"low": -0.01})[0] == (
        "Use no metric for focus (sms, the best, has 0.50 [-0.01, 0.70], which may be chance)"
    )


def test_metrics_that_beat_the_baselines_without_the_best_are_told_from_it():
    beating = ({"weak": ("length",), "beating": each} for each in (("cosine",), ("sms", "cosine")))
    assert verdict_lines(*beating)[2] == (
        "Metrics that agree better with people than length: "
        "focus: cosine (not sms); focus: sms and cosine"
    )


def test_metric_that_a_baseline_beats_is_not_recommended(result, tmp_path):
    """Shown in words and on the page; a baseline that is only tied changes nothing."""
    place = {"aspect": "relevance", "level": "system", "coefficient": "pearson"}
    is_length = pl.when(metric="length", **place)
    correlations = result.correlations.with_columns(value=is_length.then(0.97).otherwise("value"))
    asked = {**place, "test": "perm-both", "against": "best"}
    pair = {"metric_a": "length", "metric_b": "sms", "difference": 0.16}
    for p_value, use in ((0.2, "sms"), (0.01, "no metric")):
        row = {**dict.fromkeys(TABLES["differences"]), **asked, **pair, "p_holm": p_value}
        added = pl.DataFrame([row], result.differences.schema)
        differences = pl.concat([result.differences, added])
        changed = dataclasses.replace(result, correlations=correlations, differences=differences)
        verdict = verdict_of(changed, "system", "pearson")
        assert f"{use} for relevance (" in verdict.lines()[0]
        said = "(sms, the best, has 0.81 [0.69, 0.91], but length alone has 0.97)"
        assert (said in verdict.lines()[0]) == (use == "no metric")
        assert ("length alone has 0.97" in render_report(changed)) == (use == "no metric")


@pytest.mark.parametrize("length", [0.97, 0.5])
def test_shipped_scorer_below_a_baseline_is_named_with_what_to_do(result, length):
    named = {"sms": "reffree@general.fluency", "rouge_L": "reffree@news"}
    is_length = pl.when(metric="length", aspect="relevance")
    correlations = result.correlations.with_columns(
        value=is_length.then(length).otherwise("value"), metric=pl.col("metric").replace(named)
    )
    changed = dataclasses.replace(result, correlations=correlations)
    advice = verdict_of(changed, "system", "pearson").advice
    if length == 0.5:
        assert advice == []
    else:
        (line,) = advice
        assert "for relevance (reffree@general.fluency 0.81, length 0.97). Judge a" in line
        assert "`assay train PAIRS --preset general`" in line
    assert verdict_of(result, "system", "pearson").advice == []  # no shipped scorer was judged


def test_report_of_one_metric_without_raters_and_texts(result, tmp_path):
    of_metric = ("correlations", "sample_size", "power")
    kept = {name: getattr(result, name).filter(metric="sms") for name in of_metric}
    for name in ("differences", "raters", "disagreements", "systems"):
        kept[name] = getattr(result, name).clear()
    page = render_report(dataclasses.replace(result, score_names=["sms"], **kept))
    assert "Which metrics differ" not in page
    assert "The systems</h3>" not in page
    assert "The ratings name no raters" in page


def test_folder_has_page_plots_and_escaped_markdown(result, tmp_path):
    write_report(result, tmp_path, all_tables=True)
    found = [path for path in tmp_path.rglob("*") if path.is_file()]
    plots = {
        f"plots/{file_stem(kind, level, 'pearson', aspect)}.svg"
        for kind, levels in PLOTTED.items()
        for level in levels
        for aspect in ASPECTS
    }
    files = {path.relative_to(tmp_path).as_posix() for path in found}
    names = [f"correlations.{level}.{kind}" for level in LEVELS for kind in COEFFICIENTS]
    tables = {f"tables/{name}.tex" for name in (*names, "raters", "power")}
    assert files == {"report.html", "report.md", *plots, *tables}
    assert all((tmp_path / name).read_bytes().startswith(b"<svg") for name in plots)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)" in text
    assert "<" not in text
    assert "no number of documents brings it that close" in text


# What the page shows


def panels_of(result, **key):
    found = report_view(result)["panels"]
    return [each for each in found if key.items() <= each.items()]


def places_of(style):
    """Where a style puts its marks: "--at:74.1;--from:52.4" -> {"at": 74.1, "from": 52.4}."""
    return {name: float(place) for name, place in re.findall(r"--(\w+):([-\d.]+)", style)}


def ticks_of(panel):
    return [text.replace(MINUS, "-") for text in re.findall(r">([^<]+)</text>", panel["ticks"])]


def test_axis_by_hand(result):
    # From length's low end, -0.24 - 0.12 - 0.02, to the raters' 0.9123: steps of .2.
    (panel,) = panels_of(result, level="system", aspect="relevance", coefficient="pearson")
    assert ticks_of(panel) == ["-0.4", "-0.2", "0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
    lines = places_of(panel["lines"])
    assert lines["zero"] == pytest.approx(100 * 0.4 / 1.4, abs=0.05)
    assert lines["ceiling"] == pytest.approx(100 * (0.4 + 0.9123) / 1.4, abs=0.05)
    row = panel["rows"][0]
    drawn = places_of(row["drawn"])
    for end, name in (("value", "at"), ("low", "from"), ("high", "to")):
        assert drawn[name] == pytest.approx(100 * (0.4 + row[end]) / 1.4, abs=0.05)


def test_accuracy_begins_at_guessing(result):
    accuracies = result.correlations.filter(level="system", coefficient="pearson").with_columns(
        coefficient=pl.lit("pairwise_accuracy"), value=0.7, low=0.6, high=0.8
    )
    about = dataclasses.replace(result.about, main_coefficient="pairwise_accuracy")
    changed = dataclasses.replace(result, about=about, correlations=accuracies)
    (panel,) = panels_of(changed, aspect="relevance")
    assert ticks_of(panel)[0] == "0.50"  # not drawn from 0
    assert places_of(panel["lines"])["zero"] == 0.0


def test_every_choice_has_a_panel_or_says_that_there_is_none(page, result):
    system_only = result.sample_size["level"].unique().to_list()
    assert system_only == ["system"]
    view = report_view(result)
    assert len(view["curves"]) == 3 * 2 * 2  # levels, aspects, coefficients
    missing = [panel for panel in view["curves"] if panel["is_missing"]]
    assert len(missing) == 12 - 2  # Pearson at system level, for both aspects
    n_missing = sum(
        panel["is_missing"]
        for of in view.values()
        if isinstance(of, list)
        for panel in of
        if isinstance(panel, dict) and "is_missing" in panel
    )
    assert page.count("Not computed for this choice.") == n_missing


def test_coefficients_in_the_order_asked_for(result):
    turned = dataclasses.replace(result, correlations=result.correlations.sort("coefficient"))
    assert next(grids(result)).coefficient == "pearson"
    assert next(grids(turned)).coefficient == "kendall_b"


def test_overview_tint_is_a_share_of_the_strongest(result):
    overview = report_view(result)["overviews"][0]
    strongest = value_of("sms", "relevance", "system", "pearson")
    for row, metric in zip(overview["rows"], METRICS, strict=True):
        value = value_of(metric, "relevance", "system", "pearson")
        assert row["cells"][0]["value"] == value
        assert row["cells"][0]["tint"] == pytest.approx(max(value, 0.0) / strongest, abs=0.005)
