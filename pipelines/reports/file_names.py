"""File names made of what users call things, which may be anything."""

from __future__ import annotations

import hashlib
import re

LONGEST_PART = 60
"""Characters kept of a name."""

_HARMFUL = re.compile(r"[^A-Za-z0-9_+@-]+")


def file_stem(*parts: str) -> str:
    """Make a file name without a suffix; different parts give different names.

    The parts are joined by dots. What is not a harmless character becomes a dash, and then a hash
    is added.

    Examples
    --------
    >>> file_stem("correlations", "system", "fluency")
    'correlations.system.fluency'
    >>> file_stem("a/b").startswith("a-b."), file_stem("a/b") == file_stem("a b")
    (True, False)
    """
    plain = [_HARMFUL.sub("-", part)[:LONGEST_PART] for part in parts]
    if plain == list(parts):
        return ".".join(plain)
    key = "\x00".join(parts).encode("utf-8", "surrogateescape")
    return ".".join([*plain, hashlib.sha256(key).hexdigest()[:8]])


def explain_file(document_id: str, system_id: str, metric: str) -> str:
    """Name the page that explains one score; other candidates and metrics have other names.

    Examples
    --------
    >>> explain_file("cnn-1", "M0", "sms")
    'cnn-1.M0.sms.html'
    """
    return f"{file_stem(document_id, system_id, metric)}.html"
