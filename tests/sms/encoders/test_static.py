"""Static vectors: files written in each real format, damaged files, look-up and pooling."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sms.encoders import EncodedSentences
from sms.encoders.registry import load_encoder
from sms.encoders.static import StaticEncoder, load_static
from sms.encoders.word_table import WordTable
from sms.text import Segmenter

WORDS = ["cat", "dog", "Paris", "£", "naïve", "東京"]
VECTORS = np.array(
    [
        [1.0, -2.5, 0.125],
        [0.0, 1e-3, 4.0],
        [-1.5, 0.25, 3.5e2],
        [7.0, 8.0, 9.0],
        [0.1, 0.2, 0.3],
        [-0.1, 1.0, 1.0],
    ],
    dtype=np.float32,
)


def lines_of(words: list[str], vectors: np.ndarray, end: str = "\n") -> str:
    return "".join(
        f"{word} {' '.join(repr(float(value)) for value in row)}{end}"
        for word, row in zip(words, vectors, strict=True)
    )


def binary(newline: bytes) -> bytes:
    """The original tool writes a newline after each vector, gensim does not."""
    return HEADER + b"".join(
        word.encode() + b" " + struct.pack("<3f", *row) + newline
        for word, row in zip(WORDS, VECTORS.tolist(), strict=True)
    )


HEADER = f"{len(WORDS)} 3\n".encode()
GLOVE = lines_of(WORDS, VECTORS).encode()
FASTTEXT = HEADER + lines_of(WORDS, VECTORS, end=" \n").encode()  # as the tool ends every line
FILES = [
    pytest.param("glove", "vectors.txt", GLOVE, id="glove"),
    pytest.param("word2vec", "vectors.txt", HEADER + GLOVE, id="word2vec-text"),
    pytest.param("word2vec", "gensim.bin", binary(b""), id="word2vec-binary"),
    pytest.param("word2vec", "original.bin", binary(b"\n"), id="word2vec-binary-newlines"),
    pytest.param("fasttext", "vectors.vec", FASTTEXT, id="fasttext"),
]


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def vectors_of(encoder: StaticEncoder, words: list[str]) -> np.ndarray:
    """The vector of each word, through `encode`, one sentence per word."""
    encoded = encode(encoder, *words)
    assert encoded.n_known.tolist() == [1] * len(words)
    return encoded.word_points[encoded.sentence_words.values]


def encode(encoder: StaticEncoder, *texts: str) -> EncodedSentences:
    """Encode texts that are one sentence each, the sentences numbered in that order."""
    cut = Segmenter().segment(pa.array(texts))
    numbers = cut.text_sentences.values
    assert [cut.sentences[number] for number in numbers] == list(texts)
    return encoder.encode(replace(cut, sentence_words=cut.sentence_words.take(numbers)))


# Formats


@pytest.mark.parametrize(("file_format", "name", "content"), FILES)
def test_vectors_are_the_numbers_written(file_format, name, content, tmp_path):
    encoder = load_static(written(tmp_path / name, content), file_format)
    rows = encoder.rows_of(WORDS).tolist()
    assert rows == list(range(len(WORDS)))
    words = ["cat", "dog", "Paris", "naïve"]
    expected = VECTORS[[WORDS.index(word) for word in words]]
    np.testing.assert_array_equal(vectors_of(encoder, words), expected)
    assert f"{len(WORDS)}x3" in encoder.signature


@pytest.mark.parametrize("end", ["\n", "\r\n", " \n", "\t\n"])
def test_line_ends_do_not_matter(end, tmp_path):
    path = written(tmp_path / "glove.txt", lines_of(WORDS, VECTORS, end=end).encode())
    words = ["cat", "naïve"]
    np.testing.assert_array_equal(vectors_of(load_static(path, "glove"), words), VECTORS[[0, 4]])


# content, a word and its vector
ODD_WORDS = [
    pytest.param(b"cat 1 2\ncat 3 4\ndog 5 6\n", [1.0, 2.0], id="first-of-repeated-words"),
    pytest.param(b"caf\xe9 1 2\ncat 3 4\n", [3.0, 4.0], id="no-utf8"),
    pytest.param(b"\xef\xbb\xbfcat 1 2\ndog 3 4\n", [1.0, 2.0], id="byte-order-mark"),
    pytest.param(b"cat  1 2\ndog 3 4\n", [1.0, 2.0], id="two-spaces"),
    pytest.param(b" cat 1 2\ndog 3 4\n", [1.0, 2.0], id="space-before"),
]


@pytest.mark.parametrize(("content", "vector"), ODD_WORDS)
def test_odd_words_spoil_no_other(content, vector, tmp_path):
    encoder = load_static(written(tmp_path / "glove.txt", content), "glove")
    np.testing.assert_array_equal(vectors_of(encoder, ["cat"]), [vector])


def test_words_with_spaces(tmp_path):
    # glove.840B.300d has ". . ." and "at name@domain.com" among its words
    path = tmp_path / "glove.840B.txt"
    words = ["cat", ". . .", "at name@domain.com", "1 2", "dog"]
    path.write_text(lines_of(words, VECTORS[:5]), encoding="utf-8")
    encoder = load_static(path, "glove")
    assert encoder.rows_of(words).tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(vectors_of(encoder, ["cat", "dog"]), VECTORS[[0, 4]])


# Damaged files: message with path and line

# file format, content, message after the path
DAMAGED = [
    pytest.param("glove", "", " must hold vectors, got an empty file", id="empty"),
    pytest.param("word2vec", "", " line 1 must be `number-of-words", id="empty-word2vec"),
    pytest.param("glove", "cat\n", " line 1 must be a word and its values, got 'cat'", id="bare"),
    pytest.param(
        "glove",
        "cat 1 2\ndog 1\nhen 1 2\n",
        " line 2 must be a word and 2 finite values, got 'dog 1'",
        id="too-few",
    ),
    pytest.param(
        "glove", "cat 1 2\nhen 3 4\ndog 1 2 x\n", " line 3 must be a word and 2", id="not-a-number"
    ),
    pytest.param(
        "glove", "cat 1 2\ndog 1\nhen 1 2 3\n", " line 2 must be a word and 2", id="slips-by-a-line"
    ),
    pytest.param("glove", "cat 1 2\ndog nan 1\n", " line 2 must be a word and 2", id="nan"),
    pytest.param("glove", "cat 1 2\ndog 1_0 1\n", " line 2 must be a word and 2", id="underscore"),
    pytest.param("glove", "cat 1 2\ndog 1 2", None, id="whole"),
    pytest.param(
        "word2vec",
        "2 2\ncat 1 2 3\ndog 1 2 3\n",
        " must have 2 values in a line",
        id="header-of-less",
    ),
    pytest.param(
        "glove",
        "2 300\ncat 1 2\n",
        " line 1 looks like a header, got '2 300'; read the file with `word2vec:` or `fasttext:`",
        id="header-given-to-glove",
    ),
    pytest.param(
        "fasttext",
        "cat 1 2\ndog 1 2\n",
        " line 1 must be `number-of-words dimension`, got 'cat 1 2'; a file without a header",
        id="no-header-given-to-fasttext",
    ),
    pytest.param(
        "word2vec",
        "1 2\ncat 1 2\ndog 1 2\n",
        " must hold 1 vectors by its first line, got 2",
        id="more-than-the-header-says",
    ),
    pytest.param(
        "fasttext", "5 2\n", " must hold 5 vectors by its first line, got 0", id="bare-header"
    ),
    pytest.param(
        "fasttext",
        "2 0\ncat\ndog\n",
        " line 1 must be `number-of-words dimension`, got '2 0'",
        id="no-dimension",
    ),
]


@pytest.mark.parametrize(("file_format", "content", "message"), DAMAGED)
def test_damaged_file_rejected(file_format, content, message, tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text(content)
    if message is None:
        load_static(path, file_format)
        return
    with pytest.raises(ValueError, match=re.escape(f"`{path}`{message}")):
        load_static(path, file_format)


def test_line_number_beyond_the_first_block(tmp_path, monkeypatch):
    monkeypatch.setattr("sms.encoders.static._BLOCK_BYTES", 16)
    path = tmp_path / "vectors.txt"
    path.write_text("".join(f"w{k} 1 2\n" for k in range(20)) + "bad 1 x\n")
    with pytest.raises(ValueError, match=r"line 21 must be a word and 2 finite values"):
        load_static(path, "glove")


@pytest.mark.parametrize("file_format", ["glove", "word2vec", "fasttext"])
def test_missing_file_rejected(file_format, tmp_path):
    path = tmp_path / "none.txt"
    with pytest.raises(ValueError, match=re.escape(f"no vector file at `{path}`; check the path")):
        load_encoder(f"{file_format}:{path}")


WRONG_BINARY = [
    *(
        pytest.param(binary(newline)[:-n_cut], " must hold 6 vectors of 3", id=f"cut-{n_cut}")
        for newline in (b"", b"\n")
        for n_cut in (5, 13)
    ),
    pytest.param(binary(b"\n") + b"more " + bytes(12), " must hold 6 vectors", id="longer"),
    pytest.param(
        b"2 2\ncat " + struct.pack("<2f", 1, 2) + b"dog " + struct.pack("<2f", np.nan, 1),
        " vector 2 must be finite",
        id="nan",
    ),
    pytest.param(
        b"99999999999 300\ncat " + bytes(1200), " must hold 99999999999", id="absurd-header"
    ),
]


@pytest.mark.parametrize(("content", "message"), WRONG_BINARY)
def test_wrong_binary_rejected(content, message, tmp_path):
    path = written(tmp_path / "wrong.bin", content)
    with pytest.raises(ValueError, match=re.escape(f"`{path}`{message}")):
        load_static(path, "word2vec")


# Looking words up


def simple(**options) -> StaticEncoder:
    words = ["cat", "Cat", "dog", "20", "Paris"]
    return StaticEncoder(
        WordTable.of(words, np.eye(5, 3, dtype=np.float32) + 1), name="test", **options
    )


@pytest.mark.parametrize(
    ("word", "row"),
    [
        ("cat", 0),
        ("Cat", 1),  # as it stands first
        ("CAT", 0),  # then lower-cased
        ("DOG", 2),
        ("£20", 3),  # then without symbols at its ends
        ("DOG™", 2),
        ("paris", -1),  # never upper-cased
        ("hen", -1),
    ],
)
def test_lookup_order(word, row):
    assert simple().rows_of([word]).tolist() == [row]


def test_unknown_words_dropped_and_counted():
    encoded = encode(simple(), "The cat and the unicorn saw a dog.", "Unicorns here.")
    assert encoded.n_kept.tolist() == [4, 1]  # cat, unicorn, saw, dog; here is a stop word
    assert encoded.n_known.tolist() == [2, 0]
    assert encoded.weights.tolist() == [2, 0]
    assert encoded.sentence_words[0].tolist() == [0, 2]
    assert encoded.sentence_words[1].size == 0


def test_unknown_words_kept_as_zero():
    encoded = encode(simple(zero_unknown=True), "The cat and the unicorn saw a dog.")
    assert encoded.n_known.tolist() == [2]
    assert encoded.weights.tolist() == [4]
    vectors = encoded.word_points[encoded.sentence_words.values]
    np.testing.assert_array_equal(vectors[[1, 2]], 0.0)
    np.testing.assert_allclose(encoded.sentence_points, vectors.sum(axis=0, keepdims=True) / 4)


# Pooling


@pytest.mark.parametrize(("pooling", "pooled"), [("mean", [5 / 3, 3.0]), ("max", [3.0, 5.0])])
def test_pooling_by_hand(pooling, pooled):
    table = np.array([[1.0, 5.0], [3.0, -1.0], [9.0, 9.0]], dtype=np.float32)
    encoder = StaticEncoder(
        WordTable.of(["cat", "dog", "the"], table), name="test", pooling=pooling
    )
    encoded = encode(encoder, "The cat, cat dog.", "Nothing known")
    np.testing.assert_allclose(encoded.sentence_points[0], [5 / 3, 3.0], rtol=1e-15)
    np.testing.assert_allclose(encoded.pooled[0], pooled, rtol=1e-15)
    assert encoded.weights.tolist() == encoded.pooled_weights.tolist() == [3, 0]


def test_word_order_changes_no_bit():
    rng = np.random.default_rng(7)
    words = [f"w{k}" for k in range(50)]
    table = WordTable.of(words, rng.normal(size=(50, 20)).astype(np.float32))
    encoder = StaticEncoder(table, name="test")
    chosen = rng.integers(0, 50, 40)
    straight = encode(encoder, " ".join(words[k] for k in chosen))
    shuffled = encode(encoder, " ".join(words[k] for k in rng.permutation(chosen)))
    np.testing.assert_array_equal(straight.sentence_points, shuffled.sentence_points)


def test_hash_follows_the_content(tmp_path):
    hashes = [
        load_static(written(tmp_path / name, content), "glove").content_hash
        for name, content in (("a", GLOVE), ("b", GLOVE), ("c", b"cat 1 2 3\n"))
    ]
    assert hashes[0] == hashes[1] != hashes[2]


def test_two_encoders_share_a_vocabulary():
    segmented = Segmenter().segment(pa.array(["cat dog"]))
    first = StaticEncoder(WordTable.of(["cat"], np.ones((1, 2), np.float32)), name="a")
    second = StaticEncoder(WordTable.of(["dog", "cat"], np.ones((2, 2), np.float32)), name="b")
    assert first.encode(segmented).sentence_words[0].tolist() == [0]
    assert second.encode(segmented).sentence_words[0].tolist() == [1, 0]


# Real files


@pytest.mark.data
@pytest.mark.parametrize(
    ("file_format", "name", "n_words", "dimension"),
    [
        ("glove", "glove.50d.2987.txt", 2987, 50),
        ("word2vec", "word2vec.10d.2747.bin", 2747, 10),
        ("fasttext", "fasttext.10d.1762.vec", 1762, 10),
    ],
)
def test_real_file_loads(file_format, name, n_words, dimension, data_dir):
    path = data_dir / name
    if not path.is_file():
        pytest.skip(f"no file at {path}")
    encoder = load_static(path, file_format)
    assert f"-{n_words}x{dimension}|" in encoder.signature
