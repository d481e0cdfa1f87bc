"""An explanation of one score, and its picture for pages, papers and notebooks."""

from __future__ import annotations

from dataclasses import dataclass

from sms.explaining.arithmetic import SCORE_DIGITS
from sms.explaining.picture import effects_picture, moves_picture
from sms.explaining.records import Moves, SentenceEffect, TextUnits
from sms.metric import Evidence, ScorePart, TokenScore


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Explanation:
    """One row under one metric, with what its score is made of."""

    metric: str
    """Name of the score's column."""
    signature: str
    higher_is: str
    """What a higher score means."""
    score: float | None
    """None where there is none; `status` then says why."""
    status: str | None
    candidate: TextUnits
    others: tuple[TextUnits, ...]
    """The references and sources the candidate is compared with."""
    moves: tuple[Moves, ...] = ()
    """For mover's similarities the plan to each text of `others` that the score is made of: to the
    best only, where the best counts."""
    similarities: tuple[float | None, ...] = ()
    """For mover's similarities the score against each text of `others` alone."""
    effects: tuple[SentenceEffect, ...] = ()
    """For all other metrics, the sentences of the candidate, then of `others`; of the candidate
    alone where there are `tokens`."""
    tokens: tuple[TokenScore, ...] = ()
    """For likelihoods, the tokens whose mean or sum the score is; of several references or sources
    those of the one with the highest score."""
    evidence: tuple[Evidence, ...] = ()
    """For metrics that compare pieces, what decided about each piece of the candidate."""
    parts: tuple[ScorePart, ...] = ()
    """For weighted sums, what each feature adds; the parts add up to the score, unless that is at
    a bound."""

    def name_of(self, text: TextUnits) -> str:
        """Name a text for people: its side, and which one where there are several."""
        n_texts = sum(other.side == text.side for other in self.others)
        name = text.side.capitalize()
        return f"{name} {text.number + 1}" if n_texts > 1 else name

    def svg(
        self,
        *,
        title: str = "",
        number: int = 0,
        highest: float | None = None,
        is_live: bool = False,
    ) -> str:
        """Draw the explanation as an `<svg>` element, which is a document of its own as well.

        `title` is for the head of the picture; the metric is named in any case. `number` is which
        of `moves`; without moves, the picture has the text that matters most to the score.
        `highest` is the cost at the end of the colour scale, by default the highest of the plan.
        `is_live` is for a page with scripts: more sentences, and all moves between them.
        """
        shown = f"{self.metric}: no score ({self.status})"
        if self.score is not None:
            shown = f"{self.metric} = {self.score:.{SCORE_DIGITS}f}"
        if self.moves:
            moves = self.moves[number]
            shown_as = (self.metric, shown, self.name_of(moves.other), title)
            return moves_picture(moves, *shown_as, highest=highest, is_live=is_live)
        texts = [self.candidate]
        if self.others:
            texts.append(max(self.others, key=self._weight_of))
        named = {self.name_of(text): text for text in texts}
        return effects_picture(named, self.effects, self.metric, shown, title, is_live=is_live)

    def _weight_of(self, text: TextUnits) -> float:
        """Return how much the score depends on a text: the largest effect of a sentence of it."""
        drops = (e.drop for e in self.effects if (e.side, e.number) == (text.side, text.number))
        return max((abs(drop) for drop in drops if drop is not None), default=0.0)

    def _repr_html_(self) -> str:
        pictures = (self.svg(number=k) for k in range(max(1, len(self.moves))))
        return f'<div style="overflow-x:auto">{"".join(pictures)}</div>'
