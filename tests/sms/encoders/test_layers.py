"""The choice of layers, linear layers by either library, and values that are kept for a while."""

from __future__ import annotations

import re

import pytest
import torch

from sms.encoders.layers import LayerChoice, Linear, has_onednn, speed_up
from sms.encoders.vector_cache import Recent


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
    ],
)
def test_wrong_choice_rejected(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        LayerChoice.parse(text, 6)


def test_model_with_fast_layers_computes_the_same():
    torch.manual_seed(0)
    inner = torch.nn.Sequential(torch.nn.Linear(8, 3, bias=False))
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), inner)
    x = torch.randn(5, 6)
    with torch.inference_mode():
        expected = model(x)
        kind = Linear if has_onednn(model[0].weight) else torch.nn.Linear
        speed_up(model)
        torch.testing.assert_close(model(x), expected)
        torch.testing.assert_close(model(x[None]), expected[None])  # as batches of sequences
    assert type(model[0]) is type(model[2][0]) is kind


def test_oldest_values_are_forgotten_first():
    recent: Recent[str] = Recent(len)
    recent.add({"a": "xx", "b": "xx"}, 5)
    assert recent["a"] == "xx"  # used, so that `b` is older
    recent.add({"c": "xx"}, 5)
    assert recent.missing(["a", "b", "c"]) == [1]
    assert (len(recent), recent.n_bytes) == (2, 4)
