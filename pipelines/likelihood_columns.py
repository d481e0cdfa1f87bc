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
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sms.encoders import EncoderRuntime
from sms.metric import Batch, Metric, MetricRequest, Setting, TokenScore
from sms.metrics import METRICS
from sms.model_tables import find_model
from sms.scoring import first_tokens
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
        found = self.model.log_probabilities(_as_read(contexts), read)
        if self.settings.pmi:
            known = [read[row] for row in np.flatnonzero(found.log_p.lengths).tolist()]
            alone = self.model.log_probabilities([""] * len(known), known)
            less = found.log_p.values - alone.log_p.values
            found = replace(found, log_p=replace(found.log_p, values=less))
        scores = np.full(len(texts), np.nan)
        for row, text in enumerate(texts):
            sentences = None
            if self.settings.value == "worst":
                sentences = sentence_of_tokens(text, found.spans[row], rules)
            scores[row] = self.settings.score(found.log_p[row], sentences)
        return scores, found


class Likelihood(Metric):
    """Log-probabilities of texts under pretrained models."""

    reads_texts = False

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
            raise ValueError(f"metric {name!r} must end in :reference; else write {NAME}@{model}")
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

    def prepare(self, request: MetricRequest, batch: Batch) -> None:
        """Run the model."""
        self._scored(request, batch)

    def score(self, request: MetricRequest, batch: Batch) -> Mapping[str, np.ndarray]:
        """Return the scores of the rows that have words, and which of them were cut."""
        columns, reasons = self._scored(request, batch)
        for row, why in reasons.items():
            batch.explained.setdefault(row, []).append(why)
        return columns

    def tokens(
        self, request: MetricRequest, batch: Batch, column: str
    ) -> Sequence[tuple[TokenScore, ...]]:
        """Return by row the tokens of the text with the highest score."""
        return _tokens(request, batch, column)

    def _scored(
        self, request: MetricRequest, batch: Batch
    ) -> tuple[dict[str, np.ndarray], dict[int, str]]:
        return batch.once((Likelihood, request.name), lambda: _score(request, batch))


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
    lengths = np.array([len(piece) for piece in pieces])
    ends = np.cumsum(lengths) - lengths + np.array([len(piece.rstrip()) for piece in pieces])
    found = np.searchsorted(ends, np.maximum(spans[:, 1] - 1, 0), side="right")
    return np.minimum(found, ends.size - 1)


def lead_of(text: str, n_sentences: int, rules: TextRules) -> str:
    """Return the first sentences of a text."""
    pieces = [piece for piece in _sentences(text, rules) if piece.strip()]
    return "".join(pieces[:n_sentences]).rstrip()


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


def _score(request: MetricRequest, batch: Batch) -> tuple[dict[str, np.ndarray], dict[int, str]]:
    """Score a batch: columns, and by row why it has no score."""
    pairs = _Pairs(request, batch)
    loaded: LikelihoodModel = batch.setting.models[request.name]
    by_part = {}
    for part, side in pairs.text_side.items():
        scores, found = loaded.scores(*pairs.texts(side), batch.setting.rules)
        by_part[part] = scores
        pairs.remark(found, side)
    if len(by_part) > 1:
        by_part["_f"] = (by_part["_p"] + by_part["_r"]) / 2
    columns = {
        column: pairs.together(by_part[_part_of(column, by_part)]) for column in request.columns
    }
    (cut,) = request.metric.companions_of(request)
    columns[cut] = pairs.is_cut
    return columns, pairs.reasons


def _part_of(column: str, parts: Mapping[str, object]) -> str:
    """Return which of the parts a column is, the first of them if it does not say."""
    first = next(iter(parts))
    return next((part for part in parts if column.startswith(f"{NAME}{part}@")), first)


def _tokens(request: MetricRequest, batch: Batch, column: str) -> list[tuple[TokenScore, ...]]:
    """Return by row the tokens of the text with the highest score; the model remembers them."""
    pairs = _Pairs(request, batch)
    side = pairs.text_side[_part_of(column, pairs.text_side)]
    loaded: LikelihoodModel = batch.setting.models[request.name]
    contexts, texts = pairs.texts(side)
    scores, found = loaded.scores(contexts, texts, batch.setting.rules)
    by_row: list[tuple[TokenScore, ...]] = [()] * len(batch.rows)
    for pair in np.argsort(scores, kind="stable").tolist():  # the highest last; NaN has no tokens
        if not np.isnan(scores[pair]):
            by_row[pairs.rows[pair]] = tuple(
                TokenScore(side, texts[pair][start:end], int(start), float(log_p))
                for (start, end), log_p in zip(found.spans[pair], found.log_p[pair], strict=True)
            )
    return by_row


class _Pairs:
    """The candidates of a batch with each text they are compared with."""

    def __init__(self, request: MetricRequest, batch: Batch) -> None:
        setting = batch.setting
        *_, against = _parts_of(request.name)
        self._name, self._side = request.name, SIDE_OF[against].removesuffix("s")
        self.how = setting.multi_reference if against == "reference" else "mean"
        self.text_side = {
            "source": {"_p": "candidate"},
            "recall": {"_r": self._side},
            "reference": {"_p": "candidate", "_r": self._side},
        }[against]
        """By part of the score, the side whose text follows the other's."""
        self.reasons: dict[int, str] = {}
        """By row, why it has no score."""
        candidates = batch.rows["candidate"].to_pylist()
        self._texts: dict[str, list[str]] = {"candidate": [], self._side: []}
        rows = []
        for row, given in enumerate(batch.rows[SIDE_OF[against]].to_pylist()):
            usable = self._usable(row, candidates[row], as_asked(given, f"{self._side}s", setting))
            self._texts["candidate"] += [candidates[row]] * len(usable)
            self._texts[self._side] += usable
            rows += [row] * len(usable)
        if against == "recall":
            loaded: LikelihoodModel = setting.models[request.name]
            n, rules = loaded.settings.lead, setting.rules
            others = self._texts[self._side]
            self._texts[self._side] = [lead_of(text, n, rules) for text in others]
        self.rows = np.array(rows, dtype=np.int64)
        """Row of every pair."""
        self.is_cut = np.full(len(candidates), np.nan)
        """By row whether something was cut; NaN where nothing was read."""
        self.is_cut[self.rows] = 0.0

    def _usable(self, row: int, candidate: str | None, given: Sequence[str | None]) -> list[str]:
        """Return the texts with words, if the candidate has some, too."""
        if reason := why_unusable(candidate):
            self.reasons[row] = f"candidate:{reason}"
            return []
        usable = [text for text in given if text is not None and not why_unusable(text)]
        if not usable:
            why = why_unusable(given[0]) if given else "missing"
            self.reasons[row] = f"{self._side}:{why}"
        return usable

    def texts(self, side: str) -> tuple[list[str], list[str]]:
        """Return the contexts and the texts after them, where those of `side` come last."""
        context = "candidate" if side == self._side else self._side
        return self._texts[context], self._texts[side]

    def remark(self, found: TokenScores, side: str) -> None:
        """Note which rows were read in part, and which pairs could not be read."""
        self.is_cut[self.rows[found.is_cut]] = 1.0
        scored = set(self.rows[found.log_p.lengths > 0].tolist())
        context = "candidate" if side == self._side else self._side
        for pair, reason in found.reasons.items():
            row = int(self.rows[pair])
            if row not in scored:
                where, _, why = reason.partition(":")
                said = side if where == "text" else context
                self.reasons[row] = f"{said}:{why}@{self._name.partition('@')[2]}"

    def together(self, scores: np.ndarray) -> np.ndarray:
        """Put the scores of a row's pairs together; those without one are left out."""
        is_scored = ~np.isnan(scores)
        rows, kept = self.rows[is_scored], scores[is_scored]
        found = np.full(self.is_cut.size, np.nan)
        if self.how == "best":
            np.fmax.at(found, rows, kept)
            return found
        n = np.bincount(rows, minlength=self.is_cut.size)
        sums = np.bincount(rows, weights=kept, minlength=self.is_cut.size)
        return np.divide(sums, n, out=found, where=n > 0)


def as_asked(
    given: Sequence[str | None] | None, side: str, setting: Setting
) -> Sequence[str | None]:
    """Keep of a candidate's `references` or `sources` what the run asks for."""
    given = given or []
    if side == "references" and setting.multi_reference == "first":
        return given[:1]
    if side == "sources" and setting.source_tokens is not None:
        cut: list[str | None] = first_tokens(
            pa.array(given, pa.string()), setting.source_tokens
        ).to_pylist()
        return cut
    return given


def why_unusable(text: str | None) -> str | None:
    """Say why there is nothing to read in a text; None where there is."""
    if text is None:
        return "null"
    if not text.strip():
        return "empty"
    return None if any(map(str.isalnum, text)) else "no_words"
