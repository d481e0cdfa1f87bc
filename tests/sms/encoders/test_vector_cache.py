"""Vectors on disk: shared by processes, unharmed by killed ones and by damage."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from sms.encoders import EncoderRuntime, vector_cache
from sms.encoders.contextual import ContextualEncoder
from sms.encoders.registry import load_encoder
from sms.encoders.vector_cache import VectorCache, key_of
from tests.sms.encoders.conftest import assert_equal_bits

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
    return next(folder.glob("*.sqlite"))


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
            patch.setattr(vector_cache, "_version_of", lambda name, own=library: str(name == own))
            assert read(cache(tmp_path), range(10)) == set()
    assert read(cache(tmp_path), range(10)) == set(range(10))


# Damage


def test_changed_bytes_are_not_found_and_written_again(tmp_path):
    fill(cache(tmp_path), range(20))
    with closing(sqlite3.connect(file_of(tmp_path))) as database, database:
        database.execute("UPDATE vectors SET vectors = zeroblob(length(vectors)) WHERE rowid < 6")
    assert len(read(cache(tmp_path), range(20))) == 15
    fill(cache(tmp_path), range(20))
    assert read(cache(tmp_path), range(20)) == set(range(20))


@pytest.mark.parametrize("damage", ["cut", "lost"])
def test_damaged_file_costs_the_cache_only(damage, tmp_path, caplog):
    ours = cache(tmp_path / "folder")
    fill(ours, range(200))
    path = file_of(tmp_path / "folder")
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
def test_processes_share_a_folder_and_may_be_killed(tmp_path):
    killed = writer(tmp_path, 0, 1_000_000)
    time.sleep(0.03)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    killed.stdout.close()
    assert len(read(cache(tmp_path), range(4000))) % 20 == 0  # whole batches
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


# Encoders

SENTENCES = ["The committee met on Tuesday.", "Warmer states pay more.", "the of and", "One"]


def minilm(folder: Path | None, **settings) -> ContextualEncoder:
    cache_folder = None if folder is None else str(folder)
    runtime = EncoderRuntime(device="cpu", cache_folder=cache_folder, **settings)
    return load_encoder("minilm", runtime)


def test_encoder_reads_what_another_wrote_bit_by_bit(tmp_path, as_they_are):
    first, second = minilm(tmp_path), minilm(tmp_path)
    first.encode(as_they_are(SENTENCES[:3]))
    for n_cached in (0, 4):
        assert_equal_bits(
            second.encode(as_they_are(SENTENCES)), minilm(None).encode(as_they_are(SENTENCES))
        )
        assert (second.counts["cached"], second.counts["from_disk"]) == (n_cached, 3)
    assert 0 < second.counts["tokens"] < first.counts["tokens"]


def test_words_that_are_not_asked_for_are_not_kept(tmp_path, as_they_are):
    both, alone, again = (minilm(tmp_path, sentences_only=only) for only in (False, True, True))
    assert alone.signature == both.signature
    # One that wants no words does not find sentences with them, nor the other way round.
    expected, found, _ = (each.encode(as_they_are(SENTENCES)) for each in (both, alone, again))
    assert [each.counts["from_disk"] for each in (alone, again)] == [0, len(SENTENCES)]
    np.testing.assert_array_equal(found.pooled, expected.pooled)
    assert len(expected.word_points) > len(found.word_points) == 0


def test_text_rules_do_not_share_vectors(tmp_path, as_they_are):
    minilm(tmp_path).encode(as_they_are(SENTENCES))
    second = minilm(tmp_path)
    second.encode(as_they_are(SENTENCES, words="clark2019"))
    assert second.counts["from_disk"] == 0
