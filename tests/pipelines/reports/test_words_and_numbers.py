"""How numbers and names are written for readers."""

import math

import pytest

from pipelines.papers.clark2019 import sentence_counts, stars
from pipelines.reports.numbers import (
    count_text,
    decimals,
    interval_text,
    number,
    number_text,
    p_value_text,
    range_text,
    span,
)
from pipelines.reports.pages import breakable, file_stem
from pipelines.reports.words import lead_text, listed, selection

WRITTEN = [
    (number_text(-0.15, minus="-"), "-0.150"),
    (number_text(-0.15), "\N{MINUS SIGN}0.150"),
    (number_text(-0.0001), "0.000"),
    (number_text(None), "–"),
    (count_text(1600), "1,600"),
    (range_text([16, 16]), "16"),
    (range_text([0, None, 1200]), "0 to 1,200"),
    (range_text([]), "–"),
    (p_value_text(0.0321), "0.032"),
    (p_value_text(0.00002), "< 0.001"),
    (interval_text(-0.1, 0.25, minus="-"), "[-0.100, 0.250]"),
    (interval_text(None, 0.25), "–"),
    (number(1234.5, 2), "1,234.50"),
    (number(-0.00001, 3), "0.000"),
    (number(math.nan, 3), "–"),
    (span(math.nan, math.nan, 2), "–"),
    (decimals([0.012345, math.nan]), 5),
    (breakable("reffree@news.fluency"), "reffree@news.<wbr>fluency"),
    (breakable("sms:source and <b>"), "sms:source and &lt;b&gt;"),
    (file_stem("correlations", "system"), "correlations.system"),
    (selection("expert-*", []), "raters: expert-*"),
    (selection("all", list("abcde")), "raters: all; without a, b, c and 2 more"),
    (listed(["fluency", "relevance", "coherence"]), "fluency, relevance and coherence"),
    ([stars(p) for p in (0.0099, 0.01, 0.05)], ["**", "*", ""]),
    (sentence_counts(["One. Two.", "One."]), [2, 1]),
]


@pytest.mark.parametrize(("written", "expected"), WRITTEN)
def test_by_hand(written, expected):
    assert written == expected


def test_lead_asks_what_the_level_asks():
    question = "System level asks: does a metric rank the systems as people do?"
    assert lead_text("system", "kendall_b").startswith(question)
