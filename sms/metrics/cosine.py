r"""Cosine of text embeddings (Sun and Nenkova 2019).

A text's vector is :math:`t = \sum_i n_i s_i / \sum_i n_i` over its sentences. For static vectors
:math:`s_i` is the mean of the sentence's kept words and :math:`n_i` their number. For all other
encoders :math:`s_i` is the sentence's own vector, of some models scaled to length 1
(`pool:mean+unit` in the signature), and :math:`n_i` the number of all its words, stop words and
punctuation among them; 0 where the encoder knows none that counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sms.encoders import EncodedSentences
from sms.metric import EITHER, SAME_ATOL, Batch, Metric, Setting
from sms.ragged import Ragged, offsets_of
from sms.reasons import INDISTINGUISHABLE
from sms.signature import encoder_part

_TEXTS_AT_ONCE = 128
"""So that what is computed of their sentences stays in the processor's cache."""


def text_vectors(
    encoded: EncodedSentences, text_sentences: Ragged, pooling: str
) -> tuple[np.ndarray, np.ndarray]:
    """Make one vector per text from its sentences, (n_texts, d), and say which have one.

    `mean` weights each sentence by `encoded.pooled_weights`; `max` takes the largest value of each
    dimension. A text has none where no sentence has weight.
    """
    weights = encoded.pooled_weights[text_sentences.values]
    n_used = text_sentences.sums(weights > 0)
    sentences, weights = text_sentences.values[weights > 0], weights[weights > 0]
    offsets, is_defined = offsets_of(n_used), n_used > 0
    vectors = np.zeros((len(text_sentences), encoded.pooled.shape[1]))
    filled = np.flatnonzero(is_defined)
    for at in range(0, filled.size, _TEXTS_AT_ONCE):
        texts = filled[at : at + _TEXTS_AT_ONCE]
        first, last = offsets[texts[0]], offsets[texts[-1] + 1]
        starts = offsets[texts] - first
        sentence_vectors = encoded.pooled[sentences[first:last]]
        if pooling == "max":
            vectors[texts] = np.maximum.reduceat(sentence_vectors, starts, axis=0)
        else:
            of_each = weights[first:last]
            sums = np.add.reduceat(sentence_vectors * of_each[:, None], starts, axis=0)
            vectors[texts] = sums / np.add.reduceat(of_each, starts)[:, None]
    return vectors, is_defined & (vectors != 0).any(axis=1)


def cosine_similarities(
    vectors: np.ndarray, is_defined: np.ndarray, candidate: np.ndarray, reference: np.ndarray
) -> np.ndarray:
    """Return the cosine of every pair; NaN where a side is undefined, 1 for the same text."""
    norms = np.linalg.norm(vectors, axis=1)
    units = vectors / np.where(norms > 0, norms, 1.0)[:, None]
    similarity = np.einsum("ij,ij->i", units[candidate], units[reference])
    similarity = np.where(candidate == reference, 1.0, np.clip(similarity, -1.0, 1.0))
    return np.where(is_defined[candidate] & is_defined[reference], similarity, np.nan)


class Cosine(Metric):
    """The cosine of two texts' vectors, or its mean over encoders, null where one is null."""

    averages = True
    finest = "texts"

    def signature_parts(self, setting: Setting) -> Sequence[str]:
        """Name the encoders, and what weighs a sentence in the mean of its text if anything."""
        parts = [f"mean-of:{len(self.encoders)}"] if self.is_average else []
        for alias in self.encoders:
            encoder = setting.encoders[alias]
            parts.append(encoder_part(encoder))
            if encoder.pooling == "mean" and encoder.unit != "text":
                words = "kept-words" if alias in setting.static else "all-words"
                parts.append(f"weight:{words}")
        return parts

    def score(self, batch: Batch) -> Mapping[str, np.ndarray]:
        """Score every row under each encoder once."""
        (side,) = self.sides

        def alone(alias: str) -> np.ndarray:
            return batch.once((Cosine, alias, side), lambda: self._under(alias, side, batch))

        return {self.written: np.mean([alone(alias) for alias in self.encoders], axis=0)}

    def _under(self, alias: str, side: str, batch: Batch) -> np.ndarray:
        of, pooling = batch.pairs[side], batch.setting.encoders[alias].pooling
        vectors = batch.once((Cosine, alias), lambda: text_vectors(*batch.encoded[alias], pooling))
        cosines = cosine_similarities(*vectors, of.candidate, of.other)
        is_near = cosines >= 1.0 - SAME_ATOL**2 / 2.0
        is_same = batch.indistinguishable(alias, of, is_near)
        scores = of.joined(np.where(is_same, np.nan, cosines))
        return batch.without_doubtful(scores, side, INDISTINGUISHABLE, is_same, of=alias)


COSINE = Cosine(
    name="cosine",
    summary="cosine of the texts' embeddings; `cosine@all` is the mean over all encoders",
    higher_is="closer, -1 to 1",
    needs=(EITHER, "sentences"),
    bounds=(-1.0, 1.0),
)
