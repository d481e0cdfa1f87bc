"""The choice of layers."""

from __future__ import annotations

import re

import pytest

from sms.encoders.layers import LayerChoice


@pytest.mark.parametrize(
    ("text", "numbers", "width"),
    [
        ("last", (6,), 1),
        ("first", (1,), 1),
        ("all", (1, 2, 3, 4, 5, 6), 1),
        ("mean:0..2", (0, 1, 2), 1),
        ("mean:-2..-1", (5, 6), 1),
        ("concat:-1,0,3", (6, 0, 3), 3),
    ],
)
def test_choice_by_hand(text, numbers, width):
    choice = LayerChoice.parse(text, 6)
    assert (choice.numbers, choice.width, choice.highest) == (numbers, width, max(numbers))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mean:0..7", "got 7 in 'mean:0..7'"),
        ("concat:-8", "got -8 in 'concat:-8'"),
        ("mean:3..2", "`layers` must run from a lower to a higher layer, got 'mean:3..2'"),
        ("second", "must be last, first, all, mean:I..J or concat:I,J,..., got 'second'"),
        ("concat:", "got 'concat:'"),
    ],
)
def test_wrong_choice_rejected(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        LayerChoice.parse(text, 6)
