"""Batches of sequences: what goes through a model together, and what happens without memory."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch

from sms.encoders import EncoderRuntime, batches, bert
from sms.encoders.batches import Batches, ShortOfMemory
from sms.encoders.bert import load_minilm
from tests.sms.encoders.conftest import cut_as_they_are

LONG_AND_SHORT = np.array([512, *[5] * 307])
"""2,047 tokens; padded to the longest one they take 157,696 places."""


def run(batches: Batches, lengths: np.ndarray, room: float = np.inf) -> list[list[int]]:
    """Return the batches that fit into a made-up memory of so many tokens."""
    done: list[list[int]] = []

    def compute(batch: np.ndarray) -> None:
        if lengths[batch].sum() > room:
            raise torch.OutOfMemoryError
        done.append(batch.tolist())

    batches.run(lengths, compute)
    return done


def places(lengths: np.ndarray, batch: list[int]) -> int:
    return int(lengths[batch].max()) * len(batch)


# lengths, most places, whether padded, batches by hand
BY_HAND = [
    pytest.param([2, 9, 3, 2], 6, True, [[1], [2, 0], [3]], id="padded"),
    pytest.param([2, 9, 3, 2], 7, False, [[1], [2, 0, 3]], id="packed"),
    pytest.param([2, 9, 3, 2], 12, False, [[1, 2], [0, 3]], id="filled-to-the-last-place"),
    pytest.param([], 6, True, [], id="nothing"),
    pytest.param([0, 0], 1, True, [[0], [1]], id="no-tokens"),
]


@pytest.mark.parametrize(("lengths", "most", "is_padded", "expected"), BY_HAND)
def test_batches_by_hand(lengths, most, is_padded, expected):
    found = run(Batches(most, is_padded=is_padded), np.array(lengths, dtype=np.int64))
    assert found == expected


def test_padded_places_obey_the_budget():
    found = run(Batches(2_048), LONG_AND_SHORT)
    assert sorted(k for batch in found for k in batch) == list(range(LONG_AND_SHORT.size))
    assert max(places(LONG_AND_SHORT, batch) for batch in found) <= 2_048
    packed = run(Batches(2_048, is_padded=False), LONG_AND_SHORT)
    assert len(packed) == 1
    assert places(LONG_AND_SHORT, packed[0]) > 75 * 2_048  # what a padding model must not be given


@pytest.mark.parametrize("is_padded", [True, False])
def test_bert_encoder_counts_places_as_its_model_does(is_padded, monkeypatch):
    monkeypatch.setitem(bert.BLOCK_TOKENS, "cpu", 64)
    monkeypatch.setattr("sms.encoders.packed_model.PackedModel.is_padded", is_padded)
    encoder = load_minilm(runtime=EncoderRuntime(device="cpu"))
    seen: list[np.ndarray] = []
    states = encoder._model.states

    def watched(ids: np.ndarray, lengths: np.ndarray) -> torch.Tensor:
        seen.append(lengths)
        return states(ids, lengths)

    encoder._model.states = watched
    encoder.encode(cut_as_they_are(["word " * 40 + "end", *(f"Word {k}" for k in range(40))]))
    most = max(int(lengths[0]) * lengths.size for lengths in seen)
    assert (most <= 64) == is_padded
    assert max(int(lengths.sum()) for lengths in seen) <= 64


def test_memory_errors_make_batches_smaller_and_success_larger_again(monkeypatch, caplog):
    monkeypatch.setattr(batches, "WELL_BEFORE_LARGER", 4)
    tried = Batches(64, is_padded=False)
    ones = np.ones(200, dtype=np.int64)
    sizes = [len(batch) for batch in run(tried, ones, room=20)]
    assert sizes[:4] == [16] * 4
    assert sum(sizes) == 200
    assert "out of GPU memory with 64 tokens at once; going on with at most 32" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        sizes = [len(batch) for batch in run(tried, np.ones(4_000, dtype=np.int64))]
    assert max(sizes) == 64  # there is room again
    assert not caplog.records


def test_larger_batches_are_tried_less_and_less_often(monkeypatch, caplog):
    monkeypatch.setattr(batches, "WELL_BEFORE_LARGER", 2)
    run(Batches(32, is_padded=False), np.ones(8_000, dtype=np.int64), room=20)
    assert 2 <= len(caplog.records) <= 10  # of some 500 batches


def test_no_memory_for_one_sequence_is_an_error():
    with pytest.raises(ShortOfMemory, match="with a single sequence of 30 tokens; give"):
        run(Batches(64), np.array([30, 3]), room=20)


def test_one_run_inside_another_makes_the_outer_one_smaller():
    outer, inner, done = Batches(8), Batches(8), []

    def compute(batch: np.ndarray) -> None:
        if batch.size > 2:
            inner.run(np.array([100]), lambda _: run(Batches(1), np.array([30]), room=20))
        done.extend(batch.tolist())

    outer.run(np.ones(8, dtype=np.int64), compute)
    assert sorted(done) == list(range(8))


def test_errors_of_other_libraries_count_where_they_are_named():
    class Exhausted(Exception):
        pass

    done: list[int] = []

    def compute(batch: np.ndarray) -> None:
        if batch.size > 1:
            raise Exhausted
        done.extend(batch.tolist())

    Batches(4, shortages=(Exhausted,)).run(np.ones(4, dtype=np.int64), compute)
    assert sorted(done) == [0, 1, 2, 3]
    with pytest.raises(Exhausted):
        Batches(4).run(np.ones(4, dtype=np.int64), compute)
