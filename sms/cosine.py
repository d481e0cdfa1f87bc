r"""Cosine of text embeddings (Sun and Nenkova 2019).

A text's vector is :math:`t = \sum_i n_i s_i / \sum_i n_i` over its sentences. For static vectors
:math:`s_i` is the mean of the sentence's kept words and :math:`n_i` their number. For all other
encoders :math:`s_i` is the sentence's own vector, of some models scaled to length 1
(`pool:mean+unit` in the signature), and :math:`n_i` the number of all its words, stop words and
punctuation among them; 0 where the encoder knows none that counts.
"""

from __future__ import annotations

import numpy as np

from sms.encoders import EncodedSentences
from sms.ragged import Ragged


def text_vectors(
    encoded: EncodedSentences, text_sentences: Ragged, pooling: str
) -> tuple[np.ndarray, np.ndarray]:
    """Make one vector per text from its sentences.

    Parameters
    ----------
    encoded : EncodedSentences
    text_sentences : Ragged
        Sentences of every text.
    pooling : {"mean", "max"}
        `mean` weights each sentence by `encoded.pooled_weights`, which for static vectors is the
        mean over all kept words; `max` takes the largest value of each dimension.

    Returns
    -------
    vectors : ndarray, shape (n_texts, d)
    is_defined : ndarray of bool, shape (n_texts,)
        False where no sentence has weight.
    """
    n, d = len(text_sentences), encoded.pooled.shape[1]
    owner = np.repeat(np.arange(n), text_sentences.lengths)
    used = encoded.pooled_weights[text_sentences.values] > 0
    owner, sentences = owner[used], text_sentences.values[used]
    is_defined = np.bincount(owner, minlength=n) > 0
    vectors = np.zeros((n, d))
    if sentences.size:
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        if pooling == "max":
            vectors[owner[starts]] = np.maximum.reduceat(encoded.pooled[sentences], starts, axis=0)
        else:
            weights = encoded.pooled_weights[sentences]
            sums = np.add.reduceat(encoded.pooled[sentences] * weights[:, None], starts, axis=0)
            vectors[owner[starts]] = sums / np.add.reduceat(weights, starts)[:, None]
    return vectors, is_defined & (vectors != 0).any(axis=1)


def cosine_similarities(
    vectors: np.ndarray, is_defined: np.ndarray, candidate: np.ndarray, reference: np.ndarray
) -> np.ndarray:
    """Return the cosine of every pair; NaN where a side is undefined, 1 for the same text.

    Parameters
    ----------
    vectors : ndarray, shape (n_texts, d)
    is_defined : ndarray of bool, shape (n_texts,)
    candidate, reference : ndarray of int64, shape (n_pairs,)
    """
    norms = np.linalg.norm(vectors, axis=1)
    units = vectors / np.where(norms > 0, norms, 1.0)[:, None]
    similarity = np.einsum("ij,ij->i", units[candidate], units[reference])
    similarity = np.where(candidate == reference, 1.0, np.clip(similarity, -1.0, 1.0))
    return np.where(is_defined[candidate] & is_defined[reference], similarity, np.nan)
