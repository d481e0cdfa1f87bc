"""Letters that say which of several systems differ: those without a common letter do.

Piepho (2004), "An Algorithm for a Letter-Based Representation of All-Pairwise Comparisons". Any
result of tests has letters, also where A differs neither from B nor from C but B differs from C.
"""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase

import numpy as np

_LETTERS = ascii_lowercase + ascii_uppercase


def compact_letters(differs: np.ndarray) -> list[str]:
    """Give every system letters, so that two have one in common if and only if they do not differ.

    `differs` says of every two systems whether they do, shape (n, n), symmetric. The systems come
    in the order in which letters are given: the first has `a`. After 52 letters come `aa`, `ab`,
    ..., and all letters of a system are then separated by commas.

    >>> compact_letters(np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]], dtype=bool))
    ['a', 'ab', 'b']
    """
    n = len(differs)
    if differs.shape != (n, n) or (differs != differs.T).any() or differs.diagonal().any():
        raise ValueError("`differs` must be a symmetric square matrix, False on its diagonal")
    groups = _without_redundant(_groups(differs), differs)
    groups.sort(key=lambda group: sorted(group))
    names = [_name(number) for number in range(len(groups))]
    between = "," if len(groups) > len(_LETTERS) else ""
    return [
        between.join(name for name, group in zip(names, groups, strict=True) if system in group)
        for system in range(n)
    ]


def _groups(differs: np.ndarray) -> list[frozenset[int]]:
    """Return the largest groups of systems that do not differ (Piepho's insert and absorb)."""
    groups = [frozenset(range(len(differs)))] if len(differs) else []
    for i, j in np.argwhere(np.triu(differs)).tolist():
        whole = [group for group in groups if not {i, j} <= group]
        parts = {group - {one} for group in groups if {i, j} <= group for one in (i, j)}
        groups = whole + [part for part in parts if not any(part <= group for group in whole)]
    return groups


def _without_redundant(groups: list[frozenset[int]], differs: np.ndarray) -> list[frozenset[int]]:
    """Leave out groups of which others have every two systems, the smallest first."""
    n_shared = np.zeros(differs.shape, dtype=int)
    members = {group: np.ix_(sorted(group), sorted(group)) for group in groups}
    for group in groups:
        n_shared[members[group]] += 1
    kept = []
    for group in sorted(groups, key=lambda group: (len(group), sorted(group))):
        if (n_shared[members[group]] > 1).all():
            n_shared[members[group]] -= 1
        else:
            kept.append(group)
    return kept


def _name(number: int) -> str:
    if number < len(_LETTERS):
        return _LETTERS[number]
    first, second = divmod(number - len(_LETTERS), len(ascii_lowercase))
    return _name(first) + ascii_lowercase[second]
