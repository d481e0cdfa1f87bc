"""Trains a scorer of features: from pairs, or from a table of candidates with labels.

Half a minute, so there is nothing to go on with: a run that is stopped begins anew.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any

from cluster import list_inputs, with_content
from cluster.store import base_name
from pipelines.fetched import check_on_disk
from pipelines.prepare_pairs import prepare_for_negatives
from pipelines.runs.manifest import library_versions
from pipelines.runs.progress import Progress
from pipelines.train import TrainedScorer, train_fingerprint, train_scorer
from pipelines.train_on_preferences import judge_preferences
from pipelines.training_folder import Machines, checked_folder, chosen_device, stages
from pipelines.training_table import is_table, read_examples
from reffree.checkpoint import TrainNews
from reffree.examples import Example, Examples
from reffree.fitting import (
    FITTED_DOCUMENTS,
    LinearRecipe,
    fit_scorer,
    judge_heads,
)
from reffree.pairs import SourceSample
from reffree.scorer import LinearPairs
from reffree.scorer_folder import SOURCE_SAMPLE, save_linear
from reffree.training import Recipe
from sms.naming import AnyPath, OneOrMore, several

SIDES_READ = ("train", "test")
JUDGED_DOCUMENTS = 200  # test documents that a scorer is judged by, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What a scorer is fitted to and judged by."""

    training: Sequence[Example]
    test: Sequence[Sequence[Example]]  # candidates that are compared, group by group
    n_pairs: Mapping[str, int]
    left_out: Mapping[str, int]
    source_sample: Sequence[int]

    def told(self) -> dict[str, Any]:
        """Say what it is, for `scorer.json`."""
        return {
            "pairs": dict(self.n_pairs),
            "candidates": len(self.training),
            "left_out": dict(self.left_out),
            SOURCE_SAMPLE: list(self.source_sample),
        }


def train_any(
    paths: OneOrMore,
    out: AnyPath,
    recipe: Recipe | LinearRecipe,
    *,
    on_news: Callable[[TrainNews], None] | None = None,
    embedding_cache: AnyPath | None = None,
    agreement: Callable[[LinearPairs], float] | None = None,
    **options: Any,  # noqa: ANN401  (of `train.train_scorer`)
) -> TrainedScorer:
    """Train what the recipe is for."""
    if isinstance(recipe, LinearRecipe):
        return train_features(paths, out, recipe, agreement=agreement, **options)
    return train_scorer(
        paths, out, recipe, on_news=on_news, embedding_cache=embedding_cache, **options
    )


def train_features(
    paths: OneOrMore,
    out: AnyPath,
    recipe: LinearRecipe,
    *,
    machines: Machines,
    agreement: Callable[[LinearPairs], float] | None = None,
    resume: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    **of_pairs: Any,  # noqa: ANN401
) -> TrainedScorer:
    """Fit a scorer to pairs, or to a table of candidates, into a new folder.

    With an `agreement` several recipes are tried, and that with the largest is kept.
    """
    tell, paths = stages(on_progress), several(paths)
    check_on_disk(**recipe.feature_config.paths)
    folder = checked_folder(out, is_resumed=resume)
    device = chosen_device(machines.device)
    inputs = with_content(list_inputs(paths))
    seed = recipe.negatives.seed
    is_own_table = is_table(paths, dict(of_pairs.get("columns") or {}))
    if is_own_table:
        material = _of_table(paths, seed, **of_pairs)
    else:
        material = _of_pairs(paths, recipe, tell, **of_pairs)
    pairs, values = fit_scorer(
        material.training, recipe.feature_config, device=device, on_stage=tell
    )
    tell("judging")
    held_out = judge_heads(material.test, pairs) if material.test else {}
    preferences = []
    if is_own_table and not held_out:
        test = list(chain.from_iterable(material.test))
        preferences = judge_preferences(material.training, test, pairs, values, seed)
    trained_on = {
        "files": [base_name(file.path) for file in inputs],
        **material.told(),
        "negatives": asdict(recipe.negatives),
        "fingerprint": train_fingerprint(inputs, recipe, machines, **of_pairs),
        "preferences": [asdict(own) for own in preferences],
    }
    signature = save_linear(
        folder,
        pairs,
        trained_on=trained_on,
        held_out={name: asdict(own) for name, own in held_out.items()},
        versions=library_versions(),
    )
    return TrainedScorer(
        out=str(folder),
        signature=signature,
        n_pairs=material.n_pairs,
        held_out=held_out,
        left_out=material.left_out,
        preferences=preferences,
    )


def _of_pairs(
    paths: OneOrMore,
    recipe: LinearRecipe,
    tell: Callable[[str], None],
    **of_pairs: Any,  # noqa: ANN401
) -> Material:
    """Make the positives and negatives of pairs."""
    config = recipe.negatives
    with tempfile.TemporaryDirectory(prefix="assay-") as work:
        folder = Path(work) / "pairs"
        pairs = prepare_for_negatives(config, paths, folder, tell, sides=SIDES_READ, **of_pairs)
        tell("making worse summaries")
        training, test = (pairs.examples(side, config) for side in SIDES_READ)
        fitted = _of_documents(training, FITTED_DOCUMENTS)
        judged = _of_documents(test, JUDGED_DOCUMENTS)
        training.check_negatives("train", fitted)
        test.check_negatives("test", judged)
    training.left_out.update(test.left_out)
    return Material(
        training=[one for group in fitted for one in group],
        test=judged,
        n_pairs=pairs.n_pairs,
        left_out={**pairs.left_out, **training.reasons()},
        source_sample=pairs.source_sample,
    )


def _of_documents(examples: Examples, n_documents: int) -> list[list[Example]]:
    """Return the groups of the first documents."""
    groups = examples.epoch(0, in_order=True)
    of_documents = groupby(groups, key=lambda group: group[0].document_id)
    return [group for _, own in islice(of_documents, n_documents) for group in own]


def _of_table(
    paths: OneOrMore,
    seed: int,
    *,
    columns: Mapping[str, str] | None = None,
    limit: int | None = None,
    training_documents: int | None = None,
    **_of_pairs: Any,  # noqa: ANN401  (the rest is about pairs)
) -> Material:
    """Read the candidates of a table."""
    if training_documents:
        raise ValueError(
            "`learning_curve` must be left out for a table with labels: all rows are used"
        )
    examples, left_out = read_examples(paths, columns or {}, limit=limit, seed=seed)
    sample = SourceSample()
    sample.add((one.document_id, one.source) for one in examples["train"])
    groups: dict[tuple[str, int, str], list[Example]] = {}
    for one in examples["test"]:
        groups.setdefault((one.document_id, one.number, one.base), []).append(one)
    return Material(
        training=examples["train"],
        test=list(groups.values()),
        n_pairs={side: len(own) for side, own in examples.items()},
        left_out=dict(left_out.most_common()),
        source_sample=sample.kept(),
    )
