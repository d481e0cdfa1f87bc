"""`coverage@ENCODER`: the share of words that an encoder knows, added to its metrics."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sms.metric import Batch, Metric, MetricRequest, Setting
from sms.signature import cut_part, encoder_part, version


class KnownWords(Metric):
    """The share of the kept words of a candidate and its compared texts that have a vector."""

    def signatures(self, request: MetricRequest, setting: Setting) -> dict[str, str]:
        """Name the texts whose words are counted in addition to the candidate's."""
        (alias,), (column,) = request.encoders, request.columns
        parts = [column, encoder_part(setting.encoders[alias])]
        if "references" in request.sides:
            parts.append(f"ref:{'first' if setting.multi_reference == 'first' else 'all'}")
        if "sources" in request.sides:
            parts.append(f"source:all|{cut_part(setting.source_tokens)}")
        return {column: "|".join([*parts, setting.rules.signature, f"v:{version()}"])}

    def score(self, request: MetricRequest, batch: Batch) -> Mapping[str, np.ndarray]:
        """Count the words of every row."""
        (alias,), (column,) = request.encoders, request.columns
        encoded, text_sentences = batch.encoded[alias]
        known, kept = (
            text_sentences.sums(counts[text_sentences.values])
            for counts in (encoded.n_known, encoded.n_kept)
        )
        n_known, n_kept = known[batch.candidate], kept[batch.candidate]
        for side in request.sides:
            of = batch.pairs[side]
            n_known = n_known + np.bincount(of.rows, known[of.other], of.lengths.size)
            n_kept = n_kept + np.bincount(of.rows, kept[of.other], of.lengths.size)
        share = np.where(n_kept > 0, n_known / np.maximum(n_kept, 1), np.nan)
        return {column: share}


KNOWN_WORDS = KnownWords(name="coverage", summary="share of words known", higher_is="known")


def known_words(alias: str, sides: tuple[str, ...]) -> MetricRequest:
    """Return the request that comes along with the metrics of an encoder of words."""
    return MetricRequest(f"coverage@{alias}", KNOWN_WORDS, (f"coverage@{alias}",), sides, (alias,))
