"""Hashes of files, which name the weights of a model in every signature."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path


def hash_of_file(path: Path) -> str:
    """Hash the content of a file with BLAKE2b; 128 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def hash_of_files(paths: Iterable[Path]) -> str:
    """Hash the contents of some files, in that order, into 32 hexadecimal digits."""
    digest = hashlib.blake2b()
    for path in paths:
        digest.update(bytes.fromhex(hash_of_file(path)))
    return digest.hexdigest()[:32]
