"""A model with settings: scores of documents and summaries, each pair of pieces asked once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from reffree.judges.answerers import load_answerer, most_read, reading
from reffree.judges.inputs import InputMaker, Pair, document_pieces, summary_pieces
from reffree.judges.settings import CONV_FILE, HISTOGRAM, JudgeOptions, needs_of
from reffree.language_models import Remembered, batches
from reffree.scorers.scorer import PairScores
from sms.encoders import EncoderRuntime
from sms.encoders.pretrained import one_line
from sms.encoders.vector_cache import key_of
from sms.file_hashes import hash_of_files
from sms.metric import Evidence
from sms.text import TextRules
from sms.text.words import CANNOT_BE_SPLIT, attempt

_HASH_LENGTH = 12
_OVER: Mapping[str, Callable[..., Any]] = {"max": np.max, "mean": np.mean, "min": np.min}
_LOW = (0, 0.01, 0.02, 0.03, 0.04, 0.07, 0.13, 0.37, 0.9, 0.91, 0.92, 0.93, 0.94)
_HIGH = (0.95, 0.955, 0.96, 0.965, 0.97, 0.975, 0.98, 0.985, 0.99, 0.995, 1)
PERCENTILES = np.array([*_LOW, *_HIGH])
"""Edges of SummaC-Conv's bins, by what share of probabilities lies below them."""


@dataclass(frozen=True, slots=True)
class _Matrix:
    """The answers about a document and a summary."""

    document: Sequence[str]
    summary: Sequence[str]
    values: np.ndarray  # shape (n_document, n_summary, n_answers), float64
    cut: np.ndarray  # whether some piece of the summary, and of the document, was cut; bool, (2,)


class JudgeModel:
    """A model that answers for pieces of a document and a summary.

    The path is the folder of a transformers model, or its id on the hub; `table` is a table
    `[models.ALIAS]` without its path: fields of `JudgeOptions`, `preset`, `aspect`. Raises
    `ValueError` if a setting is wrong, or the folder lacks something, with what a preset needs.

    What else is scored in a batch makes a difference of rounding alone, within
    `sms.encoders.SCORE_TOLERANCE` by the number format, but for `histogram`: there a value that
    lies on the edge of a bin may fall into its neighbour.
    """

    def __init__(
        self,
        path: str,
        table: Mapping[str, Any] | None = None,
        runtime: EncoderRuntime | None = None,
    ) -> None:
        table = table or {}
        self.settings = JudgeOptions.of(table)
        try:
            self._load(path, runtime or EncoderRuntime())
        except ValueError as error:
            raise ValueError(f"{error}{needs_of(table)}") from error

    def _load(self, path: str, runtime: EncoderRuntime) -> None:
        settings = self.settings
        self._answerer = load_answerer(path, settings.model, runtime)
        pretrained = self._answerer.pretrained
        self._maker = InputMaker(
            pretrained.tokenizer, settings, most_read(pretrained, settings.max_tokens)
        )
        self._read = reading(pretrained, settings)
        self._batches = batches(pretrained.machine)
        self._convolution = None
        self.content_hash = pretrained.folder.content_hash
        if settings.over_document == HISTOGRAM:
            file = pretrained.folder.folder / CONV_FILE
            self._convolution = Convolution.read(file)
            both = f"{pretrained.folder.content_hash}+{hash_of_files([file])}"
            self.content_hash = blake2b(both.encode(), digest_size=16).hexdigest()
        self._remembered = Remembered(
            f"answers|{self.signature}|{self.content_hash}", runtime.cache_folder
        )
        self._counts: Counter[str] = Counter(pairs=0, asked=0, tokens=0, cut=0)

    @property
    def signature(self) -> str:
        """Model, beginning of its hash, number format and settings."""
        pretrained = self._answerer.pretrained
        name, number_format = pretrained.folder.name, pretrained.machine.signature
        content = f"|hash:{self.content_hash[:_HASH_LENGTH]}"
        return f"model:{name}{content}{number_format}|{self.settings.signature()}"

    def state(self) -> dict[str, int]:
        """Return how many pairs of pieces there were, and how many the model was asked."""
        return dict(self._counts)

    def score(
        self, documents: Sequence[str], summaries: Sequence[str], rules: TextRules | None = None
    ) -> PairScores:
        """Score summaries, each of its document; higher is better."""
        matrices = self._matrices(documents, summaries, rules or TextRules())
        scores = np.full(len(matrices), np.nan)
        cut = np.zeros((len(matrices), 2), dtype=bool)
        reasons = {}
        for row, matrix in enumerate(matrices):
            if isinstance(matrix, str):  # the side that cannot be split
                reasons[row] = ((matrix, CANNOT_BE_SPLIT),)
                continue
            if self._convolution is not None:
                scores[row] = self._convolution.score(matrix.values[:, :, 0])
            else:
                values = by_summary_piece(matrix.values, self.settings)
                scores[row] = _OVER[self.settings.over_summary](values)
            cut[row] = matrix.cut
        self._counts["cut"] += int(cut.any(axis=1).sum())
        return PairScores(scores, cut, reasons)

    def evidence(
        self, documents: Sequence[str], summaries: Sequence[str], rules: TextRules | None = None
    ) -> list[tuple[Evidence, ...]]:
        """Say of every piece of the summaries which piece of the document decided about it.

        That is the one with the highest answer or, for the minimum over the document, the lowest.
        """
        pick = np.argmin if self.settings.over_document == "min" else np.argmax
        evidence: list[tuple[Evidence, ...]] = []
        for matrix in self._matrices(documents, summaries, rules or TextRules()):
            if isinstance(matrix, str):
                evidence.append(())
                continue
            best = [matrix.document[k] for k in pick(matrix.values[:, :, 0], axis=0).tolist()]
            values = by_summary_piece(matrix.values, self.settings).tolist()
            evidence.append(tuple(map(Evidence, matrix.summary, best, values)))
        return evidence

    def _matrices(
        self, documents: Sequence[str], summaries: Sequence[str], rules: TextRules
    ) -> list[_Matrix | str]:
        """Return the answers for every row, or which text cannot be split."""
        if self.settings.against == "none":
            documents = [""] * len(summaries)
        settings, count = self.settings, self._maker.count_tokens
        of_documents, longer_documents = _first_pieces(
            lambda text: document_pieces(text, settings, rules, count),
            documents,
            settings.most_document,
        )
        of_summaries, longer_summaries = _first_pieces(
            lambda text: summary_pieces(text, settings, rules), summaries, settings.most_summary
        )
        both = [*zip(documents, summaries, strict=True)]
        pairs = (product(of_documents[d] or (), of_summaries[s] or ()) for d, s in both)
        answers = self._answers(list(dict.fromkeys(chain.from_iterable(pairs))))
        matrices: list[_Matrix | str] = []
        for d, s in both:
            document, summary = of_documents[d], of_summaries[s]
            each = [answers[pair] for pair in product(document or (), summary or ())]
            known = [answer for answer in each if answer is not None]
            if document is None:
                matrices.append("document")
            elif summary is None or len(known) < len(each):  # the tokeniser fails on some pair
                matrices.append("summary")
            else:
                values = np.array(known, dtype=np.float64)
                values = values.reshape(len(document), len(summary), -1)
                is_cut = values[:, :, -2:].reshape(-1, 2).max(axis=0) > 0
                is_cut |= [s in longer_summaries, d in longer_documents]
                matrices.append(_Matrix(document, summary, values[:, :, :-2], is_cut))
        return matrices

    def _answers(self, pairs: Sequence[Pair]) -> dict[Pair, np.ndarray | None]:
        """Return for every pair its answers and what of it was cut; None if it cannot be split."""
        named = {key_of("pair", f"{len(d)}\n{d}{s}").hex(): (d, s) for d, s in pairs}
        n_values = 3 + (self.settings.value == "difference")
        answers, _ = self._remembered.values(
            dict.fromkeys(named, n_values),
            lambda names: self._asked({name: named[name] for name in names}),
        )
        self._counts["pairs"] += len(pairs)
        return {pair: answers.get(name) for name, pair in named.items()}

    def _asked(self, named: Mapping[str, Pair]) -> dict[str, np.ndarray]:
        """Ask the model about pairs; those that cannot be split are left out."""
        made = zip(named, self._maker.make(list(named.values())), strict=True)
        inputs = {name: model_input for name, model_input in made if model_input is not None}
        names, listed = list(inputs), list(inputs.values())
        lengths = np.array([model_input.ids.size for model_input in listed], dtype=np.int64)
        answers: dict[str, np.ndarray] = {}

        def compute(batch: np.ndarray) -> None:
            some = [listed[k] for k in batch.tolist()]
            values = self._answerer.answers(some, self._read)
            for k, model_input, value in zip(batch.tolist(), some, values, strict=True):
                answers[names[k]] = np.append(value, np.array(model_input.cut, dtype=np.float32))

        self._batches.run(lengths, compute)
        self._counts["asked"] += len(listed)
        self._counts["tokens"] += int(lengths.sum())
        return answers


@dataclass(frozen=True, slots=True, eq=False)
class Convolution:
    """The trained layers of SummaC-Conv: a value by bins for every piece, and one for their mean.

    Laban et al. 2022, section 4.2; `SummaCConv` of summac/model_summac.py.
    """

    by_bin: np.ndarray  # weight of every bin, then a constant; float64, (n_bins + 1,)
    final: np.ndarray
    """Weights of three means, which are one, then a constant, for both classes; (2, 4)."""

    @classmethod
    def read(cls, path: Path) -> Convolution:
        """Read the published file, as numbers alone."""
        if not path.is_file():
            raise ValueError(f"no file `{path}`")
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
            parts = [
                np.column_stack([state[f"{name}.weight"].numpy(), state[f"{name}.bias"].numpy()])
                for name in ("mlp", "layer_final")
            ]
        except Exception as error:  # whatever a damaged pickle does
            raise ValueError(
                f"`{path}` must be the state of SummaC-Conv, got {type(error).__name__}: "
                f"{one_line(error)}"
            ) from error
        if (parts[0].shape, parts[1].shape) != ((1, PERCENTILES.size), (2, 4)):
            raise ValueError(
                f"`{path}` must have the layers of SummaC-Conv for one class, got shapes "
                f"{parts[0].shape} and {parts[1].shape}"
            )
        return cls(parts[0][0].astype(np.float64), parts[1].astype(np.float64))

    def score(self, values: np.ndarray) -> float:
        """Return the score of a summary by its values, shape (n_document, n_summary)."""
        histograms = np.array(
            [np.histogram(of_piece, bins=PERCENTILES)[0] for of_piece in values.T]
        )
        mean = float((histograms @ self.by_bin[:-1] + self.by_bin[-1]).mean())
        logits = self.final[:, :3].sum(axis=1) * mean + self.final[:, 3]
        return float(1 / (1 + np.exp(logits[0] - logits[1])))


def _first_pieces(
    cut: Callable[[str], list[str]], texts: Sequence[str], most: int | None
) -> tuple[dict[str, list[str] | None], set[str]]:
    """Return the first pieces of every text, None if it cannot be split, and texts with more."""
    by_text = {text: attempt(cut, text) for text in dict.fromkeys(texts)}
    longer = {text for text, pieces in by_text.items() if pieces and most and len(pieces) > most}
    return {text: pieces and pieces[:most] for text, pieces in by_text.items()}, longer


def by_summary_piece(values: np.ndarray, settings: JudgeOptions) -> np.ndarray:
    """Put the answers (n_document, n_summary, n_answers) of every piece of the summary together.

    They are of the positive answer and, for a `difference`, the negative one.
    """
    over = "max" if settings.over_document == HISTOGRAM else settings.over_document
    each = _OVER[over](values, axis=0)
    return each[:, 0] - each[:, 1] if settings.value == "difference" else each[:, 0]
