"""What a user does, from the command line or from Python: score a corpus, correlate with ratings.

`from pipelines import score_corpus` gives the function; the file it lives in has the same name.
Importing this package is quick and loads no model.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.correlation.records import AgreementResult
    from pipelines.correlation.run import correlate
    from pipelines.score_corpus import ScoreRun, score_corpus

__all__ = ["AgreementResult", "ScoreRun", "correlate", "score_corpus"]

_HOMES = {
    "AgreementResult": "pipelines.correlation.records",
    "ScoreRun": "pipelines.score_corpus",
    "correlate": "pipelines.correlation.run",
}
"""Where a name is defined, for those whose file has another name."""


class _Package(ModuleType):
    """Keeps `score_corpus` the function, also once the submodule of that name is imported."""

    @property
    def score_corpus(self) -> Any:  # noqa: ANN401  (a function; the class above has its type)
        from pipelines.score_corpus import score_corpus

        return score_corpus

    @score_corpus.setter
    def score_corpus(self, _submodule: ModuleType) -> None:
        """Python binds a submodule to its package's attribute when it is first imported."""


def __getattr__(name: str) -> Any:  # noqa: ANN401  (whatever is asked for)
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


sys.modules[__name__].__class__ = _Package
