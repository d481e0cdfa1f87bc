"""The nearest other documents of each document, by the cosine of their embeddings.

Exact, by blocked matrix products within a bucket of documents. A corpus larger than a bucket is
dealt into buckets at random (`buckets`), and neighbours are looked for in the own bucket: at 2**15
documents to a bucket that is near enough to be on the same topic, costs 2**15 products per
document whatever the size of the corpus, and needs no index. (The search is a small part of the
work: embedding takes far longer. scikit-learn's has no way to leave out pairs, as the documents of
one group.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from reffree.buckets import bucket_paths, neighbours_path, read_bucket
from reffree.hashing import hash64
from sms.cosine import text_vectors
from sms.encoders import Encoder
from sms.text import Segmenter

LEAD_CHARACTERS = 1_200
"""A document is embedded by so much of its beginning (about 200 words), up to the next space."""
NEAR_IDENTICAL = 0.95
"""Documents with a higher cosine tell the same story, so that the reference of one may be right
for the other; they are no neighbours."""

_NO_LENGTH = 1e-6  # float32 rounding of vectors of length 1
_TEXTS_AT_ONCE = 256
_ROWS_AT_ONCE = 512


def find_neighbours(folder: Path, sides: Sequence[str], encoder: str, k: int) -> None:
    """Find the nearest other documents of all pairs of some sides; put them beside the buckets."""
    from sms.encoders.registry import load_encoder

    loaded = load_encoder(encoder)
    for side in sides:
        for bucket in bucket_paths(folder, side):
            write_neighbours(bucket, loaded, k)


def write_neighbours(bucket: Path, encoder: Encoder, k: int) -> None:
    """Find the neighbours of a bucket's pairs and put them beside it."""
    pairs = read_bucket(bucket)
    leads: dict[int, str] = {}  # by the whole text's hash: all texts would be too much to hold
    hashes = []
    for row in range(len(pairs)):
        text = pairs.text("source", row)
        hashes.append(hash64(text))
        leads.setdefault(hashes[-1], _lead(text))
    places = {key: place for place, key in enumerate(leads)}
    vectors = centred(document_vectors(list(leads.values()), encoder))
    rows = vectors[[places[key] for key in hashes]]
    np.save(neighbours_path(bucket), nearest_others(rows, pairs.groups, k))


def document_vectors(texts: Sequence[str], encoder: Encoder) -> np.ndarray:
    """Embed documents by the mean over the sentences of their lead, or by their lead as a whole.

    The encoder's `unit` decides. Float32, shape (n_texts, d), of length 1; zeros for a text that
    has no embedding.
    """
    blocks = list(_blocks_of_vectors([_lead(text) for text in texts], encoder))
    return np.concatenate(blocks) if blocks else np.zeros((0, 0), dtype=np.float32)


def nearest_others(vectors: np.ndarray, groups: np.ndarray, k: int) -> np.ndarray:
    """Find the k nearest documents of each that are of another group and not near identical.

    Vectors are float32, shape (n, d), of length 1; a row of zeros is nobody's neighbour and has
    none. Documents that share a text have the same group, shape (n,). Gives places, int32, shape
    (n, k), the nearest first; -1 where there are fewer.
    """
    n = len(vectors)
    found = np.full((n, k), -1, dtype=np.int32)
    is_defined = np.asarray(vectors.any(axis=1))
    taken = min(k, n)
    for begin in range(0, n, _ROWS_AT_ONCE):
        rows = slice(begin, min(begin + _ROWS_AT_ONCE, n))
        cosines = vectors[rows] @ vectors.T
        is_out = (groups[rows, None] == groups) | (cosines > NEAR_IDENTICAL)
        is_out |= ~(is_defined[rows, None] & is_defined)
        cosines[is_out] = -np.inf
        near = np.argpartition(-cosines, taken - 1, axis=1)[:, :taken]
        value = np.take_along_axis(cosines, near, axis=1)
        order = np.lexsort((near, -value), axis=1)
        near, value = (np.take_along_axis(array, order, axis=1) for array in (near, value))
        found[rows, :taken] = np.where(np.isfinite(value), near, -1)
    return found


def centred(vectors: np.ndarray) -> np.ndarray:
    """Take what all documents have in common out of their vectors; float32, the same shape.

    Means of static word vectors all point the same way: without this, documents on nothing alike
    have a cosine above `NEAR_IDENTICAL`. For sentence encoders it changes little. What is left is
    brought to length 1; zeros where there is nothing but the common part.
    """
    is_defined = np.asarray(vectors.any(axis=1))
    if not is_defined.any():
        return vectors
    rest = (vectors - vectors[is_defined].mean(axis=0)) * is_defined[:, None]
    norms = np.linalg.norm(rest, axis=1, keepdims=True)
    units = np.where(norms > _NO_LENGTH, rest / np.maximum(norms, _NO_LENGTH), 0.0)
    return units.astype(np.float32)


def _blocks_of_vectors(texts: Sequence[str], encoder: Encoder) -> Iterator[np.ndarray]:
    segmenter = Segmenter()
    for begin in range(0, len(texts), _TEXTS_AT_ONCE):
        cut = segmenter.segment(pa.array(texts[begin : begin + _TEXTS_AT_ONCE], pa.string()))
        cut = cut.whole() if encoder.unit == "text" else cut
        vectors, is_defined = text_vectors(encoder.encode(cut), cut.text_sentences, encoder.pooling)
        norms = np.linalg.norm(vectors, axis=1)
        units = vectors / np.where(is_defined, norms, 1.0)[:, None]
        yield np.where(is_defined[:, None], units, 0.0).astype(np.float32)


def _lead(text: str) -> str:
    if len(text) <= LEAD_CHARACTERS:
        return text
    end = text.find(" ", LEAD_CHARACTERS)
    return text if end < 0 else text[:end]
