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
    from pipelines.explain import open_explainer
    from pipelines.importing.exporting import export_data
    from pipelines.importing.run import import_data
    from pipelines.reproduction.run import reproduce
    from pipelines.score_corpus import ScoreRun, score_corpus

__all__ = [
    "AgreementResult",
    "ScoreRun",
    "compare_scores",
    "correlate",
    "export_data",
    "import_data",
    "open_explainer",
    "reproduce",
    "score_corpus",
]

_HOMES = {
    "AgreementResult": "pipelines.correlation.records",
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
    score_corpus = _function_of_its_file("score_corpus")
    compare_scores = _function_of_its_file("compare_scores")


def __getattr__(name: str) -> Any:  # noqa: ANN401  (whatever is asked for)
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


sys.modules[__name__].__class__ = _Package
