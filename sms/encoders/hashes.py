"""What tells one model's files from another's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path


def hash_of_files(paths: Iterable[Path]) -> str:
    """Hash the contents of some files, in that order, into 32 hexadecimal digits."""
    digest = hashlib.blake2b()
    for path in paths:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "blake2b").digest())
    return digest.hexdigest()[:32]
