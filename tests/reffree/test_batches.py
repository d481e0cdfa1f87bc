"""Batches and readers: what is kept of long texts, and who gets which example."""

from collections import Counter
from itertools import chain

import numpy as np
import pytest
from tokenizers import Tokenizer

from reffree import batches
from reffree.batches import count_batches
from reffree.readers import PieceReader, Reading, shares
from tests.reffree.tiny_bert import make_groups, write_tiny_bert


@pytest.fixture(scope="module")
def tokenizer_path(tmp_path_factory):
    return write_tiny_bert(tmp_path_factory.mktemp("bert")) / "tokenizer.json"


@pytest.fixture
def reader(tokenizer_path):
    return make_reader(tokenizer_path)


def make_reader(path, *, max_pieces=24, truncation="longest"):
    return PieceReader(
        Tokenizer.from_file(str(path)), max_pieces=max_pieces, truncation=truncation, padding_id=0
    )


def listed(groups, reader, **options):
    options = {"size": 4, "rng": np.random.default_rng(0)} | options
    return list(batches.batches(groups, reader, **options))


# pieces of document and summary, room, pieces kept worked out by hand
KEPT = [
    pytest.param(10, 5, 15, (10, 5), (10, 5), id="fits"),
    pytest.param(100, 5, 15, (10, 5), (14, 1), id="long-document"),
    pytest.param(5, 100, 15, (5, 10), (1, 14), id="long-summary"),
    pytest.param(100, 100, 15, (8, 7), (7, 8), id="both-long"),
    pytest.param(100, 8, 16, (8, 8), (15, 1), id="summary-of-half"),
    pytest.param(1000, 1, 15, (14, 1), (14, 1), id="summary-of-no-share"),
    pytest.param(1, 1000, 15, (1, 14), (1, 14), id="document-of-no-share"),
]


@pytest.mark.parametrize(("n_document", "n_summary", "room", "longest", "parallel"), KEPT)
def test_shares_by_hand(n_document, n_summary, room, longest, parallel):
    assert shares(n_document, n_summary, room, "longest") == longest
    assert shares(n_document, n_summary, room, "parallel") == parallel


@pytest.mark.parametrize("truncation", ["longest", "parallel"])
def test_shares_fill_the_room_and_no_more(truncation):
    for n_document in range(0, 40, 3):
        for n_summary in range(0, 40, 3):
            kept = shares(n_document, n_summary, 17, truncation)
            assert sum(kept) == min(17, n_document + n_summary)
            assert kept[0] <= n_document
            assert kept[1] <= n_summary


def test_pieces_match_the_tokenizers_own_pairs(reader, tokenizer_path):
    own = Tokenizer.from_file(str(tokenizer_path)).encode("word1 word2", "word3.")
    (reading,) = reader.read(["word1 word2"], ["word3."])
    assert reading.arrays[0].tolist() == own.ids
    assert reading.arrays[1].tolist() == own.type_ids
    assert not reading.is_cut


def test_lead_is_kept_and_the_cut_is_counted(tokenizer_path):
    reader = make_reader(tokenizer_path, max_pieces=9)
    (reading,) = reader.read(["word1 word2 word3 word4 word5 word6 word7"], ["word8 word9"])
    own = Tokenizer.from_file(str(tokenizer_path)).encode("word1 word2 word3 word4", "word8 word9")
    assert reading.arrays[0].tolist() == own.ids
    assert reading.is_cut


def test_every_example_is_in_one_batch(reader):
    groups = make_groups(30)
    made = listed(groups, reader)
    assert Counter(e for batch in made for e in batch.examples) == Counter(
        e for group in groups for e in group
    )
    assert {len(batch.examples) for batch in made} == {4}


def test_ranks_share_a_last_pool_that_is_too_small(monkeypatch, reader):
    monkeypatch.setattr(batches, "POOL_BATCHES", 2)  # 8 examples
    groups = [*make_groups(8), make_groups(1)[0][:1]]
    parts = [listed(groups, reader, rank=rank, n_ranks=2) for rank in range(2)]
    assert Counter(e for part in parts for batch in part for e in batch.examples) == Counter(
        chain.from_iterable(groups)
    )
    assert all(batch.examples for part in parts for batch in part)
    assert len(parts[0]) == len(parts[1]) == 4


class OneReader:
    """Reads every pair alike."""

    def read(self, sources, candidates):
        return [Reading((), 1, is_cut=False)] * len(sources)

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


def test_too_little_room_or_too_many_ranks_rejected(reader, tokenizer_path):
    with pytest.raises(ValueError, match="`max_pieces` must leave room for both texts, got 4"):
        make_reader(tokenizer_path, max_pieces=4)
    with pytest.raises(ValueError, match="got 9 workers and a batch of 2"):
        listed(make_groups(1), reader, rank=0, n_ranks=9)
