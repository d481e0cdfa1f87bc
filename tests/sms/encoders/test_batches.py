"""Batches of sequences: what goes through a model together, and what happens without memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sms.encoders import batches
from sms.encoders.batches import Batches, ShortOfMemory


def run(batches: Batches, lengths: np.ndarray, room: float = np.inf) -> list[list[int]]:
    """Return the batches that fit into a made-up memory of so many tokens."""
    done: list[list[int]] = []

    def compute(batch: np.ndarray) -> None:
        if lengths[batch].sum() > room:
            raise torch.OutOfMemoryError
        done.append(batch.tolist())

    batches.run(lengths, compute)
    return done


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


def test_memory_errors_make_batches_smaller(caplog):
    tried = Batches(64, is_padded=False)
    sizes = [len(batch) for batch in run(tried, np.ones(200, dtype=np.int64), room=20)]
    assert (sizes[:4], sum(sizes)) == ([16] * 4, 200)
    assert "out of GPU memory with 64 tokens at once; going on with at most 32" in caplog.text
    caplog.clear()
    run(tried, np.ones(200, dtype=np.int64), room=20)
    assert not caplog.records  # what was learnt is kept


def test_batches_grow_again_but_are_tried_less_and_less_often(monkeypatch, caplog):
    monkeypatch.setattr(batches, "WELL_BEFORE_LARGER", 2)
    tried = Batches(64, is_padded=False)
    run(tried, np.ones(8_000, dtype=np.int64), room=20)
    assert 3 <= len(caplog.records) <= 12  # of some 500 batches
    sizes = [len(batch) for batch in run(tried, np.ones(80_000, dtype=np.int64))]
    assert max(sizes) == 64  # there is room again


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
