"""Pair models as a metric like all others: `pair@ALIAS`, which importing this file registers.

`ALIAS` is that of a table `[models.ALIAS]`, or a folder or hub id stands in its place. With
`:reference` the summary is judged by its references. Every column comes with `cut@ALIAS`: 1 where
a pair of pieces was too long for the model. Importing this file loads no model library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reffree.judges.settings import JudgeOptions
from reffree.whole_texts import Judged, ReadPairs, WholeTextMetric
from sms.encoders import EncoderRuntime
from sms.metric import EITHER, Batch, Evidence, MetricName, Setting
from sms.metrics import METRICS

if TYPE_CHECKING:
    from reffree.judges.model import JudgeModel

NAME = "pair"
PREFIX = f"{NAME}@"
NONE = "none"


class JudgeMetric(WholeTextMetric):
    """The scores of pair models, each under its alias."""

    table = JudgeOptions

    def ask(
        self, asked: MetricName, encoders: Sequence[str], models: Mapping[str, Mapping[str, Any]]
    ) -> JudgeMetric:
        """Read the sides and the bounds from the model's table."""
        metric = super().ask(asked, encoders, models)
        said = JudgeOptions.of(metric.settings)
        sides = () if said.against == NONE else (f"{said.against}s",)
        return replace(metric, sides=sides, bounds=said.bounds)

    def model_of(
        self, asked: MetricName, models: Mapping[str, Mapping[str, Any]]
    ) -> tuple[str | None, dict[str, Any]]:
        """Return the path and the table, with what stands after the colon."""
        path, table = self.named_model(asked, models)
        said = {"against": asked.against} if asked.against else {}
        return path, dict(sorted((table | said).items()))

    def open(self, runtime: EncoderRuntime) -> JudgeModel:
        """Load the model."""
        from reffree.judges.model import (
            JudgeModel,  # brings torch, which other metrics may not need
        )

        return JudgeModel(str(self.path), self.settings, runtime)

    def signature_parts(self, setting: Setting) -> Sequence[str]:
        """Name the model and its settings."""
        return (self.model.signature,)

    def judge(self, batch: Batch, pairs: ReadPairs) -> Judged:
        """Score every pair."""
        candidates, others = pairs.marked
        answers = self.model.score(others, candidates, batch.setting.rules)
        sides = {"summary": "candidate", "document": pairs.side}
        reasons = [
            (pair, sides[side], why)
            for pair, reasons in answers.reasons.items()
            for side, why in reasons
        ]
        is_cut = {"candidate": answers.cut[:, 0]}
        if pairs.side:
            is_cut[pairs.side] = answers.cut[:, 1]
        return Judged({self.written: answers.scores}, is_cut, reasons)

    def details(self, batch: Batch, column: str) -> dict[str, list[tuple[Evidence, ...]]]:
        """Return by row which pieces decided; of several texts it is compared with, for each."""
        pairs = ReadPairs.among(batch, self.against or "")
        candidates, others = pairs.marked
        of_pairs = self.model.evidence(others, candidates, batch.setting.rules)
        by_row: list[tuple[Evidence, ...]] = [()] * pairs.n_rows
        for row, number, evidence in zip(
            pairs.rows.tolist(), pairs.numbers.tolist(), of_pairs, strict=True
        ):
            by_row[row] += tuple(replace(each, other=number) for each in evidence)
        return {"evidence": by_row}


METRICS[NAME] = JudgeMetric(
    name=NAME,
    spec=f"{PREFIX}MODEL",
    summary="a pretrained classifier or yes/no generator, asked about pieces of both texts",
    higher_is="better, by its own scale",
    needs=(EITHER,),
    companions={"cut": "more rows with pairs that were too long for the model"},
)
