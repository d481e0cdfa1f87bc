"""Reference-based summary metrics: text, embeddings, transport, similarity.

No Ray and no training here. Importing this package loads no model; the names below are
imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sms.config import ScoringConfig
    from sms.explaining import explain
    from sms.scoring import SummaryScorer, score_texts

__all__ = [
    "ScoringConfig",
    "SummaryScorer",
    "explain",
    "score_texts",
]

_HOMES = {
    "ScoringConfig": "sms.config",
    "SummaryScorer": "sms.scoring",
    "score_texts": "sms.scoring",
    "explain": "sms.explaining",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
