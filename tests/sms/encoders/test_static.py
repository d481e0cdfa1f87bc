"""Static vectors: files in each real format, damaged files, look-up, pooling, the shared table."""

from __future__ import annotations

import mmap
import re
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sms.encoders import EncodedSentences, static
from sms.encoders.registry import load_encoder
from sms.encoders.static import StaticEncoder, WordTable
from sms.text import Segmenter
from tests.sms.encoders.conftest import as_they_are

# glove.840B.300d has ". . ." and "at name@domain.com" among its words
WORDS = ["cat", "dog", "Paris", "£", "naïve", "東京", ". . .", "at name@domain.com", "1 2"]
VECTORS = np.random.default_rng(2).normal(size=(9, 3)).astype(np.float32)
VECTORS[:3, 0] = [0, 1e-3, 3.5e2]
GLOVE = "".join(
    f"{word} {' '.join(map(repr, row))}\n"
    for word, row in zip(WORDS, VECTORS.tolist(), strict=True)
).encode()
HEADER = b"9 3\n"


def binary(newline: bytes, words: list[str] = WORDS[:6]) -> bytes:
    """The original tool writes a newline after each vector, gensim does not."""
    return f"{len(words)} 3\n".encode() + b"".join(
        word.encode() + b" " + struct.pack("<3f", *row) + newline
        for word, row in zip(words, VECTORS.tolist(), strict=False)
    )


def load(path: Path, content: bytes | str, file_format: str = "glove", **options) -> StaticEncoder:
    """Load a file of this content."""
    path = path / "vectors.txt"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    given = "".join(f",{name}={value}" for name, value in options.items())
    return load_encoder(f"{file_format}:{path}{given}")


def encode(encoder: StaticEncoder, *texts: str) -> EncodedSentences:
    return encoder.encode(as_they_are([*texts]))


def vectors_of(encoder: StaticEncoder, *words: str) -> np.ndarray:
    """The vector of each word, through `encode`, one sentence per word."""
    encoded = encode(encoder, *words)
    assert encoded.n_known.tolist() == [1] * len(words)
    return encoded.word_points[encoded.sentence_words.values]


# Formats


@pytest.mark.parametrize(
    ("file_format", "content", "n_words"),
    [
        pytest.param("glove", GLOVE, 9, id="glove"),
        pytest.param("glove", GLOVE.replace(b"\n", b"\r\n"), 9, id="glove-windows"),
        pytest.param("word2vec", HEADER + GLOVE, 9, id="word2vec-text"),
        pytest.param("word2vec", binary(b""), 6, id="word2vec-binary"),
        pytest.param("word2vec", binary(b"\n"), 6, id="word2vec-binary-newlines"),
        # as the tool ends every line
        pytest.param("fasttext", HEADER + GLOVE.replace(b"\n", b" \n"), 9, id="fasttext"),
    ],
)
def test_vectors_are_the_numbers_written(file_format, content, n_words, tmp_path):
    encoder = load(tmp_path, content, file_format)
    assert encoder.rows_of(WORDS[:n_words]).tolist() == list(range(n_words))
    found = vectors_of(encoder, "cat", "dog", "Paris", "naïve")
    np.testing.assert_array_equal(found, VECTORS[[0, 1, 2, 4]])
    assert encoder.signature == f"{file_format}-vectors-{n_words}x3|pool:mean|oov:drop"
    assert encoder.content_hash != load(tmp_path, b"cat 1 2 3\n").content_hash


@pytest.mark.parametrize(
    ("content", "vector"),
    [
        pytest.param(b"cat 1 2\ncat 3 4\ndog 5 6\n", [1.0, 2.0], id="first-of-repeated-words"),
        pytest.param(b"caf\xe9 1 2\ncat 3 4\n", [3.0, 4.0], id="no-utf8"),
        pytest.param(b"\xef\xbb\xbfcat 1 2\ndog 3 4\n", [1.0, 2.0], id="byte-order-mark"),
        pytest.param(b" cat  1 2\ndog 3 4\n", [1.0, 2.0], id="spaces"),
    ],
)
def test_odd_words_spoil_no_other(content, vector, tmp_path):
    np.testing.assert_array_equal(vectors_of(load(tmp_path, content), "cat"), [vector])


NAN = struct.pack("<2f", np.nan, 1)
# file format, content, message after the path
DAMAGED = [
    ("glove", "", " line 1 must be a word and its values, got ''"),
    ("glove", "cat\n", " line 1 must be a word and its values, got 'cat'"),
    ("glove", "2 300\ncat 1 2\n", " line 1 must be a word and its values, got '2 300'; a file"),
    ("glove", "cat 1 2\ndog 1\nhen 1 2\n", " line 2 must be a word and 2 finite values, got 'dog"),
    ("glove", "cat 1 2\nhen 3 4\ndog 1 2 x\n", " line 3 must be a word and 2"),
    ("glove", "cat 1 2\ndog nan 1\n", " line 2 must be a word and 2"),
    ("glove", "cat 1 2\ndog 1_0 1\n", " line 2 must be a word and 2"),
    ("word2vec", "", " line 1 must be `number-of-words"),
    ("word2vec", "2 2\ncat 1\ndog 1 2\n", " line 2 must be a word and 2"),
    ("word2vec", "2 2\ncat 1 2 3\ndog 1 2 3\n", " says 2 values per line"),
    ("word2vec", "1 2\ncat 1 2\ndog 1 2\n", " must hold the 1 vectors that its"),
    ("fasttext", "cat 1 2\ndog 1 2\n", " line 1 must be `number-of-words dimension`, got 'cat 1"),
    ("fasttext", f"2 {9:099}\ncat 1 2\n", " line 1 must be `number-of-words dimension`"),
    ("fasttext", "2 0\ncat\ndog\n", " line 1 must be `number-of-words dimension`, got '2 0'"),
    ("fasttext", "5 2\n", " must hold the 5 vectors that its first line says, got 0"),
    ("word2vec", binary(b"")[:-5], " must hold 6 vectors of 3"),
    ("word2vec", binary(b"\n") + b"more " + bytes(12), " must hold 6 vectors"),
    ("word2vec", b"2 2\ncat " + bytes(8) + b"dog " + NAN, " vector 2 must be finite"),
    ("word2vec", b"99999999999 300\ncat " + bytes(1200), " must hold 99999999999"),
]


@pytest.mark.parametrize(("file_format", "content", "message"), DAMAGED)
def test_damaged_file_rejected(file_format, content, message, tmp_path):
    with pytest.raises(ValueError, match=re.escape(f"`{tmp_path / 'vectors.txt'}`{message}")):
        load(tmp_path, content, file_format)


def test_missing_file_rejected():
    with pytest.raises(ValueError, match=r"no vector file at `none`; .* after `fasttext:`"):
        load_encoder("fasttext:none")


# Looking words up


def simple(words: str = "cat Cat dog 20 Paris", **options) -> StaticEncoder:
    listed = words.split()
    vectors = np.eye(len(listed), 3, dtype=np.float32) + 1
    return StaticEncoder(WordTable.of(listed, vectors), name="test", **options)


def test_lookup_order():
    # as it stands first, then lower-cased, then without symbols at its ends, never upper-cased
    expected = {"cat": 0, "Cat": 1, "CAT": 0, "DOG": 2, "£20": 3, "DOG™": 2, "paris": -1, "hen": -1}
    assert simple().rows_of(list(expected)).tolist() == list(expected.values())
    assert WordTable.of([], VECTORS[:0]).rows_of(["cat"]).tolist() == [-1]


def test_unknown_words_are_dropped_and_counted_or_kept_as_zero():
    texts = "The cat and the unicorn saw a dog.", "Unicorns here."
    encoded = encode(simple(), *texts)
    assert encoded.n_kept.tolist() == [4, 1]  # cat, unicorn, saw, dog; here is a stop word
    assert encoded.n_known.tolist() == encoded.weights.tolist() == [2, 0]
    assert [encoded.sentence_words[k].tolist() for k in (0, 1)] == [[0, 2], []]
    encoded = encode(simple(zero_unknown=True), texts[0])
    assert (encoded.n_known.tolist(), encoded.weights.tolist()) == ([2], [4])
    vectors = encoded.word_points[encoded.sentence_words.values]
    np.testing.assert_array_equal(vectors[[1, 2]], 0.0)
    np.testing.assert_allclose(encoded.sentence_points, vectors.sum(axis=0, keepdims=True) / 4)


@pytest.mark.parametrize(("pooling", "pooled"), [("mean", [5 / 3, 3.0]), ("max", [3.0, 5.0])])
def test_pooling_by_hand(pooling, pooled, tmp_path):
    encoder = load(tmp_path, "cat 1 5\ndog 3 -1\nthe 9 9\n", pooling=pooling)
    encoded = encode(encoder, "The cat, cat dog.", "Nothing known")
    np.testing.assert_allclose(encoded.sentence_points[0], [5 / 3, 3.0], rtol=1e-15)
    np.testing.assert_allclose(encoded.pooled[0], pooled, rtol=1e-15)
    assert encoded.weights.tolist() == encoded.pooled_weights.tolist() == [3, 0]


def test_word_order_changes_no_bit():
    rng = np.random.default_rng(7)
    words = [f"w{k}" for k in range(50)]
    table = WordTable.of(words, rng.normal(size=(50, 20)).astype(np.float32))
    chosen = rng.integers(0, 50, 40)
    straight, shuffled = (
        encode(StaticEncoder(table, name="test"), " ".join(words[k] for k in order))
        for order in (chosen, rng.permutation(chosen))
    )
    np.testing.assert_array_equal(straight.sentence_points, shuffled.sentence_points)


def test_two_encoders_share_a_vocabulary():
    segmented = Segmenter().segment(pa.array(["cat dog"]))
    for _ in range(20):  # those that are gone leave their addresses to others
        assert simple("cat").encode(segmented).sentence_words[0].tolist() == [0]
        assert simple("dog cat").encode(segmented).sentence_words[0].tolist() == [1, 0]


# The table that processes share


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """Loads a vector file that is small and shared all the same."""
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(static, "SHARED_FROM_BYTES", 0)
    return lambda: load(tmp_path, GLOVE)._table


def is_mapped(array: np.ndarray) -> bool:
    while array is not None and not isinstance(array, mmap.mmap):
        array = array.obj if isinstance(array, memoryview) else getattr(array, "base", None)
    return array is not None


def test_later_loads_map_the_first_ones_table(shared, monkeypatch):
    first = shared()
    with monkeypatch.context() as patch:
        patch.setattr(static, "read_vectors", lambda *_: pytest.fail("read once more"))
        second = shared()
    monkeypatch.undo()
    unshared = shared()
    np.testing.assert_array_equal(unshared.vectors, [*VECTORS, np.zeros(3)])
    for name in ("vectors", "keys", "rows"):
        ours = getattr(unshared, name)
        assert not is_mapped(ours)
        for table in (getattr(first, name), getattr(second, name)):
            assert is_mapped(table)
            assert (table.dtype, table.tobytes()) == (ours.dtype, ours.tobytes())


@pytest.mark.parametrize(("name", "harm"), [("vectors.npy", "changed"), ("sum", "missing")])
def test_damaged_table_is_written_again(shared, tmp_path, name, harm):
    good = shared().vectors.tobytes()
    damaged = next(tmp_path.glob(f"cache/vectors/*/{name}"))
    data = damaged.read_bytes()
    damaged.unlink()
    if harm == "changed":
        damaged.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert shared().vectors.tobytes() == good
    assert damaged.read_bytes() == data


def test_without_a_cache_folder_each_process_has_its_own(shared, tmp_path, caplog):
    (tmp_path / "cache").write_text("in the way")
    assert shared().rows_of(["dog"]).tolist() == [1]
    assert "every worker keeps a copy of the word vectors" in caplog.text
    assert "set ASSAY_CACHE" in caplog.text


def test_process_that_dies_while_it_writes_leaves_no_table(shared, tmp_path, monkeypatch):
    def dies(path, array):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(static.np, "save", dies)
        with pytest.raises(KeyboardInterrupt):
            shared()
    assert not list(tmp_path.glob("cache/vectors/*/*"))
    assert shared().rows_of(["dog"]).tolist() == [1]
