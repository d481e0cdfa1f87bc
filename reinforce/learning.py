"""From prepared pairs to a trained summariser, in one process or in each of several."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from reffree.neural.checkpoint import TrainNews
from reffree.neural.loop import Ranks, TrainState, run_training
from reffree.training_pairs.buckets import bucket_paths
from reffree.training_pairs.rows import SIDES
from reinforce.documents import SPECIAL, Vocabulary, read_documents
from reinforce.hugging_face import load_transformers
from reinforce.network import NetworkConfig, PointerGenerator
from reinforce.stages import LikelihoodStage, MixedStage, RewardConfig, StageConfig, Summariser
from reinforce.summarisers import (
    SUMMARISER_FILE,
    Limits,
    PointerSummariser,
    load_pointer,
)
from sms.encoders.registry import parse_spec
from sms.reward import Reward


def first_summariser(
    pairs: Path,
    limits: Limits,
    *,
    vocabulary_size: int,
    vectors: str | None,
    n_dimensions: int,
    seed: int,
    **sizes: Any,  # noqa: ANN401  (of `NetworkConfig`)
) -> PointerSummariser:
    """Make the paper's network before it has learnt anything.

    The training side of the folder of prepared pairs gives the vocabulary, its most frequent words
    (A.3); a file such as `fasttext:PATH` gives vectors, or else they are random.
    """
    documents = read_documents(bucket_paths(pairs, SIDES[0]))
    texts = (text for document in documents for text in (document.source, *document.references))
    vocabulary = Vocabulary.most_frequent(texts, vocabulary_size)
    given = None if vectors is None else _vectors_of(vectors, vocabulary)
    if given is not None:
        n_dimensions = given[1].shape[1]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = PointerGenerator(
            NetworkConfig(n_words=len(vocabulary), n_dimensions=n_dimensions, **sizes)
        )
    if given is not None:
        rows, known = given
        with torch.no_grad():
            network.vectors.weight[rows] = known
    return PointerSummariser(network, vocabulary, limits)


def load_summariser(folder: Path) -> Summariser:
    """Load a summariser that was saved."""
    path = folder / SUMMARISER_FILE
    if not path.is_file():
        raise ValueError(f"a summariser's folder must have {SUMMARISER_FILE}, got none in {folder}")
    settings = json.loads(path.read_text("utf-8"))
    limits = Limits(**settings["limits"])
    if settings["model"] == "pointer":
        return load_pointer(folder, settings, limits)
    return load_transformers(str(folder), limits)


def learn_stage(
    start: Path,
    pairs: Path,
    folder: Path,
    config: StageConfig,
    reward: RewardConfig | None,
    *,
    fingerprint: str,
    threads: int | None = None,
    device: str = "cpu",
    ranks: Ranks | None = None,
    on_news: Callable[[TrainNews], None] | None = None,
) -> tuple[Summariser, TrainState]:
    """Train the summariser in `start` through a stage; go on where an interrupted run stopped.

    `pairs` is the folder of prepared pairs, `folder` that of the run; all processes see them. The
    rest is as for `reffree.neural.loop.run_training`. The summariser has its best weights.
    """
    ranks = ranks or Ranks()
    summariser = load_summariser(start)
    buckets = {side: bucket_paths(pairs, side) for side in SIDES}
    n_documents = sum(1 for _ in read_documents(buckets[SIDES[0]]))
    settings: dict[str, Any] = {
        "summariser": summariser,
        "config": config,
        "buckets": buckets,
        "n_steps": config.epochs * math.ceil(n_documents / config.batch_size),
        "device": device,
        "ranks": ranks,
    }
    if reward is None:
        stage = LikelihoodStage(**settings)
    else:
        first = load_summariser(start).module.to(device).eval() if reward.kl else None
        made = Reward(reward.metric, encoder=reward.encoder, threads=threads, device=device)
        stage = MixedStage(**settings, reward_config=reward, reward=made, start=first)
    state = run_training(
        summariser.module,
        stage,
        config,
        folder,
        fingerprint=fingerprint,
        device=device,
        ranks=ranks,
        on_news=on_news,
    )
    return summariser, state


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
