"""What each sentence is worth: the score without it, for metrics that move no mass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sms.explaining.records import CANDIDATE, LIST_COLUMN, SentenceEffect, TextUnits, Unit


@dataclass(frozen=True, slots=True)
class Omission:
    """A row without one sentence."""

    text: TextUnits
    unit: Unit
    row: Mapping[str, str | list[str]]


def omissions(row: Mapping[str, str | list[str]], texts: Sequence[TextUnits]) -> list[Omission]:
    """Make a row for every sentence of some texts, with that sentence left out.

    Parameters
    ----------
    row : mapping
        `candidate` and, as the scorer needs, `references` and `sources`.
    texts : sequence of TextUnits
        The candidate and the texts it is compared with.
    """
    found = []
    for text in texts:
        sentences = [unit for unit, _ in text.sentences()]
        bounds = [*(unit.start for unit in sentences), len(text.text)]
        for unit, (start, end) in zip(sentences, pairwise(bounds), strict=True):
            rest = text.text[:start] + text.text[end:]
            found.append(Omission(text, unit, _with_text(row, text, rest)))
    return found


def effects(
    whole: float | None, left_out: Sequence[Omission], scores: Sequence[float | None]
) -> tuple[SentenceEffect, ...]:
    """Compare the score of the whole with the scores without each sentence."""
    return tuple(
        SentenceEffect(
            omission.text.side,
            omission.text.number,
            omission.unit,
            score,
            None if score is None or whole is None else whole - score,
        )
        for omission, score in zip(left_out, scores, strict=True)
    )


def _with_text(
    row: Mapping[str, str | list[str]], text: TextUnits, rest: str
) -> Mapping[str, str | list[str]]:
    if text.side == CANDIDATE:
        return {**row, CANDIDATE: rest}
    column = LIST_COLUMN[text.side]
    listed = list(row[column])
    listed[text.number] = rest
    return {**row, column: listed}
