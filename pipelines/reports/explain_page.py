"""The page of an explanation: one document, its systems ranked, and what each score is made of.

The drawing is that of `sms.explaining.picture`, as in notebooks and `.svg` files; its titles have
the numbers, and `explain.js` shows in it where the mass goes of what the reader points at. All
other text reaches the page through the template's escaping.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from pipelines.reports.numbers import number_text
from pipelines.reports.pages import render_page
from sms.explaining import Explanation
from sms.explaining.picture import (
    COST_COLOURS,
    SCORE_DIGITS,
    cost_class,
    distance_digits,
    highest_cost,
    mean_costs,
    printed_parts,
    signed_text,
)
from sms.explaining.records import Moves, TextUnits
from sms.writing import beginning, isolated

MAX_ROWS = 200
"""Moves in a table; the rest is one row."""
MAX_UNITS = 12
"""Units listed as what the candidate lacks, and as what it adds."""

_SHORT = 72
"""Cells of a terminal, which are those of wide characters, too: two each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedSystem:
    """One candidate of the document."""

    system_id: str
    explanation: Explanation
    recorded: float | None = None
    """The score in a scores folder, if there is one to compare with."""
    ratings: Mapping[str, float | None] = field(default_factory=dict)
    """Mean over raters, by aspect."""


def render_explanations(document_id: str, systems: Sequence[ExplainedSystem]) -> str:
    """Render the page of one document, which opens from disk: its systems, the best first."""
    ranked = sorted(systems, key=_by_score)
    scores = [system.explanation.score for system in ranked]  # equal scores have one rank
    first = ranked[0].explanation
    highest = highest_cost([move for system in ranked for move in system.explanation.moves])
    return render_page(
        "explain.html",
        styles=["picture.css", "explain.css"],
        scripts=["page.js", "explain.js"],
        document_id=document_id,
        metric=first.metric,
        higher_is=first.higher_is,
        signature=first.signature,
        language=first.language_mark,
        has_moves=any(system.explanation.moves for system in ranked),
        has_parts=any(system.explanation.parts for system in ranked),
        has_questions=any(system.explanation.questions for system in ranked),
        has_effects=any(system.explanation.effects for system in ranked),
        aspects=list(dict.fromkeys(aspect for system in ranked for aspect in system.ratings)),
        systems=[
            _system_view(system, highest)
            | {"number": k, "rank": None if score is None else 1 + scores.index(score)}
            for k, (system, score) in enumerate(zip(ranked, scores, strict=True))
        ],
        scale=_scale(highest),
        digits=SCORE_DIGITS,
        signed=signed_text,
        other_side=first.others[0].side if first.others else "",
        n_recorded=sum(system.recorded is not None for system in ranked),
    )


def picture_of(document_id: str, systems: Sequence[ExplainedSystem]) -> str:
    """Draw the best of some systems of a document, as a file of its own (SVG)."""
    best = min(systems, key=_by_score)
    title = f"{isolated(document_id)}, {isolated(best.system_id)}"
    return f"{best.explanation.svg(title=title)}\n"


def _by_score(system: ExplainedSystem) -> tuple[bool, float, str]:
    score = system.explanation.score
    return score is None, -(score or 0.0), system.system_id


def _scale(highest: float) -> list[dict[str, Any]]:
    """Return the classes of the colour scale with the costs they begin and end at."""
    step = highest / len(COST_COLOURS)
    digits = max(1, math.ceil(-math.log10(step))) if step else 1
    return [
        {"class": k, "text": f"{k * step:.{digits}f}–{(k + 1) * step:.{digits}f}"}
        for k in range(len(COST_COLOURS))
    ]


# One system


def _system_view(system: ExplainedSystem, highest: float) -> dict[str, Any]:
    explanation = system.explanation
    return {
        "own": explanation,
        "system_id": system.system_id,
        "ratings": system.ratings,
        "plans": [_plan_view(explanation, k, highest) for k in range(len(explanation.moves))],
        "picture": Markup(explanation.svg(is_live=True)) if explanation.effects else "",
        "names": {
            (text.side, text.number): explanation.name_of(text)
            for text in (explanation.candidate, *explanation.others)
        },
        "conclusion": _conclusion(explanation),
    }


def _conclusion(explanation: Explanation) -> str:
    """Say how the scores of several plans become one, or which of several texts has one."""
    n_others, n_plans = len(explanation.others), len(explanation.moves)
    if n_plans > 1:
        score = number_text(explanation.score, SCORE_DIGITS)
        said = f"The score is the mean over {n_plans} texts: {score}."
    elif n_others == 1 or not n_plans:
        return ""
    else:
        texts = f"{n_others} {explanation.others[0].side}s"
        n_compared = sum(each is not None for each in explanation.similarities)
        said = f"The best of {texts} counts."
        if n_compared == 1:  # best or mean
            said = f"Only one of {texts} could be compared."
    shown = {moves.other.number for moves in explanation.moves}
    texts_compared = explanation.others[: len(explanation.similarities)]
    alone = (
        f"{explanation.name_of(text)}: {number_text(similarity, SCORE_DIGITS)}"
        + " (shown)" * (text.number in shown)
        for text, similarity in zip(texts_compared, explanation.similarities, strict=True)
    )
    return f"{said} {'; '.join(alone)}."


def _plan_view(explanation: Explanation, number: int, highest: float) -> dict[str, Any]:
    moves = explanation.moves[number]
    ours, theirs = mean_costs(moves)
    return {
        "name": explanation.name_of(moves.other),
        "side": moves.other.side,
        "arithmetic": _arithmetic(moves),
        "table": _flow_table(moves, highest),
        "lacks": _costliest(moves.other, theirs, highest),
        "adds": _costliest(moves.candidate, ours, highest),
        "picture": Markup(explanation.svg(number=number, highest=highest, is_live=True)),
    }


def _arithmetic(moves: Moves) -> dict[str, Any]:
    """Add up the blocks of the plan to the distance, and go from there to the score."""
    blocks = moves.blocks()
    digits = distance_digits(moves.distance)
    parts = printed_parts([cost for _, cost in blocks.values()], moves.distance, digits)
    masses = printed_parts([mass for mass, _ in blocks.values()], 1.0, digits)
    return {
        "rows": [
            {
                "kinds": f"{ours}s → {theirs}s",
                "mass": mass,
                "cost": number_text(cost / moved if moved else None, 4),
                "part": part,
            }
            for ((ours, theirs), (moved, cost)), mass, part in zip(
                blocks.items(), masses, parts, strict=True
            )
        ],
        "distance": f"{moves.distance:.{digits}f}",
        "score": f"{moves.similarity:.{SCORE_DIGITS}f}",
        "mass": f"{1:.{digits}f}",
    }


def _flow_table(moves: Moves, highest: float) -> dict[str, Any]:
    """Return the costliest moves and one row for the rest; the printed parts add up."""
    digits = distance_digits(moves.distance)
    shown, rest = moves.flows[:MAX_ROWS], moves.flows[MAX_ROWS:]
    listed = [flow.contribution for flow in shown]
    parts = printed_parts(
        [*listed, math.fsum(flow.contribution for flow in rest)], moves.distance, digits
    )
    return {
        "rows": [
            {
                "ends": f"c{flow.candidate} o{flow.other}",
                "candidate": beginning(moves.candidate.points[flow.candidate].text, _SHORT),
                "other": beginning(moves.other.points[flow.other].text, _SHORT),
                "mass": flow.mass,
                "cost": flow.cost,
                "class": cost_class(flow.cost, highest),
                "part": parts[k],
                "share": 100 * flow.contribution / moves.distance if moves.distance else 0.0,
            }
            for k, flow in enumerate(shown)
        ],
        "n_rest": len(rest),
        "rest": parts[-1],
        "distance": f"{moves.distance:.{digits}f}",
    }


def _costliest(text: TextUnits, costs: Sequence[float], highest: float) -> list[dict[str, Any]]:
    """Return the points whose mass costs most to place."""
    order = sorted(range(len(text.points)), key=lambda k: (-costs[k] * text.points[k].weight, k))
    return [
        {
            "point": k,
            "text": beginning(text.points[k].text, _SHORT),
            "kind": text.points[k].kind,
            "n": len(text.points[k].units),
            "cost": costs[k],
            "part": costs[k] * text.points[k].weight,
            "class": cost_class(costs[k], highest),
        }
        for k in order[:MAX_UNITS]
        if costs[k] > 0
    ]
