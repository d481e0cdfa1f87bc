"""Word and sentence mover's similarity (Clark, Celikyilmaz and Smith 2019)."""

from __future__ import annotations

import numpy as np

from sms.compiled import kernel
from sms.encoders import EncodedSentences
from sms.ragged import Ragged, offsets_of
from sms.transport import JOINT, MAX_CELLS, SENTENCES, WORDS, Clouds, mover_costs

PROBLEMS = {"wms": WORDS, "sms": SENTENCES, "s+wms": JOINT}
"""The transport problem behind each metric."""
_COLUMNS = ("wms", "sms", "s+wms")


def mover_similarities(
    encoded: EncodedSentences,
    text_sentences: Ragged,
    candidate: np.ndarray,
    reference: np.ndarray,
    metrics: frozenset[str],
    threads: int,
) -> dict[str, np.ndarray]:
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
    dict of str to ndarray, shape (n_pairs,)
        In (0, 1], higher is closer; NaN where a text has no word left or the pair is too large.
    """
    clouds, splits = text_clouds(encoded, text_sentences, words=metrics != {"sms"})
    sizes = clouds.members.lengths
    fits = sizes[candidate] * sizes[reference] <= MAX_CELLS
    scored = np.flatnonzero((sizes[candidate] > 0) & (sizes[reference] > 0) & fits)
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
            found[metric] = np.full(candidate.size, np.nan)
            found[metric][scored] = np.exp(-costs[:, k])
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


def too_large(
    encoded: EncodedSentences,
    text_sentences: Ragged,
    candidate: np.ndarray,
    reference: np.ndarray,
) -> np.ndarray:
    """Tell which pairs of texts make a cost matrix beyond `MAX_CELLS`, bool, (n_pairs,)."""
    sizes = text_sentences.lengths + kept_words(encoded, text_sentences)
    return sizes[candidate] * sizes[reference] > MAX_CELLS
