"""Which way each character of a paragraph runs, and the order of a line on paper (UAX 9).

For pictures, where every word has a place that no browser computes. Embeddings, overrides and
isolates are taken as if they were not there.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import groupby

_STRONG = ("L", "R", "AL")
_NEUTRAL = ("B", "S", "WS", "ON")
_IGNORED = ("BN", "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
_BRACKETS = "()[]{}⟨⟩（）［］｛｝〈〉《》「」『』【】"  # noqa: RUF001  (wide ones, too)
_CLOSING = dict(zip(_BRACKETS[::2], _BRACKETS[1::2], strict=True))
_MOST_OPEN = 63
"""Brackets that are open at once; with more, none is paired (BD16)."""


def base_level(text: str) -> int:
    """Return 1 for a paragraph whose first letter is written from the right, else 0 (P2, P3)."""
    kinds = (unicodedata.bidirectional(character) for character in text)
    return int(next((kind for kind in kinds if kind in _STRONG), "L") != "L")


def bidi_levels(text: str, base: int) -> list[int]:
    """Return the level of every character of a paragraph: odd ones run from right to left."""
    kinds = [unicodedata.bidirectional(character) or "L" for character in text]
    heard = [k for k, kind in enumerate(kinds) if kind not in _IGNORED]
    around = "LR"[base]
    marked = [kinds[k] for k in heard]
    resolved = _without_weak(marked, around)
    _resolve_brackets([text[k] for k in heard], marked, resolved, around)
    resolved = _without_neutral(resolved, around)
    levels = [base] * len(text)
    level = base
    level_of = {k: _implicit(kind, base) for k, kind in zip(heard, resolved, strict=True)}
    for k, kind in enumerate(kinds):
        level = base if kind in ("B", "S") else level_of.get(k, level)  # L1
        levels[k] = level
    return levels


def visual_order(levels: Sequence[int]) -> list[int]:
    """Return the numbers of the parts of a line from left to right (L2).

    >>> visual_order([1, 2, 2, 1])
    [3, 1, 2, 0]
    """
    order = list(range(len(levels)))
    lowest_odd = min((level for level in levels if level % 2), default=1)
    for level in range(max(levels, default=0), lowest_odd - 1, -1):
        runs = groupby(order, key=lambda k: levels[k] >= level)
        order = [k for is_turned, run in runs for k in ([*run][::-1] if is_turned else run)]
    return order


def _without_weak(kinds: Sequence[str], around: str) -> list[str]:
    """Resolve marks, numbers and what belongs to numbers (W1 to W7)."""
    result, strong = list[str](), around
    for kind in kinds:
        if kind == "NSM":
            kind = result[-1] if result else around
        if kind in _STRONG:
            strong = kind
        result.append("AN" if kind == "EN" and strong == "AL" else kind)
    result = ["R" if kind == "AL" else kind for kind in result]
    for k in range(1, len(result) - 1):
        before, kind, after = result[k - 1 : k + 2]
        if before == after and (kind, before) in (("ES", "EN"), ("CS", "EN"), ("CS", "AN")):
            result[k] = before
    for start, stop, kind in _runs(result):
        beside = (result[start - 1] if start else "", result[stop] if stop < len(result) else "")
        if kind == "ET" and "EN" in beside:
            result[start:stop] = ["EN"] * (stop - start)
    strong = around
    for k, kind in enumerate(result):
        if kind in ("L", "R"):
            strong = kind
        elif kind == "EN" and strong == "L":
            result[k] = "L"
        elif kind in ("ES", "ET", "CS"):
            result[k] = "ON"
    return result


def _resolve_brackets(
    characters: Sequence[str], marked: Sequence[str], kinds: list[str], around: str
) -> None:
    """Give both brackets of a pair one direction, in place (N0)."""
    for start, stop in sorted(_bracket_pairs(characters, kinds)):
        inside = {_direction(kind) for kind in kinds[start + 1 : stop]} - {""}
        if not inside:
            continue
        direction = around
        if around not in inside:
            before = (_direction(kind) for kind in reversed(kinds[:start]))
            direction = next(filter(None, before), around)
        for place in (start, stop):
            kinds[place] = direction
            for k in range(place + 1, len(kinds)):
                if marked[k] != "NSM":
                    break
                kinds[k] = direction


def _bracket_pairs(characters: Sequence[str], kinds: Sequence[str]) -> list[tuple[int, int]]:
    pairs, opened = [], list[tuple[str, int]]()
    for k, character in enumerate(characters):
        if kinds[k] != "ON":
            continue
        if character in _CLOSING:
            if len(opened) == _MOST_OPEN:
                return []
            opened.append((_CLOSING[character], k))
        for depth in range(len(opened) - 1, -1, -1):
            if opened[depth][0] == character:
                pairs.append((opened[depth][1], k))
                del opened[depth:]
                break
    return pairs


def _without_neutral(kinds: Sequence[str], around: str) -> list[str]:
    """Let spaces and punctuation take the direction around them (N1, N2)."""
    result = list(kinds)
    is_neutral = [kind if kind not in _NEUTRAL else "ON" for kind in kinds]
    for start, stop, kind in _runs(is_neutral):
        if kind == "ON":
            before = _direction(kinds[start - 1]) if start else around
            after = _direction(kinds[stop]) if stop < len(kinds) else around
            result[start:stop] = [before if before == after else around] * (stop - start)
    return result


def _direction(kind: str) -> str:
    """Return the direction that a resolved kind counts as for what is beside it."""
    return {"L": "L", "R": "R", "EN": "R", "AN": "R"}.get(kind, "")


def _implicit(kind: str, base: int) -> int:
    """Return the level of a resolved kind (I1, I2)."""
    if base:
        return base + (kind != "R")
    return base + {"L": 0, "R": 1}.get(kind, 2)


def _runs(kinds: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield start, stop and kind of every run of equal kinds."""
    start = 0
    for kind, run in groupby(list(kinds)):
        stop = start + len([*run])
        yield start, stop, kind
        start = stop
