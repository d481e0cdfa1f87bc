"""Names and texts of any script in terminals, Markdown, charts and pages."""

import re

import pytest
from rich.cells import cell_len
from rich.text import Text

from pipelines.cli.common import printable
from pipelines.reports.charts import Axis, Chart, short_name
from pipelines.reports.explain_page import ExplainedSystem, picture_of, render_explanations
from pipelines.reports.tables import escape_latex, escape_markdown
from pipelines.reports.terminal import table_blocks, table_text, wrapped
from sms.explaining import explain

FSI, PDI = "\u2068", "\u2069"
ARABIC, CHINESE, FAMILY = "نظام ألف 2", "系统甲（改进版）", "👩\u200d👩\u200d👧\u200d👦"  # noqa: RUF001
TEXTS = ("افتتح وزير الطاقة محطة Solar One.", "افتتحت محطة Solar One قرب القاهرة (نحو 5%).")


# Terminals


@pytest.mark.parametrize("is_terminal", [False, True])
@pytest.mark.parametrize("as_cell", [str, Text])
def test_columns_of_a_table_stand_below_each_other(is_terminal, as_cell):
    names = ["plain", CHINESE, ARABIC, FAMILY, "한국어", "ไทยที่นี่"]
    rows = [[as_cell(name), "0.41", "12"] for name in names]
    table = table_text(["system", "rouge1", "n"], rows, is_terminal=is_terminal)
    lines = [line for line in table.splitlines() if "12" in line]
    assert len(lines) == len(names)
    assert len({cell_len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in lines}) == 1


def test_wide_names_are_measured_where_a_table_is_cut_into_blocks():
    header = ["system", *(f"metric{k}" for k in range(5))]
    rows = [[CHINESE * 3, *["0.1"] * 5]]
    blocks = table_blocks(header, rows, width=70).split("\n\n")
    assert len(blocks) == 3  # beside a name of 48 cells there is room for two columns
    assert all(cell_len(line) <= 70 for block in blocks for line in block.splitlines())


def test_name_from_the_right_does_not_turn_the_numbers_beside_it():
    line = table_text(["system", "n"], [[ARABIC, "12"]]).splitlines()[1]
    assert line.startswith(f"{FSI}{ARABIC}{PDI} ")
    assert printable(line) == line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{FSI}a{PDI} 1", f"{FSI}a{PDI} 1"),
        (f"{FSI}\u2067a{PDI}{PDI}", f"{FSI}\u2067a{PDI}{PDI}"),
        (f"{FSI}a\n{PDI} 1", "\\u2068a\n\\u2069 1"),
        (f"{PDI}a{FSI}", "\\u2069a\\u2068"),
        (f"{FSI}a\u202e{PDI}", f"{FSI}a\\u202e{PDI}"),
    ],
)
def test_only_isolates_that_end_on_their_line_reach_a_terminal(text, expected):
    assert printable(text) == expected


def test_lines_of_languages_without_spaces_are_broken():
    text = "For relevance: 要約の評価に最もよく一致する指標は次の通りです。続きがあります。"
    lines = wrapped([text], 30).split("\n")
    assert len(lines) > 2
    assert max(map(cell_len, lines)) <= 30
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert not any(line.strip()[0] in "、。" for line in lines)


def test_words_with_hyphens_stay_whole():
    command = "assay score corpus.jsonl --metrics rouge-1 --out scores/low-cost-run"
    lines = wrapped([command], 24).split("\n")
    assert lines == [
        "assay score corpus.jsonl",
        "  --metrics rouge-1",
        "  --out",
        "  scores/low-cost-run",
    ]


# Papers


def test_markdown_isolates_and_latex_does_not():
    assert escape_markdown(ARABIC) == f"{FSI}{ARABIC}{PDI}"
    assert escape_latex(ARABIC) == ARABIC
    assert escape_markdown(CHINESE) == CHINESE


# Charts


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("系统甲第二次训练的结果" * 2, "…甲第二次训练的结果"),
        (f"a-long-name-that-ends-in-{FAMILY}", f"…ame-that-ends-in-{FAMILY}"),
        ("noe\u0308l" * 6, "…oe\u0308l" + "noe\u0308l" * 4),
    ],
)
def test_long_names_are_cut_between_graphemes(name, shown):
    assert short_name(name) == shown
    assert cell_len(shown) <= 20


def test_labels_of_charts_keep_their_direction_to_themselves():
    chart = Chart(Axis.of_numbers([0, 1]), Axis.of_names([ARABIC]), title=ARABIC)
    chart.dot(0.5, 0, "mark", name=ARABIC)
    drawn = chart.svg("chart")
    assert drawn.count(f">{FSI}{ARABIC}{PDI}</text>") == 3


# Pages


@pytest.fixture(scope="module")
def systems():
    options = {"metric": "rouge1", "language": "ar"}
    return [
        ExplainedSystem(system_id=ARABIC, explanation=explain(*TEXTS, **options)),
        ExplainedSystem(system_id="plain", explanation=explain(TEXTS[1], TEXTS[1], **options)),
    ]


def test_texts_of_a_page_have_their_direction_and_language(systems):
    page = render_explanations(ARABIC, systems)
    sentences = re.findall(r'<td dir="auto" lang="ar">([^<]*)</td>', page)
    assert TEXTS[0] in sentences
    assert f"<bdi>{ARABIC}</bdi>" in page
    assert f"<title>{FSI}{ARABIC}{PDI}: rouge1_f explained</title>" in page
    assert '<g xml:lang="ar">' in page


def test_language_that_nobody_may_have_chosen_is_not_named():
    explained = ExplainedSystem(
        system_id="s", explanation=explain("A cat.", "A dog.", metric="rouge1")
    )
    page = render_explanations("d", [explained])
    assert re.findall(r'\blang="([^"]*)"', page) == ["en"]  # of the page, whose words are English
    assert '<td dir="auto">A cat.</td>' in page


def test_words_of_a_picture_run_their_way(systems):
    picture = picture_of(ARABIC, systems)
    drawn = re.findall(
        r'<text x="([\d.]+)"[^>]*?( direction="rtl")? textLength[^>]*>([^<]+)</text>', picture
    )
    direction_of = {text: bool(turned) for _, turned, text in drawn}
    assert direction_of["محطة"]
    assert direction_of["("]
    assert not direction_of["Solar"]
    words = [text for _, _, text in drawn]  # are copied in the order in which they are read
    assert "".join(words).startswith(TEXTS[1].replace(" ", ""))
    place_of = {text: float(x) for x, _, text in drawn}
    assert place_of["Solar"] < place_of["One"] < place_of["محطة"]
