"""An explanation in a notebook: the picture, the costliest moves, the arithmetic; no scripts."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from sms.explaining.arithmetic import SCORE_DIGITS, distance_digits, printed_parts, signed_text
from sms.explaining.picture import picture_svg
from sms.explaining.records import Explanation, Moves

SHOWN_ROWS = 10
"""Moves or sentences in the table."""

_TEXT_LENGTH = 60


def fragment_html(explanation: Explanation) -> str:
    """Show an explanation as a fragment of HTML.

    Parameters
    ----------
    explanation : Explanation

    Returns
    -------
    str
        One `<div>`; all texts are escaped.
    """
    if explanation.score is None:
        shown = f"No score: {escape(explanation.status or 'undefined')}."
        return f"<div><p><b>{escape(explanation.metric)}</b> {shown}</p></div>"
    pictures = "".join(
        f'<div style="overflow-x:auto">{picture_svg(explanation, number=k)}</div>'
        for k in range(max(1, len(explanation.moves)))
    )
    tables = "".join(
        _moves_table(moves, explanation.name_of(moves.other)) for moves in explanation.moves
    )
    return (
        f"<div>{pictures}{tables or _effects_table(explanation)}"
        f"<p><b>{escape(explanation.metric)} = {explanation.score:.{SCORE_DIGITS}f}</b> "
        f"(higher means {escape(explanation.higher_is)}) <code>{escape(explanation.signature)}"
        "</code></p></div>"
    )


def _moves_table(moves: Moves, other: str) -> str:
    """Tabulate the costliest moves; with the rest they add up to the distance."""
    digits = distance_digits(moves.distance)
    shown = moves.flows[:SHOWN_ROWS]
    rest = moves.flows[SHOWN_ROWS:]
    contributions = printed_parts(
        [*(flow.contribution for flow in shown), sum(flow.contribution for flow in rest)],
        moves.distance,
        digits,
    )
    rows = [
        (
            _short(moves.candidate.points[flow.candidate].text),
            _short(moves.other.points[flow.other].text),
            f"{flow.mass:.4f}",
            f"{flow.cost:.4f}",
            contribution,
        )
        for flow, contribution in zip(shown, contributions, strict=False)
    ]
    if rest:
        rows.append((f"and {len(rest)} more", "", "", "", contributions[-1]))
    rows.append(("distance", "", "", "", f"{moves.distance:.{digits}f}"))
    rows.append(
        (f"exp(\N{MINUS SIGN}{moves.distance:.{digits}f})", "", "", "", f"{moves.similarity:.6f}")
    )
    return _table(("Candidate", other, "mass", "cost", "mass × cost"), rows)


def _effects_table(explanation: Explanation) -> str:
    known = [effect for effect in explanation.effects if effect.drop is not None]
    known.sort(key=lambda effect: -abs(effect.drop or 0.0))
    names = {
        (text.side, text.number): explanation.name_of(text)
        for text in (explanation.candidate, *explanation.others)
    }
    rows = [
        (
            names[effect.side, effect.number],
            _short(effect.unit.text),
            f"{effect.score:.6f}",
            signed_text(effect.drop or 0.0, SCORE_DIGITS),
        )
        for effect in known[:SHOWN_ROWS]
    ]
    return _table(("text", "sentence left out", "score without it", "drop"), rows)


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    def line(cells: Iterable[str], element: str) -> str:
        return "".join(f"<{element}>{escape(cell)}</{element}>" for cell in cells)

    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    return f"<table><thead><tr>{line(header, 'th')}</tr></thead><tbody>{body}</tbody></table>"


def _short(text: str) -> str:
    return text if len(text) <= _TEXT_LENGTH else f"{text[:_TEXT_LENGTH]}…"
