"""Word pieces, by word and by sentence, and windows."""

from __future__ import annotations

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from sms.encoders.pieces import PieceCutter, SentencePieces, read_marks_as_letters
from sms.ragged import Ragged


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
    """Sentences are given by the number of pieces of their words."""
    counts = np.array([count for row in words for count in row], dtype=np.int64)
    lengths = np.array([sum(row) for row in words], dtype=np.int64)
    ids = Ragged.from_lengths(np.arange(lengths.sum()), lengths)
    found = SentencePieces(ids, np.cumsum(counts) - counts, counts).windows(5)
    columns = (found.sentence.tolist(), found.first.tolist(), found.lengths.tolist())
    assert list(zip(*columns, strict=True)) == expected


def test_special_tokens_in_the_middle_rejected():
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "[X]": 1, "b": 2}, unk_token="a"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A [X] $A", special_tokens=[("[X]", 1)]
    )
    with pytest.raises(ValueError, match="special tokens at the ends only"):
        PieceCutter(tokenizer)


MARKS = ["<s>", "</s>", "<pad>", "<unk>", "<mask>", "[SEP]", "<|endoftext|>", "<think>", "<0x0A>"]
LETTERS = [chr(code) for code in range(33, 127)]


def with_marks(kind: str) -> Tokenizer:
    """A tokeniser of single letters that has the marks among its own pieces."""
    pieces = [*MARKS, *LETTERS, "▁", "Ġ", *(f"##{letter}" for letter in LETTERS)]
    numbers = {piece: number for number, piece in enumerate(pieces)}
    if kind == "wordpiece":
        tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="<unk>"))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        tokenizer.decoder = decoders.WordPiece(cleanup=False)
    elif kind == "bpe":
        tokenizer = Tokenizer(models.BPE(numbers, [], ignore_merges=True))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.decoder = decoders.ByteLevel()
    else:
        scores = [(piece, 0.0 if piece in MARKS else -3.0) for piece in pieces]
        tokenizer = Tokenizer(models.Unigram(scores, unk_id=MARKS.index("<unk>")))
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(MARKS[:-2])
    tokenizer.add_tokens(["<think>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    return tokenizer


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_marks_in_a_text_are_letters(kind):
    tokenizer = with_marks(kind)
    plain = ["The committee didn't agree on $2,000.5 -- naïve.", "x < y / s > [SEPT] <|end", "<S>"]
    expected = [tokenizer.encode(text).ids for text in plain]
    for _ in range(2):
        read_marks_as_letters(tokenizer)
    assert [tokenizer.encode(text).ids for text in plain] == expected
    for mark in MARKS:
        for text in (mark, f"He {mark} said {mark}{mark}.", f"a{mark}b [{mark}"):
            first, *ids, last = tokenizer.encode(text).ids
            assert (first, last) == (0, 1)
            assert not set(ids) & set(range(len(MARKS)))
            letters = tokenizer.decode(ids, skip_special_tokens=False)
            assert letters.replace(" ", "") == text.replace(" ", "")
    assert tokenizer.token_to_id("</s>") == 1
