"""What models read of a pair: pieces and sentences that are kept, and what is cut."""

from dataclasses import replace

import numpy as np
import pytest
from tokenizers import Tokenizer

from reffree.neural.readers import VectorReader, shares
from sms.encoders.registry import load_encoder
from tests.reffree.conftest import make_reader
from tests.sms.scoring_cases import glove_file


@pytest.mark.parametrize("truncation", ["longest", "parallel"])
def test_shares_fill_the_room_and_no_more(truncation):
    for n_document in range(0, 40, 3):
        for n_summary in range(0, 40, 3):
            kept = shares(n_document, n_summary, 17, truncation)
            assert sum(kept) == min(17, n_document + n_summary)
            assert kept[0] <= n_document
            assert kept[1] <= n_summary


@pytest.mark.parametrize("n_words", [4, 7])
def test_pieces_match_the_tokenizers_own_pairs_of_the_lead(n_words, tokenizer_path):
    document = " ".join(f"word{k}" for k in range(n_words))
    (reading,) = make_reader(tokenizer_path, 9).read([document], ["word8 word9"])
    expected = Tokenizer.from_file(tokenizer_path).encode("word0 word1 word2 word3", "word8 word9")
    assert [array.tolist() for array in reading.arrays] == [expected.ids, expected.type_ids]
    assert reading.cut == (False, n_words > 4)


def test_what_an_encoder_cuts_is_cut(tmp_path):
    glove = load_encoder(glove_file(tmp_path / "v.txt", {"cat": [1.0, 2.0], "dog": [2.0, 1.0]}))

    class ShortSighted:
        """Reads ten letters of a sentence, as it says."""

        unit = "sentence"

        def encode(self, texts):
            is_cut = np.array([len(sentence) > 10 for sentence in texts.sentences])
            return replace(glove.encode(texts), is_cut=is_cut)

    reader = VectorReader(ShortSighted(), unit="sentences", lengths=(2, 1))
    long, short = "A cat. One dog and another.", "A cat."
    pairs = [(long, short), (short, long), (short, short), ("A cat. A dog. A cat.", short)]
    for _ in range(2):  # the texts are remembered
        readings = reader.read(*zip(*pairs, strict=True))
        assert [reading.cut for reading in readings] == [
            (False, True), (True, False), (False, False), (False, True),
        ]  # fmt: skip


# pieces of document and summary, room, pieces kept worked out by hand
KEPT = [
    pytest.param(10, 5, 15, (10, 5), (10, 5), id="fits"),
    pytest.param(100, 5, 15, (10, 5), (14, 1), id="long-document"),
    pytest.param(5, 100, 15, (5, 10), (1, 14), id="long-summary"),
    pytest.param(100, 100, 15, (8, 7), (7, 8), id="both-long"),
    pytest.param(1000, 1, 15, (14, 1), (14, 1), id="summary-of-no-share"),
    pytest.param(1, 1000, 15, (1, 14), (1, 14), id="document-of-no-share"),
]


@pytest.mark.parametrize(("n_document", "n_summary", "room", "longest", "parallel"), KEPT)
def test_shares_by_hand(n_document, n_summary, room, longest, parallel):
    assert shares(n_document, n_summary, room, "longest") == longest
    assert shares(n_document, n_summary, room, "parallel") == parallel


def test_too_little_room_rejected(tokenizer_path):
    with pytest.raises(ValueError, match="`max_pieces` must leave room for both texts, got 4"):
        make_reader(tokenizer_path, max_pieces=4)
