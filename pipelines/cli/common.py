"""What the commands share: exit statuses, one-line errors, printing."""

from __future__ import annotations

import re
import shutil
import sys
from typing import Any

from sms.urls import redacted

DONE, NOT_ACCEPTED, WRONG_REQUEST, INTERRUPTED = 0, 1, 2, 130
MAX_MESSAGE = 2_000
"""Characters of an error; of a longer one the middle is left out."""

# Control characters but tab and line feed, separators of lines, direction marks, half characters.
_STEERING_BUT_ESCAPE = (
    r"[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f"
    r"\u061c\u200e\u200f\u2028-\u202e\ud800-\udfff]"
)
_STEERING = re.compile(rf"\x1b|{_STEERING_BUT_ESCAPE}")
_STEERING_BUT_COLOURS = re.compile(rf"\x1b(?!\[[0-9;]*m)|{_STEERING_BUT_ESCAPE}")
_ISOLATES = re.compile(r"[\u2066-\u2069]")
_CLOSED_ISOLATE = re.compile(r"[\u2066-\u2068][^\u2066-\u2069]*\u2069")


def fail(message: str, status: int) -> int:
    """Print one line on standard error and return the exit status."""
    line = printable(redacted(" ".join(message.split())))
    if len(line) > MAX_MESSAGE:
        line = f"{line[: MAX_MESSAGE // 2]} … {line[-MAX_MESSAGE // 2 :]}"
    print(f"assay: {line}", file=sys.stderr)
    return status


def show(text: str) -> None:
    """Print a result; what a file's ids or names hold cannot steer the terminal."""
    print(printable(text, keeps_colours=sys.stdout.isatty()))


def printable(text: str, *, keeps_colours: bool = False) -> str:
    r"""Write control characters, and those that turn the direction of writing, as escapes.

    Isolates that end on their line turn nothing around them; they are kept.

    Examples
    --------
    >>> printable("a system called \x1b[2J")
    'a system called \\x1b[2J'
    """
    steering = _STEERING_BUT_COLOURS if keeps_colours else _STEERING
    lines = steering.sub(_escaped, text).split("\n")
    return "\n".join(
        line if _are_isolates_closed(line) else _ISOLATES.sub(_escaped, line) for line in lines
    )


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def _are_isolates_closed(line: str) -> bool:
    n_isolates = 1
    while n_isolates:  # the innermost are taken out again and again
        line, n_isolates = _CLOSED_ISOLATE.subn("", line)
    return not _ISOLATES.search(line)


def sentence_of(error: Exception) -> str:
    """Say what an exception says, in the way of a sentence."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def terminal() -> dict[str, Any]:
    """Say how tables are written: plain, or as wide as the terminal."""
    is_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else None
    return {"is_terminal": is_terminal, "width": width}
