"""Explanations: plans that add up to the score, units at their places, sentences left out."""

from __future__ import annotations

import itertools
import math
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sms.explaining import explain, explain_rows
from sms.explaining.picture import (
    MAX_LINES,
    MAX_SENTENCES,
    SCORE_DIGITS,
    cost_class,
    distance_digits,
    printed_parts,
    signed_text,
)
from sms.explaining.records import (
    NOT_ALPHABETIC,
    NOTHING_KEPT,
    PUNCTUATION,
    STOP_WORD,
    UNKNOWN_WORD,
    WORD,
)
from sms.scoring import ScoringConfig, SummaryScorer, to_rows
from tests.sms.scoring_cases import glove_file

METRICS = ("wms", "sms", "s+wms")
FLOW_ATOL = 1e-9
SCORE_ATOL = 1e-12

KNOWN = ["cat", "dog", "bird", "river", "bridge", "council", "market", "train", "snow", "winter"]
UNKNOWN = ["zymurgy", "Xylograph"]
FILLERS = ["the", "of", ",", "-", "(", "it's"]
HOSTILE = "<script>alert('x')</script> & \"cat\" </svg> dog\u2028bird. ]]> <b>river</b>"


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """A vector file: `cat` and `dog` are 5 apart, `cat` and `bird` 1; the others are random."""
    table = np.random.default_rng(19).normal(size=(len(KNOWN), 2)).round(6)
    table[:3] = [[0, 0], [3, 4], [0, 1]]
    path = tmp_path_factory.mktemp("vectors") / "small.txt"
    return glove_file(path, dict(zip(KNOWN, table.tolist(), strict=True)))


@pytest.fixture(scope="module")
def scorers(vectors):
    """A scorer for every preset, with all movers and some other metrics."""
    metrics = (*METRICS, "wms:source", "cosine", "rouge1_r", "length", "density")
    return {
        preset: SummaryScorer(
            ScoringConfig(metrics=metrics, encoders={"small": vectors}, preset=preset), threads=1
        )
        for preset in ("default", "clark2019")
    }


@pytest.fixture
def explained(scorers):
    """Explain one row."""

    def call(candidate, reference="Cat bird.", source="Cat dog. River snow.", **options):
        column, preset = options.get("metric", "wms"), options.get("preset", "default")
        rows = to_rows([candidate], references=[reference], sources=[source])
        return explain_rows(scorers[preset], rows, column)[0]

    return call


# Plans


def test_moves_by_hand(explained):
    # cat stays; dog (3, 4) goes to bird (0, 1): half the mass over a distance of sqrt(18)
    found = explained("Cat dog.", "Cat bird.")
    (moves,) = found.moves
    assert [point.text for point in moves.candidate.points] == ["Cat", "dog"]
    flows = [(flow.candidate, flow.other, flow.mass, flow.cost) for flow in moves.flows]
    assert flows == [(1, 1, 0.5, pytest.approx(math.sqrt(18))), (0, 0, 0.5, 0.0)]
    assert moves.distance == pytest.approx(math.sqrt(18) / 2, abs=1e-12)
    assert found.score == pytest.approx(math.exp(-math.sqrt(18) / 2), abs=1e-12)
    np.testing.assert_allclose(moves.plan, [[0.5, 0.0], [0.0, 0.5]])
    np.testing.assert_allclose(moves.ground_cost, [[0.0, 1.0], [5.0, math.sqrt(18)]])


def test_row_with_a_reference_beyond_the_solver_has_no_plan(explained, monkeypatch):
    for module in ("sms.metrics.movers", "sms.explaining.moving"):
        monkeypatch.setattr(f"{module}.MAX_CELLS", 8)
    found = explained("Cat dog.", ["Cat bird.", "Bird."])  # 3 points against 3, and against 2
    assert found.score is None
    assert found.moves == ()
    assert found.similarities[0] is None
    assert found.similarities[1] > 0


def test_joint_plan_has_half_its_mass_on_words(explained):
    (moves,) = explained("Cat dog. Dog.", "Cat bird. River.", metric="s+wms").moves
    for text in (moves.candidate, moves.other):
        on_words = sum(point.weight for point in text.points if point.kind == WORD)
        assert on_words == pytest.approx(0.5)
    masses, costs = zip(*moves.blocks().values(), strict=True)
    assert (sum(masses), sum(costs)) == pytest.approx((1.0, moves.distance))


TEXTS = st.lists(
    st.lists(st.sampled_from([*KNOWN, *UNKNOWN, *FILLERS]), min_size=1, max_size=7).map(
        lambda words: " ".join(words).capitalize() + "."
    ),
    min_size=1,
    max_size=5,
).map(" ".join)


@pytest.mark.parametrize("preset", ["default", "clark2019"])
@settings(max_examples=15)
@given(candidate=TEXTS, references=st.lists(TEXTS, min_size=1, max_size=3))
def test_flows_add_up_to_the_score(scorers, preset, candidate, references):
    scorer = scorers[preset]
    rows = to_rows([candidate], references=[references], sources=[references])
    table = scorer.score(rows)
    for metric in (*METRICS, "wms:source"):
        (found,) = explain_rows(scorer, rows, metric)
        assert found.score == table[metric][0].as_py()
        assert bool(found.moves) == (found.score is not None)
        for moves in found.moves:
            check_plan(moves)
        if found.moves:
            mean = np.mean([moves.similarity for moves in found.moves])
            assert mean == pytest.approx(found.score, abs=SCORE_ATOL)


def check_plan(moves):
    total = math.fsum(flow.contribution for flow in moves.flows)
    assert total == pytest.approx(moves.distance, abs=FLOW_ATOL)
    plan = np.zeros((len(moves.candidate.points), len(moves.other.points)))
    for flow in moves.flows:
        assert flow.mass > plan[flow.candidate, flow.other] == 0
        plan[flow.candidate, flow.other] = flow.mass
    for text, sums in ((moves.candidate, plan.sum(axis=1)), (moves.other, plan.sum(axis=0))):
        weights = [point.weight for point in text.points]
        np.testing.assert_allclose(sums, weights, atol=FLOW_ATOL)
        assert math.fsum(weights) == pytest.approx(1.0, abs=FLOW_ATOL)
        for number, point in enumerate(text.points):
            units = [text.units[k] for k in point.units]
            assert all(unit.point == number and unit.kind == point.kind for unit in units)
            assert math.fsum(u.weight for u in units) == pytest.approx(point.weight, abs=FLOW_ATOL)


def test_identical_texts_stay_where_they_are(explained):
    found = explained("Cat dog. River.", "River. Cat dog.", metric="s+wms")
    assert found.score == 1.0
    assert found.moves[0].distance == 0.0
    assert all(flow.cost == 0.0 for flow in found.moves[0].flows)
    assert "distance 0.000000" in found._repr_html_()


def test_best_reference_and_every_source_are_explained(explained):
    found = explained("Cat dog.", ["River snow.", "Cat bird.", "", "Train."])
    assert [moves.other.number for moves in found.moves] == [1]
    assert found.similarities[1] == found.score == found.moves[0].similarity
    assert found.similarities[2] is None
    assert found.score == max(each for each in found.similarities if each is not None)
    found = explained("Cat dog.", source=["Cat bird.", "Dog."], metric="wms:source")
    others = [(moves.other.side, moves.other.number) for moves in found.moves]
    assert others == [("source", 0), ("source", 1)]


def test_similarity_of_a_plan_is_the_score_to_the_last_bit(scorers):
    words = ["cat", "dog", "bird", "river", "snow", "train", "bridge"]
    texts = [" ".join(chosen) for chosen in itertools.combinations(words, 3)]
    given = [["Cat bird market."]] * len(texts)
    rows = to_rows(texts, references=given, sources=given)
    found = explain_rows(scorers["default"], rows, "wms")
    assert [one.moves[0].similarity for one in found] == [one.score for one in found]


def test_repeated_word_shares_its_mass(explained):
    (moves,) = explained("Cat cat CAT dog.", "Cat.").moves
    cats = [unit for unit in moves.candidate.units if unit.text.lower() == "cat"]
    assert [unit.weight for unit in cats] == [0.25, 0.25, 0.25]
    (number,) = {unit.point for unit in cats}
    point = moves.candidate.points[number]
    assert (point.text, point.weight, len(point.units)) == ("Cat", 0.75, 3)


# Units


@pytest.mark.parametrize("preset", ["default", "clark2019"])
@pytest.mark.parametrize(
    "text",
    [
        "  Cat  (dog), the\u00ad bird.\n\nRiver?  Snow!",
        "It's the council's \"bridge\" — “market” 2,000 train-snow.\tWinter… -lrb-",
        HOSTILE,
    ],
)
def test_units_are_slices_that_hold_every_visible_character(explained, text, preset):
    covered = set()
    for unit in explained(text, preset=preset).candidate.units:
        assert text[unit.start : unit.stop] == unit.text != ""
        if unit.kind == WORD:
            covered.update(range(unit.start, unit.stop))
    visible = {k for k, c in enumerate(text) if not c.isspace() and c != "\u00ad"}
    assert visible <= covered


# text, preset, why each of its sentences and words does not count
REASONS = [
    (
        "The zymurgy cat, -lrb- dog. It.",
        "default",
        [
            *(None, STOP_WORD, UNKNOWN_WORD, None, PUNCTUATION, PUNCTUATION, None, PUNCTUATION),
            *(NOTHING_KEPT, STOP_WORD, PUNCTUATION),
        ],
    ),
    (
        'The "zymurgy" 42, quux-dog.',
        "clark2019",
        [
            *(None, STOP_WORD, PUNCTUATION, None, PUNCTUATION, NOT_ALPHABETIC, PUNCTUATION),
            *(NOT_ALPHABETIC, PUNCTUATION),
        ],
    ),
]


@pytest.mark.parametrize(("text", "preset", "reasons"), REASONS)
def test_reasons_why_units_do_not_count(explained, text, preset, reasons):
    units = explained(text, preset=preset).candidate.units
    assert [unit.dropped for unit in units] == reasons
    for unit in units:
        assert unit.is_kept == (unit.dropped is None)
        assert (unit.weight > 0) == (unit.is_kept and unit.kind == WORD)


@pytest.mark.parametrize(
    ("candidate", "reference", "status"),
    [
        ("", "Cat.", "candidate:empty"),
        (None, "Cat.", "candidate:null"),
        ("The.", "Cat.", "candidate:no_words"),
        ("Cat.", "zymurgy", "reference:no_known_words@small"),
    ],
)
def test_text_without_words_has_no_plan(explained, candidate, reference, status):
    found = explained(candidate, reference)
    assert (found.score, found.moves, found.similarities) == (None, (), (None,))
    assert status in found.status
    assert status.partition(":")[2] in found._repr_html_()


# Sentences left out


def test_what_is_not_read_is_not_explained():
    found = explain("Cat dog.", ["Cat.", "River."], metric="rouge1_f", multi_reference="first")
    assert [(text.side, text.text) for text in found.others] == [("reference", "Cat.")]
    # of the source 4 tokens are read; were its first sentence left out before it is cut, the
    # last sentence would be read, and coverage be 1 in place of 0
    found = explain(
        "River.", source="Cat dog. Snow train. River.", metric="coverage", source_tokens=4
    )
    of_source = [effect for effect in found.effects if effect.side == "source"]
    assert [(e.unit.text, e.score) for e in of_source] == [("Cat dog.", 0.0), ("Snow train.", 0.0)]


def test_drops_match_scores_of_cut_texts(explained, scorers):
    candidate = "Cat dog. River snow. Train."
    references = ["Cat bird. River.", "Winter train. Dog bird. Snow."]
    found = explained(candidate, references, metric="cosine")
    assert len(found.effects) == 3 + 2 + 3
    cut = to_rows(
        ["Cat dog. Train.", candidate],
        references=[references, [references[0], "Winter train. Snow."]],
        sources=["", ""],
    )
    expected = scorers["default"].score(cut)["cosine"].to_pylist()
    assert found.effects[1].score == pytest.approx(expected[0], abs=1e-12)
    assert found.effects[6].score == pytest.approx(expected[1], abs=1e-12)
    assert found.effects[6].drop == pytest.approx(found.score - expected[1], abs=1e-12)


# What is asked for


def test_missing_text_and_unknown_column_rejected(vectors, scorers):
    with pytest.raises(ValueError, match="`reference` must be given for metric `wms`"):
        explain("Cat.", metric="wms", encoder=vectors)
    with pytest.raises(ValueError, match="`source` must be given for metric `density`"):
        explain("Cat.", "Dog.", metric="density")
    rows = to_rows(["Cat."], references=["Dog."], sources=["Dog."])
    with pytest.raises(ValueError, match="`column` must be one of wms, sms"):
        explain_rows(scorers["default"], rows, "bleu")


# Printed numbers


@given(
    parts=st.lists(st.floats(0, 50), min_size=1, max_size=30),
    digits=st.integers(2, 8),
)
def test_printed_parts_add_up(parts, digits):
    total = math.fsum(parts)
    printed = printed_parts(parts, total, digits)
    unit = 10**digits
    assert sum(round(float(part) * unit) for part in printed) == round(total * unit)
    for part, text in zip(parts, printed, strict=True):
        assert float(text) == pytest.approx(part, abs=1.01 / unit + 1e-9)


@given(distance=st.floats(0, 30))
def test_printed_distance_gives_the_printed_score(distance):
    digits = distance_digits(distance)
    printed = float(f"{distance:.{digits}f}")
    score = f"{math.exp(-distance):.{SCORE_DIGITS}f}"
    assert f"{math.exp(-printed):.{SCORE_DIGITS}f}" == score


# Picture


@pytest.mark.parametrize("metric", ["s+wms", "cosine", "length"])
def test_picture_is_svg_whatever_the_texts_hold(explained, metric):
    found = explained(HOSTILE + "\x01\x0b", HOSTILE, metric=metric)
    root = ElementTree.fromstring(found.svg(title=HOSTILE))
    names = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert names <= {"svg", "g", "title", "rect", "path", "text"}
    assert any("script" in (element.text or "") for element in root.iter())
    assert "<script" not in found._repr_html_()


def test_picture_of_long_texts_stays_small(explained):
    long = " ".join(f"{word.capitalize()} cat." for word in KNOWN * 4)
    found = explained(long, long + " Dog dog.", metric="s+wms")
    root = ElementTree.fromstring(found.svg())
    paths = [element for element in root.iter() if element.tag.endswith("path")]
    assert 0 < len(paths) <= MAX_LINES
    assert any(e.text and "sentences …" in e.text for e in root.iter())
    assert float(root.get("height")) < 150 + 2 * MAX_SENTENCES * 60
    live = ElementTree.fromstring(found.svg(is_live=True))
    paths = [element for element in live.iter() if element.tag.endswith("path")]
    shown = [p.get("data-ends") for p in paths if p.get("visibility") != "hidden"]
    assert len(paths) > MAX_LINES
    flows = found.moves[0].flows[:MAX_LINES]  # those that add most
    assert shown == [f"c{flow.candidate} o{flow.other}" for flow in flows]


def test_marks_of_a_picture_say_their_numbers(explained):
    found = explained("Cat.", "Cat dog. The bird.", metric="wms")
    (moves,) = found.moves
    titles = [
        element.text
        for element in ElementTree.fromstring(found.svg()).iter()
        if element.tag.endswith("title")
    ]
    for flow in moves.flows:
        word = moves.other.points[flow.other].text
        said = f"mass {flow.mass:.4f} at cost {flow.cost:.2f}, adds {flow.contribution:.4f}"
        assert f"Cat → {word}: {said} to the distance" in titles
    (of_cat,) = [title for title in titles if title.startswith("Cat, mass 1.0000, moves to ")]
    assert of_cat.endswith(f"; adds {moves.distance:.4f} to the distance")
    assert "The does not count: stop word" in titles


def placed_words(found):
    """Left end, width and text of every word of a picture."""
    return [
        (float(e.get("x")), float(e.get("textLength")), e.text)
        for e in ElementTree.fromstring(found.svg()).iter()
        if e.get("textLength") is not None
    ]


@pytest.mark.parametrize("text", ["/".join(KNOWN * 5), "x" * 400, "cat " * 60])
def test_words_of_a_picture_stay_in_their_column(explained, text):
    both = placed_words(explained(text + ".", text + ".", metric="rouge1_r"))
    for column in (both[: len(both) // 2], both[len(both) // 2 :]):
        start = min(x for x, _, _ in column)
        assert all(x + width <= start + 351 for x, width, _ in column)


def test_picture_of_arabic_is_read_from_the_right():
    text = "ذهب الرجل إلى السوق"
    found = explain(text, "A cat sat.", metric="rouge1", language="ar")
    assert found.metric == "rouge1_f"
    words = placed_words(found)
    arabic = [word for word in words if not word[2].isascii()]
    assert [word for _, _, word in sorted(arabic, reverse=True)] == text.split()
    english = [word for word in words if word[2].isascii()]
    assert [word for _, _, word in sorted(english)] == ["A", "cat", "sat", "."]


def test_drop_that_rounds_to_zero_has_no_sign():
    assert [signed_text(drop) for drop in (2e-5, -2e-5, 0.5, -0.5)] == [
        *("0.0000", "0.0000", "+0.5000", "\N{MINUS SIGN}0.5000")
    ]


def test_cost_class_by_hand():
    assert [cost_class(cost, 6.0) for cost in (0.0, 0.99, 1.0, 5.5, 6.0)] == [0, 0, 1, 5, 5]
    assert cost_class(0.0, 0.0) == 0
