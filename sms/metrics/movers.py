"""Word and sentence mover's similarity (Clark, Celikyilmaz and Smith 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sms.encoders import EncodedSentences
from sms.encoders.registry import EncoderSpec
from sms.metric import EITHER, SAME_ATOL, Batch, Metric, Setting
from sms.ragged import Ragged, starts_of_runs
from sms.reasons import INDISTINGUISHABLE
from sms.signature import encoder_part
from sms.transport import MAX_CELLS, Clouds, mover_costs
from sms.transport.clouds import JOINT, SENTENCES, WORDS

PROBLEMS = {"wms": WORDS, "sms": SENTENCES, "s+wms": JOINT}
"""The transport problem behind each metric, in the order of the solver's columns."""


def mover_similarities(
    encoded: EncodedSentences,
    text_sentences: Ragged,
    candidate: np.ndarray,
    reference: np.ndarray,
    metrics: frozenset[str],
    threads: int,
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the similarity of every pair of texts under each metric, exp(-EMD) (eq. 3).

    `wms` has a point per distinct word (per occurrence for contextual encoders) weighted by its
    count (eq. 1), `sms` a point per sentence weighted by its kept words (eq. 4), `s+wms` one
    problem over the union in which words and sentences each have half the mass (eq. 5). No metric
    depends on which others are asked for, but for rounding.

    Each has values in (0, 1], shape (n_pairs,), NaN where a text has no word left or the pair is
    too large, and whether its cost matrix is beyond `MAX_CELLS`.
    """
    clouds = text_clouds(encoded, text_sentences, words=metrics != {"sms"})
    sizes = clouds.members.lengths
    n_cells = sizes[candidate] * sizes[reference]
    is_too_large = n_cells > MAX_CELLS
    scored = np.flatnonzero((n_cells > 0) & ~is_too_large)
    costs = mover_costs(
        clouds,
        candidate[scored],
        reference[scored],
        sum(PROBLEMS[metric] for metric in metrics),
        threads=threads,
    )
    similarities = {}
    for k, metric in enumerate(PROBLEMS):
        if metric in metrics:
            values = np.full(candidate.size, np.nan)
            values[scored] = np.exp(-costs[:, k])
            similarities[metric] = values, is_too_large
    if "sms" in metrics and metrics != {"sms"} and is_too_large.any():
        # words made these texts too large; their sentences alone may be few enough
        alone = frozenset({"sms"})
        similarities |= mover_similarities(
            encoded, text_sentences, candidate, reference, alone, threads
        )
    return similarities


def text_clouds(encoded: EncodedSentences, text_sentences: Ragged, *, words: bool = True) -> Clouds:
    """Make the weighted bag of words and sentences of every text; weights are counts of words."""
    bags = (
        text_sentences.expand(encoded.sentence_words)
        if words
        else Ragged(np.empty(0, dtype=np.int64), np.zeros(len(text_sentences) + 1, dtype=np.int64))
    )
    # of every text first the words, then the sentences; equal ones are joined
    parts = np.concatenate([2 * bags.owners, 2 * text_sentences.owners + 1])
    points = np.concatenate([bags.values, text_sentences.values])
    n_points = int(points.max(initial=0)) + 1
    keys = parts * n_points + points
    keys.sort()
    first = starts_of_runs(keys)
    totals = np.diff(first, append=keys.size)
    parts, points = np.divmod(keys[first], n_points)
    are_sentences = parts % 2 == 1
    totals[are_sentences] *= encoded.weights[points[are_sentences]]
    parts, points, totals = parts[totals > 0], points[totals > 0], totals[totals > 0]
    members = Ragged.from_lengths(points, np.bincount(parts, minlength=2 * len(text_sentences)))
    offsets, splits = members.offsets[::2].copy(), members.offsets[1::2].copy()
    return Clouds(
        encoded.word_points,
        encoded.sentence_points,
        Ragged(members.values, offsets),
        Ragged(totals, offsets),
        splits,
    )


class Mover(Metric):
    """A mover's similarity; those of the same encoder share one block of distances."""

    def check(self, specs: Mapping[str, EncoderSpec]) -> None:
        """Refuse encoders without vectors of words, or of sentences."""
        for alias in self.encoders:
            if specs[alias].values.get("unit") == "text":
                raise ValueError(
                    f"metric {self.written!r} compares sentences, but encoder `{alias}` reads "
                    "whole texts; leave out `unit=text`"
                )
        super().check(specs)

    def signature_parts(self, setting: Setting) -> Sequence[str]:
        """Name the encoder and the problem."""
        (alias,) = self.encoders
        constant = "sim:exp-emd|cost:l2|weight:count|solver:exact"
        return [encoder_part(setting.encoders[alias]), constant]

    def score(self, batch: Batch) -> Mapping[str, np.ndarray]:
        """Score every row, where its texts have words and are no longer than the solver takes."""
        (alias,), (side,) = self.encoders, self.sides
        together = frozenset(
            other.name
            for other in batch.setting.metrics
            if isinstance(other, Mover)
            and (other.encoders, other.sides) == (self.encoders, self.sides)
        )
        of = batch.pairs[side]
        values, is_too_large = batch.once(
            (Mover, alias, side),
            lambda: mover_similarities(
                *batch.encoded[alias], of.candidate, of.other, together, batch.setting.threads
            ),
        )[self.name]
        is_same = batch.indistinguishable(alias, of, values >= np.exp(-SAME_ATOL))
        scores = of.joined(np.where(is_same, np.nan, values))
        scores = batch.without_doubtful(scores, side, "too_long", is_too_large)
        return {
            self.written: batch.without_doubtful(scores, side, INDISTINGUISHABLE, is_same, of=alias)
        }


MOVERS = tuple(
    Mover(
        name=name,
        summary=summary,
        higher_is="closer, 0 to 1",
        needs=(EITHER, vectors),
        bounds=(0.0, 1.0),
    )
    for name, vectors, summary in (
        ("wms", "words", "word mover's similarity, exp(-EMD) over words"),
        ("sms", "sentences", "sentence mover's similarity, exp(-EMD) over sentences"),
        ("s+wms", "words", "one transport problem over words and sentences"),
    )
)
