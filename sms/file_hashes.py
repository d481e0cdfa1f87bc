"""Hashes of large files, which name the weights of a model in every signature.

Each worker of a run checks the files it loads. What a file of gigabytes hashes to is therefore kept
in the cache folder, under all that the file system says of the file. A file that was written to,
replaced or moved since is hashed again.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from sms.naming import cache_folder

KEPT_FROM_BYTES = 1 << 22
"""Smaller files are hashed each time, in milliseconds."""
_SETTLED_NS = 2_000_000_000
"""A file that changed so recently may change again within one tick of its file system's clock, and
would then look the same."""
_DIGEST = re.compile("[0-9a-f]{128}")


def hash_of_file(path: Path) -> str:
    """Hash the content of a file with BLAKE2b; 128 hexadecimal digits."""
    found = path.stat()
    if found.st_size < KEPT_FROM_BYTES:
        return _hashed(path)
    kept = _place_of(path, found)
    with suppress(OSError, UnicodeDecodeError):
        if _DIGEST.fullmatch(digest := kept.read_text("ascii")):
            return digest
    is_settled = time.time_ns() - found.st_ctime_ns > _SETTLED_NS
    digest = _hashed(path)
    if is_settled and _place_of(path, path.stat()) == kept:
        with suppress(OSError):  # not kept: the next process hashes the file again
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(digest, "ascii")  # a half-written one does not match `_DIGEST`
    return digest


def hash_of_files(paths: Iterable[Path]) -> str:
    """Hash the contents of some files, in that order, into 32 hexadecimal digits."""
    digest = hashlib.blake2b()
    for path in paths:
        digest.update(bytes.fromhex(hash_of_file(path)))
    return digest.hexdigest()[:32]


def _hashed(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def _place_of(path: Path, found: os.stat_result) -> Path:
    """Say where the hash of a file in this state is kept; no program can set `ctime` back."""
    times = (found.st_mtime_ns, found.st_ctime_ns)
    state = repr((found.st_dev, found.st_ino, found.st_size, *times)).encode()
    state = os.fsencode(path.resolve()) + state
    return cache_folder() / "hashes" / hashlib.blake2b(state, digest_size=16).hexdigest()
