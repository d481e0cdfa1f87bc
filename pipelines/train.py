"""Trains the kind of scorer that is asked for: from pairs a model or features, or from ratings."""

from __future__ import annotations

from dataclasses import replace

from cluster.schema import MissingColumnError
from pipelines.runs.forks import with_threads
from pipelines.settings.train import TrainSettings
from pipelines.tables.ratings import columns_apart
from pipelines.train_features import train_features
from pipelines.train_model import TrainedScorer, train_scorer
from pipelines.train_on_ratings import RatedTraining, development_agreement, train_on_ratings
from reffree.scorers.fitting import LinearRecipe
from sms.naming import OneOrMore


@with_threads
def train(pairs: OneOrMore, settings: TrainSettings) -> TrainedScorer | RatedTraining:
    """Train the kind of scorer that the settings name, from pairs or from ratings."""
    if settings.ratings is not None:
        return train_on_ratings(pairs, settings)
    recipe = settings.recipe()
    agreement = development_agreement(settings)
    settings = replace(settings, columns=columns_apart(settings.columns)[0] or None)
    try:
        if isinstance(recipe, LinearRecipe):
            return train_features(pairs, settings, recipe, agreement)
        return train_scorer(pairs, settings, recipe)
    except MissingColumnError as error:
        if error.column != "reference":
            raise
        remedy = "or, if people rated these summaries, give `--ratings FILE` (it may be the same)"
        raise MissingColumnError(f"{error}, {remedy}", column=error.column) from error
