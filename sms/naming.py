"""Names and paths that users give: one or several, unknown ones, sorting; and where caches are."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from sms.urls import is_url

AnyPath: TypeAlias = str | os.PathLike[str]
"""A path, or where a store will do a URL."""
OneOrMore: TypeAlias = AnyPath | Iterable[AnyPath]
"""One path or name, or several; `several` reads it."""

ABOUT_ROWS = ("known_words@", "cut@")
"""Columns with these beginnings say how many words had a vector, or whether a source was cut. They
count as a metric only where somebody names them."""


def is_precision_or_recall(metric: str) -> bool:
    """Say whether a metric is precision or recall, the parts of an F measure."""
    return metric.rpartition("/")[2].partition(":")[0].endswith(("_p", "_r"))


def cache_folder() -> Path:
    """Where copies are kept: `ASSAY_CACHE`, or `assay` in the user's folder for such things."""
    if folder := os.environ.get("ASSAY_CACHE"):
        return Path(user_path(folder))
    return Path(user_path(os.environ.get("XDG_CACHE_HOME") or "~/.cache"), "assay")


def is_unicode(text: object) -> bool:
    r"""Tell whether a value is a text without bytes that were not UTF-8, and halves of characters.

    >>> is_unicode("Müller"), is_unicode("M\udcfcller"), is_unicode("\ud83d")
    (True, False, False)
    """
    if not isinstance(text, str):
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def user_path(path: AnyPath) -> str:
    """Return a path that a user wrote with `~` and `~name` at its start written out.

    A shell does so for a word of its own only, so `--out=~/run`, `glove:~/v.txt` and all paths in
    TOML and Python come with it. URLs, and names of users that there are not, stay as they are.
    """
    path = os.fspath(path)
    return path if is_url(path) else os.path.expanduser(path)


def load_entry_points(group: str) -> None:
    """Import what installed packages add; `ValueError` with the package if that fails."""
    from importlib import metadata

    for point in metadata.entry_points(group=group):
        try:
            point.load()
        except Exception as error:
            package = point.dist.name if point.dist else "?"
            reason = str(error).partition("\n")[0]
            raise ValueError(
                f"package {package} registers `{point.value}` in `{group}`, but it cannot be "
                f"imported ({type(error).__name__}: {reason}); repair or uninstall the package"
            ) from error


def several(given: OneOrMore) -> list[str]:
    """List what is given, one or several paths or names, as texts."""
    each = [given] if isinstance(given, str | os.PathLike) else given
    return [os.fspath(one) for one in each]


def nearest(name: str, known: Iterable[str]) -> str:
    """Ask whether the most similar known name was meant, or list them all."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean `{near[0]}`?" if near else f"there are {', '.join(known) or 'none'}"


def counted(n: int, singular: str, plural: str | None = None) -> str:
    """Write a count with its noun: `1 system`, `1,200 documents`."""
    return f"{n:,} {singular if n == 1 else plural or singular + 's'}"


def natural(name: str) -> list[tuple[int, str]]:
    """Sort names by this key as people do: numbers inside them by size."""
    parts = re.split("([0-9]+)", name)
    return [(int(part), "") if part.isdigit() and part.isascii() else (-1, part) for part in parts]


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise `ValueError` unless a value is one of some choices."""
    if value not in (listed := list(choices)):
        raise ValueError(f"`{name}` must be one of {', '.join(listed)}, got {value!r}")
