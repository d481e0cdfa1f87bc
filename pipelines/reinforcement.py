"""Trains a summariser with metrics as rewards, from files of pairs to a table of results.

The order: the request is checked, the pairs are split and dealt into files, a summariser learns
by maximum likelihood, from there once more for every reward, and all of them summarise the test
documents and are compared. Every finished summariser is a folder of its own; what is needed to go
on lies in `training/`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from cluster import list_inputs, with_content
from cluster.fetching import fetch
from pipelines.fetched import check_on_disk
from pipelines.prepare_pairs import PreparedPairs, counted_once, prepare_pairs
from pipelines.runs.manifest import library_versions
from pipelines.runs.progress import Progress
from pipelines.summary_table import SummaryTable, compare_summaries
from pipelines.train import (
    PAIRS_FOLDER,
    RAY_FOLDER,
    Machines,
    chosen_device,
)
from pipelines.training_folder import TRAINING_FOLDER, checked_folder, forget
from reffree.buckets import bucket_paths
from reffree.checkpoint import CHECKPOINT_FILE, TrainNews, replace_file
from reffree.hashing import check_seed
from reffree.loop import BEST_FILE
from reinforce.decoding import BeamConfig
from reinforce.documents import Document, batches_of, read_documents
from reinforce.learning import (
    StageJob,
    SummariserConfig,
    first_summariser,
    learn_stage,
    load_summariser,
    make_reward,
)
from reinforce.stages import RewardConfig, StageConfig
from reinforce.summarisers import SUMMARISER_FILE, Summariser
from sms.baselines import LEAD_SENTENCES
from sms.naming import AnyPath, OneOrMore, several
from sms.text import split_sentences

RESULTS_FILE = "results.json"
TABLE_FILE = "results.md"
SUMMARIES_FILE = "summaries.parquet"
REQUEST_FILE = "request.json"
START_FOLDER = "start"
LIKELIHOOD = "mle"
"""The summariser that knows no reward: its folder and its `system_id`."""
CONTROL = "mle+mle"
"""One that goes on from there as long as the others, and without a reward: what those are better
by than this one is due to the reward."""
LEAD = f"lead-{LEAD_SENTENCES}"

_Stage: TypeAlias = tuple[str, Path, StageConfig, RewardConfig | None]
"""Its system, the summariser it begins with, how it learns, what it is rewarded for."""

SUMMARIES_SCHEMA = pa.schema(
    {
        "document_id": pa.string(),
        "system_id": pa.string(),
        "source": pa.string(),
        "references": pa.list_(pa.string()),
        "candidate": pa.string(),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReinforceRecipe:
    """All that decides what the summarisers become, given the pairs."""

    summariser: SummariserConfig
    likelihood: StageConfig
    mixed: StageConfig
    rewards: tuple[RewardConfig, ...]
    beam: BeamConfig
    has_control: bool = True
    """Whether `CONTROL` is trained; the first reward chooses its checkpoint."""
    seed: int = 0
    """Of the split and the first weights; the stages have their own."""

    def systems(self) -> dict[str, RewardConfig]:
        """Return what is trained after the likelihood, by name."""
        control = replace(self.rewards[0], gamma_first=0.0, gamma_last=0.0)
        first = {CONTROL: control} if self.has_control else {}
        return first | {f"{LIKELIHOOD}+{reward.metric}": reward for reward in self.rewards}

    def __post_init__(self) -> None:
        check_seed(self.seed)
        names = [reward.metric for reward in self.rewards]
        if not names:
            raise ValueError("`reward` must name at least one metric; see `assay metrics`")
        if len(set(names)) < len(names):
            raise ValueError(f"`reward` must not name a metric twice, got {', '.join(names)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReinforcedSummarisers:
    """What came of a run."""

    out: str
    pairs: PreparedPairs
    systems: tuple[str, ...]
    """Trained ones, each a folder in `out` of that name (`/` and `:` as `-`)."""
    n_test_documents: int
    table: SummaryTable


def reinforce_summariser(
    paths: OneOrMore,
    out: AnyPath,
    recipe: ReinforceRecipe,
    *,
    start: AnyPath | None = None,
    columns: Mapping[str, str] | None = None,
    limit: int | None = None,
    split_anew: bool = False,
    refuse_leaks: bool = False,
    test_documents: int | None = None,
    machines: Machines | None = None,
    threads: int | None = None,
    resume: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    on_news: Callable[[TrainNews], None] | None = None,
) -> ReinforcedSummarisers:
    """Train summarisers by maximum likelihood and with rewards, and compare them.

    Parameters
    ----------
    paths : path or sequence of paths
        As in `prepare_pairs`, as are `columns`, `limit`, `split_anew` and `refuse_leaks`.
    out : path
        New folder; all workers must see it.
    recipe : ReinforceRecipe
    start : path, optional
        Folder or URL of a summariser (such as `mle` of another run) to begin with; then no other is
        trained by maximum likelihood. It must not have seen this run's test documents.
    test_documents : int, optional
        Test documents that are summarised, at most.
    machines : Machines, optional
    threads : int, optional
        Of a process: the network's, and the reward's.
    resume : bool
        Go on with the run that was interrupted in `out`.
    on_progress : callable, optional
        Told what is being done.
    on_news : callable, optional
        Told of every figure that is logged; with several workers of none, they are in
        `training/*/metrics.jsonl`.

    Returns
    -------
    ReinforcedSummarisers

    Raises
    ------
    ValueError
        If the request or the pairs are wrong, or a run that is to go on is of another request.
    RuntimeError
        If a loss is not a number, or the workers fail.
    """
    tell = on_progress or (lambda _progress: None)
    paths = several(paths)
    machines = machines or Machines()
    if threads is not None and threads < 1:
        raise ValueError(f"`threads` must be at least 1, got {threads}")
    check_on_disk(
        model=recipe.summariser.model,
        vectors=recipe.summariser.vectors,
        encoder=recipe.rewards[0].encoder,
    )
    folder = checked_folder(
        out, result=RESULTS_FILE, called="a finished run", begun=REQUEST_FILE, is_resumed=resume
    )
    was_there = folder.exists()
    start = None if start is None else Path(fetch(os.fspath(start)))
    for reward in recipe.rewards:  # before anything is written or learnt
        make_reward(reward, threads=threads, device="cpu")
    device = "cpu" if machines.uses_ray else chosen_device(machines.device)
    asked = {
        "recipe": asdict(recipe),
        "inputs": [file.to_json() for file in with_content(list_inputs(paths))],
        "start": None if start is None else _content_of(start),
        "columns": dict(columns or {}),
        "limit": limit,
        "split_anew": split_anew,
        "workers": machines.workers,
        "versions": library_versions(),
    }
    fingerprint = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
    training = folder / TRAINING_FOLDER
    had_request = _check_request(training, fingerprint)
    try:
        tell(Progress(stage="reading the pairs"))
        shutil.rmtree(training / PAIRS_FOLDER, ignore_errors=True)
        training.mkdir(parents=True, exist_ok=True)
        replace_file(
            training / REQUEST_FILE,
            lambda path: path.write_text(json.dumps({**asked, "fingerprint": fingerprint})),
        )
        pairs = counted_once(
            prepare_pairs(
                paths,
                training / PAIRS_FOLDER,
                columns=columns,
                limit=limit,
                seed=recipe.seed,
                split_anew=split_anew,
                refuse_leaks=refuse_leaks,
            )
        )
        n_documents = sum(1 for _ in read_documents(bucket_paths(pairs.folder, "train")))
        _prepare_start(folder, recipe, pairs.folder, start)
    except (ValueError, OSError):
        if not had_request:
            forget(folder, keeps_folder=was_there)
        raise
    first = training / START_FOLDER
    stages: list[_Stage] = [(LIKELIHOOD, first, recipe.likelihood, None)]
    for name, reward in recipe.systems().items():
        stages.append((name, folder / LIKELIHOOD, recipe.mixed, reward))
    with _thread_count(threads):
        for system, begins_with, config, rewarded in stages:
            tell(Progress(stage=f"training {system}"))
            job = StageJob(
                start=begins_with,
                pairs=pairs.folder,
                folder=training / _folder_name(system),
                n_documents=n_documents,
                config=config,
                reward=rewarded,
                fingerprint=fingerprint,
                threads=threads,
            )
            _run_stage(job, folder / _folder_name(system), machines, device, on_news)
        systems = tuple(system for system, *_ in stages)
        tell(Progress(stage="summarising the test documents"))
        documents = list(
            islice(read_documents(bucket_paths(pairs.folder, "test"), seed=0), test_documents)
        )
        summaries = _summaries(folder, systems, documents, recipe, device)
        replace_file(folder / SUMMARIES_FILE, lambda path: pq.write_table(summaries, path))
        tell(Progress(stage="scoring the summaries"))
        table = compare_summaries(
            summaries,
            baselines=(LIKELIHOOD, CONTROL) if recipe.has_control else (LIKELIHOOD,),
            encoder=recipe.rewards[0].encoder,
            threads=threads,
            seed=recipe.seed,
        )
    _write_results(folder, table, asked, pairs)
    _tidy(training)
    return ReinforcedSummarisers(
        out=str(folder),
        pairs=pairs,
        systems=systems,
        n_test_documents=len(documents),
        table=table,
    )


def _check_request(training: Path, fingerprint: str) -> bool:
    """Say whether there is a run to go on with; refuse one of another request."""
    path = training / REQUEST_FILE
    if not path.exists():
        return False
    if json.loads(path.read_text("utf-8")).get("fingerprint") != fingerprint:
        raise ValueError(
            f"`{training.parent}` must belong to the same request, got one of other data, options, "
            "versions or number of workers; give those again, or train into another folder"
        )
    return True


def _prepare_start(
    folder: Path,
    recipe: ReinforceRecipe,
    pairs: Path,
    start: Path | None,
) -> None:
    """Put the summariser that everything begins with in its place, unless it is there."""
    if start is None:
        target = folder / TRAINING_FOLDER / START_FOLDER
        if not (target / SUMMARISER_FILE).exists():
            first_summariser(recipe.summariser, pairs, seed=recipe.seed).save(target)
        return
    target = folder / LIKELIHOOD
    if not (target / SUMMARISER_FILE).exists():
        load_summariser(start).save(target)


def _run_stage(
    job: StageJob,
    saved: Path,
    machines: Machines,
    device: str,
    on_news: Callable[[TrainNews], None] | None,
) -> None:
    """Train a summariser through a stage and save it, unless it is."""
    if (saved / SUMMARISER_FILE).exists():
        return
    if machines.uses_ray:
        from pipelines.train_on_ray import train_on_ray

        train_on_ray(partial(learn_stage, job), job.folder, machines)
    summariser, state = learn_stage(  # where workers have finished, this only takes their weights
        job, device=device, on_news=on_news
    )
    about = {
        "stage": "mle" if job.reward is None else "control" if job.reward.is_control else "mixed",
        "reward": None if job.reward is None else asdict(job.reward),
        "config": asdict(job.config),
        "steps": state.step,
        "best_step": state.best_step,
        "epochs": state.epoch,
        # Of the stage with reward, the reward itself is kept: its loss is minus that.
        "best_validation": state.best_loss if job.reward is None else -state.best_loss,
    }
    saved.mkdir(exist_ok=True)
    (saved / "training.json").write_text(json.dumps(about, indent=2) + "\n", "utf-8")
    summariser.save(saved)
    for name in (CHECKPOINT_FILE, BEST_FILE):
        (job.folder / name).unlink(missing_ok=True)


def _summaries(
    folder: Path,
    systems: Sequence[str],
    documents: Sequence[Document],
    recipe: ReinforceRecipe,
    device: str,
) -> pa.Table:
    """Let every system summarise the documents."""
    of_system = {LEAD: _leads(documents)}
    for system in systems:
        summariser = load_summariser(folder / _folder_name(system))
        summariser.module.to(device).eval()
        of_system[system] = _searched(summariser, documents, recipe, device)
    rows: dict[str, list[Any]] = {name: [] for name in SUMMARIES_SCHEMA.names}
    for system, texts in of_system.items():
        rows["document_id"] += [document.document_id for document in documents]
        rows["system_id"] += [system] * len(documents)
        rows["source"] += [document.source for document in documents]
        rows["references"] += [list(document.references) for document in documents]
        rows["candidate"] += texts
    return pa.table(rows, schema=SUMMARIES_SCHEMA)


def _searched(
    summariser: Summariser,
    documents: Sequence[Document],
    recipe: ReinforceRecipe,
    device: str,
) -> list[str]:
    numbered = {id(document): place for place, document in enumerate(documents)}
    texts = [""] * len(documents)
    for part in batches_of(iter(documents), size=recipe.mixed.batch_size):
        batch = summariser.batch(part, [document.reference(0) for document in part], device)
        found = summariser.texts(batch, summariser.search(batch, recipe.beam))
        for document, text in zip(part, found, strict=True):
            texts[numbered[id(document)]] = text
    return texts


def _leads(documents: Sequence[Document]) -> list[str]:
    """Return the first sentences of every document."""
    cut = (split_sentences(document.source, "en") for document in documents)
    filled = ([text.strip() for text in sentences if text.strip()] for sentences in cut)
    return [" ".join(sentences[:LEAD_SENTENCES]) for sentences in filled]


def _write_results(
    folder: Path, table: SummaryTable, asked: Mapping[str, Any], pairs: PreparedPairs
) -> None:
    """Write the table; the last file of a run, which says that it is finished."""
    (folder / TABLE_FILE).write_text(table.markdown(), "utf-8")
    results = {
        "request": asked,
        "pairs": dict(pairs.n_pairs),
        "left_out": dict(pairs.left_out),
        "resamples": table.n_resamples,
        "confidence": table.confidence,
        "signatures": dict(table.signatures),
        "cells": table.frame().to_dicts(),
        "differences": table.difference_frame().to_dicts(),
    }
    text = json.dumps(results, indent=2) + "\n"
    replace_file(folder / RESULTS_FILE, lambda path: path.write_text(text, "utf-8"))


def _folder_name(system: str) -> str:
    return system.replace("/", "-").replace(":", "-")


def _content_of(start: Path) -> str:
    """Hash the files of a summariser."""
    if not (start / SUMMARISER_FILE).is_file():
        raise ValueError(f"`--start` must be a summariser's folder, got {start}")
    found = hashlib.sha256()
    for path in sorted(start.iterdir()):
        if path.is_file():
            found.update(path.name.encode())
            with path.open("rb") as stream:
                found.update(hashlib.file_digest(stream, "sha256").digest())
    return found.hexdigest()


@contextmanager
def _thread_count(threads: int | None) -> Iterator[None]:
    """Let torch use so many threads for a while."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _tidy(training: Path) -> None:
    """Delete what was only needed to go on; the figures stay."""
    for name in (PAIRS_FOLDER, START_FOLDER):
        shutil.rmtree(training / name, ignore_errors=True)
    for folder in training.iterdir():
        shutil.rmtree(folder / RAY_FOLDER, ignore_errors=True)
    (training / REQUEST_FILE).unlink(missing_ok=True)
