"""How likely a pretrained model finds a summary as a metric: `likelihood@MODEL[:AGAINST]`.

MODEL is an alias of the run (`sms.options`), a folder, a URL or a hub id. AGAINST says which
text follows which:

    :source     the candidate after its source, the default
    :recall     the lead of the source after the candidate
    :reference  candidate and reference, each after the other: `likelihood_p` is the candidate
                after the reference, `likelihood_r` the reverse, `likelihood_f` their mean

Every one comes with a column `cut@MODEL:AGAINST`: 1 where some text was too long for the model and
only its beginning was read, 0 elsewhere. Importing this file registers the metric, and loads no
model library.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reffree.likelihood.settings import LikelihoodSettings
from reffree.whole_texts import Judged, ReadPairs, WholeTextMetric
from sms.encoders import EncoderRuntime
from sms.metric import Batch, MetricName, Setting, TokenScore
from sms.metrics import METRICS
from sms.text import TextRules, split_sentences
from sms.text.sentences import SENTENCE_END, whole

if TYPE_CHECKING:
    from reffree.likelihood.model import LanguageModel, TokenScores

NAME = "likelihood"
SIDE_OF = {"source": "sources", "recall": "sources", "reference": "references"}
PARTS = ("_p", "_r", "_f")
"""Of the columns against a reference."""


class Likelihood(WholeTextMetric):
    """Log-probabilities of texts under pretrained models."""

    @property
    def directions(self) -> Collection[str]:
        """Which text may follow which."""
        return SIDE_OF

    @property
    def direction(self) -> str:
        """Which text follows which."""
        return self.asked.against or "source"

    table = LikelihoodSettings

    def columns_of(self, asked: MetricName) -> tuple[str, ...]:
        """Name the three columns against a reference, one of them, or the only one."""
        written, base, at, against = asked
        if against == "reference":
            return super().columns_of(asked)
        if base != NAME:
            raise ValueError(
                f"metric {written!r} must end in :reference, or be written {NAME}@{at}"
            )
        return (written,)

    def sides_of(self, asked: MetricName) -> tuple[str, ...]:
        """Return where the other text is."""
        return (SIDE_OF[asked.against or "source"],)

    @property
    def companion_columns(self) -> tuple[str, ...]:
        """The column that says which rows were read in part."""
        part = self.asked.base.removeprefix(NAME)
        return (f"cut{self.written.removeprefix(self.asked.base)}{part}",)

    @property
    def _parts(self) -> dict[str, str]:
        """By column the part of the score, as `_p`; empty where there are none."""
        bases = (base.removeprefix(NAME) for base in self.bases)
        return dict(zip(self.columns, bases, strict=True))

    def open(self, runtime: EncoderRuntime) -> LanguageModel:
        """Load the model, or share it with a metric that has it."""
        from reffree.likelihood.model import (
            LanguageModel,  # brings torch, which others may not need
        )

        return LanguageModel.load(str(self.path), self.settings, runtime=runtime)

    def signature_parts(self, setting: Setting) -> Sequence[str]:
        """Name the direction, the model and the prompt."""
        settings = self.settings
        lead = f"|lead:{settings.lead}" if self.direction == "recall" else ""
        prompt = settings.signature(self.model.prompt)
        return (f"of:{self.direction}{lead}", self.model.signature, prompt)

    def judge(self, batch: Batch, pairs: ReadPairs) -> Judged:
        """Score every pair."""
        by_part, reasons = {}, []
        is_cut = {side: np.zeros(pairs.rows.size, dtype=bool) for side in ("candidate", pairs.side)}
        for part, asked in self._followers(batch, pairs).items():
            by_part[part], tokens = self._scored(batch, asked)
            for side, cut in zip((asked.side, asked.side_before), tokens.cut.T, strict=True):
                is_cut[side] |= cut
            for pair, (where, why) in tokens.reasons.items():
                reasons.append((pair, asked.side if where == "text" else asked.side_before, why))
        if len(by_part) > 1:
            by_part["_f"] = (by_part["_p"] + by_part["_r"]) / 2
        scores = {column: by_part[part] for column, part in self._parts.items()}
        return Judged(scores, is_cut, reasons)

    def details(self, batch: Batch, column: str) -> dict[str, list[tuple[TokenScore, ...]]]:
        """Return by row the tokens of the text with the highest score; the model remembers them."""
        pairs = ReadPairs.among(batch, self.against or "")
        part = self._parts[column]
        asked = self._followers(batch, pairs)["_p" if part == "_f" else part]
        scores, tokens = self._scored(batch, asked)
        by_row: list[tuple[TokenScore, ...]] = [()] * pairs.n_rows
        for pair in np.argsort(scores, kind="stable").tolist():  # the highest last
            if not np.isnan(scores[pair]):  # NaN has no tokens
                text, log_p = whole(asked.texts[pair]), tokens.log_p[pair]
                by_row[pairs.rows[pair]] = tuple(
                    TokenScore(asked.side, text[start:end], int(start), float(each))
                    for (start, end), each in zip(tokens.spans[pair], log_p, strict=True)
                )
        return {"tokens": by_row}

    def _followers(self, batch: Batch, pairs: ReadPairs) -> dict[str, _Follower]:
        """Return what is asked of the pairs, by part of the score."""
        candidates, others = pairs.marked
        if self.direction == "recall":
            n, rules = self.settings.lead, batch.setting.rules
            pieces = (
                [sentence for sentence in _sentences(text, rules) if sentence.strip()]
                for text in others
            )
            others = ["".join(sentences[:n]).rstrip() for sentences in pieces]
        there = _Follower("candidate", candidates, pairs.side, others)
        back = _Follower(pairs.side, others, "candidate", candidates)
        if self.direction == "reference":
            return {"_p": there, "_r": back}
        return {"": back if self.direction == "recall" else there}

    def _scored(self, batch: Batch, asked: _Follower) -> tuple[np.ndarray, TokenScores]:
        """Return the score of each text after its context, and what it is made of."""
        contexts, texts = ([*map(whole, strings)] for strings in (asked.contexts, asked.texts))
        tokens: TokenScores = self.model.log_probabilities(contexts, texts)
        if self.settings.pmi:
            known = [texts[row] for row in np.flatnonzero(tokens.log_p.lengths).tolist()]
            alone = self.model.log_probabilities([""] * len(known), known)
            less = tokens.log_p.values - alone.log_p.values
            tokens = replace(tokens, log_p=replace(tokens.log_p, values=less))
        scores = np.full(len(texts), np.nan)
        for row, text in enumerate(asked.texts):
            sentences = None
            if self.settings.value == "worst":
                sentences = sentence_of_tokens(text, tokens.spans[row], batch.setting.rules)
            scores[row] = self.settings.score(tokens.log_p[row], sentences)
        return scores, tokens


METRICS[NAME] = Likelihood(
    name=NAME,
    spec=f"{NAME}@MODEL",
    summary="log-probability under a pretrained model",
    higher_is="likelier",
    needs=("source", "reference"),
    columns=tuple(f"{NAME}{part}" for part in PARTS),
    bounds=(-math.inf, math.inf),
    companions={"cut": "more rows of which only the beginning was read"},
)


def sentence_of_tokens(text: str, spans: np.ndarray, rules: TextRules) -> np.ndarray:
    """Return the number of the sentence of each token; white space is of the next one's.

    The spans are places in what a model reads of the text, `whole`.

    Examples
    --------
    >>> sentence_of_tokens("A cat. It sat.", np.array([[0, 1], [1, 6], [6, 9]]), TextRules())
    array([0, 0, 1])
    """
    read, at, ends = whole(text), 0, []
    for piece in _sentences(text, rules):
        shown = whole(piece).strip()
        at = max(read.find(shown, at), at) + len(shown)
        ends.append(at)
    sentences = np.searchsorted(ends, np.maximum(spans[:, 1] - 1, 0), side="right")
    return np.minimum(sentences, len(ends) - 1)


def _sentences(text: str, rules: TextRules) -> list[str]:
    """Cut a text into sentences with the white space after them, which together are the text."""
    if rules.sentences == "given":
        return re.split(f"(?<={SENTENCE_END})", text)
    return split_sentences(text, rules.language)


class _Follower(NamedTuple):
    """Which text of every pair follows which."""

    side: str  # of the text that follows
    texts: list[str]
    side_before: str
    contexts: list[str]
