"""Scores summaries at scale, and tells you whether the scores mean anything.

Each name here is a function or a class whose parameters `help(assay.score)` explains. The command
`assay` (or `python -m assay`) has options of the same names.

Examples
--------
>>> rows = [{"candidate": "A cat sat.", "reference": "A cat sat."}]
>>> score(rows, metrics="rouge1_f")[0]["rouge1_f"]
1.0
"""

from assay._scorer import Scorer
from assay._verbs import (
    compare,
    correlate,
    encoders,
    evaluate,
    explain,
    export,
    judge,
    metrics,
    negatives,
    preferences,
    reinforce,
    reproduce,
    score,
    status,
    train,
)
from sms.reward import Reward

__all__ = [
    "Reward",
    "Scorer",
    "compare",
    "correlate",
    "encoders",
    "evaluate",
    "explain",
    "export",
    "judge",
    "metrics",
    "negatives",
    "preferences",
    "reinforce",
    "reproduce",
    "score",
    "status",
    "train",
]
