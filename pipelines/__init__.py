"""What a user does, from the command line or from Python: score a corpus, correlate with ratings.

No file here is called like a public name: Python would bind the submodule to it. Importing this
package is quick and loads no model.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.compare import compare_scores
    from pipelines.correlation.run import correlate
    from pipelines.datasets.exporting import export_data
    from pipelines.datasets.run import import_data
    from pipelines.evaluate import evaluate_scorer
    from pipelines.explain import open_explainer
    from pipelines.negatives import write_negatives
    from pipelines.papers.run import reproduce
    from pipelines.reinforcement import ReinforceRecipe, reinforce_summariser
    from pipelines.score import ScoreRun, score_corpus
    from pipelines.tables.records import AgreementResult
    from pipelines.train import train_scorer
    from pipelines.training_folder import Machines

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
    "AgreementResult": "pipelines.tables.records",
    "Machines": "pipelines.training_folder",
    "ReinforceRecipe": "pipelines.reinforcement",
    "ScoreRun": "pipelines.score",
    "compare_scores": "pipelines.compare",
    "correlate": "pipelines.correlation.run",
    "evaluate_scorer": "pipelines.evaluate",
    "export_data": "pipelines.datasets.exporting",
    "import_data": "pipelines.datasets.run",
    "open_explainer": "pipelines.explain",
    "reinforce_summariser": "pipelines.reinforcement",
    "reproduce": "pipelines.papers.run",
    "score_corpus": "pipelines.score",
    "train_scorer": "pipelines.train",
    "write_negatives": "pipelines.negatives",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401  (whatever is asked for)
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
