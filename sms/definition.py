r"""Equations 1 to 5 of Clark, Celikyilmaz and Smith (2019), one pair of texts at a time.

This is what `wms`, `sms` and `s+wms` mean, to be read next to the paper; `movers` computes the same
for a whole batch, and the tests hold it to this file. How a text is cut into words, and which of
them count, is in `text`; where their vectors come from, in `encoders`.

A text is a list of sentences, a sentence a list of words. `vectors` has the vector of every word.
With contextual embeddings every occurrence is a word of its own (the paper's footnote 3): give
each another name.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import ot

Text: TypeAlias = Sequence[Sequence[str]]
Vectors: TypeAlias = Mapping[str, np.ndarray]
Bag: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Points, shape (n, m), and the share d of each in the text, shape (n,), of sum 1."""


def word_bag(text: Text, vectors: Vectors) -> Bag:
    r"""Weigh each word by its frequency, :math:`d_{A,i} = \text{count}(i) / |A|` (eq. 1)."""
    count = Counter(word for sentence in text for word in sentence)
    points = np.array([vectors[word] for word in count])
    return points, np.array(list(count.values())) / count.total()


def sentence_bag(text: Text, vectors: Vectors) -> Bag:
    """Weigh each sentence, the mean of its words, by its length: d = `|i| / |A|` (eq. 4)."""
    points = np.array([np.mean([vectors[word] for word in sentence], axis=0) for sentence in text])
    lengths = np.array([len(sentence) for sentence in text])
    return points, lengths / lengths.sum()


def joint_bag(text: Text, vectors: Vectors) -> Bag:
    """Take words and sentences together, each with half of its weight (eq. 5)."""
    (words, word_shares), (sentences, shares) = word_bag(text, vectors), sentence_bag(text, vectors)
    return np.concatenate([words, sentences]), np.concatenate([word_shares, shares]) / 2


def movers_distance(a: Bag, b: Bag) -> float:
    r"""Return the least cost of moving one bag onto the other (eq. 2a to 2c).

    .. math:: \min_{T \ge 0} \sum_{ij} T_{ij} \Delta(i, j)
              \quad \text{s.t.}\quad \sum_j T_{ij} = d_{A,i},\; \sum_i T_{ij} = d_{B,j}

    with the Euclidean distance :math:`\Delta(i, j) = \|v_i - v_j\|_2`.
    """
    (points_a, d_a), (points_b, d_b) = a, b
    delta = np.linalg.norm(points_a[:, None] - points_b[None, :], axis=2)
    return float(ot.emd2(d_a, d_b, delta))


def wms(a: Text, b: Text, vectors: Vectors) -> float:
    """Return word mover's similarity, exp(-distance) of the words (eq. 3)."""
    return math.exp(-movers_distance(word_bag(a, vectors), word_bag(b, vectors)))


def sms(a: Text, b: Text, vectors: Vectors) -> float:
    """Return sentence mover's similarity: the same of the sentences (section 3.1)."""
    return math.exp(-movers_distance(sentence_bag(a, vectors), sentence_bag(b, vectors)))


def s_wms(a: Text, b: Text, vectors: Vectors) -> float:
    """Return sentence and word mover's similarity, s+wms: of both at once (section 3.2).

    Examples
    --------
    The words are the same, and the sentences' means are 1 apart:

    >>> vectors = {"snow": np.array([0.0]), "rain": np.array([2.0])}
    >>> a, b = [["snow"], ["rain"]], [["snow", "rain"]]
    >>> [round(similarity(a, b, vectors), 3) for similarity in (wms, sms, s_wms)]
    [1.0, 0.368, 0.607]
    """
    return math.exp(-movers_distance(joint_bag(a, vectors), joint_bag(b, vectors)))
