"""Word pieces, by word and by sentence, and windows."""

from __future__ import annotations

from operator import attrgetter

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from sms.encoders import pieces
from sms.encoders.hugging_face import load_tokenizer
from sms.encoders.pieces import PieceCutter, SentencePieces, read_marks_as_letters
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


@pytest.mark.parametrize("architecture", ["bert", "roberta", "xlm-roberta"])
def test_pieces_match_the_tokenizer(architecture, tiny_model, as_they_are):
    tokenizer = tokenizer_of(tiny_model(architecture))
    cutter = PieceCutter(tokenizer)
    found = cutter.cut(as_they_are(SENTENCES), np.arange(len(SENTENCES)), 60)
    for k, sentence in enumerate(SENTENCES):
        with_ends = [*cutter.prefix, *found.ids[k], *cutter.suffix]
        assert with_ends == tokenizer.encode(sentence).ids


def test_cutting_by_sentence_matches_cutting_by_word(tiny_model, as_they_are, monkeypatch):
    cut = as_they_are(SENTENCES)
    wanted = np.array([4, 1, 0, 3])
    by_word = PieceCutter(tokenizer_of(tiny_model("bert"))).cut(cut, wanted, 60)
    monkeypatch.setattr(pieces, "_is_word_local", lambda settings: False)
    by_sentence = PieceCutter(tokenizer_of(tiny_model("bert"))).cut(cut, wanted, 60)
    for name in ("ids.values", "ids.offsets", "first", "count"):
        get = attrgetter(name)
        np.testing.assert_array_equal(get(by_word), get(by_sentence))


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


def test_sentence_without_pieces_has_one(tiny_model, as_they_are):
    cutter = PieceCutter(tokenizer_of(tiny_model("roberta")))
    cut = as_they_are(["a \u0301"])
    found = cutter.cut(cut, np.arange(1), 60)
    assert (found.count >= 1).all()
    assert (found.first + found.count <= found.ids.offsets[-1]).all()


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
    plain = [*SENTENCES[:2], "x < y / s > [SEPT] <|end", "<S>"]
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


@pytest.mark.parametrize("architecture", ["bert", "roberta", "xlm-roberta"])
def test_loaded_tokenizer_reads_marks_as_letters(architecture, tiny_model):
    loaded = load_tokenizer(tiny_model(architecture))
    own = tokenizer_of(tiny_model(architecture))
    assert loaded(SENTENCES)["input_ids"] == [own.encode(text).ids for text in SENTENCES]
    for mark in MARKS:
        first, *ids, last = loaded(f"The {mark} committee met.")["input_ids"]
        assert (first, last) == (loaded.cls_token_id, loaded.sep_token_id)
        assert not {*ids} & {*loaded.all_special_ids} - {loaded.unk_token_id}
        assert ids[-3:] == loaded("committee met.")["input_ids"][-4:-1]
