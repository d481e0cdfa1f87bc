"""Word and sentence mover's similarity (Clark, Celikyilmaz and Smith 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sms.encoders import EncodedSentences
from sms.encoders.registry import EncoderSpec
from sms.metric import EITHER, SAME_ATOL, Batch, Metric, Setting
from sms.ragged import Ragged, offsets_of, ranges
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
    of_words = _distinct(bags)
    of_sentences = _distinct(text_sentences, encoded.weights[text_sentences.values])
    n_words = of_words[0].lengths
    offsets = offsets_of(n_words + of_sentences[0].lengths)
    splits = offsets[:-1] + n_words
    members, weights = np.empty((2, offsets[-1]), dtype=np.int64)
    for (points, counts), first in ((of_words, offsets[:-1]), (of_sentences, splits)):
        places = ranges(first, points.lengths)
        members[places], weights[places] = points.values, counts
    return Clouds(
        encoded.word_points,
        encoded.sentence_points,
        Ragged(members, offsets),
        Ragged(weights, offsets),
        splits,
    )


def _distinct(rows: Ragged, weights: np.ndarray | None = None) -> tuple[Ragged, np.ndarray]:
    """Sort the values of each row and join equal ones, whose weights are added up.

    Without weights each has 1; those of weight 0 are left out.
    """
    n_values = int(rows.values.max(initial=0)) + 1
    keys = rows.owners * n_values + rows.values
    if weights is None:
        keys.sort()  # twice as fast as to find the order
    else:
        order = np.argsort(keys)
        keys, weights = keys[order], weights[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    if weights is None:
        totals = np.diff(first, append=keys.size)
    else:
        totals = np.add.reduceat(weights, first) if first.size else weights
        first, totals = first[totals > 0], totals[totals > 0]
    owners, values = np.divmod(keys[first], n_values)
    return Ragged.from_lengths(values, np.bincount(owners, minlength=len(rows))), totals


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
