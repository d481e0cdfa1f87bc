"""Sentences in lines: no grapheme is cut, nothing is lost, words stand in their order on paper."""
# ruff: noqa: RUF001  (letters of other scripts)

from itertools import pairwise

import pytest
import regex

from sms.explaining.lines import lines_of
from sms.svg_text import text_width, xml_text
from sms.writing import graphemes

FAMILY = "👩\u200d👩\u200d👧\u200d👦"
SENTENCES = {
    "ar": "في 14 مايو افتتحت محطة Solar One قرب القاهرة (نحو 5%).",
    "he": 'ב-14 במאי נפתחה תחנת הכוח Solar One ליד חיפה, בעלות של 120 מיליון דולר ("יקר").',
    "fa": "او می\u200cخواهد ۳۵۰۰ خانه را ببیند.",
    "zh": "该电站将为3,500户家庭供电，耗资1.2亿美元（约合5%）。",
    "ja": "太陽光発電所「Solar One」が5月14日、東京近郊で稼働した。",
    "ko": "태양광 발전소 Solar One이 5월 14일 서울 근교에서 문을 열었다.",
    "th": "โรงไฟฟ้านี้จะจ่ายไฟฟ้าให้บ้านเรือน 3,500 หลัง",
    "hi": "सौर ऊर्जा संयंत्र Solar One 14 मई को दिल्ली के पास खुला।",
    "emoji": f"The {FAMILY} family 🎉 opened it in 🇩🇪, 👍🏽!",
    "long": "x" * 200,
}


def laid_out(sentence, width):
    words = [match.span() for match in regex.finditer(r"[\p{L}\p{M}\p{N}]+|[^\s]", sentence)]
    return lines_of(sentence, words, width, 14.0)


@pytest.mark.parametrize("width", [40.0, 120.0, 2000.0])
@pytest.mark.parametrize("sentence", SENTENCES.values(), ids=SENTENCES)
def test_nothing_is_lost_cut_or_too_wide(sentence, width):
    lines = laid_out(sentence, width)
    shown = [grapheme for grapheme in graphemes(sentence) if not grapheme.isspace()]
    drawn = [each for line in lines for box in line for each in graphemes(box.text)]
    assert drawn == shown  # in the order in which they are read, and so copied
    for line in lines:
        assert min(box.left for box in line) >= -1e-9
        assert max(box.left + box.width for box in line) <= width + 1e-9
        for box, after in pairwise(on_paper(line)):
            assert box.left + box.width <= after.left + 1e-9


def on_paper(line):
    return sorted(line, key=lambda box: box.left)


def texts_of(line):
    return [box.text for box in on_paper(line)]


def test_latin_words_keep_their_order_in_text_from_the_right():
    (line,) = laid_out("אב Solar One נ (5%).", 2000.0)
    assert texts_of(line) == [".", ")", "5", "%", "(", "נ", "Solar", "One", "אב"]
    assert [box.text for box in on_paper(line) if box.is_from_right] == [".", ")", "(", "נ", "אב"]
    assert line[0].left + line[0].width == pytest.approx(2000.0)


def test_word_of_two_directions_is_drawn_in_two():
    (line,) = laid_out("הSolar", 2000.0)
    assert [(box.text, box.word, box.is_from_right) for box in line] == [
        ("ה", 0, True),
        ("Solar", 0, False),
    ]
    assert line[1].left < line[0].left


def test_no_line_begins_with_closing_punctuation():
    lines = laid_out(SENTENCES["zh"], 350.0)
    assert len(lines) == 2
    assert "".join(texts_of(lines[1])) == "5%）。"


def test_family_is_one_box():
    (line,) = laid_out(f"a {FAMILY} b", 2000.0)
    assert texts_of(line) == ["a", FAMILY, "b"]


def test_english_line_is_as_wide_as_its_words_and_spaces():
    (line,) = laid_out("Two words here.", 2000.0)
    assert texts_of(line) == ["Two", "words", "here", "."]
    assert line[-1].left == pytest.approx(text_width("Two words here", 14.0))


@pytest.mark.parametrize(
    ("text", "thousandths"),
    [
        ("a\u0301b", 1112), ("\u00e1b", 1112), ("漢字", 2000), (FAMILY, 1000), ("🇩🇪", 1000),
        ("☀\ufe0f", 1000), ("한", 1000), ("\u1112\u1161\u11ab", 1000), ("a\u200cb", 1112),
        ("كَ", 556), ("क्षि", 1668), ("\u200f", 0),
    ],
)  # fmt: skip
def test_width_is_that_of_what_is_seen(text, thousandths):
    assert text_width(text, 1000.0) == thousandths


def test_joiners_stay_and_controls_go():
    assert xml_text("می\u200cخواهد") == "می\u200cخواهد"
    assert xml_text(f"<{FAMILY}>\x00\udcff") == f"&lt;{FAMILY}&gt;  "
