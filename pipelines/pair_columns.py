"""Pair models as a metric like all others: `pair@ALIAS`, which importing this file registers.

`ALIAS` is that of a table `[models.ALIAS]`, or a folder or hub id stands in its place. With
`:reference` the summary is judged by its references. Every column comes with `cut@ALIAS`: 1 where
a pair of pieces was too long for the model. Importing this file loads no model library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.likelihood_columns import as_asked, why_unusable
from reffree.pair.presets import settings_of
from sms.encoders import EncoderRuntime
from sms.metric import AGAINST, EITHER, Batch, Evidence, Metric, MetricRequest, Setting
from sms.metrics import METRICS
from sms.model_tables import find_model

if TYPE_CHECKING:
    from reffree.pair.judge import PairModel

NAME = "pair"
PREFIX = f"{NAME}@"
NONE = "none"


@dataclass(frozen=True, slots=True)
class _Columns:
    """What a batch gives."""

    values: Mapping[str, np.ndarray]
    reasons: Mapping[int, list[str]]
    """By row, why it has no score."""


@dataclass(frozen=True, slots=True)
class _Pair:
    """A candidate and one text it is judged by."""

    row: int
    number: int
    """Which of the row's texts."""
    other: str
    candidate: str


class PairMetric(Metric):
    """The scores of pair models, each under its alias."""

    reads_texts = False

    def request(
        self, name: str, encoders: Sequence[str], models: Mapping[str, Mapping[str, Any]]
    ) -> MetricRequest:
        """Take what stands after `pair@` for an alias, a folder, a URL or a hub id."""
        named = name.removeprefix(PREFIX)
        head, _, asked = named.rpartition(":")
        if asked not in AGAINST:
            head, asked = named, ""
        if not head or named == name:
            raise ValueError(
                f"metric {name!r} must name a model: {PREFIX}ALIAS, with a table "
                f"[models.ALIAS], or {PREFIX}FOLDER"
            )
        path, table = find_model(head, models)
        if asked:
            table["against"] = asked
        against = settings_of(table).against
        sides = () if against == NONE else (f"{against}s",)
        return MetricRequest(name, self, (name,), sides, model=path, options=table)

    def bounds_of(self, request: MetricRequest) -> tuple[float, float] | None:
        """Return those of a probability, a difference of two, or none of a logit."""
        return settings_of(request.options).bounds

    def load(self, request: MetricRequest, path: str, runtime: EncoderRuntime) -> PairModel:
        """Load the model.

        Raises
        ------
        ValueError
            If its folder lacks something.
        """
        from reffree.pair.judge import PairModel  # brings torch, which other metrics may not need

        return PairModel(path, request.options, runtime)

    def signature_parts(self, request: MetricRequest, setting: Setting) -> Sequence[str]:
        """Name the model and its settings."""
        return (setting.models[request.name].signature,)

    def prepare(self, request: MetricRequest, batch: Batch) -> None:
        """Run the model."""
        self._columns(request, batch)

    def score(self, request: MetricRequest, batch: Batch) -> Mapping[str, np.ndarray]:
        """Return the scores of the rows that have words, and which of them were cut."""
        found = self._columns(request, batch)
        for row, why in found.reasons.items():
            batch.explained.setdefault(row, []).extend(why)
        return found.values

    def evidence(self, request: MetricRequest, batch: Batch) -> list[tuple[Evidence, ...]]:
        """Return by row which pieces decided; of several texts it is compared with, for each."""
        pairs, _ = _pairs(request, batch)
        found = batch.setting.models[request.name].evidence(
            [pair.other for pair in pairs], [pair.candidate for pair in pairs], batch.setting.rules
        )
        by_row: list[tuple[Evidence, ...]] = [()] * len(batch.rows)
        for pair, own in zip(pairs, found, strict=True):
            by_row[pair.row] += tuple(replace(each, other=pair.number) for each in own)
        return by_row

    def _columns(self, request: MetricRequest, batch: Batch) -> _Columns:
        return batch.once((PairMetric, request.name), lambda: _scored(request, batch))


METRICS[NAME] = PairMetric(
    name=NAME,
    spec=f"{PREFIX}MODEL",
    summary="a pretrained classifier or yes/no generator, asked about pieces of both texts",
    higher_is="better, by its own scale",
    needs=(EITHER,),
    companions={"cut": "more rows with pairs that were too long for the model"},
)


def _pairs(request: MetricRequest, batch: Batch) -> tuple[list[_Pair], dict[int, list[str]]]:
    """Pair every candidate with each text it is judged by; by row, why there is none."""
    candidates = batch.rows["candidate"].to_pylist()
    reasons: dict[int, list[str]] = {}
    pairs: list[_Pair] = []
    for row, (candidate, own) in enumerate(zip(candidates, _others(request, batch), strict=True)):
        usable = [(k, text) for k, text in enumerate(own) if text and not why_unusable(text)]
        if why := why_unusable(candidate):
            reasons[row] = [f"candidate:{why}"]
        elif usable or not request.sides:
            pairs += [_Pair(row, k, text, candidate) for k, text in usable or [(0, "")]]
        else:
            why = why_unusable(own[0]) if own else "missing"
            reasons[row] = [f"{request.against}:{why}"]
    return pairs, reasons


def _scored(request: MetricRequest, batch: Batch) -> _Columns:
    """Score a batch: every row against each of its texts, then all rows."""
    pairs, reasons = _pairs(request, batch)
    owner = np.array([pair.row for pair in pairs], dtype=np.int64)
    found = batch.setting.models[request.name].score(
        [pair.other for pair in pairs], [pair.candidate for pair in pairs], batch.setting.rules
    )
    sides = {"summary": "candidate", "document": request.against}
    for place, told in found.reasons.items():
        for side, _, why in (each.partition(":") for each in told):
            reasons[int(owner[place])] = [
                f"{sides[side]}:{why}@{request.name.removeprefix(PREFIX)}"
            ]
    n, has = len(batch.rows), np.unique(owner)
    scores, is_cut = np.full(n, np.nan), np.full(n, np.nan)
    if request.against == "reference" and batch.setting.multi_reference == "best":
        best = np.full(n, -np.inf)
        np.maximum.at(best, owner, found.scores)
        scores[has] = best[has]
    else:
        sums = np.bincount(owner, weights=found.scores, minlength=n)
        scores[has] = sums[has] / np.bincount(owner, minlength=n)[has]
    is_cut[has] = np.bincount(owner, weights=found.is_cut, minlength=n)[has] > 0
    (cut,) = request.metric.companions_of(request)
    return _Columns({request.name: scores, cut: is_cut}, reasons)


def _others(request: MetricRequest, batch: Batch) -> list[Sequence[str | None]]:
    """Return what each candidate is judged by."""
    if not request.sides:
        return [[] for _ in range(len(batch.rows))]
    (side,) = request.sides
    return [as_asked(given, side, batch.setting) for given in batch.rows[side].to_pylist()]
