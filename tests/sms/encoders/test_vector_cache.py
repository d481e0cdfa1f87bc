"""Vectors on disk: shared by processes, unharmed by killed ones and by damage."""

from __future__ import annotations

import pickle
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from sms.encoders import VECTORS, EncoderRuntime, vector_cache
from sms.encoders.base import Encoder
from sms.encoders.registry import load_encoder
from sms.encoders.vector_cache import Recent, VectorCache, key_of
from tests.sms.encoders.conftest import as_they_are, assert_equal_bits

D = 3


def cache(folder: Path, owner: str = "encoder|hash") -> VectorCache:
    return VectorCache(str(folder), owner=owner, dimension=D)


def entry(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors that belong to a number: as many words as its last digit."""
    rng = np.random.default_rng(number)
    words = rng.standard_normal((number % 10, D)).astype(np.float32)
    return words, rng.standard_normal(D).astype(np.float32)


def keys_of(numbers: range) -> list[bytes]:
    return [key_of("rules", f"sentence {number}") for number in numbers]


def fill(target: VectorCache, numbers: range) -> None:
    target.write({key: entry(n) for key, n in zip(keys_of(numbers), numbers, strict=True)})


def read(source: VectorCache, numbers: range) -> set[int]:
    """Read the entries that are there, check each bit of them, and return their numbers."""
    found = source.read(keys_of(numbers), np.array([number % 10 for number in numbers]))
    for place, vectors in found.items():
        for ours, expected in zip(vectors, entry(numbers[place]), strict=True):
            np.testing.assert_array_equal(ours, expected)
    return {numbers[place] for place in found}


def test_what_was_written_is_read_by_others(tmp_path):
    writer, reader = cache(tmp_path), cache(tmp_path)
    fill(writer, range(100))
    assert read(reader, range(120)) == set(range(100))
    fill(writer, range(90, 110))  # the reader looks again
    assert read(reader, range(120)) == set(range(110))


def test_what_others_made_is_not_found(tmp_path, monkeypatch):
    fill(cache(tmp_path), range(10))
    assert read(cache(tmp_path, "encoder|other hash"), range(10)) == set()
    assert cache(tmp_path).read(keys_of(range(10)), np.full(10, 11)) == {}  # other words count
    for library in ("assay", "tokenizers", "torch"):
        with monkeypatch.context() as patch:
            patch.setattr(
                vector_cache, "_version_of", lambda name, changed=library: str(name == changed)
            )
            assert read(cache(tmp_path), range(10)) == set()
    assert read(cache(tmp_path), range(10)) == set(range(10))


def test_changed_bytes_are_not_found_and_written_again(tmp_path):
    fill(cache(tmp_path), range(20))
    with closing(sqlite3.connect(next(tmp_path.glob("*.sqlite")))) as database, database:
        database.execute("UPDATE vectors SET vectors = zeroblob(length(vectors)) WHERE rowid < 6")
    assert len(read(cache(tmp_path), range(20))) == 15
    fill(cache(tmp_path), range(20))
    assert read(cache(tmp_path), range(20)) == set(range(20))


@pytest.mark.parametrize("damage", ["cut", "lost"])
def test_damaged_file_costs_the_cache_only(damage, tmp_path, caplog):
    ours = cache(tmp_path / "folder")
    fill(ours, range(200))
    (path,) = (tmp_path / "folder").glob("*.sqlite")
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-5000])
    else:
        shutil.rmtree(path.parent)
    read(ours, range(200))  # checks every bit of what it finds
    fill(ours, range(200))
    assert str(path) in caplog.text


def test_folder_that_cannot_be_made_rejected(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="must be a folder that can be written to, got"):
        cache(tmp_path / "file")


# Encoders

SENTENCES = ["The committee met on Tuesday.", "Warmer states pay more.", "the of and", "One"]


def minilm(folder: Path | None, **settings) -> Encoder:
    cache_folder = None if folder is None else str(folder)
    runtime = EncoderRuntime(device="cpu", cache_folder=cache_folder, **settings)
    return load_encoder("minilm", runtime)


def test_encoder_reads_what_another_wrote_bit_by_bit(tmp_path):
    first, second, third = (minilm(tmp_path) for _ in range(3))
    first.encode(as_they_are(SENTENCES[:3]))
    expected = minilm(None).encode(as_they_are(SENTENCES))
    for n_cached in (0, 4):
        assert_equal_bits(second.encode(as_they_are(SENTENCES)), expected)
        assert (second.counts["cached"], second.counts["from_disk"]) == (n_cached, 3)
    assert 0 < second.counts["tokens"] < first.counts["tokens"]
    third.encode(as_they_are(SENTENCES, words="clark2019"))
    assert third.counts["from_disk"] == 0  # other rules of text


def test_vectors_that_nothing_reads_are_neither_made_nor_kept(tmp_path):
    """Their coarser ones are the same bit by bit, and are not those that another run finds."""
    expected = minilm(None).encode(as_they_are(SENTENCES))
    sizes = []
    for finest in VECTORS:
        one, again = (minilm(tmp_path, finest=finest) for _ in range(2))
        found, read = (each.encode(as_they_are(SENTENCES)) for each in (one, again))
        assert [each.counts["from_disk"] for each in (one, again)] == [0, len(SENTENCES)]
        assert one.signature == minilm(None).signature
        assert_equal_bits(read, found)
        np.testing.assert_array_equal(found.pooled, expected.pooled)
        np.testing.assert_array_equal(found.weights, expected.weights)
        if finest != "texts":
            np.testing.assert_array_equal(found.sentence_points, expected.sentence_points)
        assert len(found.word_points) == (len(expected.word_points) if finest == "words" else 0)
        sizes.append(one._recent.n_bytes)
    # in units of 384 values of four bytes, of which a mean takes two
    n_words = len(expected.word_points)
    assert [size / 384 / 4 for size in sizes] == [n_words + 4, 4 * (2 + 1), 4]


def test_oldest_values_are_forgotten_first():
    recent: Recent[object] = Recent(extra_bytes=1)
    two = np.zeros(2, dtype=np.int8)
    recent.add({"a": two, "b": (two, True)}, 7)
    assert recent["a"] is two  # used, so that `b` is older
    recent.add({"c": (two[:1], two[:1])}, 7)
    assert recent.missing(["a", "b", "c"]) == [1]
    assert recent.n_bytes == 6
    copied = pickle.loads(pickle.dumps(recent))
    assert copied.missing(["a", "b", "c"]) == [0, 1, 2]
    copied.add({"d": two}, 7)
    assert copied.n_bytes == 3
