import re

import pytest

from pipelines.reports.agreement_report import paper_tables
from pipelines.reports.numbers import MINUS, interval_text, number_text
from pipelines.reports.tables import escape_latex, escape_markdown, to_latex, to_markdown
from pipelines.reports.words import STATISTICS
from tests.pipelines.reports.made_up import ASPECTS, METRICS, UNDEFINED_REASON, value_of


@pytest.fixture(scope="module")
def tables(result):
    return {table.title: table for table in paper_tables(result).values()}


SYSTEM, SUMMARY = (f"Pearson r with ratings, {level} level" for level in ("system", "summary"))


@pytest.mark.parametrize("is_latex", [False, True])
def test_rounded_table_has_every_value_and_the_best_alone_is_bold(tables, is_latex):
    table, before, bold = tables[SYSTEM], "| ", "**"
    written = to_markdown(table)
    if is_latex:
        before, bold, written = "& ", r"\textbf{", to_latex(table, "any").replace("$-$", MINUS)
    for metric in METRICS:
        for aspect in ASPECTS:
            value = value_of(metric, aspect, "system", "pearson")
            interval = interval_text(value - 0.1234, value + 0.0987, 2)
            shown = f"{number_text(value)} {interval}"
            assert f"{before}{bold if metric == 'sms' else ''}{shown}" in written


def test_undefined_shown_with_its_reason(tables):
    assert f"({UNDEFINED_REASON})" in to_markdown(tables[SUMMARY])


def test_caption_has_counts(tables):
    caption = tables[SUMMARY].caption
    assert "Raters: expert-*; without reference." in caption
    assert "Systems 4, documents 1,234, missing cells 7, skipped documents 3." in caption


def test_raters_by_hand(tables):
    lines = to_markdown(tables["Agreement among raters"]).splitlines()[2:]
    statistic = STATISTICS["krippendorff_alpha_ordinal"]
    assert lines[0] == f"| relevance | expert-\\* | {statistic} | – | 0.450 | 3 | 4,936 |"
    assert len(lines) == 2 * len(ASPECTS)


def test_latex_of_hostile_names_has_whole_rows(tables):
    latex = to_latex(tables[SYSTEM], "Correlations.system")
    assert r"\label{tab:correlations-system}" in latex
    lines = re.sub(r"\\[{}&]", "", latex).splitlines()
    assert all(line.count("{") == line.count("}") for line in lines)
    rows = [lines[lines.index(r"\toprule") + 1], *lines[lines.index(r"\midrule") + 1 : -3]]
    assert [row.count("&") for row in rows] == [len(ASPECTS)] * (1 + len(METRICS))
    assert all(row.endswith(r" \\") for row in rows)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("50% of A&B_1 #2 $x", r"50\% of A\&B\_1 \#2 \$x", id="specials"),
        pytest.param("\\input{x}", r"\textbackslash{}input\{x\}", id="command"),
        pytest.param("a\n\nb", "a b", id="paragraph"),
        pytest.param("[1] x", "{[}1] x", id="leading-bracket"),
        pytest.param("~^", r"\textasciitilde{}\textasciicircum{}", id="accents"),
    ],
)
def test_latex_escapes(text, expected):
    assert escape_latex(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a|b", r"a\|b", id="cell"),
        pytest.param("<script>", "&lt;script&gt;", id="html"),
        pytest.param("[x](http://a)", r"[x]\(http://a)", id="link"),
        pytest.param("*b* _i_ `c`", r"\*b\* \_i\_ \`c\`", id="emphasis"),
        pytest.param("a\nb", "a b", id="line"),
        pytest.param("[0.1, 0.2]", "[0.1, 0.2]", id="interval"),
    ],
)
def test_markdown_escapes(text, expected):
    assert escape_markdown(text) == expected
