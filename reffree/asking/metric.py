"""Asked language models as a metric like all others: `ask@ALIAS`, which importing this registers.

`ALIAS` is that of a table `[models.ALIAS]`, which says where the model is and what it is asked.
Importing this file loads neither a model nor what talks to servers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from reffree.asking.settings import CANDIDATE, REFERENCE, REFERENCES, SOURCE, AskOptions
from reffree.whole_texts import Judged, ReadPairs, WholeTextMetric
from sms.encoders import EncoderRuntime
from sms.metric import AskedQuestion, Batch, MetricName, NumberedTexts, Setting
from sms.metrics import METRICS

if TYPE_CHECKING:
    from reffree.asking.model import Asked, AskedModel

NAME = "ask"
TOKENS = ("tokens_read", "tokens_written")
"""Counts of what is paid for."""


class AskedMetric(WholeTextMetric):
    """The verdicts of language models, each under its alias."""

    table = AskOptions

    def ask(
        self, asked: MetricName, encoders: Sequence[str], models: Mapping[str, Mapping[str, Any]]
    ) -> AskedMetric:
        """Read what the prompt needs, and the bounds, from the model's table."""
        if asked.at and asked.at not in models:
            raise ValueError(
                f"metric {asked.written!r} needs a table [models.{asked.at}] with the question; "
                "add it to the `--config` file"
            )
        metric = super().ask(asked, encoders, models)
        options: AskOptions = metric.settings
        if (metric.path is None) == (options.url is None):
            raise ValueError(f"`[models.{asked.at}]` must have `path` or `url`, got both")
        if metric.path is not None:
            options.check_local()
        return replace(metric, sides=options.sides, bounds=options.bounds)

    @property
    def most_workers(self) -> int | None:
        """As many as a server may get requests at the same time: each worker makes one at least."""
        options: AskOptions = self.settings
        return None if options.url is None else options.concurrency

    def open(self, runtime: EncoderRuntime) -> AskedModel:
        """Get ready to ask."""
        from reffree.asking.model import AskedModel  # brings what talks to servers

        return AskedModel(self.path, self.settings, runtime)

    def signature_parts(self, setting: Setting) -> Sequence[str]:
        """Name the model and how it is asked."""
        return (self.model.signature,)

    @property
    def paired_with(self) -> str:
        """The texts that there is a question about each of."""
        side: str = self.settings.side
        return side

    def prepare(self, batch: Batch) -> None:
        """Ask, and do not wait: the batch before is still being answered."""
        self._questions(batch)

    def judge(self, batch: Batch, pairs: ReadPairs) -> Judged:
        """Wait for the answers about every pair."""
        questions = self._questions(batch)
        scores = np.full(pairs.rows.size, np.nan)
        reasons = [
            (pair, "reference", "missing") for pair in np.flatnonzero(~questions.is_asked).tolist()
        ]
        asked = np.flatnonzero(questions.is_asked).tolist()
        for pair, judgement in zip(asked, questions.asked.judgements(), strict=True):
            scores[pair] = judgement.value
            if judgement.why:
                reasons.append((pair, NAME, judgement.why))
        return Judged({self.written: scores}, reasons=reasons)

    def why_stop(self, counters: Mapping[str, int]) -> str:
        """Say that the budget of tokens is spent."""
        most: int | None = self.settings.max_tokens_total
        spent = sum(counters.get(f"{self.written}.{name}", 0) for name in TOKENS)
        if most is None or spent < most:
            return ""
        return (
            f"{self.written} has used {spent:,} tokens of the {most:,} in `max_tokens_total`; "
            "raise it and run the same command again to continue"
        )

    def details(self, batch: Batch, column: str) -> dict[str, list[tuple[AskedQuestion, ...]]]:
        """Return by row what was asked, and what came back."""
        questions, pairs = self._questions(batch), ReadPairs.among(batch, self.paired_with)
        by_row: list[tuple[AskedQuestion, ...]] = [()] * pairs.n_rows
        rows = pairs.rows[questions.is_asked].tolist()
        for row, judgement in zip(rows, questions.asked.judgements(), strict=True):
            by_row[row] += judgement.asked
        return {"questions": by_row}

    def _questions(self, batch: Batch) -> _Questions:
        return batch.once((NAME, self.written), lambda: self._begin(batch))

    def _begin(self, batch: Batch) -> _Questions:
        options: AskOptions = self.settings
        pairs = ReadPairs.among(batch, self.paired_with)
        texts: list[dict[str, str]] = [
            {CANDIDATE: candidate, SOURCE: other, REFERENCE: other}
            for candidate, other in zip(pairs.candidates, pairs.others, strict=True)
        ]
        is_asked = np.ones(len(texts), dtype=bool)
        if REFERENCES in options.prompt:
            references = _references(batch)
            for pair, row in enumerate(pairs.rows.tolist()):
                texts[pair][REFERENCES] = references[row]
                is_asked[pair] = bool(references[row])
        about = [texts[pair] for pair in np.flatnonzero(is_asked).tolist()]
        return _Questions(is_asked, self.model.begin(about))


class _Questions(NamedTuple):
    """What is asked about a batch."""

    is_asked: np.ndarray
    """About which pairs; bool, shape (n_pairs,)."""
    asked: Asked


def _references(texts: NumberedTexts) -> list[str]:
    """Return all references of every row as one text, numbered if there are several."""
    joined = []
    sides = texts.sides["references"]
    for row in range(len(sides)):
        read = [texts.written[k] for k in sides[row].tolist() if texts.is_written[k]]
        if len(read) > 1:
            read = [f"{number}. {text}" for number, text in enumerate(read, 1)]
        joined.append("\n\n".join(read))
    return joined


METRICS[NAME] = AskedMetric(
    name=NAME,
    spec=f"{NAME}@ALIAS",
    summary="the answer of a language model to a question, on a server or on this machine",
    higher_is="better, by its own scale",
    needs=("source", "reference"),
)
