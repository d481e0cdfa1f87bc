"""Why a score is what it is: which mass moved where, or what each sentence is worth.

`explain` takes texts, `explain_rows` a scorer and the rows it reads; both return `Explanation`
records. Mover's similarities are explained by their exact transport plan, every other score by
what it loses when a sentence is left out. Importing this package loads no model.
"""

from __future__ import annotations

from sms.explaining.making import Explanation, column_of, explain, explain_rows
from sms.explaining.records import Flow, Moves, Point, SentenceEffect, TextUnits, Unit

__all__ = [
    "Explanation",
    "Flow",
    "Moves",
    "Point",
    "SentenceEffect",
    "TextUnits",
    "Unit",
    "column_of",
    "explain",
    "explain_rows",
]
