"""From prepared pairs to a trained summariser, in one process or in each of several.

What a process has to know is a `StageJob`: folders that all processes see, and settings.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from reffree.buckets import bucket_paths
from reffree.checkpoint import TrainNews
from reffree.loop import Ranks, TrainState, run_training
from reffree.pairs import SIDES
from reinforce.documents import read_documents
from reinforce.hugging_face import load_transformers
from reinforce.network import NetworkConfig, PointerGenerator
from reinforce.stages import LikelihoodStage, MixedStage, RewardConfig, StageConfig
from reinforce.summarisers import (
    SUMMARISER_FILE,
    Limits,
    PointerSummariser,
    Summariser,
    load_pointer,
)
from reinforce.words import SPECIAL, Vocabulary
from sms.encoders.registry import parse_spec

if TYPE_CHECKING:
    from sms.reward import Reward

POINTER = "pointer"
HUGGING_FACE = "hf:"


@dataclass(frozen=True, slots=True, kw_only=True)
class SummariserConfig:
    """What a summariser is before it has learnt anything."""

    model: str
    """`pointer`, the paper's network, or `hf:PATH`; the other settings are the network's."""
    vocabulary_size: int
    """Most frequent words of the training side (A.3)."""
    vectors: str | None
    """Specification of a file of word vectors to begin with, such as `fasttext:PATH`."""
    n_dimensions: int
    """Of random word vectors; a file has its own."""
    n_hidden: int
    n_layers: int
    dropout: float
    limits: Limits

    def __post_init__(self) -> None:
        if self.model != POINTER and not re.fullmatch(f"{HUGGING_FACE}.+", self.model):
            raise ValueError(f"`model` must be {POINTER} or hf:PATH, got {self.model!r}")
        if self.vectors is not None and not parse_spec(self.vectors).kind.is_static:
            raise ValueError(
                f"`vectors` must be glove:PATH, word2vec:PATH or fasttext:PATH, got {self.vectors}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class StageJob:
    """One stage of one summariser."""

    start: Path
    """Folder of the summariser that it begins with."""
    pairs: Path
    """Folder of the prepared pairs."""
    folder: Path
    """Of this run; see `reffree.loop`."""
    n_documents: int
    """Of the training side."""
    config: StageConfig
    reward: RewardConfig | None
    """None for the stage without reward."""
    fingerprint: str
    threads: int | None = None


def first_summariser(config: SummariserConfig, pairs: Path, *, seed: int) -> Summariser:
    """Make a summariser that has not learnt anything yet.

    The training side of the folder of prepared pairs gives the vocabulary.
    """
    if config.model != POINTER:
        return load_transformers(config.model.removeprefix(HUGGING_FACE), config.limits)
    documents = read_documents(bucket_paths(pairs, SIDES[0]))
    texts = (text for document in documents for text in (document.source, *document.references))
    vocabulary = Vocabulary.most_frequent(texts, config.vocabulary_size)
    given = None if config.vectors is None else _vectors_of(config.vectors, vocabulary)
    n_dimensions = config.n_dimensions if given is None else given[1].shape[1]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = PointerGenerator(
            NetworkConfig(
                n_words=len(vocabulary),
                n_dimensions=n_dimensions,
                n_hidden=config.n_hidden,
                n_layers=config.n_layers,
                dropout=config.dropout,
            )
        )
    if given is not None:
        rows, vectors = given
        with torch.no_grad():
            network.vectors.weight[rows] = vectors
    return PointerSummariser(network, vocabulary, config.limits)


def load_summariser(folder: Path) -> Summariser:
    """Load a summariser that was saved."""
    path = folder / SUMMARISER_FILE
    if not path.is_file():
        raise ValueError(f"a summariser's folder must have {SUMMARISER_FILE}, got none in {folder}")
    settings = json.loads(path.read_text("utf-8"))
    limits = Limits(**settings["limits"])
    if settings["model"] == POINTER:
        return load_pointer(folder, settings, limits)
    return load_transformers(str(folder), limits)


def learn_stage(
    job: StageJob,
    *,
    device: str = "cpu",
    ranks: Ranks | None = None,
    on_news: Callable[[TrainNews], None] | None = None,
) -> tuple[Summariser, TrainState]:
    """Train a summariser through a stage; go on where an interrupted run stopped.

    `device`, `ranks` and `on_news` are those of `reffree.loop.run_training`. The summariser has its
    best weights.
    """
    ranks = ranks or Ranks()
    summariser = load_summariser(job.start)
    buckets = {side: bucket_paths(job.pairs, side) for side in SIDES}
    n_steps = job.config.epochs * math.ceil(job.n_documents / job.config.batch_size)
    settings: dict[str, Any] = {
        "summariser": summariser,
        "config": job.config,
        "buckets": buckets,
        "n_steps": n_steps,
        "device": device,
        "ranks": ranks,
    }
    if job.reward is None:
        stage = LikelihoodStage(**settings)
    else:
        reward = make_reward(job.reward, threads=job.threads, device=device)
        start = load_summariser(job.start).module.to(device).eval() if job.reward.kl else None
        stage = MixedStage(**settings, reward_config=job.reward, reward=reward, start=start)
    state = run_training(
        summariser.module,
        stage,
        job.config,
        job.folder,
        fingerprint=job.fingerprint,
        device=device,
        ranks=ranks,
        on_news=on_news,
    )
    return summariser, state


def make_reward(config: RewardConfig, *, threads: int | None, device: str) -> Reward:
    """Make a reward of a configuration."""
    from sms.reward import Reward

    return Reward(config.metric, encoder=config.encoder, threads=threads, device=device)


def _vectors_of(spec: str, vocabulary: Vocabulary) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rows of the vocabulary that a file has vectors for, and these.

    They are brought to the mean length of random vectors, whose entries are standard normal, so
    that known and unknown words are on one scale.
    """
    from sms.encoders.static import read_vectors

    named = parse_spec(spec)
    words, vectors = read_vectors(Path(named.path), named.kind.kind)
    places = {word: place for place, word in reversed(list(enumerate(words)))}
    rows = [row for row, w in enumerate(vocabulary.words) if row >= len(SPECIAL) and w in places]
    if not rows:
        raise ValueError(f"`vectors` must know some word of the pairs, got none in {named.path}")
    chosen = torch.from_numpy(vectors[[places[vocabulary.words[row]] for row in rows]])
    scale = chosen.square().mean().sqrt()
    return torch.tensor(rows), chosen / scale.clamp_min(1e-12)
