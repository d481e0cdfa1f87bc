"""Batches: every example in one batch of one rank, and how many batches there are."""

from collections import Counter
from itertools import chain

import numpy as np
import pytest

from reffree.neural import batches
from reffree.neural.batches import count_batches
from reffree.neural.readers import Reading
from tests.reffree.conftest import make_reader
from tests.reffree.tiny_bert import make_groups


@pytest.mark.parametrize("n_ranks", [1, 2])
def test_every_example_is_in_one_batch_of_one_rank(n_ranks, monkeypatch, tokenizer_path):
    monkeypatch.setattr(batches, "POOL_BATCHES", 2)  # 8 examples
    groups = [*make_groups(8), make_groups(1)[0][:1]]  # too few for a last pool of two ranks
    reader = make_reader(tokenizer_path)
    parts = [listed(groups, reader, rank=rank, n_ranks=n_ranks) for rank in range(n_ranks)]
    examples = [e for part in parts for batch in part for e in batch.examples]
    assert Counter(examples) == Counter(chain.from_iterable(groups))
    assert all(batch.examples for part in parts for batch in part)
    assert {len(part) for part in parts} == {5 if n_ranks == 1 else 4}


class OneReader:
    """Reads every pair alike."""

    def read(self, sources, candidates):
        return [Reading((), 1, (False, False))] * len(sources)

    def collate(self, readings):
        return {}


@pytest.mark.parametrize("n_ranks", [1, 2])
@pytest.mark.parametrize("n_examples", [1, 3, 5])
def test_count_is_that_of_the_batches(monkeypatch, n_examples, n_ranks):
    monkeypatch.setattr(batches, "POOL_BATCHES", 3)
    group = (make_groups(1)[0] * 3)[:n_examples]
    options = {"size": 12, "n_ranks": n_ranks}
    for n_groups in range(2, 40):
        made = listed([group] * n_groups, OneReader(), rank=0, **options)
        assert count_batches(n_groups * n_examples, **options) == len(made)


def listed(groups, reader, **options):
    options = {"size": 4, "rng": np.random.default_rng(0)} | options
    return list(batches.batches(groups, reader, **options))


def test_too_many_ranks_rejected():
    with pytest.raises(ValueError, match="got 9 workers and a batch of 2"):
        listed(make_groups(1), OneReader(), rank=0, n_ranks=9)
