"""What the default scorer learns: a head for every aspect, which negatives teach it, what it reads.

No head learns from the kinds of another: missing sentences teach that more is better, exchanged
names that copying is, and in one score the two would cancel. Each feature counts in one direction
only, so that weights cannot use it against its sense to make made-up mistakes stand out. No head
reads the length: some people rate long summaries higher, others do not.
"""

from __future__ import annotations

from reffree.features import WORD_FEATURES

KINDS_OF_HEAD: dict[str, tuple[str, ...]] = {
    "coherence": ("repeat", "sentence-shuffle", "sentence-replace", "unimportant"),
    "consistency": ("exchange", "negate", "claim", "fuse", "sentence-replace"),
    "fluency": ("swap", "delete", "replace", "repeat", "fuse", "break"),
    "relevance": ("cross-pair", "cross-pair-hard", "sentence-delete", "unimportant"),
}
"""Kinds of negatives, out of `negatives.KINDS`, by head."""
POSITIVES_OF_HEADS = ("reference", "lead", "extract")
"""What they are made from, out of `positives.POSITIVES`."""
ALL_KINDS = tuple(dict.fromkeys(kind for kinds in KINDS_OF_HEAD.values() for kind in kinds))

FEATURES_OF_HEAD: dict[str, tuple[str, ...]] = {
    "coherence": (
        "lead3", "lead_words", "order", "place", "first_place", "neighbours", "redundancy_words",
        "repetition", "pointing", "copy_least",
    ),
    "consistency": (
        "coverage", "density", "novelty", "joined", "rouge2_p", "copy_mean", "copy_least",
        "unknown_words", "unknown_names", "words_mean", "words_least", "words_bad", "linked",
    ),
    "fluency": (
        "density", "joined", "rouge2_p", "linked", "words_mean", "words_least", "words_bad",
        "repetition", "redundancy_words", "ending",
    ),
    "relevance": (
        "lead3", "lead_words", "copied", "place", "first_place", "unknown_words", "unknown_names",
    ),
}  # fmt: skip
"""What a head is fitted to, out of `WORD_FEATURES`; a head that is not here is fitted to all.

Metrics that are features are not fitted where a head is here: see `fit_linear`."""
COMPOSED_OF_HEAD: dict[str, tuple[str, ...]] = {"coherence": ("copy_mean",)}
"""What a head reads as an equal part, not fitted (`fit_linear`), where no metric is a feature.

The copy model is then the only language model there is. No made-up mistake of coherence teaches how
likely the words are; with it, scores agree better with ratings (docs/results.md, sixth choice).
"""
DIRECTIONS: dict[str, int] = dict.fromkeys(WORD_FEATURES, 1) | {
    **dict.fromkeys(
        ("novelty", "joined", "unknown_words", "unknown_names", "words_bad", "place", "first_place",
         "redundancy_words", "repetition", "pointing"),
        -1,
    ),
    "neighbours": 0,
}  # fmt: skip
"""Whether more of a feature is better (1), worse (-1) or may be either (0), for heads that are
here."""


def directions_of(head: str) -> dict[str, int] | None:
    """Return the features that a head is fitted to, and their directions; None for all and any."""
    names = FEATURES_OF_HEAD.get(head)
    return None if names is None else {name: DIRECTIONS[name] for name in names}
