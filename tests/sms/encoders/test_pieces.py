"""Word pieces, by word and by sentence, and windows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from sms.encoders import pieces
from sms.encoders.pieces import PieceCutter, SentencePieces, encodings
from sms.ragged import Ragged

SENTENCES = [
    "The committee met on Tuesday.",
    "it didn't cost $2,000.5 more in U.S. states -- naïve",
    "co\u00adoperate \ufeffhere",
    "東京 is in 日本。",
    "Straßburg",
]


def tokenizer_of(folder) -> Tokenizer:
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def rows(found: SentencePieces) -> list[list[int]]:
    return [found.ids[k].tolist() for k in range(len(found.ids))]


@pytest.mark.parametrize("architecture", ["bert", "roberta", "xlm-roberta"])
def test_pieces_match_the_tokenizer(architecture, tiny_model, as_they_are):
    tokenizer = tokenizer_of(tiny_model(architecture))
    cutter = PieceCutter(tokenizer)
    found = cutter.cut(as_they_are(SENTENCES), np.arange(len(SENTENCES)), 60)
    for row, sentence in zip(rows(found), SENTENCES, strict=True):
        with_ends = [*cutter.prefix.tolist(), *row, *cutter.suffix.tolist()]
        assert with_ends == tokenizer.encode(sentence).ids


def test_cutting_by_sentence_matches_cutting_by_word(tiny_model, as_they_are, monkeypatch):
    cut = as_they_are(SENTENCES)
    wanted = np.array([4, 1, 0, 3])
    by_word = PieceCutter(tokenizer_of(tiny_model("bert"))).cut(cut, wanted, 60)
    monkeypatch.setattr(pieces, "_is_word_local", lambda settings: False)
    by_sentence = PieceCutter(tokenizer_of(tiny_model("bert"))).cut(cut, wanted, 60)
    assert rows(by_word) == rows(by_sentence)
    np.testing.assert_array_equal(by_word.first, by_sentence.first)
    np.testing.assert_array_equal(by_word.count, by_sentence.count)


def windows_of(words: list[list[int]], max_pieces: int) -> list[tuple[int, int, int]]:
    """Cut sentences that are given by the number of pieces of their words."""
    counts = np.array([count for row in words for count in row], dtype=np.int64)
    lengths = np.array([sum(row) for row in words], dtype=np.int64)
    found = SentencePieces(
        Ragged.from_lengths(np.arange(lengths.sum()), lengths), np.cumsum(counts) - counts, counts
    ).windows(max_pieces)
    return list(
        zip(found.sentence.tolist(), found.first.tolist(), found.lengths.tolist(), strict=True)
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param([[2, 3], [1]], [(0, 0, 5), (1, 5, 1)], id="short"),
        pytest.param([[3, 3, 3]], [(0, 0, 3), (0, 3, 3), (0, 6, 3)], id="between-words"),
        pytest.param([[1, 1, 1, 1, 1, 1, 1]], [(0, 0, 5), (0, 5, 2)], id="full-window"),
        pytest.param(
            [[1], [2, 12, 1]],
            [(0, 0, 1), (1, 1, 2), (1, 3, 5), (1, 8, 5), (1, 13, 3)],
            id="word-of-several-windows",
        ),
        pytest.param([[], [4, 2]], [(0, 0, 0), (1, 0, 4), (1, 4, 2)], id="empty-sentence"),
    ],
)
def test_windows_by_hand(words, expected):
    assert windows_of(words, 5) == expected


@given(st.lists(st.lists(st.integers(1, 9), max_size=12), min_size=1, max_size=4))
def test_windows_hold_everything_in_order(words):
    found = windows_of(words, 7)
    for sentence, row in enumerate(words):
        own = [(first, length) for owner, first, length in found if owner == sentence]
        assert sum(length for _, length in own) == sum(row)
        assert all(length <= 7 for _, length in own)
        assert all(length > 0 for _, length in own) or not row
    starts = [first for _, first, _ in found]
    assert starts == sorted(starts)


def test_special_tokens_in_the_middle_rejected():
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "[X]": 1, "b": 2}, unk_token="a"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A [X] $A", special_tokens=[("[X]", 1)]
    )
    with pytest.raises(ValueError, match="special tokens at the ends only"):
        PieceCutter(tokenizer)


def test_sentence_without_pieces_has_one(tiny_model, as_they_are):
    cutter = PieceCutter(tokenizer_of(tiny_model("roberta")))
    cut = as_they_are(["a \u0301"])
    found = cutter.cut(cut, np.arange(1), 60)
    assert (found.count >= 1).all()
    assert (found.first + found.count <= found.ids.offsets[-1]).all()


@pytest.mark.parametrize("architecture", ["bert", "roberta", "xlm-roberta"])
def test_special_pieces_in_a_text_are_letters(architecture, tiny_model):
    tokenizer = tokenizer_of(tiny_model(architecture))
    added = tokenizer.get_added_tokens_decoder().values()
    marks = {token.content for token in added if token.special} - {"[UNK]", "<unk>"}
    found = encodings(tokenizer, [f"The {mark} met." for mark in sorted(marks)])
    numbers = {tokenizer.token_to_id(mark) for mark in marks}
    assert [encoding is None for encoding in found] == [architecture == "xlm-roberta"] * len(marks)
    assert not any(numbers & {*encoding.ids} for encoding in found if encoding is not None)
