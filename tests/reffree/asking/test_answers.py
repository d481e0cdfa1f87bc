"""What is read of answers: whole answers by their structure, probabilities at their place."""

import json
import math

import pytest

from reffree.asking.answers import AMBIGUOUS, CUT_OFF, REFUSED, UNREADABLE, Answer, Token, read
from reffree.asking.answers import shortened as shorten
from reffree.asking.settings import AskOptions

ASK = {"prompt": "Rate {candidate}"}
YES_NO = {"Yes": 1, "No": 0}


def options(**table):
    return AskOptions(**ASK, **table)


def token(text, p=1.0, **others):
    """A token; the others at its place as `t_4=0.2`, or in a dict under `others`."""
    listed = others.pop("others", {})
    return Token(
        text.encode(),
        math.log(p),
        tuple((other.encode(), math.log(q)) for other, q in listed.items()),
    )


def answer_of(*tokens, **more):
    text = b"".join(each.text for each in tokens).decode("utf-8", "replace")
    return Answer(text=text, tokens=tokens, **more)


SCALE = {"4": 0.5, "5": 0.25, "3": 0.125, "Well": 0.125}


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("4", "4"), (" 4\n", "4"), ("4.", "4"), ("5", "5"),
        ("6", None), ("0", None), ("44", None), ("4/5", None), ("4 5", None), ("4..", None),
        ("", None), ("   ", None), ("four", None), ("I would say 4", None), ("٤", None),
        ("-4", None), ("4.5", None), ("**4**", None), ('{"answer": 4}', None),
    ],
)  # fmt: skip
def test_a_text_is_an_answer_or_it_is_not(text, label):
    reading = read(Answer(text=text), options(value="top"))
    assert reading.label == (label or "")
    assert reading.why == ("" if label else UNREADABLE)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ('{"answer": 4}', "4"), ('\n{ "answer" :4 }\n', "4"), ('{"answer": 4.0}', None),
        ('{"answer": "4"}', None), ('{"answer": true}', None), ('{"answer": 6}', None),
        ('{"answer": 4, "answer": 5}', None), ('{"answer": 4} {"answer": 5}', None),
        ('{"answer": 4, "note": "5"}', None), ('{"answer": [4]}', None), ('{"answer": 4', None),
        ('[{"answer": 4}]', None), ('```json\n{"answer": 4}\n```', None), ("4", None),
        ("{}", None), ("", None), ('{"Answer": 4}', None), ("{4: 4}", None),
    ],
)  # fmt: skip
def test_an_object_is_an_answer_or_it_is_not(text, label):
    reading = read(Answer(text=text), options(value="top", form="json"))
    assert (reading.label or None) == label
    assert reading.why == ("" if label else UNREADABLE)


def test_reasons_and_answer_come_in_either_order():
    asked = options(value="top", form="json", reasoning=True)
    for text in ('{"reasoning": "It is a 5.", "answer": 2}', '{"answer":2,"reasoning":"A 5"}'):
        reading = read(Answer(text=text), asked)
        assert reading.value == 2
        assert "5" in reading.reasons
    assert read(Answer(text='{"answer": 2}'), asked).why == UNREADABLE


def test_why_there_is_no_answer():
    for answer, why in [
        (Answer(text="4", refusal="I cannot judge this."), REFUSED),
        (Answer(text="", finish="content_filter"), REFUSED),
        (Answer(text="4", finish="length"), CUT_OFF),
        (Answer(text=""), UNREADABLE),
    ]:
        reading = read(answer, options())
        assert reading.why == why
        assert math.isnan(reading.value)


def test_expected_by_hand():
    reading = read(answer_of(token("4", 0.5, others=SCALE)), options())
    assert reading.value == pytest.approx((4 * 0.5 + 5 * 0.25 + 3 * 0.125) / 0.875)
    assert reading.probabilities == pytest.approx({"4": 0.5, "5": 0.25, "3": 0.125})


def test_without_probabilities_expected_is_refused():
    with pytest.raises(ValueError, match="no log-probabilities"):
        read(Answer(text="4"), options())


def test_white_space_and_doubles_are_the_same_answer():
    others = {" 4": 0.3, "4": 0.2, "5": 0.5}
    reading = read(answer_of(token(" 4", 0.3, others=others)), options())
    assert reading.probabilities == pytest.approx({"4": 0.5, "5": 0.5})
    twice = Token(b"4", math.log(0.4), ((b"4", math.log(0.4)), (b"4", math.log(0.4))))
    assert read(answer_of(twice), options()).probabilities == pytest.approx({"4": 0.4})


def test_a_chosen_token_that_is_not_listed_counts():
    reading = read(answer_of(token("4", 0.6, others={"5": 0.2})), options())
    assert reading.value == pytest.approx((4 * 0.6 + 5 * 0.2) / 0.8)


def test_the_digit_in_the_reasons_has_no_part():
    tokens = [token('{"reasoning": "'), token("4", 0.9, others={"1": 0.1}), token(' of 4"')]
    tokens += [token(', "answer":'), token(" 2", 0.75, others={" 2": 0.75, " 1": 0.25}), token("}")]
    reading = read(answer_of(*tokens), options(form="json", reasoning=True))
    assert reading.label == "2"
    assert reading.value == pytest.approx(2 * 0.75 + 1 * 0.25)
    assert reading.probabilities == pytest.approx({"2": 0.75, "1": 0.25})


def test_the_quote_may_be_in_the_answers_token():
    asked = options(form="json", choices=YES_NO)
    others = {' "Yes': 0.6, ' "No': 0.2, "No": 0.1, ' "Nobody': 0.1}
    tokens = [token('{"answer":'), token(' "Yes', 0.6, others=others), token('"}')]
    assert read(answer_of(*tokens), asked).probabilities == pytest.approx({"Yes": 0.6, "No": 0.2})


def test_an_answer_of_several_tokens_by_hand():
    """On a scale to 10 in digits: "1" may go on to "10", and its next token says how often."""
    first = token("1", 0.6, others={"1": 0.6, "7": 0.3, "9": 0.1})
    second = token("0", 0.75, others={"0": 0.75, "": 0.25})
    asked = options(scale=[1, 10])
    reading = read(answer_of(first, second), asked)
    assert reading.label == "10"
    expected = {"10": 0.45, "1": 0.15, "7": 0.3, "9": 0.1}
    assert reading.probabilities == pytest.approx(expected)
    assert reading.value == pytest.approx(4.5 + 0.15 + 2.1 + 0.9)
    ends = token("<|end|>", 0.8, others={"<|end|>": 0.8, "0": 0.2})
    answer = Answer(text="1", tokens=(first, ends))
    expected = {"10": 0.12, "1": 0.48, "7": 0.3, "9": 0.1}
    assert read(answer, asked).probabilities == pytest.approx(expected)


def test_an_answer_that_no_token_tells_apart_is_no_guess():
    asked = options(scale=[1, 10])
    only = answer_of(token("7", 0.7, others={"7": 0.7, "1": 0.3}))  # "1" or the beginning of "10"
    assert read(only, asked).why == AMBIGUOUS
    whole = answer_of(token("7", 0.6, others={"7": 0.6, "1": 0.3, "10": 0.1}))
    assert read(whole, asked).probabilities == pytest.approx({"7": 0.6, "1": 0.3, "10": 0.1})
    ended = answer_of(token("1", 1.0))
    assert read(ended, asked).why == AMBIGUOUS
    little = answer_of(token("7", 0.999, others={"7": 0.9995, "1": 0.0005}))
    assert read(little, asked).value == pytest.approx(7)


def test_parts_of_letters_are_put_together():
    asked = options(choices={"жЁ": 1, "жё": 0})
    shared, yes, no = "ж".encode(), "Ё".encode(), "ё".encode()
    tokens = (
        Token(shared, math.log(0.9), ((shared, math.log(0.9)), (b"x", math.log(0.1)))),
        Token(yes, math.log(0.7), ((yes, math.log(0.7)), (no, math.log(0.3)))),
    )
    reading = read(Answer(text="жЁ", tokens=tokens), asked)
    assert reading.probabilities == pytest.approx({"жЁ": 0.63, "жё": 0.27})


def test_tokens_of_another_text_are_not_read():
    answer = Answer(text="4", tokens=(token("5", 0.9, others={"4": 0.1}),))
    assert read(answer, options()).why == UNREADABLE


def test_end_marks_and_left_out_space_are_no_other_text():
    answer = Answer(text="4", tokens=(token(" "), token("4", 0.5, others=SCALE), token("</s>")))
    assert read(answer, options()).value == pytest.approx(4, abs=0.2)


def test_a_kept_answer_reads_as_it_did():
    tokens = [
        token(f"word {k} ", 0.5, others={f"{k * j}": 0.3 / (k + j) for j in range(1, 20)})
        for k in range(50)
    ]
    tokens = [token('{"reasoning": "'), *tokens, token('", "answer": ')]
    tokens += [token("4", 0.5, others=SCALE), token("}")]
    answer = answer_of(*tokens, n_read=7, n_written=5)
    asked = options(form="json", reasoning=True)
    kept = Answer.from_bytes(shorten(answer, asked).to_bytes())
    assert read(kept, asked) == read(answer, asked)
    assert (kept.text, kept.n_read, kept.n_written) == (answer.text, 7, 5)
    assert len(kept.to_bytes()) < len(answer.to_bytes()) / 2
    plain = Answer(text="no\udcff", finish="length")
    assert Answer.from_bytes(plain.to_bytes()) == plain


def test_hostile_texts_cannot_break_the_reader():
    """Whatever a model is talked into saying is one of the answers, or none."""
    fakes = [
        "5",
        '{"answer": 5}',
        '"}, {"answer": 5',
        "\x00",
        "\ud800",
        "[" * 100_000,
        "9" * 10_000,
    ]
    fakes += ["{" * 50_000, '{"answer":' * 20_000, json.dumps({"answer": {"answer": 5}})]
    for fake in fakes:
        for form in ("text", "json"):
            reading = read(Answer(text=fake), options(value="top", form=form))
            assert reading.label in ("", "5")
