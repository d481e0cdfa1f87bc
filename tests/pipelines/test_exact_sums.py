"""Sums that do not depend on order or grouping."""

import json
import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from pipelines.runs.exact_sums import ScoreSums

NUMBERS = st.lists(st.floats(-1e12, 1e12), max_size=30)


def sums_of(numbers):
    made = ScoreSums()
    for number in numbers:
        made.add("s", "sms", 1, [number])
    return made


def mean_of(numbers):
    return sums_of(numbers).means()["s"]["sms"]


def test_mean_by_hand():
    """In floating point 1e16 + 1 is 1e16."""
    assert mean_of([1e16, 1.0, -1e16, 1.0]) == 0.5
    assert mean_of([1.0, math.inf, 2.0]) == math.inf


def test_systems_are_sorted_and_a_number_may_stand_for_several():
    sums = ScoreSums()
    sums.add("b", "sms", 3, [6.0])
    sums.add("b", "sms", 1, [0.0])
    sums.add("a", "sms", 0, [])
    (a, of_a), (b, of_b) = sums.means().items()
    assert (a, b, of_b) == ("a", "b", {"sms": 1.5})
    assert math.isnan(of_a["sms"])


@given(NUMBERS, st.integers(0, 30), st.randoms())
def test_sum_is_exact_whatever_the_order_the_grouping_and_json(numbers, cut, random):
    whole, shuffled = sums_of([0.0, *numbers]), numbers.copy()
    count, *parts = whole.totals["s"]["sms"]
    assert count == len(numbers) + 1
    assert sum(map(Fraction, parts)) == sum(map(Fraction, numbers))
    random.shuffle(shuffled)
    grouped, rest = sums_of([0.0, *shuffled[:cut]]), sums_of([0.0, *shuffled[cut:]]).totals
    n, *values = json.loads(json.dumps(rest))["s"]["sms"]
    grouped.add("s", "sms", n - 1, values)
    assert repr(grouped.means()) == repr(whole.means())
