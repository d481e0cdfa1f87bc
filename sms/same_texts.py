"""Pairs of texts that an encoder cannot tell apart though they differ in a word that counts."""

from __future__ import annotations

from collections import Counter

import numpy as np

from sms.metric import Batch
from sms.pairs import Pairs
from sms.text import SegmentedTexts, folded

SAME_ATOL = 1e-5
"""Texts no further apart than this (for cosine, unit vectors) are the same to an encoder: rounding
in a model takes them about 1e-6 apart, one other word in a thousand about 5e-3."""


def only_the_same_to(alias: str, of: Pairs, is_near: np.ndarray, batch: Batch) -> np.ndarray:
    """Tell which near pairs differ in a word that counts, bool, shape (n_pairs,).

    The encoder does not know the words or cannot tell them apart, so a score of 1 would be made up.
    (Static vectors of known words may have equal means: then 1 is right.) The released code that
    `clark2019` reproduces does score 1.
    """
    is_same = np.zeros(is_near.size, dtype=bool)
    if batch.setting.preset == "clark2019":
        return is_same
    is_near = is_near & (of.candidate != of.other)
    if alias in batch.setting.static and is_near.any():
        encoded, text_sentences = batch.encoded[alias]
        n_unknown = (encoded.n_kept - encoded.n_known)[text_sentences.values]
        has_unknown = text_sentences.sums(n_unknown) > 0
        is_near &= has_unknown[of.candidate] | has_unknown[of.other]
    near = np.flatnonzero(is_near)
    is_same[near] = _differ_in_words(batch.texts, of.candidate[near], of.other[near])
    return is_same


def _differ_in_words(texts: SegmentedTexts, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Tell which pairs of texts have other words that count, or in another proportion."""
    bags: dict[int, Counter[str]] = {}
    involved = np.union1d(first, second)
    words = texts.text_sentences.take(involved).expand(texts.sentence_words)
    for place, text in enumerate(involved.tolist()):
        counting = words[place][texts.is_kept[words[place]]]
        bags[text] = Counter(folded(texts.vocabulary.words[k]) for k in counting.tolist())

    def differ(a: Counter[str], b: Counter[str]) -> bool:
        n_a, n_b = a.total(), b.total()
        return a.keys() != b.keys() or any(a[word] * n_b != b[word] * n_a for word in a)

    return np.array(
        [differ(bags[a], bags[b]) for a, b in zip(first.tolist(), second.tolist(), strict=True)],
        dtype=bool,
    )
