"""Trains a neural scorer from files of pairs into a folder that `assay score` and `evaluate` read.

The order: the request is checked, the pairs are split and dealt into files, the scorer is trained
(in this process or on Ray), judged on the test documents and written. Until then the folder has a
subfolder `training/` with all that is needed to go on; in the end its figures stay there.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from cluster import InputFile, list_inputs, with_content
from cluster.store import base_name
from pipelines import training_runs
from pipelines.fetched import check_on_disk
from pipelines.prepare_pairs import prepare_for_negatives
from pipelines.settings.pairs import chosen_device
from pipelines.settings.train import TrainSettings
from reffree.neural.building import Built
from reffree.neural.checkpoint import CHECKPOINT_FILE
from reffree.neural.loop import BEST_FILE, TrainState
from reffree.neural.models import Calibrated
from reffree.neural.training import Recipe, calibrated, learn
from reffree.scorers.evaluation import KindFigures, judge
from reffree.scorers.fitting import LinearRecipe
from reffree.scorers.folder import SOURCE_SAMPLE, save_scorer
from reffree.scorers.scorer import LearnedScorer, NeuralPairs
from reffree.training_pairs.examples import PreparedPairs
from sms.naming import OneOrMore, several
from sms.signature import library_versions

EMBEDDINGS_FOLDER = "embeddings"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferred:
    """How often one head prefers what people preferred; a tie counts half."""

    head: str
    n_fitted: int  # preferences that the scorer is fitted to
    n_fitted_documents: int
    n_judged: int  # preferences that it is judged by
    is_cross_validated: bool
    """Whether each document was judged by weights fitted to the others; else by `split`."""
    n_right: float
    others: Mapping[str, float]
    """How many the shipped scorer, length and density are right about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedScorer:
    """The result of a training."""

    out: str
    signature: str
    n_pairs: Mapping[str, int]  # pairs, or rows of a table, by side
    held_out: Mapping[str, KindFigures]  # on the test documents, by kind of negative
    left_out: Mapping[str, int]
    """Rows, texts or pairs that are not used and negatives that could not be made, by reason."""
    state: TrainState | None = None
    """How the steps went; None for a scorer of features, which takes none."""
    tried: Mapping[str, float] = field(default_factory=dict)
    """Recipes that were compared and their agreement with the development set, the best first."""
    preferences: Sequence[Preferred] = ()
    """How it does on the rows of a table that it was not fitted to, head by head."""


def train_scorer(paths: OneOrMore, settings: TrainSettings, recipe: Recipe) -> TrainedScorer:
    """Train a scorer from pairs into a new folder, or go on with the run interrupted there."""
    tell, paths = training_runs.stages(settings.on_progress), several(paths)
    check_on_disk(encoder=recipe.model.encoder)
    folder = training_runs.checked_folder(settings.out, is_resumed=not settings.fresh)
    training = folder / training_runs.TRAINING_FOLDER
    inputs = with_content(list_inputs(paths))
    fingerprint = train_fingerprint(inputs, recipe, settings)
    with training_runs.undone_if_wrong(folder, (training / CHECKPOINT_FILE).exists):
        where, cache = training / training_runs.PAIRS_FOLDER, str(training / EMBEDDINGS_FOLDER)
        pairs = prepare_for_negatives(recipe.negatives, paths, where, settings, tell)
        test = pairs.examples("test", recipe.negatives)
        test.check_negatives("test")
        tell("training")
        work = partial(learn, recipe, pairs, training, fingerprint=fingerprint, cache_folder=cache)
        if settings.uses_ray:
            training_runs.train_on_ray(work, training, settings)
        # Where workers have finished, this only takes their weights.
        built, state = work(device=settings.own_device, on_news=settings.on_news)
        device = chosen_device(settings.device)
        if recipe.model.is_calibrated:
            tell("calibrating")
            built = calibrated(built, recipe, pairs, device=device)
    tell("judging")
    judged = judge(test.held_out(), LearnedScorer(NeuralPairs(built, device), "", {}))
    figures = judged.by_kind()
    signature = save_scorer(
        folder,
        built,
        loss=recipe.training.loss,
        trained_on=_trained_on(inputs, pairs, recipe, state, built) | {"fingerprint": fingerprint},
        held_out={kind: asdict(kind_figures) for kind, kind_figures in figures.items()},
        versions=library_versions(),
    )
    for name in (training_runs.PAIRS_FOLDER, EMBEDDINGS_FOLDER, training_runs.RAY_FOLDER):
        shutil.rmtree(training / name, ignore_errors=True)
    for name in (CHECKPOINT_FILE, BEST_FILE):
        (training / name).unlink(missing_ok=True)
    return TrainedScorer(
        out=str(folder),
        signature=signature,
        n_pairs=pairs.n_pairs,
        state=state,
        held_out=figures,
        left_out={**pairs.left_out, **test.reasons()},
    )


def train_fingerprint(
    inputs: Sequence[InputFile], recipe: Recipe | LinearRecipe, settings: TrainSettings
) -> str:
    """Hash all that a training's result depends on."""
    asked: dict[str, Any] = {
        "recipe": asdict(recipe),
        "inputs": [file.to_json() for file in inputs],
        "columns": dict(settings.columns or {}),
        "limit": settings.limit,
        "split_anew": settings.split_anew,
        "workers": settings.workers,
        "device": "cuda" if settings.gpus_per_worker > 0 else settings.own_device,
    }
    return training_runs.fingerprint_of(asked)


def _trained_on(
    inputs: Sequence[InputFile],
    pairs: PreparedPairs,
    recipe: Recipe,
    state: TrainState,
    built: Built,
) -> dict[str, Any]:
    facts = {
        "files": [base_name(file.path) for file in inputs],
        "pairs": dict(pairs.n_pairs),
        "left_out": dict(pairs.left_out),
        "split": "by the files" if pairs.has_own_split else "by document",
        SOURCE_SAMPLE: pairs.source_sample,
        "negatives": asdict(recipe.negatives),
        "training": asdict(recipe.training),
        "steps": state.step,
        "best_step": state.best_step,
        "validation_loss": state.best_loss,
    }
    if isinstance(built.model, Calibrated):
        scale, shift = built.model.scale.item(), built.model.shift.item()
        facts["calibration"] = {"scale": scale, "shift": shift}
    return facts
