"""Trains a scorer from files of pairs into a folder that `assay score` and `evaluate` read.

The order: the request is checked, the pairs are split and dealt into files, the scorer is trained
(in this process or on Ray), judged on the test documents and written. Until then the folder has a
subfolder `training/` with all that is needed to go on; in the end its figures stay there.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cluster import InputFile, list_inputs, with_content
from cluster.store import base_name, local_folder
from pipelines.fetched import check_on_disk
from pipelines.prepare_pairs import PreparedPairs, counted_once, prepare_pairs
from pipelines.runs.manifest import library_versions
from pipelines.runs.progress import Progress
from pipelines.training_folder import TRAINING_FOLDER, checked_folder, forget
from reffree.building import Built
from reffree.checkpoint import CHECKPOINT_FILE, TrainNews
from reffree.evaluation import KindFigures, judge
from reffree.examples import PreparedFolder
from reffree.loop import BEST_FILE, TrainState
from reffree.losses import compares_candidates
from reffree.models import Calibrated
from reffree.neighbours import find_neighbours
from reffree.pairs import SIDES
from reffree.scorer import SCORER_FILE, SOURCE_SAMPLE, LearnedScorer, save_scorer
from reffree.training import Recipe, calibrated, learn
from sms.naming import AnyPath, OneOrMore, several

EMBEDDINGS_FOLDER = "embeddings"
PAIRS_FOLDER = "pairs"
RAY_FOLDER = "ray"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedScorer:
    """What came of a training."""

    out: str
    signature: str
    pairs: PreparedPairs
    state: TrainState
    held_out: Mapping[str, KindFigures]
    """On the test documents, by kind of negative."""
    left_out: Mapping[tuple[str, str], int]
    """Test negatives that could not be made, by kind and reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """Where a scorer is trained."""

    workers: int = 1
    """Processes that share every batch; more than one needs Ray."""
    gpus_per_worker: float = 0
    address: str | None = None
    """Ray cluster to join; without, one is started on this machine."""
    is_open_allowed: bool = False
    """Join a cluster that asks for no token."""
    device: str = "auto"
    """`auto`, `cpu` or `cuda`, for one process."""

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ValueError(f"`workers` must be at least 1, got {self.workers}")
        if self.gpus_per_worker < 0:
            raise ValueError(f"`gpus_per_worker` must not be negative, got {self.gpus_per_worker}")

    @property
    def uses_ray(self) -> bool:
        """Whether the work is not done in this process."""
        return self.workers > 1 or self.gpus_per_worker > 0 or self.address is not None


def train_scorer(
    paths: OneOrMore,
    out: AnyPath,
    recipe: Recipe,
    *,
    columns: Mapping[str, str] | None = None,
    limit: int | None = None,
    split_anew: bool = False,
    refuse_leaks: bool = False,
    neighbour_encoder: str = "minilm",
    embedding_cache: AnyPath | None = None,
    machines: Machines | None = None,
    training_documents: int | None = None,
    resume: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    on_news: Callable[[TrainNews], None] | None = None,
) -> TrainedScorer:
    """Train a scorer.

    Parameters
    ----------
    paths : path or sequence of paths
        As in `prepare_pairs`, as are `columns`, `limit`, `split_anew` and `refuse_leaks`.
    out : path
        New folder for the scorer; all workers must see it.
    recipe : Recipe
    neighbour_encoder : str
        Embeds documents where their neighbours are needed.
    embedding_cache : path, optional
        Folder that keeps the vectors of an encoder that is not trained; a folder of the run
        otherwise.
    machines : Machines, optional
    training_documents : int, optional
        As in `prepare_pairs`.
    resume : bool
        Go on with the run that was interrupted in `out`.
    on_progress : callable, optional
        Told what is being done.
    on_news : callable, optional
        Told of every figure that is logged; with several workers of none, they are in
        `training/metrics.jsonl`.

    Returns
    -------
    TrainedScorer

    Raises
    ------
    ValueError
        If the request or the pairs are wrong, or a run that is to go on is of another request.
    RuntimeError
        If a loss is not a number, or the workers fail.
    """
    tell = on_progress or (lambda _progress: None)
    machines = machines or Machines()
    check_on_disk(encoder=recipe.model.encoder, neighbour_encoder=neighbour_encoder)
    folder = checked_folder(out, result=SCORER_FILE, called="a trained scorer", is_resumed=resume)
    was_there = folder.exists()
    training = folder / TRAINING_FOLDER
    cache_folder = str(
        training / EMBEDDINGS_FOLDER
        if embedding_cache is None
        else local_folder("embedding_cache", embedding_cache)
    )
    paths = several(paths)
    inputs = with_content(list_inputs(paths))
    fingerprint = fingerprint_of(
        inputs,
        recipe,
        columns=columns,
        limit=limit,
        split_anew=split_anew,
        neighbour_encoder=neighbour_encoder,
        machines=machines,
        training_documents=training_documents,
    )
    training.mkdir(parents=True, exist_ok=True)
    try:
        tell(Progress(stage="reading the pairs"))
        pairs = _prepare(
            paths,
            training / PAIRS_FOLDER,
            columns=columns,
            limit=limit,
            seed=recipe.negatives.seed,
            split_anew=split_anew,
            refuse_leaks=refuse_leaks,
            training_documents=training_documents,
        )
        if recipe.negatives.needs_neighbours:
            tell(Progress(stage="looking for neighbours"))
            find_neighbours(pairs.folder, SIDES, neighbour_encoder, recipe.negatives.n_neighbours)
        prepared = PreparedFolder(
            folder=pairs.folder,
            vocabulary=pairs.vocabulary,
            n_training_pairs=pairs.n_pairs["train"],
        )
        test = prepared.examples("test", recipe.negatives)
        test.check_negatives("test")
        tell(Progress(stage="training"))
        if machines.uses_ray:
            from pipelines.train_on_ray import train_on_ray

            work = partial(
                learn,
                recipe,
                prepared,
                training,
                fingerprint=fingerprint,
                cache_folder=cache_folder,
            )
            train_on_ray(work, training, machines)
        built, state = learn(  # where workers have finished, this only takes their weights
            recipe,
            prepared,
            training,
            fingerprint=fingerprint,
            device="cpu" if machines.uses_ray else chosen_device(machines.device),
            cache_folder=cache_folder,
            on_news=on_news,
        )
        if recipe.model.is_calibrated:
            tell(Progress(stage="calibrating"))
            built = calibrated(built, recipe, prepared, device=chosen_device(machines.device))
    except (ValueError, OSError):
        if not (training / CHECKPOINT_FILE).exists():
            forget(folder, keeps_folder=was_there)
        raise

    tell(Progress(stage="judging"))
    device = chosen_device(machines.device)
    judged = judge(test.held_out(), LearnedScorer(built, "", {}, device=device))
    figures = judged.by_kind(has_threshold=not compares_candidates(recipe.training.loss))
    signature = save_scorer(
        folder,
        built,
        loss=recipe.training.loss,
        trained_on=_trained_on(inputs, pairs, recipe, state, fingerprint) | _calibration_of(built),
        held_out={kind: asdict(found) for kind, found in figures.items()},
        versions=library_versions(),
    )
    _tidy(training)
    return TrainedScorer(
        out=str(folder),
        signature=signature,
        pairs=pairs,
        state=state,
        held_out=figures,
        left_out=dict(test.left_out.most_common()),
    )


def fingerprint_of(
    inputs: Sequence[InputFile],
    recipe: Recipe,
    *,
    columns: Mapping[str, str] | None = None,
    limit: int | None = None,
    split_anew: bool = False,
    neighbour_encoder: str = "minilm",
    machines: Machines | None = None,
    training_documents: int | None = None,
    **_others: Any,  # noqa: ANN401  (options of `train_scorer` that change no weight)
) -> str:
    """Hash all that a training's result depends on; a run only goes on with the same.

    The options are those of `train_scorer`.
    """
    asked = {
        "recipe": asdict(recipe),
        "inputs": [file.to_json() for file in inputs],
        "columns": dict(columns or {}),
        "limit": limit,
        "split_anew": split_anew,
        "training_documents": training_documents,
        "neighbour_encoder": neighbour_encoder,
        "workers": (machines or Machines()).workers,
        "versions": library_versions(),
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def chosen_device(device: str) -> str:
    """Decide what `auto` means: a GPU where there is one."""
    import torch

    if device not in ("auto", "cpu", "cuda"):
        raise ValueError(f"`device` must be one of auto, cpu, cuda, got {device!r}")
    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise ValueError("`device` must be cpu or auto on a machine without a GPU, got 'cuda'")
    return "cuda" if has_gpu and device != "cpu" else "cpu"


def _prepare(
    paths: Sequence[str],
    folder: Path,
    **options: Any,  # noqa: ANN401  (of `prepare_pairs`)
) -> PreparedPairs:
    """Prepare the pairs anew, also for a run that goes on: they follow from the request."""
    shutil.rmtree(folder, ignore_errors=True)
    return counted_once(prepare_pairs(paths, folder, **options))


def _trained_on(
    inputs: Sequence[InputFile],
    pairs: PreparedPairs,
    recipe: Recipe,
    state: TrainState,
    fingerprint: str,
) -> dict[str, Any]:
    """Say what a scorer was trained on, for `scorer.json` and the model card."""
    return {
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
        "fingerprint": fingerprint,
    }


def _calibration_of(built: Built) -> dict[str, Any]:
    """Say how a model's logits are scaled and shifted; empty if they are not."""
    if not isinstance(built.model, Calibrated):
        return {}
    return {"calibration": {"scale": built.model.scale.item(), "shift": built.model.shift.item()}}


def _tidy(training: Path) -> None:
    """Delete what was only needed to go on."""
    for name in (PAIRS_FOLDER, EMBEDDINGS_FOLDER, RAY_FOLDER):
        shutil.rmtree(training / name, ignore_errors=True)
    for name in (CHECKPOINT_FILE, BEST_FILE):
        (training / name).unlink(missing_ok=True)
