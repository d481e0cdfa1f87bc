"""How likely a pretrained model finds a summary as a metric: `likelihood@MODEL[:AGAINST]`.

MODEL is an alias of the run (`sms.model_tables`), a folder, a URL or a hub id. AGAINST says which
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.candidate_pairs import CandidatePairs, Judged, PairsMetric
from sms.encoders import EncoderRuntime
from sms.metric import Batch, MetricRequest, Setting, TokenScore
from sms.metrics import METRICS
from sms.model_tables import find_model
from sms.sentences import SENTENCE_END
from sms.text import TextRules, split_sentences

if TYPE_CHECKING:
    from reffree.likelihood import LanguageModel, TokenScores
    from reffree.likelihood_settings import LikelihoodSettings

NAME = "likelihood"
SIDE_OF = {"source": "sources", "recall": "sources", "reference": "references"}
PARTS = ("_p", "_r", "_f")
"""Of the columns against a reference."""


class LikelihoodModel:
    """A language model, and how its log-probabilities become scores."""

    def __init__(self, model: LanguageModel, settings: LikelihoodSettings) -> None:
        self.model, self.settings = model, settings

    @property
    def content_hash(self) -> str:
        """Hash of the weights."""
        return self.model.content_hash

    def state(self) -> Mapping[str, int]:
        """Return counts of texts."""
        return self.model.state()

    def scores(
        self, contexts: Sequence[str], texts: Sequence[str], rules: TextRules
    ) -> tuple[np.ndarray, TokenScores]:
        """Return the score of each text after its context, and what it is made of."""
        read = _as_read(texts)
        tokens = self.model.log_probabilities(_as_read(contexts), read)
        if self.settings.pmi:
            known = [read[row] for row in np.flatnonzero(tokens.log_p.lengths).tolist()]
            alone = self.model.log_probabilities([""] * len(known), known)
            less = tokens.log_p.values - alone.log_p.values
            tokens = replace(tokens, log_p=replace(tokens.log_p, values=less))
        scores = np.full(len(texts), np.nan)
        for row, text in enumerate(texts):
            sentences = None
            if self.settings.value == "worst":
                sentences = sentence_of_tokens(text, tokens.spans[row], rules)
            scores[row] = self.settings.score(tokens.log_p[row], sentences)
        return scores, tokens


class Likelihood(PairsMetric):
    """Log-probabilities of texts under pretrained models."""

    def request(
        self, name: str, encoders: Sequence[str], models: Mapping[str, Mapping[str, Any]]
    ) -> MetricRequest:
        """Read model and direction; the table of an alias is checked."""
        from reffree.likelihood_settings import LikelihoodSettings

        head, model, against = _parts_of(name)
        if not model:
            raise ValueError(
                f"metric {name!r} must name a model: {NAME}@MODEL[:{'|'.join(SIDE_OF)}], an alias "
                "of the tables [models.ALIAS] or a folder"
            )
        if head != NAME and against != "reference":
            raise ValueError(
                f"metric {name!r} must end in :reference, or be written {NAME}@{model}"
            )
        path, table = find_model(model, models)
        LikelihoodSettings.of(table)
        columns: tuple[str, ...] = (name,)
        if head == NAME and against == "reference":
            columns = tuple(f"{NAME}{part}@{model}:{against}" for part in PARTS)
        return MetricRequest(name, self, columns, (SIDE_OF[against],), model=path, options=table)

    def companions_of(self, request: MetricRequest) -> tuple[str, ...]:
        """Name the column that says which rows were read in part."""
        head, _, rest = request.name.partition("@")
        return (f"cut@{rest}{head.removeprefix(NAME)}",)

    def load(self, request: MetricRequest, path: str, runtime: EncoderRuntime) -> LikelihoodModel:
        """Load the model, or share it with a metric that has it."""
        from reffree.likelihood import LanguageModel  # brings torch, which others may not need
        from reffree.likelihood_settings import LikelihoodSettings

        settings = LikelihoodSettings.of(request.options)
        return LikelihoodModel(LanguageModel.load(path, settings, runtime=runtime), settings)

    def signature_parts(self, request: MetricRequest, setting: Setting) -> Sequence[str]:
        """Name the direction, the model and the prompt."""
        loaded: LikelihoodModel = setting.models[request.name]
        *_, against = _parts_of(request.name)
        lead = f"|lead:{loaded.settings.lead}" if against == "recall" else ""
        made = loaded.settings.signature(loaded.model.prompt)
        return (f"of:{against}{lead}", loaded.model.signature, made)

    def judge(self, request: MetricRequest, batch: Batch, pairs: CandidatePairs) -> Judged:
        """Score every pair."""
        loaded: LikelihoodModel = batch.setting.models[request.name]
        by_part, is_cut, reasons = {}, np.zeros(pairs.rows.size, dtype=bool), []
        for part, asked in _directions(request, batch, pairs).items():
            by_part[part], tokens = loaded.scores(asked.contexts, asked.texts, batch.setting.rules)
            is_cut |= tokens.is_cut
            for pair, reason in tokens.reasons.items():
                where, _, why = reason.partition(":")
                reasons.append((pair, asked.side if where == "text" else asked.side_before, why))
        if len(by_part) > 1:
            by_part["_f"] = (by_part["_p"] + by_part["_r"]) / 2
        scores = {column: by_part[_part_of(column, by_part)] for column in request.columns}
        return Judged(scores, is_cut, reasons)

    def details(
        self, request: MetricRequest, batch: Batch, column: str
    ) -> dict[str, list[tuple[TokenScore, ...]]]:
        """Return by row the tokens of the text with the highest score; the model remembers them."""
        pairs = CandidatePairs.of(request, batch)
        directions = _directions(request, batch, pairs)
        asked = directions[_part_of(column, directions)]
        loaded: LikelihoodModel = batch.setting.models[request.name]
        scores, tokens = loaded.scores(asked.contexts, asked.texts, batch.setting.rules)
        by_row: list[tuple[TokenScore, ...]] = [()] * pairs.n_rows
        for pair in np.argsort(scores, kind="stable").tolist():  # the highest last
            if not np.isnan(scores[pair]):  # NaN has no tokens
                text, log_p = asked.texts[pair], tokens.log_p[pair]
                by_row[pairs.rows[pair]] = tuple(
                    TokenScore(asked.side, text[start:end], int(start), float(each))
                    for (start, end), each in zip(tokens.spans[pair], log_p, strict=True)
                )
        return {"tokens": by_row}


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

    Examples
    --------
    >>> sentence_of_tokens("A cat. It sat.", np.array([[0, 1], [1, 6], [6, 9]]), TextRules())
    array([0, 0, 1])
    """
    pieces = _sentences(text, rules)
    starts = np.cumsum([0, *map(len, pieces[:-1])])
    ends = starts + [len(piece.rstrip()) for piece in pieces]
    sentences = np.searchsorted(ends, np.maximum(spans[:, 1] - 1, 0), side="right")
    return np.minimum(sentences, ends.size - 1)


def _sentences(text: str, rules: TextRules) -> list[str]:
    """Cut a text into sentences with the white space after them, which together are the text."""
    if rules.sentences == "given":
        return re.split(f"(?<={SENTENCE_END})", text)
    return split_sentences(text, rules.language)


def _parts_of(name: str) -> tuple[str, str, str]:
    """Return the metric, the model and the direction that a name asks for."""
    head, _, rest = name.partition("@")
    model, _, against = rest.rpartition(":")
    return (head, model, against) if model and against in SIDE_OF else (head, rest, "source")


def _as_read(texts: Sequence[str]) -> list[str]:
    """Write texts without the ends of given sentences."""
    return [text.replace(SENTENCE_END, " ") for text in texts]


def _part_of(column: str, parts: Mapping[str, object]) -> str:
    """Return which of the parts a column is, the first of them if it does not say."""
    first = next(iter(parts))
    return next((part for part in parts if column.startswith(f"{NAME}{part}@")), first)


@dataclass(frozen=True, slots=True)
class _Direction:
    """Which text of every pair follows which."""

    side: str
    """Of the text that follows."""
    texts: list[str]
    side_before: str
    contexts: list[str]


def _directions(
    request: MetricRequest, batch: Batch, pairs: CandidatePairs
) -> dict[str, _Direction]:
    """Return what is asked of the pairs, by part of the score."""
    *_, against = _parts_of(request.name)
    others = pairs.others
    if against == "recall":
        loaded: LikelihoodModel = batch.setting.models[request.name]
        n, rules = loaded.settings.lead, batch.setting.rules
        pieces = ([own for own in _sentences(text, rules) if own.strip()] for text in others)
        others = ["".join(own[:n]).rstrip() for own in pieces]
    there = _Direction("candidate", pairs.candidates, pairs.side, others)
    back = _Direction(pairs.side, others, "candidate", pairs.candidates)
    if against == "reference":
        return {"_p": there, "_r": back}
    return {"_r": back} if against == "recall" else {"_p": there}
