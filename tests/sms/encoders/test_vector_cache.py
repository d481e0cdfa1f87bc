"""Vectors on disk: shared by processes, unharmed by killed ones and by damage."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sms.encoders import EncodedSentences, EncoderRuntime, vector_cache
from sms.encoders.contextual import ContextualEncoder
from sms.encoders.registry import load_encoder
from sms.encoders.vector_cache import VectorCache, key_of

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
    n_words = np.array([number % 10 for number in numbers])
    found = source.read(keys_of(numbers), n_words)
    for place, (words, own) in found.items():
        expected_words, expected_own = entry(numbers[place])
        np.testing.assert_array_equal(words, expected_words)
        np.testing.assert_array_equal(own, expected_own)
    return {numbers[place] for place in found}


def file_of(folder: Path) -> Path:
    (path,) = folder.glob("*.sqlite")
    return path


def test_what_was_written_is_read_by_others(tmp_path):
    writer, reader = cache(tmp_path), cache(tmp_path)
    fill(writer, range(100))
    assert read(reader, range(120)) == set(range(100))
    fill(writer, range(90, 110))  # the reader looks again
    assert read(reader, range(120)) == set(range(110))


def test_other_encoder_finds_nothing(tmp_path):
    fill(cache(tmp_path), range(10))
    assert read(cache(tmp_path, "encoder|other hash"), range(10)) == set()


@pytest.mark.parametrize("library", ["assay", "tokenizers", "torch"])
def test_vectors_of_another_version_are_not_found(tmp_path, monkeypatch, library):
    fill(cache(tmp_path), range(10))
    version_of = vector_cache._version_of
    monkeypatch.setattr(
        vector_cache, "_version_of", lambda name: "99" if name == library else version_of(name)
    )
    assert read(cache(tmp_path), range(10)) == set()
    monkeypatch.undo()
    assert read(cache(tmp_path), range(10)) == set(range(10))


def test_other_number_of_words_is_not_found(tmp_path):
    fill(cache(tmp_path), range(10))
    assert cache(tmp_path).read(keys_of(range(10)), np.full(10, 11)) == {}


# Damage


def test_changed_bytes_are_not_found_and_written_again(tmp_path):
    fill(cache(tmp_path), range(20))
    with closing(sqlite3.connect(file_of(tmp_path))) as database, database:
        database.execute("UPDATE vectors SET vectors = zeroblob(length(vectors)) WHERE rowid < 6")
    repaired = cache(tmp_path)
    missing = set(range(20)) - read(repaired, range(20))
    assert len(missing) == 5
    fill(repaired, range(20))
    assert read(cache(tmp_path), range(20)) == set(range(20))


@pytest.mark.parametrize("length", [5000, -5000])
def test_truncated_file_costs_the_cache_only(length, tmp_path, caplog):
    ours = cache(tmp_path)
    fill(ours, range(200))
    path = file_of(tmp_path)
    path.write_bytes(path.read_bytes()[:length])
    read(ours, range(200))  # checks every bit of what it finds
    fill(ours, range(200))
    assert str(path) in caplog.text


def test_lost_folder_costs_the_cache_only(tmp_path, caplog):
    ours = cache(tmp_path / "folder")
    file_of(tmp_path / "folder").unlink()
    (tmp_path / "folder").rmdir()
    fill(ours, range(5))
    assert read(ours, range(5)) == set()
    assert "going on without" in caplog.text


def test_folder_that_cannot_be_made_rejected(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="must be a folder that can be written to, got"):
        cache(tmp_path / "file")


# Processes

WRITER = """
import sys
from pathlib import Path
sys.path[:0] = {path!r}
from tests.sms.encoders.test_vector_cache import cache, fill
ours = cache(Path({folder!r}))
print("ready", flush=True)
for start in range({start}, {stop}, 20):
    fill(ours, range(start, start + 20))
"""


def writer(folder: Path, start: int, stop: int) -> subprocess.Popen:
    root = Path(__file__).resolve().parents[3]
    code = WRITER.format(path=[str(root)], folder=str(folder), start=start, stop=stop)
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=root
    )
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.slow
def test_two_processes_share_a_folder(tmp_path):
    writers = [writer(tmp_path, 0, 400), writer(tmp_path, 200, 600)]
    reader, seen = cache(tmp_path), set()
    while any(process.poll() is None for process in writers):
        found = read(reader, range(600))
        assert found >= seen
        seen = found
        time.sleep(0.01)
    for process in writers:
        process.stdout.close()
        assert process.returncode == 0
    assert read(cache(tmp_path), range(600)) == set(range(600))


@pytest.mark.slow
def test_process_killed_while_writing_leaves_whole_batches(tmp_path):
    for delay_s in (0.0, 0.01, 0.03):
        process = writer(tmp_path, 0, 1_000_000)
        time.sleep(delay_s)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert len(read(cache(tmp_path), range(4000))) % 20 == 0
    fill(cache(tmp_path), range(100))
    assert read(cache(tmp_path), range(100)) >= set(range(100))


# Encoders

SENTENCES = ["The committee met on Tuesday.", "Warmer states pay more.", "the of and", "One"]


def assert_equal_bits(found: EncodedSentences, expected: EncodedSentences) -> None:
    for name in ("word_points", "pooled", "sentence_points"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def minilm(folder: Path | None, *, sentences_only: bool = False) -> ContextualEncoder:
    cache_folder = None if folder is None else str(folder)
    runtime = EncoderRuntime(device="cpu", cache_folder=cache_folder, sentences_only=sentences_only)
    return load_encoder("minilm", runtime)


def test_encoder_reads_what_another_wrote_bit_by_bit(tmp_path, as_they_are):
    expected = minilm(None).encode(as_they_are(SENTENCES))
    n_words = expected.sentence_words.offsets[3]
    of_three = replace(
        expected,
        word_points=expected.word_points[:n_words],
        pooled=expected.pooled[:3],
        sentence_points=expected.sentence_points[:3],
    )
    first, second = minilm(tmp_path), minilm(tmp_path)
    assert_equal_bits(first.encode(as_they_are(SENTENCES[:3])), of_three)
    assert_equal_bits(second.encode(as_they_are(SENTENCES)), expected)
    assert (second.counts["sentences"], second.counts["cached"], second.counts["from_disk"]) == (
        4,
        0,
        3,
    )
    assert 0 < second.counts["tokens"] < first.counts["tokens"]
    assert_equal_bits(second.encode(as_they_are(SENTENCES)), expected)
    assert (second.counts["cached"], second.counts["from_disk"]) == (4, 3)


def test_words_that_are_not_asked_for_are_not_kept(tmp_path, as_they_are):
    both, alone = minilm(tmp_path), minilm(tmp_path, sentences_only=True)
    assert alone.signature == both.signature
    # One that wants no words does not find sentences with them, nor the other way round.
    expected, found = (encoder.encode(as_they_are(SENTENCES)) for encoder in (both, alone))
    assert alone.counts["from_disk"] == 0
    np.testing.assert_array_equal(found.pooled, expected.pooled)
    assert len(expected.word_points) > len(found.word_points) == 0
    again = minilm(tmp_path, sentences_only=True)
    again.encode(as_they_are(SENTENCES))
    assert again.counts["from_disk"] == len(SENTENCES)


def test_text_rules_do_not_share_vectors(tmp_path, as_they_are):
    minilm(tmp_path).encode(as_they_are(SENTENCES))
    second = minilm(tmp_path)
    found = second.encode(as_they_are(SENTENCES, words="clark2019"))
    assert second.counts["from_disk"] == 0
    assert_equal_bits(found, minilm(None).encode(as_they_are(SENTENCES, words="clark2019")))
