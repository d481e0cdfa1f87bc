"""Trains a scorer of features: from pairs, or from a table of candidates with labels.

Half a minute, so there is nothing to go on with: a run that is stopped begins anew.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, groupby, islice
from pathlib import Path

import numpy as np

from cluster import list_inputs, with_content
from cluster.store import base_name
from pipelines.evaluate import SHIPPED, TRAITS, others_of
from pipelines.fetched import check_on_disk
from pipelines.prepare_pairs import prepare_for_negatives
from pipelines.settings.pairs import chosen_device
from pipelines.settings.train import TrainSettings
from pipelines.train_model import Preferred, TrainedScorer, train_fingerprint
from pipelines.training_runs import checked_folder, stages
from pipelines.training_table import is_table, read_examples
from reffree.features.aspects import Heads, comparisons_of
from reffree.features.linear import MIN_GROUPS
from reffree.scorers.fitting import (
    DEFAULT_RECIPE,
    FITTED_DOCUMENTS,
    RECIPES,
    LinearRecipe,
    fit_heads,
    fit_scorer,
    judge_heads,
    texts_of,
)
from reffree.scorers.folder import SOURCE_SAMPLE
from reffree.scorers.scorer import LinearPairs
from reffree.training_pairs.examples import Example, Examples
from reffree.training_pairs.rows import SourceSample
from reffree.training_pairs.splits import number_groups
from sms.naming import OneOrMore, several
from sms.signature import library_versions

SIDES_READ = ("train", "test")
JUDGED_DOCUMENTS = 200  # test documents that a scorer is judged by, at most
DOCUMENTS_OF_KIND = 100  # training documents of each kind of text, at most, where there are several
N_FOLDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What a scorer is fitted to and judged by."""

    training: Sequence[Example]
    test: Sequence[Sequence[Example]]  # candidates that are compared, group by group
    n_pairs: Mapping[str, int]
    left_out: Mapping[str, int]
    source_sample: Sequence[int]


def train_features(
    paths: OneOrMore,
    settings: TrainSettings,
    recipe: LinearRecipe,
    agreement: Callable[[LinearPairs], float] | None = None,
) -> TrainedScorer:
    """Fit a scorer to pairs, or to a table of candidates, into a new folder.

    With an `agreement` several recipes are tried, and that with the largest is kept.
    """
    tell, paths = stages(settings.on_progress), several(paths)
    check_on_disk(**recipe.feature_config.paths)
    folder = checked_folder(settings.out, is_resumed=not settings.fresh)
    device, config = chosen_device(settings.device), recipe.feature_config
    inputs = with_content(list_inputs(paths))
    is_own_table = is_table(paths, settings.columns or {})
    if is_own_table:
        made = _of_table(paths, settings)
    else:
        made = (_of_kinds if recipe.is_by_kind else _of_pairs)(paths, settings, recipe, tell)
    pairs, values = fit_scorer(
        made.training, config, heads=recipe.heads, device=device, on_stage=tell
    )
    tried: Mapping[str, float] = {}
    if agreement is not None:
        tell("comparing the recipes")
        pairs, tried = _best_recipe(made.training, values, pairs, recipe.heads, agreement)
    tell("judging")
    held_out = judge_heads(made.test, pairs, recipe.heads) if made.test else {}
    preferences = []
    if is_own_table and not held_out:
        test = list(chain.from_iterable(made.test))
        fitted_by = next(iter(tried), DEFAULT_RECIPE)
        preferences = judge_preferences(
            made.training, test, pairs, values, recipe.heads, fitted_by, settings.seed
        )
    trained_on = {
        "files": [base_name(file.path) for file in inputs],
        "pairs": dict(made.n_pairs),
        "candidates": len(made.training),
        "left_out": dict(made.left_out),
        SOURCE_SAMPLE: list(made.source_sample),
        "negatives": asdict(recipe.negatives),
        "fingerprint": train_fingerprint(inputs, recipe, settings),
        "recipes": tried,
        "preferences": [asdict(preferred) for preferred in preferences],
    }
    signature = pairs.save(
        folder,
        trained_on=trained_on,
        held_out={name: asdict(figures) for name, figures in held_out.items()},
        versions=library_versions(),
    )
    return TrainedScorer(
        out=str(folder),
        signature=signature,
        n_pairs=made.n_pairs,
        held_out=held_out,
        left_out=made.left_out,
        tried=tried,
        preferences=preferences,
    )


def _best_recipe(
    examples: Sequence[Example],
    values: np.ndarray,
    pairs: LinearPairs,
    heads: Heads,
    agreement: Callable[[LinearPairs], float],
) -> tuple[LinearPairs, dict[str, float]]:
    """Fit by all recipes; return the best and the agreement of each, the largest first."""
    config = pairs.features.config
    models = {
        name: fit_heads(examples, values, config, heads=heads, recipe=name) for name in RECIPES
    }
    fitted = {
        name: LinearPairs(model, pairs.features)
        for name, model in models.items()
        if model is not None
    }
    tried = {name: agreement(fitted_pairs) for name, fitted_pairs in fitted.items()}
    order = sorted(tried, key=lambda name: -np.nan_to_num(tried[name], nan=-1.0))
    return fitted[order[0]], {name: tried[name] for name in order}


def _of_kinds(
    paths: Sequence[str], settings: TrainSettings, recipe: LinearRecipe, tell: Callable[[str], None]
) -> Material:
    """Take as much from every path, a kind of text each: what is learned counts the same."""
    made = [_of_pairs([path], settings, recipe, tell, DOCUMENTS_OF_KIND) for path in paths]
    training: list[Example] = []
    test: list[Sequence[Example]] = []
    n_pairs, left_out = Counter[str](), Counter[str]()
    for number, of_kind in enumerate(made):
        n_documents = len({one.document_id for one in of_kind.training})
        weight = DOCUMENTS_OF_KIND / n_documents

        def named(one: Example, number: int = number, weight: float = weight) -> Example:
            # two files may call their documents alike
            return replace(one, document_id=f"{number}:{one.document_id}", weight=weight)

        training += map(named, of_kind.training)
        test += [[named(one) for one in group] for group in of_kind.test]
        n_pairs.update(of_kind.n_pairs)
        left_out.update(of_kind.left_out)
    return Material(
        training=training,
        test=test,
        n_pairs=n_pairs,
        left_out=left_out,
        source_sample=[key for of_kind in made for key in of_kind.source_sample],
    )


def _of_pairs(
    paths: Sequence[str],
    settings: TrainSettings,
    recipe: LinearRecipe,
    tell: Callable[[str], None],
    n_documents: int = FITTED_DOCUMENTS,
) -> Material:
    config = recipe.negatives
    with tempfile.TemporaryDirectory(prefix="assay-") as work:
        folder = Path(work) / "pairs"
        pairs = prepare_for_negatives(config, paths, folder, settings, tell, sides=SIDES_READ)
        tell("making worse summaries")
        training, test = (pairs.examples(side, config) for side in SIDES_READ)
        fitted = _of_documents(training, n_documents)
        judged = _of_documents(test, JUDGED_DOCUMENTS)
        training.check_negatives("train", fitted)
        test.check_negatives("test", judged)
    training.left_out.update(test.left_out)
    return Material(
        training=list(chain.from_iterable(fitted)),
        test=judged,
        n_pairs=pairs.n_pairs,
        left_out={**pairs.left_out, **training.reasons()},
        source_sample=pairs.source_sample,
    )


def _of_documents(examples: Examples, n_documents: int) -> list[list[Example]]:
    groups = examples.epoch(0, in_order=True)
    of_documents = groupby(groups, key=lambda group: group[0].document_id)
    return [
        group
        for _, document_groups in islice(of_documents, n_documents)
        for group in document_groups
    ]


def _of_table(paths: Sequence[str], settings: TrainSettings) -> Material:
    examples, left_out = read_examples(paths, settings)
    sample = SourceSample()
    sample.add((one.document_id, one.source) for one in examples["train"])
    groups: dict[tuple[str, int, str], list[Example]] = {}
    for one in examples["test"]:
        groups.setdefault((one.document_id, one.number, one.base), []).append(one)
    return Material(
        training=examples["train"],
        test=list(groups.values()),
        n_pairs={side: len(of_side) for side, of_side in examples.items()},
        left_out=dict(left_out.most_common()),
        source_sample=sample.kept(),
    )


# Of how many preferences it is right that it was not fitted to


def judge_preferences(
    training: Sequence[Example],
    test: Sequence[Example],
    pairs: LinearPairs,
    values: np.ndarray,
    heads: Heads,
    recipe: str,
    seed: int,
) -> list[Preferred]:
    """Judge every head by the preferences of the test documents.

    Where these have none, it is judged by those of training, and each document by weights that
    were fitted to the others. `values` are the features of the training examples, `recipe` is one
    of `fitting.RECIPES`.
    """
    fitted, judged = (comparisons_of(rows, heads.kinds) for rows in (training, test))
    is_cross_validated = not judged
    if is_cross_validated:
        judged, texts = fitted, texts_of(training)
        scores = _cross_validated(training, pairs, values, heads, recipe, seed)
    else:
        texts = texts_of(test)
        scores = pairs.model.scores(pairs.features.read(*texts).values)
    others = others_of(*texts)
    documents = np.array([one.document_id for one in training])
    per_head = []
    for place, head in enumerate(pairs.heads):
        if head not in judged:
            continue
        head_scores = scores[:, place]
        better, worse = judged[head].better, judged[head].worse
        # A document with too few others to fit to has no score, and is not counted.
        has_both = np.isfinite(head_scores[better]) & np.isfinite(head_scores[worse])
        compared = better[has_both], worse[has_both]
        rivals = (f"reffree@{SHIPPED}", *TRAITS)
        per_head.append(
            Preferred(
                head=head,
                n_fitted=fitted[head].worse.size,
                n_fitted_documents=np.unique(documents[fitted[head].worse]).size,
                n_judged=int(has_both.sum()),
                is_cross_validated=is_cross_validated,
                n_right=_n_right(head_scores, *compared),
                others={name: _n_right(others[name], *compared) for name in rivals},
            )
        )
    return per_head


def _n_right(scores: np.ndarray, better: np.ndarray, worse: np.ndarray) -> float:
    difference = scores[better] - scores[worse]
    return float((difference > 0).sum() + 0.5 * (difference == 0).sum())


def _cross_validated(
    examples: Sequence[Example],
    pairs: LinearPairs,
    values: np.ndarray,
    heads: Heads,
    recipe: str,
    seed: int,
) -> np.ndarray:
    """Score each document by weights fitted to other documents, NaN where these are too few.

    Documents with the same source, or nearly, are one.
    """
    documents = np.unique([one.document_id for one in examples], return_inverse=True)[1]
    groups = number_groups(documents, [one.source for one in examples])
    folds = np.random.default_rng(seed).permutation(groups.max() + 1)[groups] % N_FOLDS
    scores = np.full((len(examples), len(pairs.heads)), np.nan)
    for k in range(N_FOLDS):
        is_held = folds == k
        seen = [examples[place] for place in np.flatnonzero(~is_held).tolist()]
        config = pairs.features.config
        model = fit_heads(
            seen, values[~is_held], config, heads=heads, least_groups=MIN_GROUPS, recipe=recipe
        )
        if model is not None and is_held.any():
            held = model.scores(values[is_held])
            for place, head in enumerate(model.heads):
                scores[is_held, pairs.heads.index(head)] = held[:, place]
    return scores
