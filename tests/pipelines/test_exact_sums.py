"""Sums that do not depend on order or grouping."""

import json
import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from pipelines.runs.exact_sums import ExactSum, ScoreSums

NUMBERS = st.lists(st.floats(-1e12, 1e12), max_size=30)


def sum_of(numbers):
    made = ExactSum()
    for number in numbers:
        made.add(number)
    return made


def test_mean_by_hand():
    """In floating point 1e16 + 1 is 1e16."""
    assert sum_of([1e16, 1.0, -1e16, 1.0]).mean() == 0.5
    assert math.isnan(ExactSum().mean())


def test_number_that_stands_for_several():
    made = ExactSum()
    made.add(6.0, 3)
    made.add(0.0, 1)
    assert (made.mean(), made.count) == (1.5, 4)


@given(NUMBERS)
def test_parts_sum_to_the_exact_sum(numbers):
    assert sum(map(Fraction, sum_of(numbers).parts)) == sum(map(Fraction, numbers))


@given(NUMBERS, st.integers(0, 30), st.randoms())
def test_mean_does_not_depend_on_order_or_grouping(numbers, cut, random):
    shuffled = numbers.copy()
    random.shuffle(shuffled)
    grouped = sum_of(shuffled[:cut])
    grouped.merge(sum_of(shuffled[cut:]))
    assert grouped.count == len(numbers)
    assert repr(grouped.mean()) == repr(sum_of(numbers).mean())


def test_infinite_score_gives_an_infinite_mean():
    assert sum_of([1.0, math.inf, 2.0]).mean() == math.inf


@given(NUMBERS)
def test_sums_survive_json(numbers):
    sums = ScoreSums()
    for number in numbers:
        sums.add({"s": {"sms": number}}, {"s": {"sms": 1}})
    again = ScoreSums.from_json(json.loads(json.dumps(sums.to_json())))
    assert repr(again.means()) == repr(sums.means())


def test_systems_are_sorted_and_kept_apart():
    sums, others = ScoreSums(), ScoreSums()
    sums.add({"b": {"sms": 1.0}}, {"b": {"sms": 2}})
    others.add({"a": {"sms": 3.0}, "b": {"sms": 1.0}}, {"a": {"sms": 1}, "b": {"sms": 2}})
    sums.merge(others)
    assert list(sums.means().items()) == [("a", {"sms": 3.0}), ("b", {"sms": 0.5})]
