"""The names readers see for levels, coefficients, tests and statistics, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

LEVELS = {
    "system": "System",
    "summary": "Summary",
    "global": "Global",
}
LEVEL_MEANINGS = {
    "system": "the systems’ means are correlated",
    "summary": "systems are correlated inside each document, then documents are averaged",
    "global": "all pairs of a system and a document are correlated at once",
}
_QUESTIONS = {
    "system": "does a metric rank the systems as people do? For summaries of one document, read "
    "summary level.",
    "summary": "does a metric order the summaries of one document as people do? For a ranking of "
    "systems, read system level.",
    "global": "does a metric order all rows as people do? It needs no second summary of a "
    "document, and mixes differences between documents with those between summaries.",
}
_WHY_COEFFICIENT = {
    "pearson": "Pearson r asks for a straight line between scores and ratings.",
    "spearman": "Spearman \N{GREEK SMALL LETTER RHO} compares order alone, so the scale of a "
    "metric does not matter.",
    "kendall_b": "Kendall \N{GREEK SMALL LETTER TAU} counts pairs in the same order.",
}
_WHY_COEFFICIENT["kendall_c"] = _WHY_COEFFICIENT["kendall_b"]
_PLAIN = {
    "pearson": "Pearson r",
    "spearman": "Spearman \N{GREEK SMALL LETTER RHO}",
    "kendall_b": "Kendall \N{GREEK SMALL LETTER TAU}-b",
    "kendall_c": "Kendall \N{GREEK SMALL LETTER TAU}-c",
}
COEFFICIENTS = {
    **_PLAIN,
    **{f"partial_{name}": f"{title} given length" for name, title in _PLAIN.items()},
    "pairwise_accuracy": "Pairwise accuracy",
    "soft_pairwise_accuracy": "Soft pairwise accuracy",
}
TESTS = {
    "perm-both": "Permutation (Perm-Both)",
    "williams": "Williams",
    "steiger": "Steiger",
}
STATISTICS = {
    "krippendorff_alpha_ordinal": "Krippendorff’s \N{GREEK SMALL LETTER ALPHA}, ordinal",
    "krippendorff_alpha_interval": "Krippendorff’s \N{GREEK SMALL LETTER ALPHA}, interval",
}
LEAVE_ONE_OUT = "leave_one_out_"
"""Before a coefficient: each rater against the mean of the others."""
MOST_NAMED = 3
"""Systems left out that are named beside every number; the header names all."""
SIGNIFICANCE = 0.05
"""After Holm's correction."""


def statistic_name(statistic: str) -> str:
    """Name a statistic of agreement among raters.

    Examples
    --------
    >>> statistic_name("leave_one_out_pearson")
    'Leave one out, Pearson r'
    """
    if statistic.startswith(LEAVE_ONE_OUT):
        return f"Leave one out, {COEFFICIENTS[statistic.removeprefix(LEAVE_ONE_OUT)]}"
    return STATISTICS[statistic]


def lead_text(level: str, coefficient: str) -> str:
    """Say what a level and a coefficient ask, and so why they come first.

    Examples
    --------
    >>> lead_text("system", "kendall_b").partition("?")[0]
    'System level asks: does a metric rank the systems as people do'
    """
    asks = f"{LEVELS[level]} level asks: {_QUESTIONS[level]}"
    return f"{asks} {_WHY_COEFFICIENT.get(coefficient, '')}".strip()


def in_order(values: Iterable[str], names: Mapping[str, str]) -> list[str]:
    """Return the names that are among the values, each once, in their order."""
    present = set(values)
    return [name for name in names if name in present]


def selection(raters: str, excluded_systems: Sequence[str]) -> str:
    """Say whose ratings and which systems a number is made of.

    Examples
    --------
    >>> selection("expert-*", []), selection("all", ["a", "b", "c", "d", "e"])
    ('raters: expert-*', 'raters: all; without a, b, c and 2 more')
    """
    if not excluded_systems:
        return f"raters: {raters}"
    named, n_others = excluded_systems[:MOST_NAMED], len(excluded_systems) - MOST_NAMED
    without = f"{', '.join(named)} and {n_others} more" if n_others > 0 else listed(named)
    return f"raters: {raters}; without {without}"


def sentence(text: str) -> str:
    """Begin with a capital and end with a full stop; names inside stay as they are.

    Examples
    --------
    >>> sentence("raters: expert-A")
    'Raters: expert-A.'
    """
    return f"{text[:1].upper()}{text[1:]}."


def listed(names: Iterable[str]) -> str:
    """Join names as in a sentence.

    Examples
    --------
    >>> listed(["fluency"]), listed(["fluency", "relevance", "coherence"])
    ('fluency', 'fluency, relevance and coherence')
    """
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
