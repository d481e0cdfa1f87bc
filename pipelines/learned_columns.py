"""Learned scorers as a metric like all others: `reffree@DIR`, which importing this file registers.

`sms` knows no learned scorer, so the metric is added to its table from here, and with it
`likelihood@MODEL` and what else asks a model of its own. Every `reffree@DIR`
comes with a column `cut@DIR`: 1 where some text was too long for the model and only its lead was
read, 0 elsewhere. Importing it loads no model library.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cluster.store import is_url
from pipelines.likelihood_columns import why_unusable
from sms.encoders import EncoderRuntime
from sms.metric import Batch, Metric, MetricRequest, Setting
from sms.metrics import METRICS
from sms.sentences import SENTENCE_END

if TYPE_CHECKING:
    from reffree.scorer import LearnedScorer, PairScores

NAME = "reffree"
PREFIX = f"{NAME}@"


class LearnedModel:
    """A learned scorer, and how many texts it read in part."""

    def __init__(self, scorer: LearnedScorer) -> None:
        self._scorer = scorer
        self._n_cut = 0

    @property
    def signature(self) -> str:
        """What identifies its scores."""
        return self._scorer.signature

    @property
    def content_hash(self) -> str:
        """Hashes of all its weights."""
        return "+".join([*self._scorer.settings["hashes"].values(), self._scorer.encoder_content])

    def state(self) -> dict[str, int]:
        """Return how many candidates were read in part, or had a source that was."""
        return {"cut": self._n_cut}

    def score(self, sources: Sequence[Sequence[str]], candidates: Sequence[str]) -> PairScores:
        """Score candidates against all of their sources."""
        found = self._scorer.score_against_all(sources, candidates)
        self._n_cut += int(found.is_cut.sum())
        return found


class LearnedMetric(Metric):
    """The scores of learned scorers, each in its folder."""

    reads_texts = False

    def request(
        self, name: str, encoders: Sequence[str], models: Mapping[str, Mapping[str, Any]]
    ) -> MetricRequest:
        """Take what stands after `reffree@` for a folder or URL."""
        folder = name.removeprefix(PREFIX)
        if not folder or folder == name:
            raise ValueError(
                f"metric {name!r} must name a scorer's folder: {PREFIX}DIR, from `assay train`"
            )
        place = folder if is_url(folder) else os.path.abspath(os.path.expanduser(folder))
        return MetricRequest(name, self, (name,), ("sources",), model=place)

    def load(self, request: MetricRequest, path: str, runtime: EncoderRuntime) -> LearnedModel:
        """Load the scorer in a folder.

        Raises
        ------
        ValueError
            If the folder is missing or damaged.
        """
        from reffree.scorer import load_scorer  # brings torch, which other metrics may not need
        from sms.encoders.devices import Machine

        machine = Machine.choose(EncoderRuntime(device=runtime.device, threads=runtime.threads))
        where, cache = machine.device.type, runtime.cache_folder
        return LearnedModel(load_scorer(Path(path), device=where, cache_folder=cache))

    def signatures(self, request: MetricRequest, setting: Setting) -> dict[str, str]:
        """Return the scorer's own signature, which its training has set."""
        signature = setting.models[request.name].signature
        (cut,) = self.companions_of(request)
        return {request.name: signature, cut: f"cut|{signature}"}

    def prepare(self, request: MetricRequest, batch: Batch) -> None:
        """Run the model."""
        self._columns(request, batch)

    def score(self, request: MetricRequest, batch: Batch) -> Mapping[str, np.ndarray]:
        """Return the scores of the rows that have words, and which of them were cut."""
        columns, reasons = self._columns(request, batch)
        for row, why in reasons.items():
            batch.explained.setdefault(row, []).extend(why)
        return columns

    def _columns(
        self, request: MetricRequest, batch: Batch
    ) -> tuple[dict[str, np.ndarray], dict[int, list[str]]]:
        return batch.once((LearnedMetric, request.name), lambda: self._scored(request, batch))

    def _scored(
        self, request: MetricRequest, batch: Batch
    ) -> tuple[dict[str, np.ndarray], dict[int, list[str]]]:
        """Score a batch: columns, and by row why it has no score."""
        candidates = batch.rows["candidate"].to_pylist()
        given = batch.rows["sources"].to_pylist()
        reasons = {
            row: [reason]
            for row, (text, own) in enumerate(zip(candidates, given, strict=True))
            if (reason := _why_no_score(text, own or ()))
        }
        usable = [row for row in range(len(candidates)) if row not in reasons]
        found = batch.setting.models[request.name].score(
            [[_as_text(text) for text in given[row] if not why_unusable(text)] for row in usable],
            [_as_text(candidates[row]) for row in usable],
        )
        columns = {}
        (cut,) = self.companions_of(request)
        for column, values in ((request.name, found.scores), (cut, found.is_cut)):
            columns[column] = np.full(len(candidates), np.nan)
            columns[column][usable] = values
        for place, why in found.reasons.items():
            told = [f"{reason}@{request.name.removeprefix(PREFIX)}" for reason in why]
            reasons[usable[place]] = told
        return columns, reasons


METRICS[NAME] = LearnedMetric(
    name=NAME,
    spec=f"{PREFIX}DIR",
    summary="a scorer from `assay train`",
    higher_is="better, 0 to 1",
    needs=("source",),
    companions={"cut": "more rows of which only the lead was read"},
)


def _why_no_score(candidate: str | None, sources: Sequence[str | None]) -> str | None:
    if reason := why_unusable(candidate):
        return f"candidate:{reason}"
    reasons = [why_unusable(source) for source in sources]
    if all(reasons):
        return f"source:{reasons[0] if reasons else 'missing'}"
    return None


def _as_text(text: str) -> str:
    """Write a text without the ends of given sentences: a learned scorer finds them itself."""
    return text.replace(SENTENCE_END, " ")
