"""Batches of sequences: what goes through a model together, and what happens without memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch

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


def test_memory_errors_make_batches_smaller_until_they_go_well(caplog):
    tried, ones = Batches(64, is_padded=False), np.ones(200, dtype=np.int64)
    sizes = [len(batch) for batch in run(tried, ones, room=20)]
    assert (sizes[:4], sum(sizes)) == ([16] * 4, 200)
    assert "out of GPU memory with 64 tokens at once; continuing with at most 32" in caplog.text
    # there is room again, and after each batch of text it is used a little more
    assert [max(map(len, run(tried, ones))) for _ in range(4)] == [16, 32, 64, 64]
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


def test_errors_of_tensorflow_count_and_others_do_not():
    class ResourceExhaustedError(Exception):
        pass

    done: list[int] = []

    def compute(batch: np.ndarray) -> None:
        if batch.size > 1:
            raise error
        done.extend(batch.tolist())

    error = ResourceExhaustedError()
    Batches(4).run(np.ones(4, dtype=np.int64), compute)
    assert sorted(done) == [0, 1, 2, 3]
    error = RuntimeError("another")
    with pytest.raises(RuntimeError, match="another"):
        Batches(4).run(np.ones(4, dtype=np.int64), compute)
