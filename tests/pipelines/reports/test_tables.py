import re

import pytest

from pipelines.reports.agreement_report import paper_tables
from pipelines.reports.numbers import interval_text, number_text
from pipelines.reports.tables import escape_latex, escape_markdown, to_latex, to_markdown
from tests.pipelines.reports.made_up import ASPECTS, METRICS, UNDEFINED_REASON, value_of


@pytest.fixture(scope="module")
def tables(result):
    return {table.name: table for table in paper_tables(result)}


@pytest.mark.parametrize("write", [to_markdown, to_latex])
def test_rounded_tables_have_every_value(tables, write):
    plain = write(tables["correlations.system.pearson"]).replace("$-$", "\N{MINUS SIGN}")
    for metric in METRICS:
        for aspect in ASPECTS:
            value = value_of(metric, aspect, "system", "pearson")
            assert (
                f"{number_text(value)} {interval_text(value - 0.1234, value + 0.0987, 2)}" in plain
            )


def test_best_alone_is_bold(tables):
    best = number_text(value_of("sms", "relevance", "system", "pearson"))
    tied = number_text(value_of("rouge_L", "relevance", "system", "pearson"))
    markdown = to_markdown(tables["correlations.system.pearson"])
    assert f"**{best} " in markdown
    assert f"**{tied} " not in markdown
    assert rf"\textbf{{{best} " in to_latex(tables["correlations.system.pearson"])


@pytest.mark.parametrize("write", [to_markdown, to_latex])
def test_undefined_shown_with_its_reason(tables, write):
    assert f"({UNDEFINED_REASON})" in write(tables["correlations.summary.pearson"])


def test_caption_has_counts(tables):
    caption = tables["correlations.summary.pearson"].caption
    assert "Raters: expert-*; without reference." in caption
    assert "Systems 4, documents 1,234, missing cells 7, skipped documents 3." in caption


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("50% of A&B_1 #2 $x", r"50\% of A\&B\_1 \#2 \$x", id="specials"),
        pytest.param("\\input{x}", r"\textbackslash{}input\{x\}", id="command"),
        pytest.param("a\n\nb", "a b", id="paragraph"),
        pytest.param("[1] x", "{[}1] x", id="leading-bracket"),
        pytest.param("*x", "{*}x", id="leading-star"),
        pytest.param("~^", r"\textasciitilde{}\textasciicircum{}", id="accents"),
        pytest.param("<|>", r"\textless{}\textbar{}\textgreater{}", id="signs"),
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


def test_latex_of_hostile_names_is_balanced(tables):
    for table in tables.values():
        latex = re.sub(r"\\[{}]", "", to_latex(table))
        depth = 0
        for each in latex:
            depth += (each == "{") - (each == "}")
            assert depth >= 0
        assert depth == 0
        lines = latex.splitlines()
        rows = lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")]
        assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {len(table.header) - 1}
