"""A trained scorer: scores candidates against their sources. `scorer_folder` is how it is kept."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from reffree.features import UNDEFINED, PairFeatures
from reffree.features.linear import BOUND, LinearModel, linear_model
from reffree.neural.building import Built, rebuild
from reffree.neural.models import ModelConfig
from reffree.scorers.folder import (
    FEATURES,
    WEIGHTS_FILE,
    hash_of,
    is_linear,
    models_to_choose,
    naming_damage,
    read_settings,
    signature_of,
    signature_of_linear,
    warn_of_versions,
    write_settings,
)
from reffree.scorers.hub import fetch_scorer
from reffree.scorers.naming import SCORER_FILE, find_scorer, is_on_hub, split_head
from reffree.whole_texts import ReadPairs, by_reason, why_not_read
from sms.encoders.batches import Batches
from sms.metric import NumberedTexts
from sms.naming import AnyPath, nearest
from sms.options import PATH
from sms.reasons import CUT, Reason
from sms.signature import without_versions

logger = logging.getLogger(__name__)

BATCH_PIECES = {"cpu": 4_096, "cuda": 131_072}
"""Pieces (or vectors) that go through a model together, by device."""
SOURCE = "source"  # all that they compare with


@dataclass(frozen=True, slots=True)
class PairScores:
    """Scores of pairs of texts."""

    scores: np.ndarray  # higher is better, NaN where there is none; float64, (n,), or (n, n_heads)
    cut: np.ndarray
    """Whether the candidate, and what it is judged by, was too long and only its lead was read;
    bool, shape (n, 2)."""
    reasons: Mapping[int, tuple[tuple[str, str], ...]]
    """By pair that was read and has no score, which text is to blame and why."""

    @property
    def is_cut(self) -> np.ndarray:
        """Whether one of the two was cut, bool, shape (n,)."""
        return self.cut[:, 0] | self.cut[:, 1]


@dataclass(frozen=True, slots=True, eq=False)
class RowScores:
    """Scores of rows, each against all of its sources."""

    scores: np.ndarray  # of each head, NaN where there is none; float64, (n, n_heads)
    is_cut: np.ndarray
    """Of which rows some text was cut, 1.0 or 0.0; NaN where there was nothing to read."""
    reasons: Sequence[Reason]


class LearnedScorer:
    """Scores candidates without a reference; `load_scorer` makes one.

    With several heads it returns the score of the one named `head`, or their mean.
    """

    def __init__(
        self,
        pairs: NeuralPairs | LinearPairs,
        signature: str,
        settings: Mapping[str, Any],
        *,
        head: str | None = None,
    ) -> None:
        self.signature, self.settings, self.head = signature, settings, head
        self.heads: tuple[str, ...] = pairs.heads  # none where there is one without a name
        self.encoder_content = pairs.encoder_content
        """Hash of the models that are not among its weights; empty if there are none."""
        self.linear = pairs if isinstance(pairs, LinearPairs) else None
        """What computes the scores, if they are weighted sums of features."""
        self._pairs = pairs
        if head is not None:
            self.column_of(head)

    def column_of(self, head: str) -> int:
        """Return the place of a head among the columns."""
        if head not in self.heads:
            there = nearest(head, self.heads) if self.heads else "this scorer has one score"
            raise ValueError(f"no head `{head}` in the scorer; {there}")
        return self.heads.index(head)

    def score_rows(self, texts: NumberedTexts, name: str) -> RowScores:
        """Score every row that has words, a column for each head; `name` is for statuses."""
        pairs = ReadPairs.among(texts, SOURCE)
        usable = pairs.by_row()
        rows = list(usable)
        scored = self.score_against_all(
            [sources for _, sources in usable.values()],
            [candidate for candidate, _ in usable.values()],
        )
        scores = np.full((pairs.n_rows, scored.scores.shape[1]), np.nan)
        cut, is_cut = np.zeros((pairs.n_rows, 2), dtype=bool), np.full(pairs.n_rows, np.nan)
        scores[rows], cut[rows], is_cut[rows] = scored.scores, scored.cut, scored.is_cut
        reasons = list(why_not_read(texts, SOURCE))
        said = ((rows[k], *why) for k, whys in scored.reasons.items() for why in whys)
        failed = by_reason(said, pairs.n_rows)
        reasons += [Reason(side, why, flags, name) for (side, why), flags in failed.items()]
        sides = zip(("candidate", SOURCE), cut.T, strict=True)
        reasons += [Reason(side, CUT, flags, name) for side, flags in sides]
        return RowScores(scores, is_cut, reasons)

    def chosen(self, scores: np.ndarray, head: str | None = None) -> np.ndarray:
        """Return the scores of a head, of the scorer's own, or their mean; shape (n,)."""
        name = head or self.head
        return scores.mean(axis=1) if name is None else scores[:, self.column_of(name)]

    def score(self, sources: Sequence[str], candidates: Sequence[str]) -> PairScores:
        """Score pairs: NaN where the model can read nothing, such as no word that has a vector.

        Raises `ValueError` if there are not as many sources as candidates.
        """
        if isinstance(sources, str) or isinstance(candidates, str):
            raise TypeError("`sources` and `candidates` must be lists of texts, got a text")
        if len(sources) != len(candidates):
            raise ValueError(
                "`sources` and `candidates` must be equally many, got "
                f"{len(sources)} and {len(candidates)}"
            )
        scored = self.score_against_all([[source] for source in sources], candidates)
        return replace(scored, scores=self.chosen(scored.scores))

    def score_against_all(
        self, sources: Sequence[Sequence[str]], candidates: Sequence[str]
    ) -> PairScores:
        """Score candidates that have several sources: the mean over them (section 3.6.1).

        Scores have a column for each head, which `chosen` reads. Sources without a score are left
        out; a candidate whose sources all have none gets NaN.
        """
        lengths = np.array([len(texts) for texts in sources], dtype=np.int64)
        repeated = np.repeat(np.arange(len(candidates)), lengths)
        flat = self._pairs.score(
            list(chain.from_iterable(sources)), [candidates[row] for row in repeated.tolist()]
        )
        n = len(candidates)
        is_scored = ~np.isnan(flat.scores[:, 0])
        n_scored = np.bincount(repeated[is_scored], minlength=n)
        sums = np.zeros((n, flat.scores.shape[1]))
        np.add.at(sums, repeated[is_scored], flat.scores[is_scored])
        sums[n_scored == 0] = np.nan
        reasons: dict[int, tuple[tuple[str, str], ...]] = {}
        for row, why in ((int(repeated[pair]), why) for pair, why in flat.reasons.items()):
            if not n_scored[row]:
                reasons.setdefault(row, why)
        cut = [np.bincount(repeated, weights=flags, minlength=n) > 0 for flags in flat.cut.T]
        return PairScores(sums / np.maximum(n_scored, 1)[:, None], np.column_stack(cut), reasons)


class NeuralPairs:
    """The scores of a model in torch."""

    heads: tuple[str, ...] = ()
    bounds = (0.0, 1.0)

    def __init__(self, built: Built, device: str = "cpu") -> None:
        self.encoder_content = built.encoder_content
        self._reader, self._where = built.reader, torch.device(device)
        self._model = built.model.to(self._where).eval()
        self._batches = Batches(BATCH_PIECES[self._where.type])

    def score(self, sources: Sequence[str], candidates: Sequence[str]) -> PairScores:
        """Score pairs in batches of about the same length."""
        readings = self._reader.read(sources, candidates)
        lengths = np.array([reading.length for reading in readings], dtype=np.int64)
        scores = np.empty((len(readings), 1))

        def compute(rows: np.ndarray) -> None:
            inputs = self._reader.collate([readings[row] for row in rows])
            # In fp32 on any device, so that a scorer's numbers do not depend on where it runs.
            with torch.inference_mode():
                sent = {name: tensor.to(self._where) for name, tensor in inputs.items()}
                scores[rows, 0] = torch.sigmoid(self._model(**sent).double()).cpu().numpy()

        self._batches.run(lengths, compute)
        reasons = {row: reading.unseen for row, reading in enumerate(readings) if reading.unseen}
        scores[list(reasons)] = np.nan
        cut = np.array([reading.cut for reading in readings], dtype=bool).reshape(-1, 2)
        return PairScores(scores, cut, reasons)


class LinearPairs:
    """The scores of a weighted sum of features."""

    bounds = (-BOUND, BOUND)

    def __init__(self, model: LinearModel, features: PairFeatures) -> None:
        self.model, self.features = model, features
        self.heads = tuple(model.heads)
        self.encoder_content = features.metrics.content if features.metrics else ""

    def score(self, sources: Sequence[str], candidates: Sequence[str]) -> PairScores:
        """Score pairs; those of a document should stand together."""
        read = self.features.read(sources, candidates)
        scores = self.model.scores(read.values)
        unseen = np.flatnonzero(np.isnan(scores).all(axis=1)).tolist()
        reasons = dict.fromkeys(unseen, UNDEFINED) | read.reasons
        scores[list(reasons)] = np.nan
        return PairScores(scores, read.cut, reasons)

    def contributions(self, source: str, candidate: str, head: str | None) -> dict[str, float]:
        """Split the score of a head, or the mean of all, into the parts of its features."""
        values = self.features.read([source], [candidate]).values
        heads = self.heads if head is None else (head,)
        parts = np.mean([self.model.contributions(values, name)[0] for name in heads], axis=0)
        return dict(zip(self.model.features.names, parts.tolist(), strict=True))

    def constant(self, head: str | None) -> float:
        """Return what a head, or the mean of all, adds to the parts of its features."""
        heads = [self.model.heads[name] for name in (self.heads if head is None else (head,))]
        return -float(np.mean([fitted.mean / fitted.deviation for fitted in heads]))

    @property
    def signature(self) -> str:
        """What identifies the scores."""
        metrics = self.features.metrics
        return signature_of_linear(self.model, metrics.signature if metrics else "")

    def save(self, folder: Path, **said: Any) -> str:  # noqa: ANN401
        """Write the folder of this scorer, which is one file; return its signature."""
        return write_settings(
            folder,
            signature=self.signature,
            model={"scorer": FEATURES, **asdict(self.model)},
            encoder_content=self.encoder_content,
            hashes={},
            **said,
        )


def load_scorer(
    folder: AnyPath,
    *,
    device: str = "cpu",
    cache_folder: AnyPath | None = None,
    threads: int | None = None,
    models: Mapping[str, str] | None = None,
) -> LearnedScorer:
    """Load a scorer from a folder that `assay train` wrote, from the package, or from the hub.

    `FOLDER.HEAD` gives one of its heads, for example `news.fluency`. `cache_folder` keeps the
    vectors of an encoder that is not trained, and what the models of its metrics answer. `models`
    has by alias the folder or hub id of a language model, for a scorer such as `general+lm` that
    was not trained with certain files of it. Raises `ValueError` if a file is missing or was
    changed, the format is of another version, or the encoder is not the one that the scorer was
    trained with.
    """
    name, head = split_head(os.fspath(folder))
    folder = fetch_scorer(name) if is_on_hub(name) else find_scorer(name)
    settings = read_settings(folder)
    kept = None if cache_folder is None else os.fspath(cache_folder)
    pairs: NeuralPairs | LinearPairs
    with naming_damage(folder):
        warn_of_versions(folder, settings)
        if is_linear(settings):
            chosen = models or {}
            pairs, signature = _load_linear(folder, settings, device, kept, threads, chosen)
        else:
            pairs, signature = _load_neural(folder, settings, device, kept)
    if without_versions(signature) != without_versions(settings["signature"]):
        raise ValueError(
            f"`{folder / SCORER_FILE}` must have the signature of what is in the folder, "
            f"{signature}, got {settings['signature']}; train again"
        )
    parts = (text.rpartition("|v:")[0].split("|") for text in (settings["signature"], signature))
    for was, is_now in zip(*parts, strict=True):
        if was != is_now:
            logger.warning(
                "%s was trained with %s, this is %s; its scores may differ", folder, was, is_now
            )
    if isinstance(pairs, LinearPairs):
        signature = pairs.signature  # with the models that were chosen
    return LearnedScorer(pairs, signature, settings, head=head)


def _load_neural(
    folder: Path, settings: Mapping[str, Any], device: str, cache_folder: str | None
) -> tuple[NeuralPairs, str]:
    weights = settings["hashes"].get(WEIGHTS_FILE)
    if weights is None:
        raise ValueError(
            f"`{folder / SCORER_FILE}` must have a hash of {WEIGHTS_FILE}, got none; copy "
            "the folder again"
        )
    for name, digest in settings["hashes"].items():
        is_there = (folder / name).is_file()
        if not is_there or hash_of(folder / name) != digest:
            raise ValueError(
                f"`{folder / name}` must be the file that was written with the scorer, got "
                f"{'another file' if is_there else 'none'}; copy the folder again"
            )
    config = ModelConfig(**settings["model"])
    built = rebuild(config, folder, settings["encoder_content"], cache_folder=cache_folder)
    try:
        built.model.load_state_dict(load_file(folder / WEIGHTS_FILE))
    except (SafetensorError, RuntimeError) as error:
        raise ValueError(
            f"`{folder / WEIGHTS_FILE}` must fit the model, got {str(error).splitlines()[0]}"
        ) from error
    return NeuralPairs(built, device), signature_of(built, settings["loss"], weights)


def _load_linear(
    folder: Path,
    settings: Mapping[str, Any],
    device: str,
    cache_folder: str | None,
    threads: int | None,
    chosen: Mapping[str, str],
) -> tuple[LinearPairs, str]:
    model = linear_model(settings["model"])
    to_choose = models_to_choose(settings)
    if to_choose:
        models = {
            alias: {**table, PATH: chosen.get(alias, table[PATH])}
            for alias, table in to_choose.items()
        }
        model = replace(model, features=replace(model.features, models=models, paths={}))
    try:
        features = PairFeatures(
            model.features, device=device, threads=threads, cache_folder=cache_folder
        )
    except ValueError as error:
        others = "".join(f"; for this scorer give `--models {alias}=FOLDER`" for alias in to_choose)
        raise ValueError(f"the scorer {folder} cannot load its models: {error}{others}") from error
    pairs = LinearPairs(model, features)
    if to_choose:
        return pairs, signature_of_linear(model)
    if pairs.encoder_content != settings["encoder_content"]:
        named = ", ".join(f"{name} in {path}" for name, path in model.features.paths.items())
        raise ValueError(
            f"the models of {folder} ({named}) must be those that it was trained with, got other "
            "files; put the same ones there, or train again"
        )
    return pairs, pairs.signature
