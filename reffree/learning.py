"""From prepared pairs to trained weights, in one process or in each of several.

What a process has to know is a `Recipe` and the folder of the prepared pairs, so that the same
function runs at home and on a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

import numpy as np
import torch

from reffree.batches import Batch, count_batches, ordered_batches, training_batches
from reffree.buckets import bucket_paths
from reffree.building import Built, build
from reffree.calibration import Calibrated, fit_scale
from reffree.examples import Example, Examples
from reffree.hashing import generator_of
from reffree.loop import TrainNews, TrainState
from reffree.losses import compares_candidates
from reffree.mixture import NegativesConfig
from reffree.models import ModelConfig
from reffree.negatives import POSITIVE
from reffree.ranks import Ranks
from reffree.readers import Reader
from reffree.training import TrainConfig, train

MAX_HELD_OUT_PAIRS = 5_000
"""Pairs of a side that are judged, at most; buckets are random samples, and so are these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """All that decides what a scorer becomes, given its pairs."""

    model: ModelConfig
    negatives: NegativesConfig
    training: TrainConfig

    def __post_init__(self) -> None:
        if self.model.is_calibrated and compares_candidates(self.training.loss):
            raise ValueError(
                "`is_calibrated` must be False with the loss ranking, by which scores only have an "
                "order, got True"
            )

    def examples_per_pair(self) -> int:
        """About how many examples a pair gives; fewer where a negative cannot be made."""
        config = self.negatives
        n_kinds = len(config.kinds) if config.proportions is None else 1
        n_negatives = config.per_positive * n_kinds
        return n_negatives + (n_negatives if config.is_balanced else 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedFolder:
    """Pairs that lie ready on a disk that all processes see."""

    folder: Path
    """With the buckets, and the neighbours where they are needed."""
    vocabulary: tuple[str, ...]
    n_training_pairs: int

    def examples(self, side: str, config: NegativesConfig) -> Examples:
        """Return the examples of a side."""
        return Examples(bucket_paths(self.folder, side), config, self.vocabulary)


class PairBatches:
    """The batches of a run, for one process."""

    def __init__(self, pairs: PreparedFolder, recipe: Recipe, reader: Reader, ranks: Ranks) -> None:
        self._training = pairs.examples("train", recipe.negatives)
        self._validation = pairs.examples("validation", recipe.negatives)
        self._config, self._reader, self._ranks = recipe.training, reader, ranks
        self.n_batches = count_batches(
            pairs.n_training_pairs,
            recipe.examples_per_pair(),
            size=recipe.training.batch_size,
            keeps_groups=compares_candidates(recipe.training.loss),
            n_ranks=ranks.size,
        )

    def training(self, epoch: int) -> Iterator[Batch]:
        """Give this process's part of an epoch's batches."""
        config = self._config
        return training_batches(
            self._training.epoch(epoch),
            self._reader,
            size=config.batch_size,
            rng=generator_of(config.seed, "batches", epoch),
            keeps_groups=compares_candidates(config.loss),
            rank=self._ranks.rank,
            n_ranks=self._ranks.size,
        )

    def validation(self) -> Iterator[Batch]:
        """Give this process's part of the validation batches: the same in every epoch."""
        groups = islice(held_out(self._validation), self._ranks.rank, None, self._ranks.size)
        return ordered_batches(
            groups,
            self._reader,
            size=self._config.batch_size,
            keeps_groups=compares_candidates(self._config.loss),
        )


def learn(
    recipe: Recipe,
    pairs: PreparedFolder,
    folder: Path,
    *,
    fingerprint: str,
    device: str = "cpu",
    cache_folder: str | None = None,
    ranks: Ranks | None = None,
    on_news: Callable[[TrainNews], None] | None = None,
) -> tuple[Built, TrainState]:
    """Train a scorer; go on where an interrupted run of the same folder stopped.

    Parameters
    ----------
    recipe : Recipe
    pairs : PreparedFolder
    folder : Path
        Of the run; see `loop`.
    fingerprint, device, on_news
        As in `loop.run_training`.
    cache_folder : str, optional
        Keeps the vectors of an encoder that is not trained.
    ranks : Ranks, optional
        The processes that do this together.

    Returns
    -------
    Built
        The model with its best weights.
    TrainState

    Raises
    ------
    ValueError
        If some side has no negatives, or something does not fit.
    RuntimeError
        If a loss is not a number.
    """
    ranks = ranks or Ranks()
    for side in ("train", "validation"):
        check_negatives(pairs.examples(side, recipe.negatives), side)
    texts = (
        (group[0].source, group[0].candidate)
        for group in pairs.examples("train", recipe.negatives).epoch(0, in_order=True)
    )
    measured = chain.from_iterable(
        pairs.examples("train", recipe.negatives).epoch(0, in_order=True)
    )
    built = build(
        recipe.model, texts, measured, seed=recipe.training.seed, cache_folder=cache_folder
    )
    state = train(
        built.model,
        PairBatches(pairs, recipe, built.reader, ranks),
        recipe.training,
        folder,
        # the encoder's files may be others than when the run began
        fingerprint=f"{fingerprint}+{built.encoder_content}",
        device=device,
        ranks=ranks,
        on_news=on_news,
    )
    return built, state


def calibrated(
    built: Built, recipe: Recipe, pairs: PreparedFolder, *, device: str = "cpu"
) -> Built:
    """Scale and shift a trained model's logits to the least loss on the validation documents.

    Parameters
    ----------
    built : Built
        From `learn`.
    recipe, pairs
        As in `learn`.
    device : str

    Returns
    -------
    Built
        With a model of the class `Calibrated`.
    """
    where = torch.device(device)
    model = built.model.to(where).eval()
    logits, labels = [], []
    for batch in PairBatches(pairs, recipe, built.reader, Ranks()).validation():
        inputs = {name: tensor.to(where) for name, tensor in batch.inputs.items()}
        with torch.inference_mode():  # in fp32, as scores are computed
            logits.append(model(**inputs).double().cpu().numpy())
        labels.append(batch.labels.double().numpy())
    scale, shift = fit_scale(np.concatenate(logits), np.concatenate(labels), recipe.training.loss)
    return replace(built, model=Calibrated(model, scale, shift))


def held_out(examples: Examples) -> Iterator[list[Example]]:
    """Give the examples that a scorer is judged by: of epoch 0, in order."""
    return islice(examples.epoch(0, in_order=True), MAX_HELD_OUT_PAIRS)


def check_negatives(examples: Examples, side: str) -> None:
    """Refuse a side of which no pair has a negative: there is nothing to tell apart.

    Raises
    ------
    ValueError
        With the reasons why none could be made.
    """
    if any(example.kind != POSITIVE for group in held_out(examples) for example in group):
        return
    why = ", ".join(f"{n} {kind}: {text}" for (kind, text), n in examples.left_out.items())
    raise ValueError(
        f"`negatives` must give both classes, got none for {side} ({why}); choose other kinds or "
        "give more documents"
    )
