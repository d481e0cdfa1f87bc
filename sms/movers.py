"""Word and sentence mover's similarity (Clark, Celikyilmaz and Smith 2019)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sms.compiled import kernel
from sms.encoders import EncodedSentences
from sms.ragged import Ragged, offsets_of
from sms.transport import JOINT, MAX_CELLS, SENTENCES, WORDS, Clouds, mover_costs

PROBLEMS = {"wms": WORDS, "sms": SENTENCES, "s+wms": JOINT}
"""The transport problem behind each metric."""
_COLUMNS = ("wms", "sms", "s+wms")


@dataclass(frozen=True, slots=True)
class MoverSimilarities:
    """Of some pairs of texts, under one metric."""

    values: np.ndarray
    """In (0, 1], higher is closer; NaN where a text has no word left or the pair is too large;
    shape (n_pairs,)."""
    is_too_large: np.ndarray
    """Whether the pair's cost matrix is beyond `MAX_CELLS`, bool, shape (n_pairs,)."""


def mover_similarities(
    encoded: EncodedSentences,
    text_sentences: Ragged,
    candidate: np.ndarray,
    reference: np.ndarray,
    metrics: frozenset[str],
    threads: int,
) -> dict[str, MoverSimilarities]:
    r"""Return the similarity of every pair of texts under each metric.

    The similarity is :math:`\exp(-\mathrm{EMD})` with Euclidean ground cost (eq. 3). `wms` has a
    point per distinct word (per occurrence for contextual encoders) weighted by its count
    (eq. 1), `sms` a point per sentence weighted by its kept words (eq. 4), `s+wms` one problem
    over the union in which words and sentences each have half the mass (eq. 5).

    Parameters
    ----------
    encoded : EncodedSentences
        The distinct sentences of the batch.
    text_sentences : Ragged
        Sentences of every distinct text.
    candidate, reference : ndarray of int64, shape (n_pairs,)
        The two texts of every pair.
    metrics : frozenset of {"wms", "sms", "s+wms"}
    threads : int

    Returns
    -------
    dict of str to MoverSimilarities
        By metric; none depends on which others are asked for.
    """
    clouds, splits = text_clouds(encoded, text_sentences, words=metrics != {"sms"})
    sizes = clouds.members.lengths
    n_cells = sizes[candidate] * sizes[reference]
    is_too_large = n_cells > MAX_CELLS
    scored = np.flatnonzero((n_cells > 0) & ~is_too_large)
    costs, _ = mover_costs(
        encoded.word_points,
        encoded.sentence_points,
        clouds,
        splits,
        candidate[scored],
        reference[scored],
        sum(PROBLEMS[metric] for metric in metrics),
        threads=threads,
    )
    found = {}
    for k, metric in enumerate(_COLUMNS):
        if metric in metrics:
            values = np.full(candidate.size, np.nan)
            values[scored] = np.exp(-costs[:, k])
            found[metric] = MoverSimilarities(values, is_too_large)
    if "sms" in metrics and metrics != {"sms"} and is_too_large.any():
        # the words are what is too many; sentences alone may do
        alone = frozenset({"sms"})
        found |= mover_similarities(encoded, text_sentences, candidate, reference, alone, threads)
    return found


def text_clouds(
    encoded: EncodedSentences, text_sentences: Ragged, *, words: bool = True
) -> tuple[Clouds, np.ndarray]:
    """Make the weighted bag of words and sentences of every text.

    Returns
    -------
    clouds : Clouds
        Words, then sentences, each with counts of kept words as weights.
    splits : ndarray of int64, shape (n_texts,)
        Where each text's sentences begin.
    """
    bags = (
        text_sentences.expand(encoded.sentence_words)
        if words
        else Ragged(np.empty(0, dtype=np.int64), np.zeros(len(text_sentences) + 1, dtype=np.int64))
    )
    size = bags.values.size + text_sentences.values.size
    members, weights = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    splits = np.empty(len(bags), dtype=np.int64)
    ends = np.empty(len(bags), dtype=np.int64)
    _fill_clouds(
        bags.values,
        bags.offsets,
        text_sentences.values,
        text_sentences.offsets,
        encoded.weights,
        members,
        weights,
        splits,
        ends,
    )
    offsets = np.concatenate([[0], ends])
    size = int(offsets[-1])
    return Clouds(Ragged(members[:size], offsets), Ragged(weights[:size], offsets)), splits


@kernel()
def _fill_clouds(
    words: np.ndarray,
    word_offsets: np.ndarray,
    sentences: np.ndarray,
    sentence_offsets: np.ndarray,
    sentence_weights: np.ndarray,
    members: np.ndarray,
    weights: np.ndarray,
    splits: np.ndarray,
    ends: np.ndarray,
) -> None:
    at = 0
    for text in range(splits.size):
        ordered = np.sort(words[word_offsets[text] : word_offsets[text + 1]])
        first = at
        for word in ordered:
            if at > first and members[at - 1] == word:
                weights[at - 1] += 1
            else:
                members[at] = word
                weights[at] = 1
                at += 1
        splits[text] = first = at
        ordered = np.sort(sentences[sentence_offsets[text] : sentence_offsets[text + 1]])
        for sentence in ordered:
            if sentence_weights[sentence] == 0:
                continue
            if at > first and members[at - 1] == sentence:
                weights[at - 1] += sentence_weights[sentence]
            else:
                members[at] = sentence
                weights[at] = sentence_weights[sentence]
                at += 1
        ends[text] = at


def kept_words(encoded: EncodedSentences, text_sentences: Ragged) -> np.ndarray:
    """Return how many words of every text have a vector, shape (n_texts,)."""
    lengths = encoded.weights[text_sentences.values]
    running = offsets_of(lengths)
    return running[text_sentences.offsets[1:]] - running[text_sentences.offsets[:-1]]
