"""What a user does, from the command line or from Python: score a corpus, correlate with ratings.

`from pipelines import score_corpus` gives the function; some live in a file of the same name.
Importing this package is quick and loads no model.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.compare_scores import compare_scores
    from pipelines.correlation.records import AgreementResult
    from pipelines.correlation.run import correlate
    from pipelines.evaluate_scorer import evaluate_scorer
    from pipelines.explain import open_explainer
    from pipelines.importing.exporting import export_data
    from pipelines.importing.run import import_data
    from pipelines.reinforce_summariser import ReinforceRecipe, reinforce_summariser
    from pipelines.reproduction.run import reproduce
    from pipelines.score_corpus import ScoreRun, score_corpus
    from pipelines.train_scorer import Machines, train_scorer
    from pipelines.write_negatives import write_negatives

__all__ = [
    "AgreementResult",
    "Machines",
    "ReinforceRecipe",
    "ScoreRun",
    "compare_scores",
    "correlate",
    "evaluate_scorer",
    "export_data",
    "import_data",
    "open_explainer",
    "reinforce_summariser",
    "reproduce",
    "score_corpus",
    "train_scorer",
    "write_negatives",
]

_HOMES = {
    "AgreementResult": "pipelines.correlation.records",
    "Machines": "pipelines.train_scorer",
    "ReinforceRecipe": "pipelines.reinforce_summariser",
    "ScoreRun": "pipelines.score_corpus",
    "correlate": "pipelines.correlation.run",
    "export_data": "pipelines.importing.exporting",
    "import_data": "pipelines.importing.run",
    "open_explainer": "pipelines.explain",
    "reproduce": "pipelines.reproduction.run",
}
"""Where a name is defined, for those whose file has another name."""


def _function_of_its_file(name: str) -> property:
    """Make an attribute that stays the function, also once the submodule of that name is there."""

    def get(_package: ModuleType) -> Any:  # noqa: ANN401  (a function; the imports have its type)
        return getattr(import_module(f"pipelines.{name}"), name)

    def keep(_package: ModuleType, _submodule: ModuleType) -> None:
        """Python binds a submodule to its package's attribute when it is first imported."""

    return property(get, keep)


class _Package(ModuleType):
    compare_scores = _function_of_its_file("compare_scores")
    evaluate_scorer = _function_of_its_file("evaluate_scorer")
    reinforce_summariser = _function_of_its_file("reinforce_summariser")
    score_corpus = _function_of_its_file("score_corpus")
    train_scorer = _function_of_its_file("train_scorer")
    write_negatives = _function_of_its_file("write_negatives")


def __getattr__(name: str) -> Any:  # noqa: ANN401  (whatever is asked for)
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


sys.modules[__name__].__class__ = _Package
