"""Writes text files line by line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO


def write_lines(file: Path, lines: Iterator[str]) -> int:
    """Write lines and return how many; where there are none there is no file."""
    n_lines = 0
    stream: IO[str] | None = None
    try:
        for line in lines:
            if stream is None:
                file.parent.mkdir(parents=True, exist_ok=True)
                stream = file.open("w", encoding="utf-8", newline="\n")
            stream.write(line)
            n_lines += 1
    finally:
        if stream is not None:
            stream.close()
    return n_lines
