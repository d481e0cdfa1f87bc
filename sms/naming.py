"""Names that users give: one or several, unknown ones, sorting; and where caches are."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

AnyPath: TypeAlias = str | os.PathLike[str]
"""A path, or where a store will do a URL."""
OneOrMore: TypeAlias = AnyPath | Iterable[AnyPath]
"""One path or name, or several; `several` reads it."""

CACHE_VARIABLE = "ASSAY_CACHE"


ABOUT_ROWS = ("coverage@", "cut@")
"""Columns with these beginnings say how many words had a vector, or whether a source was cut. They
count as a metric only where somebody names them."""


def is_precision_or_recall(metric: str) -> bool:
    """Say whether a metric is precision or recall, the parts of an F measure.

    Examples
    --------
    >>> [is_precision_or_recall(name) for name in ("rouge1_p", "run/rougeL_r:source", "rougeL_f")]
    [True, True, False]
    """
    return metric.rpartition("/")[2].partition(":")[0].endswith(("_p", "_r"))


def cache_folder() -> Path:
    """Where copies are kept: `ASSAY_CACHE`, or `assay` in the user's folder for such things."""
    if folder := os.environ.get(CACHE_VARIABLE):
        return Path(folder).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "assay"


def several(given: OneOrMore) -> list[str]:
    """List what is given, one or several paths or names, as texts.

    A text is one name, though it can be walked through letter by letter.

    Examples
    --------
    >>> from pathlib import Path
    >>> several("sms"), several(Path("a.csv")), several(["a.csv", Path("b.csv")])
    (['sms'], ['a.csv'], ['a.csv', 'b.csv'])
    """
    each = [given] if isinstance(given, str | os.PathLike) else given
    return [os.fspath(one) for one in each]


def nearest(name: str, known: Iterable[str]) -> str:
    """Ask whether the most similar known name was meant, or list them all.

    Examples
    --------
    >>> nearest("poling", ["pooling", "layers"]), nearest("x", ["pooling", "layers"])
    ('did you mean `pooling`?', 'there are pooling, layers')
    """
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean `{near[0]}`?" if near else f"there are {', '.join(known) or 'none'}"


def counted(n: int, singular: str, plural: str | None = None) -> str:
    """Write a count with its noun.

    Examples
    --------
    >>> counted(1, "system"), counted(1200, "document"), counted(2, "entry", "entries")
    ('1 system', '1,200 documents', '2 entries')
    """
    return f"{n:,} {singular if n == 1 else plural or singular + 's'}"


def natural(name: str) -> list[tuple[int, str]]:
    """Sort names by this key as people do: numbers inside them by size.

    Examples
    --------
    >>> sorted(["M10", "M2", "M1"], key=natural)
    ['M1', 'M2', 'M10']
    """
    parts = re.split("([0-9]+)", name)
    return [(int(part), "") if part.isdigit() and part.isascii() else (-1, part) for part in parts]
