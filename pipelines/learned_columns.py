"""Learned scorers as a metric like all others: `reffree@DIR`, which importing this file registers.

`sms` knows no learned scorer, so the metric is added to its table from here. `reffree@DIR.HEAD` is
one head of a scorer that has several, `reffree@news` the scorer that comes with the package. All
heads of a scorer are computed once. Every `reffree@DIR` comes with a column `cut@DIR`: 1 where some
text was too long for the model and only its lead was read, 0 elsewhere. Importing it loads no model
library.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cluster.store import is_url
from pipelines.candidate_pairs import as_asked, why_unusable
from reffree.naming import find_scorer, split_head
from sms.encoders import EncoderRuntime
from sms.metric import Batch, Metric, MetricRequest, ScorePart, Setting
from sms.metrics import METRICS
from sms.sentences import SENTENCE_END
from sms.signature import cut_part

if TYPE_CHECKING:
    from reffree.scorer import LearnedScorer, PairScores

NAME = "reffree"
PREFIX = f"{NAME}@"


class LearnedModel:
    """A learned scorer, and how many texts it read in part."""

    def __init__(self, scorer: LearnedScorer) -> None:
        self.scorer = scorer
        self._n_cut = 0

    @property
    def content_hash(self) -> str:
        """Hashes of all its weights; a scorer of features has that of its own in its signature."""
        own = self.scorer
        return "+".join(
            [*(own.settings["hashes"].values() or [own.signature]), own.encoder_content]
        )

    def state(self) -> dict[str, int]:
        """Return how many candidates were read in part, or had a source that was."""
        return {"cut": self._n_cut}

    def parts(
        self, sources: Sequence[str], candidate: str, head: str | None
    ) -> tuple[ScorePart, ...] | None:
        """Say what each feature adds to a score, the largest first; None if it is no such sum."""
        if (linear := self.scorer.linear) is None:
            return None
        of_sources = [linear.contributions(source, candidate, head) for source in sources]
        parts = {name: float(np.mean([own[name] for own in of_sources])) for name in of_sources[0]}
        # against several sources another sentence may be the worst each time
        least: dict[str, str] = {}
        if len(sources) == 1:
            least = linear.features.least_sentences(sources[0], candidate)
        return (
            *(
                ScorePart(name, linear.features.meanings[name], part, least.get(name))
                for name, part in sorted(parts.items(), key=lambda item: -abs(item[1]))
                if part
            ),
            ScorePart("constant", "makes the mean over the training data 0", linear.constant(head)),
        )

    def score(self, sources: Sequence[Sequence[str]], candidates: Sequence[str]) -> PairScores:
        """Score candidates against all of their sources, a column for each head."""
        scored = self.scorer.score_against_all(sources, candidates)
        self._n_cut += int(scored.is_cut.sum())
        return scored


class LearnedMetric(Metric):
    """The scores of learned scorers, each in its folder."""

    reads_texts = False

    def request(
        self, name: str, encoders: Sequence[str], models: Mapping[str, Mapping[str, Any]]
    ) -> MetricRequest:
        """Take what stands after `reffree@` for a folder or URL."""
        folder, _ = split_head(name.removeprefix(PREFIX))
        if not folder or folder == name:
            raise ValueError(
                f"metric {name!r} must name a scorer: {PREFIX}news, or {PREFIX}DIR from `assay "
                "train`"
            )
        place = folder if is_url(folder) else os.path.abspath(find_scorer(folder))
        return MetricRequest(name, self, (name,), ("sources",), model=place)

    def bounds_of(self, request: MetricRequest) -> tuple[float, float] | None:
        """Read the kind of scorer in its folder; unknown for one in a store."""
        from reffree.scorer import LinearPairs, NeuralPairs
        from reffree.scorer_folder import is_linear, read_settings

        if request.model is None or is_url(request.model):
            return None
        settings = read_settings(Path(request.model))
        return LinearPairs.bounds if is_linear(settings) else NeuralPairs.bounds

    def load(self, request: MetricRequest, path: str, runtime: EncoderRuntime) -> LearnedModel:
        """Load the scorer in a folder."""
        from reffree.scorer import load_scorer  # brings torch, which other metrics may not need
        from sms.encoders.devices import Machine

        machine = Machine.choose(EncoderRuntime(device=runtime.device, threads=runtime.threads))
        return LearnedModel(
            load_scorer(
                Path(path),
                device=machine.device.type,
                cache_folder=runtime.cache_folder,
                threads=runtime.threads,
            )
        )

    def check_model(self, request: MetricRequest, model: LearnedModel) -> None:
        """Refuse a head that the scorer does not have."""
        if (head := _head_of(request)) is not None:
            model.scorer.column_of(head)

    def signatures(self, request: MetricRequest, setting: Setting) -> dict[str, str]:
        """Return the scorer's signature, set by its training, and how much of a source is read."""
        signature = setting.models[request.name].scorer.signature
        if setting.source_tokens is not None:
            signature = f"{signature}|{cut_part(setting.source_tokens)}"
        (cut,) = self.companions_of(request)
        return {request.name: signature, cut: f"cut|{signature}"}

    def prepare(self, request: MetricRequest, batch: Batch) -> None:
        """Run the model."""
        self._scored_once(request, batch)

    def score(self, request: MetricRequest, batch: Batch) -> Mapping[str, np.ndarray]:
        """Return the scores of the rows that have words, and which of them were cut."""
        scores, is_cut, reasons = self._scored_once(request, batch)
        for row, why in reasons.items():
            batch.explained.setdefault(row, []).extend(why)
        model: LearnedModel = batch.setting.models[request.name]
        (cut,) = self.companions_of(request)
        return {request.name: model.scorer.chosen(scores, _head_of(request)), cut: is_cut}

    def parts(self, request: MetricRequest, batch: Batch) -> Sequence[tuple[ScorePart, ...]] | None:
        """Say of every row that has a score what each feature adds to it."""
        model: LearnedModel = batch.setting.models[request.name]
        by_row: list[tuple[ScorePart, ...]] = []
        texts = zip(batch.rows["candidate"].to_pylist(), _sources(batch), strict=True)
        for candidate, given in texts:
            if _why_no_score(candidate, given):
                by_row.append(())
                continue
            parts = model.parts(_readable(given), _as_text(candidate), _head_of(request))
            if parts is None:
                return None
            by_row.append(parts)
        return by_row

    def _scored_once(
        self, request: MetricRequest, batch: Batch
    ) -> tuple[np.ndarray, np.ndarray, dict[int, list[str]]]:
        return batch.once((LearnedMetric, request.model), lambda: self._scored(request, batch))

    def _scored(
        self, request: MetricRequest, batch: Batch
    ) -> tuple[np.ndarray, np.ndarray, dict[int, list[str]]]:
        """Score a batch: a column for each head, which rows were cut, why a row has no score."""
        candidates = batch.rows["candidate"].to_pylist()
        given = _sources(batch)
        reasons = {
            row: [reason]
            for row, (text, own) in enumerate(zip(candidates, given, strict=True))
            if (reason := _why_no_score(text, own))
        }
        usable = [row for row in range(len(candidates)) if row not in reasons]
        scored = batch.setting.models[request.name].score(
            [_readable(given[row]) for row in usable],
            [_as_text(candidates[row]) for row in usable],
        )
        scores = np.full((len(candidates), scored.scores.shape[1]), np.nan)
        scores[usable] = scored.scores
        is_cut = np.full(len(candidates), np.nan)
        is_cut[usable] = scored.is_cut
        for place, why in scored.reasons.items():
            folder, _ = split_head(request.name.removeprefix(PREFIX))
            reasons[usable[place]] = [f"{reason}@{folder}" for reason in why]
        return scores, is_cut, reasons


METRICS[NAME] = LearnedMetric(
    name=NAME,
    spec=f"{PREFIX}DIR",
    summary="a scorer from `assay train`, or `news`; `.HEAD` for one of its heads",
    higher_is="better",
    needs=("source",),
    companions={"cut": "more rows of which only the lead was read"},
)


def _head_of(request: MetricRequest) -> str | None:
    return split_head(request.name.removeprefix(PREFIX))[1]


def _sources(batch: Batch) -> list[Sequence[str | None]]:
    """Return the sources of every candidate, cut as the run asks for."""
    return [as_asked(own, "sources", batch.setting) for own in batch.rows["sources"].to_pylist()]


def _readable(sources: Sequence[str | None]) -> list[str]:
    return [_as_text(text) for text in sources if text is not None and not why_unusable(text)]


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
