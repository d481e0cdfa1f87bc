"""The one syntax for encoders: `[ALIAS=]SPEC` on the command line, a table in TOML, both in Python.

    encoders = "minilm"
    encoders = ["minilm", "news=glove:vectors.txt,pooling=max"]
    encoders = {"news": "glove:vectors.txt,pooling=max"}

The first is the default of a run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

Encoders: TypeAlias = Mapping[str, str] | Sequence[str]

_ALIAS = re.compile(r"([^=:/\\,]+)=(.*)", re.DOTALL)
_AFTER_KIND = re.compile(r"[:,]")


def encoders_of(given: object) -> dict[str, str]:
    """Return alias to specification; without an alias an encoder is called by its kind.

    Raises ValueError if two have the same alias, or one is not a text.

    Examples
    --------
    >>> encoders_of(["minilm", "news=glove:v.txt,pooling=max"])
    {'minilm': 'minilm', 'news': 'glove:v.txt,pooling=max'}
    """
    pairs: Iterable[tuple[object, object]]
    if isinstance(given, Mapping):
        pairs = given.items()
    elif isinstance(given, str) or not isinstance(given, Iterable):
        pairs = [(None, given)]
    else:
        pairs = ((None, spec) for spec in given)
    specs: dict[str, str] = {}
    for alias, spec in pairs:
        if not isinstance(spec, str):
            raise ValueError(
                "`encoders` must be texts such as `glove:PATH,pooling=max`, or a table with one "
                f"for each alias, got {spec!r}"
            )
        if alias is None:
            named = _ALIAS.fullmatch(spec)
            alias, spec = named.groups() if named else (_AFTER_KIND.split(spec)[0], spec)
        if alias in specs:
            raise ValueError(
                f"two encoders are called `{alias}`; rename one of them: "
                f"--encoder {shlex.quote(f'ALIAS={spec}')}"
            )
        specs[str(alias)] = spec
    return specs
