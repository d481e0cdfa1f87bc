"""Half a character, as a generation that was cut off in the middle of an emoji has at its end."""

from __future__ import annotations

import pytest

import assay
from sms import explain, score_texts

HALF, GOOD = "The cat sat \ud83d", "The cat sat."
WHY = "unreadable: `{}` is not valid UTF-8"


def rows_of(candidates, references):
    table = score_texts(candidates, references, metrics=("rouge1",))
    return [(row["rouge1_f"], row["status"]) for row in table.to_pylist()]


ROWS = [
    pytest.param(HALF, GOOD, "candidate", id="candidate"),
    pytest.param(GOOD, HALF, "reference", id="reference"),
    pytest.param(GOOD, [GOOD, HALF], "reference", id="one-of-several"),
]


@pytest.mark.parametrize(("candidate", "reference", "side"), ROWS)
def test_rows_of_lists_and_of_tables_have_the_same_status(candidate, reference, side):
    expected = [(None, WHY.format(side)), (1.0, None)]
    assert rows_of([candidate, GOOD], [reference, GOOD]) == expected
    data = [
        {"candidate": candidate, "reference": reference},
        {"candidate": GOOD, "reference": [GOOD] if isinstance(reference, list) else GOOD},
    ]
    first, second = assay.score(data, metrics="rouge1_f")
    assert (first["rouge1_f"], second["rouge1_f"], second["status"]) == (None, 1.0, None)
    # of a table it names the column, which may be `references`
    assert first["status"].replace("references", "reference") == WHY.format(side)


def test_side_that_is_not_read_does_not_matter():
    table = score_texts([GOOD], [HALF], [HALF], metrics=("length",))
    assert table.to_pylist() == [{"length": 3.0, "status": None}]


def test_sentences_that_are_given():
    options = {"metrics": ("rouge1_f",), "sentences": "given"}
    table = score_texts([[GOOD, HALF], [GOOD]], [[GOOD], [GOOD]], **options)
    assert table["status"].to_pylist() == [WHY.format("candidate"), None]


@pytest.mark.parametrize(("candidate", "reference", "side"), ROWS)
def test_reward_is_the_lower_bound(candidate, reference, side):
    reward = assay.Reward("2*rouge1_f - .5*repetition")
    assert reward.bounds == (-0.5, 2.0)
    assert reward([candidate, GOOD], references=[reference, GOOD]) == [-0.5, 2.0]
    assert reward.counters()["undefined"] == 1


def test_reward_of_a_conversation():
    messages = [{"role": "assistant", "content": HALF}]
    assert assay.Reward("rouge1_f")(completions=[messages], references=[GOOD]) == [0.0]


@pytest.mark.parametrize("metric", ["s+wms", "rougeL_f", "reffree@news"])
def test_explanation_says_why_there_is_no_score(metric):
    explained = explain(HALF, GOOD, GOOD, metric=metric)
    assert (explained.score, explained.status) == (None, WHY.format("candidate"))
    assert "unreadable" in explained.svg()


def test_lists_of_a_scorer_have_the_status_of_a_table():
    scorer = assay.Scorer(metrics="rouge1_f")
    first, second = scorer.score([GOOD, HALF], references=[GOOD, GOOD])
    assert (first["rouge1_f"], first["status"]) == (1.0, None)
    assert (second["rouge1_f"], second["status"]) == (None, WHY.format("candidate"))


def test_cells_that_are_kept():
    data = [{"candidate": GOOD, "reference": GOOD, "note": {HALF: [HALF]}, "mark": HALF}]
    scored = assay.score(data, metrics="rouge1_f", keep=["note", "mark"])
    assert (scored[0]["rouge1_f"], scored[0]["note"]) == (1.0, {HALF: [HALF]})
