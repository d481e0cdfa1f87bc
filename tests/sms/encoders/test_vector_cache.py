"""Vectors on disk: shared by processes, unharmed by killed ones and by damage."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from sms.encoders import EncodedSentences, EncoderRuntime, vector_cache
from sms.encoders.bert import load_minilm
from sms.encoders.contextual import ContextualEncoder
from sms.encoders.vector_cache import VectorCache, key_of

D, D_OWN = 3, 5


def cache(folder: Path, owner: str = "encoder|hash") -> VectorCache:
    return VectorCache(str(folder), owner=owner, dimension=D, pooled_dimension=D_OWN)


def entry(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors that belong to a number: as many words as its last digit."""
    rng = np.random.default_rng(number)
    words = rng.standard_normal((number % 10, D)).astype(np.float32)
    return words, rng.standard_normal(D_OWN).astype(np.float32)


def keys_of(numbers: range) -> list[bytes]:
    return [key_of("rules", f"sentence {number}") for number in numbers]


def fill(target: VectorCache, numbers: range) -> None:
    target.write({key: entry(n) for key, n in zip(keys_of(numbers), numbers, strict=True)})
    target.flush()


def read(source: VectorCache, numbers: range) -> set[int]:
    """Read the entries that are there, check each bit of them, and return their numbers."""
    n_words = np.array([number % 10 for number in numbers])
    found = source.read(keys_of(numbers), n_words)
    for place, (words, own) in found.items():
        expected_words, expected_own = entry(numbers[place])
        np.testing.assert_array_equal(words, expected_words)
        np.testing.assert_array_equal(own, expected_own)
    return {numbers[place] for place in found}


def segments(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.safetensors"))


def test_what_was_written_is_read_by_others(tmp_path):
    writer, reader = cache(tmp_path), cache(tmp_path)
    fill(writer, range(100))
    assert read(reader, range(120)) == set(range(100))
    fill(writer, range(100, 110))  # the reader looks again
    assert read(reader, range(120)) == set(range(110))
    assert len(segments(tmp_path)) == 2


def test_waiting_entries_are_read(tmp_path):
    ours = cache(tmp_path)
    ours.write({key: entry(n) for n, key in enumerate(keys_of(range(20)))})
    assert not segments(tmp_path)
    assert read(ours, range(20)) == set(range(20))


def test_entries_do_not_wait_for_ever(tmp_path, monkeypatch):
    ours = cache(tmp_path)
    monkeypatch.setattr(vector_cache, "FLUSH_SECONDS", 0.0)
    ours.write({key_of("rules", "sentence 1"): entry(1)})
    assert len(segments(tmp_path)) == 1


def test_memory_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(vector_cache, "FLUSH_BYTES", 2_000)
    ours = cache(tmp_path)
    ours.write({key: entry(n) for n, key in enumerate(keys_of(range(200)))})
    assert ours._waiting._bytes < 2_000
    assert len(segments(tmp_path)) > 5
    assert read(ours, range(200)) == set(range(200))


def test_segments_are_taken_in_all_together_or_not_at_all(tmp_path, monkeypatch):
    for start in (0, 10, 20):
        fill(cache(tmp_path), range(start, start + 10))
    ours = cache(tmp_path)
    heads, opened = vector_cache._Segment.heads, []

    def broken_at_second(segment):
        opened.append(segment)
        if len(opened) == 2:
            raise KeyboardInterrupt
        return heads(segment)

    monkeypatch.setattr(vector_cache._Segment, "heads", broken_at_second)
    with pytest.raises(KeyboardInterrupt):
        read(ours, range(30))
    assert read(ours, range(30)) == set(range(30))


def test_number_of_indexed_sentences_is_bounded(tmp_path, monkeypatch):
    for start in (0, 10, 20):
        fill(cache(tmp_path), range(start, start + 10))
        newest = segments(tmp_path)
        for age, path in enumerate(newest):
            os.utime(path, ns=(age, age))
    monkeypatch.setattr(vector_cache, "MAX_INDEXED", 15)
    found = read(cache(tmp_path), range(30))
    assert len(found) == 20  # two whole segments


def test_other_encoder_finds_nothing(tmp_path):
    fill(cache(tmp_path), range(10))
    assert read(cache(tmp_path, "encoder|other hash"), range(10)) == set()


def test_other_number_of_words_is_not_found(tmp_path):
    fill(cache(tmp_path), range(10))
    assert cache(tmp_path).read(keys_of(range(10)), np.full(10, 11)) == {}


def test_other_rules_or_sentence_have_other_keys():
    assert len({key_of(rules, text) for rules in ("a", "b") for text in ("c", "d")}) == 4


# Damage


@pytest.mark.parametrize("offset", [0, 4, 60, 400, -700, -300, -60, -8, -1])
def test_flipped_byte_is_never_read(offset, tmp_path):
    fill(cache(tmp_path), range(20))
    (path,) = segments(tmp_path)
    payload = bytearray(path.read_bytes())
    payload[offset] ^= 0x55
    path.write_bytes(payload)
    read(cache(tmp_path), range(20))  # checks every bit of what it finds
    repaired = cache(tmp_path)
    missing = sorted(set(range(20)) - read(repaired, range(20)))
    for number in missing:
        fill(repaired, range(number, number + 1))
    assert read(cache(tmp_path), range(20)) == set(range(20))


@pytest.mark.parametrize("length", [0, 1, 7, 100, 1000, -1])
def test_truncated_segment_is_ignored(length, tmp_path, caplog):
    fill(cache(tmp_path), range(20))
    (path,) = segments(tmp_path)
    path.write_bytes(path.read_bytes()[:length])
    assert read(cache(tmp_path), range(20)) == set()
    assert f"{path.name} is damaged" in caplog.text
    fill(cache(tmp_path), range(20))
    assert read(cache(tmp_path), range(20)) == set(range(20))


def test_every_vector_byte_is_checked(tmp_path):
    fill(cache(tmp_path), range(8, 9))
    (path,) = segments(tmp_path)
    whole = path.read_bytes()
    for place in range(len(whole) - 200, len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        read(cache(tmp_path), range(8, 9))


def test_unfinished_file_of_a_killed_run_is_removed_later(tmp_path):
    ours = cache(tmp_path)
    fresh, old = (ours._folder / f"{name}.partial" for name in ("fresh", "old"))
    for path in (fresh, old):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    cache(tmp_path)
    assert fresh.exists()  # somebody may be writing it
    assert not old.exists()


def test_full_disk_costs_the_cache_only(tmp_path, monkeypatch, caplog):
    def full(folder, entries):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(vector_cache, "_write_segment", full)
    fill(cache(tmp_path), range(5))
    assert "No space left on device; going on without" in caplog.text


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
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True, cwd=root
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
def test_process_killed_while_writing_leaves_whole_entries(tmp_path):
    for delay_s in (0.0, 0.01, 0.03):
        process = writer(tmp_path, 0, 1_000_000)
        time.sleep(delay_s)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        found = read(cache(tmp_path), range(4000))
        assert len(found) % 20 == 0  # whole segments
    fill(cache(tmp_path), range(100))
    assert read(cache(tmp_path), range(100)) == set(range(100))


def test_what_waits_is_written_when_the_process_ends(tmp_path):
    root = Path(__file__).resolve().parents[3]
    code = (
        f"import sys; sys.path.insert(0, {str(root)!r}); from pathlib import Path\n"
        "from tests.sms.encoders.test_vector_cache import cache, entry, keys_of\n"
        f"ours = cache(Path({str(tmp_path)!r}))\n"
        "ours.write({key: entry(n) for n, key in enumerate(keys_of(range(7)))})\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)
    assert read(cache(tmp_path), range(9)) == set(range(7))


# Encoders

SENTENCES = ["The committee met on Tuesday.", "Warmer states pay more.", "the of and", "One"]


def assert_equal_bits(found: EncodedSentences, expected: EncodedSentences) -> None:
    for name in ("word_points", "pooled", "sentence_points"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def minilm(folder: Path | None, *, sentences_only: bool = False) -> ContextualEncoder:
    cache_folder = None if folder is None else str(folder)
    runtime = EncoderRuntime(device="cpu", cache_folder=cache_folder, sentences_only=sentences_only)
    return load_minilm(runtime=runtime)


def test_encoder_reads_what_another_wrote_bit_by_bit(tmp_path, as_they_are):
    expected = minilm(None).encode(as_they_are(SENTENCES))
    first = minilm(tmp_path)
    assert_equal_bits(first.encode(as_they_are(SENTENCES[:3])), _first(expected, 3))
    first._disk.flush()
    second = minilm(tmp_path)
    assert_equal_bits(second.encode(as_they_are(SENTENCES)), expected)
    assert (second.n_sentences, second.n_cached, second.n_from_disk) == (4, 0, 3)
    assert 0 < second.n_tokens < first.n_tokens
    assert_equal_bits(second.encode(as_they_are(SENTENCES)), expected)
    assert (second.n_cached, second.n_from_disk) == (4, 3)


def test_words_that_are_not_asked_for_are_not_kept(tmp_path, as_they_are):
    both, alone = minilm(tmp_path / "both"), minilm(tmp_path / "alone", sentences_only=True)
    assert alone.signature == both.signature
    expected, found = (encoder.encode(as_they_are(SENTENCES)) for encoder in (both, alone))
    np.testing.assert_array_equal(found.pooled, expected.pooled)
    assert len(expected.word_points) > len(found.word_points) == 0
    both._disk.flush()
    alone._disk.flush()
    sizes = [sum(f.stat().st_size for f in (tmp_path / name).rglob("*.safetensors"))
             for name in ("both", "alone")]  # fmt: skip
    assert sizes[0] - sizes[1] >= expected.word_points.nbytes
    # One that wants words does not find sentences without them, nor the other way round.
    assert minilm(tmp_path / "alone").encode(as_they_are(SENTENCES)).word_points.size
    again = minilm(tmp_path / "alone", sentences_only=True)
    again.encode(as_they_are(SENTENCES))
    assert again.n_from_disk == len(SENTENCES)


def _first(encoded: EncodedSentences, n: int) -> EncodedSentences:
    from dataclasses import replace

    n_words = encoded.sentence_words.offsets[n]
    return replace(
        encoded,
        word_points=encoded.word_points[:n_words],
        pooled=encoded.pooled[:n],
        sentence_points=encoded.sentence_points[:n],
    )


def test_text_rules_do_not_share_vectors(tmp_path, as_they_are):
    first = minilm(tmp_path)
    first.encode(as_they_are(SENTENCES))
    first._disk.flush()
    second = minilm(tmp_path)
    found = second.encode(as_they_are(SENTENCES, words="clark2019"))
    assert second.n_from_disk == 0
    assert_equal_bits(found, minilm(None).encode(as_they_are(SENTENCES, words="clark2019")))
