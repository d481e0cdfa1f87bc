"""The nearest other documents of each document, by the words of their leads (TF-IDF, cosine).

Looked for within a bucket of documents. A corpus larger than a bucket is dealt into buckets at
random (`buckets`): at 2**15 documents to a bucket that is near enough to be on the same topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from reffree.buckets import bucket_paths, neighbours_path, read_bucket

LEAD_CHARACTERS = 1_200  # a document counts by so much of its beginning (about 200 words)
NEAR_IDENTICAL = 0.8
"""Documents with a higher cosine tell the same story, so that the reference of one may be right
for the other; they are no neighbours."""

_SPARE = 16  # neighbours that may turn out to be of the same group


def find_neighbours(folder: Path, sides: Sequence[str], k: int) -> None:
    """Find the nearest other documents of all pairs of some sides; write a file to each bucket."""
    for side in sides:
        for path in bucket_paths(folder, side):
            bucket = read_bucket(path)
            leads = [bucket.text("source", row)[:LEAD_CHARACTERS] for row in range(len(bucket))]
            np.save(neighbours_path(path), nearest_others(leads, bucket.groups, k))


def nearest_others(texts: Sequence[str], groups: np.ndarray, k: int) -> np.ndarray:
    """Find the k nearest texts of each that are of another group and not near identical.

    Documents that share a text have the same group, shape (n,). Gives places, int32, shape (n, k),
    the nearest first; -1 where there are fewer that share a word.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.neighbors import NearestNeighbors

    n = len(texts)
    vectors = TfidfVectorizer(sublinear_tf=True, token_pattern=r"(?u)\w+").fit_transform(texts)
    search = NearestNeighbors(metric="cosine", algorithm="brute").fit(vectors)
    distances, places = search.kneighbors(vectors, n_neighbors=min(n, k + _SPARE))
    is_out = (distances < 1 - NEAR_IDENTICAL) | (distances >= 1 - _NOTHING_SHARED)
    is_out |= groups[places] == groups[:, None]
    order = np.argsort(is_out, axis=1, kind="stable")[:, :k]
    nearest = np.full((n, k), -1, dtype=np.int32)
    kept = np.take_along_axis(np.where(is_out, -1, places), order, axis=1)
    nearest[:, : kept.shape[1]] = kept
    return nearest


_NOTHING_SHARED = 1e-9  # cosine of texts without a common word, but for rounding
