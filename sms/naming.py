"""What users name: one or several, paths or texts; what to say to a name that there is not."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from typing import TypeAlias

AnyPath: TypeAlias = str | os.PathLike[str]
"""A path, or where a store will do a URL."""
OneOrMore: TypeAlias = AnyPath | Iterable[AnyPath]
"""One path or name, or several; `several` reads it."""


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
