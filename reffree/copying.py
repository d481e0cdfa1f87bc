r"""A language model that knows nothing but one text, and how likely another text is as its copy.

A word w after the words u, v has the probability

.. math:: \lambda_0 \epsilon + \lambda_1 \frac{c(w)}{N} + \lambda_2 \frac{c(vw)}{c(v)}
          + \lambda_3 \frac{c(uvw)}{c(uv)}

where c counts in the other text of N words (Jelinek and Mercer 1980). The four shares are fitted
to pairs by expectation maximisation.
"""

from __future__ import annotations

import numpy as np

from sms.overlap import counts_in, number_ngrams
from sms.ragged import Ragged, places_of

UNKNOWN = 1e-5
"""Probability of any word where nothing is known: about one of the words of a newspaper."""
FIRST_SHARES = (0.1, 0.2, 0.3, 0.4)
LEAST_SHARE = 1e-3
"""Of each order, so that no word is impossible though all texts it was fitted to are copies."""

_STEPS = 30


def components(words: Ragged, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return what each order of the model says of every word of `first`, given `second`.

    Shape (n words of all pairs, 4), from the unknown to three words.

    Examples
    --------
    >>> components(Ragged.from_rows([[1, 2], [1, 2, 1, 3]]), np.array([0]), np.array([1]))
    array([[1.0e-05, 5.0e-01, 0.0e+00, 0.0e+00],
           [1.0e-05, 2.5e-01, 5.0e-01, 0.0e+00]])
    """
    lengths = words.lengths[first]
    n = int(lengths.sum())
    places = places_of(lengths)
    probabilities = np.zeros((n, 4))
    probabilities[:, 0] = UNKNOWN
    before = np.repeat(words.lengths[second], lengths)  # counts of the words that come before
    for order in (1, 2, 3):
        ngrams, n_distinct = number_ngrams(words, order)
        counts = np.zeros(n, dtype=np.int64)
        counts[places >= order - 1] = counts_in(ngrams, n_distinct, first, second)
        np.divide(
            counts, before, out=probabilities[:, order], where=(before > 0) & (places >= order - 1)
        )
        before = np.append(0, counts[:-1])
    return probabilities


def fit_shares(parts: np.ndarray) -> tuple[float, ...]:
    """Find the shares under which words are most likely; `parts` come from `components`."""
    shares = np.array(FIRST_SHARES)
    for _ in range(_STEPS):
        weighted = parts * shares
        shares = (weighted / weighted.sum(axis=1, keepdims=True)).mean(axis=0)
        shares = np.maximum(shares, LEAST_SHARE)
    return tuple(shares.round(4).tolist())
