"""Judges scorers on the negatives of held-out documents, domain by domain.

A domain is one file or folder of pairs. Documents are split as for training, with the scorer's
own seed, so that its training documents are not among those it is judged by. In addition to the
figures by kind of negative it says how far the scores follow length and density.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cluster.store import local_folder
from pipelines.fetched import fetched_scorer
from pipelines.prepare_pairs import REPEATED, prepare_pairs
from pipelines.runs.progress import Progress
from pipelines.settings.evaluate import EvaluateSettings
from pipelines.tables.keyed import names_of_paths
from pipelines.tables.ratings import columns_apart
from pipelines.training_folder import chosen_device
from reffree.edits import Rate
from reffree.evaluation import KindFigures, confounders, judge, positive_once
from reffree.examples import Example
from reffree.fitting import texts_of
from reffree.negatives import NegativesConfig
from reffree.neighbours import find_neighbours
from reffree.pairs import text_key
from reffree.scorer import LearnedScorer, load_scorer
from reffree.scorer_folder import SOURCE_SAMPLE
from sms.naming import AnyPath
from sms.scoring import score_texts

TRAITS = ("length", "density")
"""Metrics that are no quality, in the names of `assay metrics`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainResult:
    """One scorer on one domain."""

    scorer: str
    """Folder."""
    domain: str
    """The file or folder of pairs, with as much of its path as tells it from the others."""
    n_pairs: int
    """Pairs of the side that was judged."""
    kinds: Mapping[str, KindFigures]
    confounders: Mapping[str, float | None]
    """From `reffree.evaluation.confounders`, over all negatives and references."""
    left_out: Mapping[str, int]
    """Rows, texts or pairs that are not used, and negatives that were not made, by reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Domain:
    """The pairs of a domain, ready, under one scorer's split and kinds."""

    name: str
    examples: list[list[Example]]
    traits: Mapping[str, np.ndarray]
    left_out: Mapping[str, int]


def traits_of(sources: Sequence[str], candidates: Sequence[str]) -> dict[str, np.ndarray]:
    """Score candidates by `TRAITS`; NaN where one has no score."""
    table = score_texts(candidates, sources=sources, metrics=TRAITS)
    return {name: table[name].to_numpy(zero_copy_only=False).astype(np.float64) for name in TRAITS}


def evaluate_scorer(
    scorers: Sequence[str], paths: Sequence[str], settings: EvaluateSettings
) -> list[DomainResult]:
    """Judge scorers on pairs, each path a domain of its own; the results are scorer by scorer."""
    tell, side = settings.on_progress or (lambda _progress: None), settings.split
    columns = settings.columns
    if settings.corpus is not None:
        columns, _ = columns_apart(columns)
    names = names_of_paths(paths) if paths else []
    if len(set(names)) < len(names):
        raise ValueError(
            f"the files of pairs must have different names, got {', '.join(names)}; rename one"
        )
    results = []
    with _cache(settings.embedding_cache, len(scorers)) as cache_folder:
        for folder in scorers if paths else ():
            tell(Progress(stage=f"loading {folder}"))
            where = chosen_device(settings.device)
            scorer = load_scorer(fetched_scorer(folder), device=where, cache_folder=cache_folder)
            negatives = _negatives_of(scorer, settings.negatives or None)
            for name, path in zip(names, paths, strict=True):
                tell(Progress(stage=f"judging by {path}"))
                domain = _read_domain(
                    *(name, path, negatives, side),
                    columns=columns,
                    limit=settings.limit,
                    split_anew=settings.split_anew,
                )
                _check_unseen(scorer, domain, folder, path)
                results.append(_judge(folder, scorer, domain, side))
    return results


def _cache(folder: AnyPath | None, n_scorers: int) -> AbstractContextManager[str | None]:
    """Keep vectors in the folder that was asked for, else as long as another scorer may want them.

    The documents of a matrix are encoded once, not once for every scorer.
    """
    if folder is not None:
        return nullcontext(str(local_folder("embedding_cache", folder)))
    if n_scorers < 2:
        return nullcontext()
    return tempfile.TemporaryDirectory(prefix="assay-")


def _negatives_of(scorer: LearnedScorer, kinds: str | Sequence[str] | None) -> NegativesConfig:
    """Return the negatives a scorer was trained on, or others with the same seed and rates."""
    trained_on = scorer.settings.get("trained_on") or {}
    if "negatives" not in trained_on:
        raise ValueError(
            "`scorer.json` must have `trained_on.negatives`, got none; give a folder that "
            "`assay train` wrote"
        )
    saved: dict[str, Any] = dict(trained_on["negatives"])
    saved["rate"] = Rate(**saved["rate"])
    for name in ("kinds", "proportions", "positives"):
        saved[name] = None if saved[name] is None else tuple(saved[name])
    if kinds is not None:
        saved |= {"kinds": kinds, "proportions": None}
    return NegativesConfig(**saved)


def _read_domain(
    name: str,
    path: str,
    negatives: NegativesConfig,
    side: str,
    **options: Any,  # noqa: ANN401  (of `prepare_pairs`)
) -> _Domain:
    """Read the pairs and make the examples; they are few enough for the memory."""
    with tempfile.TemporaryDirectory(prefix="assay-") as work:
        pairs = prepare_pairs(
            [path], Path(work) / "pairs", sides=(side,), seed=negatives.seed, **options
        )
        if negatives.needs_neighbours:
            find_neighbours(pairs.folder, (side,), negatives.n_neighbours)
        made = pairs.for_training().examples(side, negatives)
        made.check_negatives(side)
        groups = [positive_once(group) for group in made.held_out()]
    examples = [example for group in groups for example in group]
    traits = traits_of(*texts_of(examples))
    left_out = {REPEATED: made.n_repeated} if made.n_repeated else {}
    left_out |= {f"{kind}: {reason}": n for (kind, reason), n in made.left_out.most_common()}
    return _Domain(
        name=name, examples=groups, traits=traits, left_out={**pairs.left_out, **left_out}
    )


def _check_unseen(scorer: LearnedScorer, domain: _Domain, folder: str, path: str) -> None:
    """Refuse documents that the scorer has learned from, by those of them that it remembers."""
    known = set(scorer.settings["trained_on"].get(SOURCE_SAMPLE, ()))
    sources = {example.source for group in domain.examples for example in group}
    n_seen = len(known.intersection(map(text_key, sources)))
    if n_seen:
        raise ValueError(
            f"{folder} was trained on some documents of {path} ({n_seen} of the {len(known)} "
            "texts it remembers); give other documents, or read these as in training: with the "
            "same `split_anew` and `limit` in the `--config` file, and with files that were "
            "trained on together given as one folder or glob"
        )


def _judge(folder: str, scorer: LearnedScorer, domain: _Domain, side: str) -> DomainResult:
    judged = judge(domain.examples, scorer)
    has_traits = np.logical_and.reduce([np.isfinite(own) for own in domain.traits.values()])
    traits = {name: values[has_traits] for name, values in domain.traits.items()}
    return DomainResult(
        scorer=folder,
        domain=domain.name,
        n_pairs=len(domain.examples),
        kinds=judged.by_kind(has_threshold=not scorer.heads),
        confounders=confounders(judged.scores[has_traits], judged.labels[has_traits], traits),
        left_out=domain.left_out,
    )
