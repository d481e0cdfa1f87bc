"""What the default scorer learns: a head for every aspect, and which negatives teach it.

Fixed before any rating is read. A head sees nothing of the kinds of another: missing sentences
teach that more is better, exchanged names that copying is, and in one score the two would cancel.
"""

from __future__ import annotations

KINDS_OF_HEAD: dict[str, tuple[str, ...]] = {
    "coherence": ("repeat", "sentence-shuffle", "sentence-replace", "unimportant"),
    "consistency": ("exchange", "negate", "claim", "fuse", "sentence-replace"),
    "fluency": ("swap", "delete", "replace", "repeat", "truncate", "fuse"),
    "relevance": ("cross-pair", "cross-pair-hard", "sentence-delete", "unimportant"),
}
"""Kinds of negatives, out of `negatives.KINDS`, by head."""
POSITIVES_OF_HEADS = ("reference", "lead", "extract")
"""What they are made from, out of `positives.POSITIVES`."""
ALL_KINDS = tuple(dict.fromkeys(kind for kinds in KINDS_OF_HEAD.values() for kind in kinds))
