"""Kept hashes: a file that may have changed is hashed again, whatever its size and time say."""

from __future__ import annotations

import hashlib
import os
import time

import pytest

from sms import file_hashes
from sms.file_hashes import hash_of_file, hash_of_files


def hash_by_hand(path):
    return hashlib.blake2b(path.read_bytes()).hexdigest()


def rewrite(path, content):
    """Write to a file once the clock of its file system, which may tick slowly, has gone on."""
    before = path.stat().st_ctime_ns
    while path.stat().st_ctime_ns == before:
        path.write_bytes(content)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(file_hashes, "KEPT_FROM_BYTES", 4)
    return tmp_path / "cache" / "hashes"


@pytest.fixture
def later(monkeypatch):
    """Let ten seconds pass."""
    now = time.time_ns
    monkeypatch.setattr(file_hashes.time, "time_ns", lambda: now() + 10_000_000_000)


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "weights.bin"
    path.write_bytes(b"0123456789")
    return path


@pytest.fixture
def reads(monkeypatch):
    """List the files that were read."""
    names, hashed = [], file_hashes._hashed
    monkeypatch.setattr(
        file_hashes, "_hashed", lambda path: names.append(path.name) or hashed(path)
    )
    return names


def test_file_is_read_once_until_it_changes(cache, later, weights, reads):
    assert hash_of_file(weights) == hash_of_file(weights) == hash_by_hand(weights)
    assert reads == ["weights.bin"]
    before = weights.stat()
    rewrite(weights, b"9876543210")  # of the same size and time
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert hash_of_file(weights) == hash_by_hand(weights)
    assert len(reads) == 2


def test_small_file_is_not_kept(cache, later, weights, monkeypatch):
    monkeypatch.setattr(file_hashes, "KEPT_FROM_BYTES", 11)
    assert hash_of_file(weights) == hash_by_hand(weights)
    assert not cache.exists()


def test_link_to_another_file_is_seen(cache, later, weights, tmp_path):
    link, other = tmp_path / "link", tmp_path / "other"
    other.write_bytes(b"9876543210")
    link.symlink_to(weights)
    assert hash_of_file(link) == hash_by_hand(weights)
    link.unlink()
    link.symlink_to(other)
    assert hash_of_file(link) == hash_by_hand(other)


def test_file_that_has_just_changed_is_not_kept(cache, weights, reads):
    hash_of_file(weights)
    hash_of_file(weights)
    assert len(reads) == 2
    assert not cache.exists()


def test_file_that_changes_while_it_is_read_is_not_kept(cache, later, weights, monkeypatch):
    hashed = file_hashes._hashed

    def changing(path):
        digest = hashed(path)
        rewrite(path, b"changed!!!")
        return digest

    monkeypatch.setattr(file_hashes, "_hashed", changing)
    hash_of_file(weights)
    assert not cache.exists()


@pytest.mark.parametrize("damaged", [b"", b"12ab", b"\xff\xfe", b"Z" * 128])
def test_damaged_hash_is_not_used(cache, later, weights, damaged):
    hash_of_file(weights)
    (kept,) = cache.iterdir()
    kept.write_bytes(damaged)
    assert hash_of_file(weights) == hash_by_hand(weights)
    assert kept.read_text() == hash_by_hand(weights)


def test_cache_that_cannot_be_written_is_done_without(cache, later, weights):
    cache.parent.write_text("a file, where a folder should be")
    assert hash_of_file(weights) == hash_by_hand(weights)


def test_several_files_have_one_hash(tmp_path, weights):
    other = tmp_path / "other"
    other.write_bytes(b"a")
    digests = b"".join(hashlib.blake2b(path.read_bytes()).digest() for path in (weights, other))
    assert hash_of_files([weights, other]) == hashlib.blake2b(digests).hexdigest()[:32]
