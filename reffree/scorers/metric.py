"""Learned scorers as a metric like all others: `reffree@DIR`, which importing this file registers.

`reffree@DIR.HEAD` is one head of a scorer that has several; `reffree@news`, `reffree@general` and
`reffree@general+lm` come with the package, `reffree@hf:OWNER/NAME` from the Hugging Face hub. Every
`reffree@DIR` comes with a column `cut@DIR`: 1 where some text was too long for the model and only
its lead was read, 0 elsewhere. Importing it loads no model library.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reffree.scorers.naming import SCORER_FILE, find_scorer, is_on_hub, split_head
from reffree.whole_texts import ByRow, ReadPairs, WholeTextMetric
from sms.encoders import EncoderRuntime
from sms.language_codes import UNDETERMINED
from sms.metric import Batch, MetricName, NumberedTexts, ScorePart, Setting
from sms.metrics import METRICS
from sms.options import find_model
from sms.signature import TEXT_FORM, cut_part
from sms.text.languages import language_of
from sms.urls import is_url

if TYPE_CHECKING:
    from reffree.scorers.scorer import LearnedScorer, LinearPairs, RowScores
    from sms.text import TextRules

NAME = "reffree"
PREFIX = f"{NAME}@"
SOURCE = "source"  # all that they compare with, so `:source` after a name changes nothing


@dataclass
class LearnedModel:
    """A learned scorer, and how many texts it read in part."""

    scorer: LearnedScorer
    on_hub: str = ""
    """Its name on the hub, with the commit (`pinned_path`); empty for one from elsewhere."""
    n_cut: int = 0

    @property
    def content_hash(self) -> str:
        """Hashes of all its weights; a scorer of features has that of its own in its signature."""
        hashes = self.scorer.settings["hashes"].values() or [self.scorer.signature]
        return "+".join([*hashes, self.scorer.encoder_content])

    def state(self) -> dict[str, int]:
        """Return how many candidates were read in part, or had a source that was."""
        return {"cut": self.n_cut}

    def score(self, texts: NumberedTexts, name: str) -> RowScores:
        """Score rows, a column for each head."""
        scored = self.scorer.score_rows(texts, name)
        self.n_cut += int(np.nansum(scored.is_cut))
        return scored


class LearnedMetric(WholeTextMetric):
    """The scores of learned scorers, each in its folder."""

    @property
    def directions(self) -> Collection[str]:
        """They read the source, whether that is said or not."""
        return (SOURCE,)

    @property
    def head(self) -> str | None:
        """The head that is asked for."""
        return split_head(self.asked.at or "")[1]

    def model_of(
        self, asked: MetricName, models: Mapping[str, Mapping[str, Any]]
    ) -> tuple[str | None, Any]:
        """Take what stands after `reffree@` for a folder or URL.

        Its settings say where the models of the run are, which it may read instead of its own.
        """
        if not asked.at:
            raise ValueError(
                f"metric {asked.written!r} must name a scorer: {PREFIX}news, {PREFIX}DIR from "
                f"`assay train`, or {PREFIX}hf:OWNER/NAME"
            )
        places = {alias: find_model(alias, models)[0] for alias in models}
        folder, _ = split_head(asked.at)
        if is_on_hub(folder):
            from reffree.scorers.hub import HubName

            return str(HubName.read(folder)), places
        return folder if is_url(folder) else os.path.abspath(find_scorer(folder)), places

    @property
    def read_models(self) -> Collection[str]:
        """The models of the run that are read instead of those that the scorer names."""
        from reffree.scorers.folder import models_to_choose, naming_damage, read_settings

        folder = Path(str(self.path))
        if not (folder / SCORER_FILE).is_file():
            return ()  # which is said when it is opened
        with naming_damage(folder):
            return models_to_choose(read_settings(folder)).keys() & self.settings.keys()

    def check_rules(self, rules: TextRules) -> None:
        """Refuse texts in another language than it learned from, once it is on this machine."""
        from reffree.scorers.folder import language_of_scorer, read_settings

        folder = None if self.path is None else Path(self.path)
        if self.path is not None and is_on_hub(self.path):
            from reffree.scorers.hub import cached_scorer

            folder = cached_scorer(self.path)
        if folder is None or not (folder / SCORER_FILE).exists():
            return  # which is said when it is opened
        learned = language_of_scorer(read_settings(folder))
        if learned != rules.language and UNDETERMINED not in (learned, rules.language):
            raise ValueError(
                f"metric {self.written!r} was trained on texts in {language_of(learned).name}, got "
                f"`language` {rules.language}; train one on such texts (`assay train --language "
                f"{rules.language}`), or leave it out"
            )

    def find_bounds(self) -> tuple[float, float] | None:
        """Read the kind of scorer in its folder; unknown for one in a store."""
        from reffree.scorers.folder import is_linear, read_settings
        from reffree.scorers.scorer import LinearPairs, NeuralPairs

        if self.path is None or is_url(self.path):
            return None
        settings = read_settings(self._folder())
        return LinearPairs.bounds if is_linear(settings) else NeuralPairs.bounds

    def pinned_path(self, signature: str = "") -> str | None:
        """Return its name on the hub with the commit that it means now, or meant for scores."""
        if self.path is None or not is_on_hub(self.path):
            return self.path
        from reffree.scorers.hub import pinned_name

        return pinned_name(self.path, signature)

    def _folder(self) -> Path:
        """Return its folder on this machine, where it is fetched to from the hub."""
        path = str(self.path)
        if not is_on_hub(path):
            return Path(path)
        from reffree.scorers.hub import fetch_scorer

        return fetch_scorer(path)

    def open(self, runtime: EncoderRuntime) -> LearnedModel:
        """Load the scorer in a folder."""
        from reffree.scorers.scorer import (
            load_scorer,  # brings torch, which other metrics may not need
        )
        from sms.encoders.devices import Machine

        machine = Machine.choose(EncoderRuntime(device=runtime.device, threads=runtime.threads))
        scorer = load_scorer(
            self._folder(),
            device=machine.device.type,
            cache_folder=runtime.cache_folder,
            threads=runtime.threads,
            models=self.settings,
        )
        path = str(self.path)
        return LearnedModel(scorer, path if is_on_hub(path) else "")

    def with_model(self, model: Any) -> LearnedMetric:  # noqa: ANN401  (a `LearnedModel`)
        """Refuse a head that the scorer does not have."""
        if self.head is not None:
            model.scorer.column_of(self.head)
        return super().with_model(model)

    def signatures(self, setting: Setting) -> dict[str, str]:
        """Return the scorer's signature, set by its training, and how much of a source is read."""
        signature = f"{self.model.scorer.signature}|{TEXT_FORM}"
        if self.model.on_hub:
            signature = f"{signature}|{self.model.on_hub}"
        if setting.source_tokens is not None:
            signature = f"{signature}|{cut_part(setting.source_tokens)}"
        (cut,) = self.companion_columns
        return {self.written: signature, cut: f"cut|{signature}"}

    def of_rows(self, batch: Batch) -> ByRow:
        """Score a batch; all heads are computed once."""
        model: LearnedModel = self.model
        folder, head = split_head(self.asked.at or "")
        scored = batch.once(
            (LearnedMetric, self.path),
            lambda: model.score(batch, folder),
        )
        (cut,) = self.companion_columns
        columns = {self.written: model.scorer.chosen(scored.scores, head), cut: scored.is_cut}
        return ByRow(columns, scored.reasons)

    def details(self, batch: Batch, column: str) -> dict[str, list[tuple[ScorePart, ...]]]:
        """Say of every row that has a score what each feature adds to it."""
        if (linear := self.model.scorer.linear) is None:
            return {}
        pairs = ReadPairs.among(batch, SOURCE)
        by_row: list[tuple[ScorePart, ...]] = [()] * pairs.n_rows
        for row, (candidate, sources) in pairs.by_row().items():
            by_row[row] = _parts_of(linear, sources, candidate, self.head)
        return {"parts": by_row}


METRICS[NAME] = LearnedMetric(
    name=NAME,
    spec=f"{PREFIX}DIR",
    summary="a trained scorer: news, general, general+lm, a folder, hf:OWNER/NAME; or its .HEAD",
    higher_is="better",
    needs=("source",),
    companions={"cut": "more rows of which only the lead was read"},
)


def _parts_of(
    linear: LinearPairs, sources: Sequence[str], candidate: str, head: str | None
) -> tuple[ScorePart, ...]:
    """Say what each feature adds to a score, the largest first."""
    of_sources = [linear.contributions(source, candidate, head) for source in sources]
    parts = {
        name: float(np.mean([of_source[name] for of_source in of_sources]))
        for name in of_sources[0]
    }
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
