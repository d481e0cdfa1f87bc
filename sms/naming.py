"""What to say to somebody who wrote a name that there is not."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


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
