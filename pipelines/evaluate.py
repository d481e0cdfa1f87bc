"""Judges scorers on the negatives of held-out documents, domain by domain.

A domain is one file or folder of pairs. Documents are split as for training, with the scorer's
own seed, so that its training documents are not among those it is judged by. In addition to the
figures by kind of negative it says how far the scores follow length and density.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from pipelines.fetched import fetched_scorer
from pipelines.prepare_pairs import prepare_for_negatives
from pipelines.runs.forks import with_threads
from pipelines.settings.evaluate import EvaluateSettings
from pipelines.settings.pairs import chosen_device
from pipelines.tables.keyed import names_of_paths
from pipelines.training_runs import stages
from reffree.negatives import NegativesConfig
from reffree.scorers.evaluation import KindFigures, confounders, judge, positive_once
from reffree.scorers.fitting import texts_of
from reffree.scorers.folder import SOURCE_SAMPLE, naming_damage
from reffree.scorers.naming import find_scorer, split_head
from reffree.scorers.scorer import LearnedScorer, load_scorer
from reffree.training_pairs.examples import Example
from reffree.training_pairs.rows import text_key
from sms.naming import AnyPath, OneOrMore, several
from sms.scoring import score_texts

SHIPPED = "news"
TRAITS = ("length", "density")
"""Metrics that are no quality, in the names of `assay metrics`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainResult:
    """One scorer on one domain."""

    scorer: str  # folder
    domain: str
    """The file or folder of pairs, with as much of its path as tells it from the others."""
    n_pairs: int  # pairs of the side that was judged
    kinds: Mapping[str, KindFigures]
    confounders: Mapping[str, float | None]
    """From `reffree.scorers.evaluation.confounders`, over all negatives and references."""
    left_out: Mapping[str, int]
    """Rows, texts or pairs that are not used, and negatives that were not made, by reason."""


def traits_of(sources: Sequence[str], candidates: Sequence[str]) -> dict[str, np.ndarray]:
    """Score candidates by `TRAITS`; NaN where one has no score."""
    table = score_texts(candidates, sources=sources, metrics=TRAITS)
    return {name: table[name].to_numpy(zero_copy_only=False).astype(np.float64) for name in TRAITS}


def others_of(sources: Sequence[str], candidates: Sequence[str]) -> dict[str, np.ndarray]:
    """Compute what a fitted scorer is to be compared with; NaN where one has no score."""
    shipped = load_scorer(SHIPPED)
    scores = shipped.score_against_all([[text] for text in sources], candidates).scores
    by_name = {f"reffree@{SHIPPED}": shipped.chosen(scores)}
    by_name |= {f"reffree@{SHIPPED}.{head}": shipped.chosen(scores, head) for head in shipped.heads}
    return by_name | traits_of(sources, candidates)


@with_threads
def evaluate(scorer: AnyPath, pairs: OneOrMore, settings: EvaluateSettings) -> list[DomainResult]:
    """Judge scorers on pairs, each path a domain of its own; the results are scorer by scorer.

    Raises ValueError if a scorer or a file is not what it should be, or no file is named.
    """
    if not (paths := several(pairs)):
        raise ValueError("name a scorer's folder, then at least one file with pairs")
    scorers = several([scorer, *settings.also])
    tell = stages(settings.on_progress)
    names = names_of_paths(paths)
    if len(set(names)) < len(names):
        raise ValueError(
            f"the files of pairs must have different names, got {', '.join(names)}; rename one"
        )
    results = []
    with ExitStack() as stack:
        cache = None
        if len(scorers) > 1:  # documents are encoded once, not for every scorer
            cache = stack.enter_context(tempfile.TemporaryDirectory(prefix="assay-"))
        for folder in scorers:
            tell(f"loading {folder}")
            where = chosen_device(settings.device)
            loaded = load_scorer(fetched_scorer(folder), device=where, cache_folder=cache)
            with naming_damage(find_scorer(split_head(folder)[0])):
                negatives = _negatives_of(loaded, settings.negatives or None)
            for name, path in zip(names, paths, strict=True):
                tell(f"judging by {path}")
                groups, left_out = _read_domain(path, negatives, settings)
                _check_unseen(loaded, groups, folder, path)
                results.append(_judged(folder, loaded, name, groups, left_out))
    return results


def _negatives_of(scorer: LearnedScorer, kinds: str | Sequence[str] | None) -> NegativesConfig:
    """Return the negatives a scorer was trained on, or others with the same seed."""
    trained_on = scorer.settings.get("trained_on") or {}
    if "negatives" not in trained_on:
        raise ValueError(
            "`scorer.json` must have `trained_on.negatives`, got none; give a folder that "
            "`assay train` wrote"
        )
    others = {} if kinds is None else {"kinds": kinds, "proportions": None}
    return NegativesConfig.of({**trained_on["negatives"], **others})


def _read_domain(
    path: str, negatives: NegativesConfig, settings: EvaluateSettings
) -> tuple[list[list[Example]], dict[str, int]]:
    """Read the pairs and make the examples, which are few enough for the memory.

    Also returns what was left out, and why.
    """
    with tempfile.TemporaryDirectory(prefix="assay-") as work:
        pairs = prepare_for_negatives(
            negatives, [path], Path(work) / "pairs", settings, stages(None), sides=("test",)
        )
        made = pairs.examples("test", negatives)
        made.check_negatives("test")
        groups = [positive_once(group) for group in made.held_out()]
    return groups, {**pairs.left_out, **made.reasons()}


def _check_unseen(
    scorer: LearnedScorer, groups: Sequence[Sequence[Example]], folder: str, path: str
) -> None:
    """Refuse documents that the scorer has learned from, by those of them that it remembers."""
    known = set(scorer.settings["trained_on"].get(SOURCE_SAMPLE, ()))
    sources = {example.source for group in groups for example in group}
    n_seen = len(known.intersection(map(text_key, sources)))
    if n_seen:
        raise ValueError(
            f"{folder} was trained on some documents of {path} ({n_seen} of the {len(known)} "
            "texts it remembers); give other documents, or read these as in training: with the "
            "same `split_anew` and `limit` in the `--config` file, and with files that were "
            "trained on together given as one folder or glob"
        )


def _judged(
    folder: str,
    scorer: LearnedScorer,
    name: str,
    groups: Sequence[Sequence[Example]],
    left_out: Mapping[str, int],
) -> DomainResult:
    judged = judge(groups, scorer)
    traits = traits_of(*texts_of(list(chain.from_iterable(groups))))
    has_traits = np.logical_and.reduce([np.isfinite(values) for values in traits.values()])
    traits = {trait: values[has_traits] for trait, values in traits.items()}
    return DomainResult(
        scorer=folder,
        domain=name,
        n_pairs=len(groups),
        kinds=judged.by_kind(has_threshold=not scorer.heads),
        confounders=confounders(judged.scores[has_traits], judged.labels[has_traits], traits),
        left_out=left_out,
    )
