"""The plan as a picture of a matrix, in the manner of Clark et al. 2019, figure 2.

Rows are the candidate's words and sentences, columns the other text's, each in reading order. A
square's area is the mass that moves, compared within its block, its colour the cost. Long texts
are drawn in groups of neighbouring words, so that the picture stays small.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from markupsafe import Markup

from sms.explaining.picture import cost_class
from sms.explaining.records import SENTENCE, WORD, Flow, Moves, TextUnits

MAX_LABELLED = 64
"""Beyond that many rows or columns only the blocks are named."""
MAX_GROUPS = 120
"""More rows or columns than that are drawn in groups."""

_CELL, _SMALL_CELL = 13.0, 5.0
_LABEL_WIDTH, _LABEL_HEIGHT, _PLAIN_MARGIN = 104.0, 92.0, 22.0
_LABEL_LENGTH = 15
_SMALLEST = 2.6
_BLOCK_GAP = 8.0


@dataclass(frozen=True, slots=True)
class _Axis:
    """The rows, or the columns."""

    group_of: dict[int, int]
    """By point."""
    labels: list[str]
    kinds: list[str]
    """Of every group."""

    def __len__(self) -> int:
        return len(self.labels)

    def place(self, group: int, cell: float) -> float:
        """Return where a group begins; words and sentences stand apart."""
        has_both = WORD in self.kinds and self.kinds[group] == SENTENCE
        return group * cell + (_BLOCK_GAP if has_both else 0.0)

    def length(self, cell: float) -> float:
        return self.place(len(self) - 1, cell) + cell

    def block(self, kind: str, cell: float) -> tuple[float, float]:
        """Return where the groups of a kind begin and end."""
        own = [group for group, own_kind in enumerate(self.kinds) if own_kind == kind]
        return self.place(own[0], cell), self.place(own[-1], cell) + cell


def matrix_svg(moves: Moves, highest: float) -> Markup:
    """Draw a plan; its squares name their flow in `data-flow`.

    Parameters
    ----------
    moves : Moves
    highest : float
        Cost at the end of the colour scale.
    """
    rows, columns = _axis(moves.candidate), _axis(moves.other)
    is_labelled = max(len(rows), len(columns)) <= MAX_LABELLED
    cell = _CELL if is_labelled else _SMALL_CELL
    left = _LABEL_WIDTH if is_labelled else _PLAIN_MARGIN
    top = _LABEL_HEIGHT if is_labelled else _PLAIN_MARGIN
    parts = _squares(moves, rows, columns, cell, (left, top), highest)
    parts += _blocks(rows, columns, cell, left, top)
    if is_labelled:
        parts += _labels(rows, columns, cell, left, top)
    width, height = left + columns.length(cell) + 4, top + rows.length(cell) + 4
    label = f"Transport plan: {len(moves.flows)} moves; the table of moves has the same in words."
    return Markup(
        f'<svg class="matrix" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
    )


def _axis(text: TextUnits) -> _Axis:
    by_place = sorted(
        range(len(text.points)),
        key=lambda k: (text.points[k].kind == SENTENCE, text.points[k].units[0]),
    )
    words = [k for k in by_place if text.points[k].kind == WORD]
    sentences = [k for k in by_place if text.points[k].kind == SENTENCE]
    group_of: dict[int, int] = {}
    labels: list[str] = []
    kinds: list[str] = []
    for points in (words, sentences):
        size = -(-len(points) // MAX_GROUPS) or 1
        for start in range(0, len(points), size):
            members = points[start : start + size]
            group_of |= dict.fromkeys(members, len(labels))
            kinds.append(text.points[members[0]].kind)
            labels.append(text.points[members[0]].text)
    return _Axis(group_of, labels, kinds)


def _squares(
    moves: Moves,
    rows: _Axis,
    columns: _Axis,
    cell: float,
    corner: tuple[float, float],
    highest: float,
) -> list[str]:
    by_cell: dict[tuple[int, int], list[tuple[int, Flow]]] = {}
    for number, flow in enumerate(moves.flows):
        place = (rows.group_of[flow.candidate], columns.group_of[flow.other])
        by_cell.setdefault(place, []).append((number, flow))
    masses = {place: sum(flow.mass for _, flow in own) for place, own in by_cell.items()}
    largest: dict[bool, float] = {}  # a sentence weighs as much as all of its words
    for (row, column), mass in masses.items():
        block = rows.kinds[row] == columns.kinds[column] == SENTENCE
        largest[block] = max(mass, largest.get(block, 0.0))
    parts = []
    for (row, column), own in by_cell.items():
        mass = masses[row, column]
        cost = sum(flow.contribution for _, flow in own) / mass
        block = rows.kinds[row] == columns.kinds[column] == SENTENCE
        size = max(_SMALLEST, (cell - 2) * (mass / largest[block]) ** 0.5)
        x = corner[0] + columns.place(column, cell) + (cell - size) / 2
        y = corner[1] + rows.place(row, cell) + (cell - size) / 2
        number, first = own[0]
        parts.append(
            f'<rect class="c{cost_class(cost, highest)}" data-flow="{number}" x="{x:.1f}" '
            f'y="{y:.1f}" width="{size:.1f}" height="{size:.1f}"><title>'
            f"{escape(_title(moves, first, len(own), mass, cost))}</title></rect>"
        )
    return parts


def _title(moves: Moves, flow: Flow, n_flows: int, mass: float, cost: float) -> str:
    ours = moves.candidate.points[flow.candidate].text
    theirs = moves.other.points[flow.other].text
    more = f" and {n_flows - 1} more moves" if n_flows > 1 else ""
    # whichever way they are written, they do not turn the numbers
    return f"{_apart(ours)} → {_apart(theirs)}{more}: mass {mass:.4f}, cost {cost:.2f}"


def _apart(text: str) -> str:
    return f"\N{FIRST STRONG ISOLATE}{text}\N{POP DIRECTIONAL ISOLATE}"


def _blocks(rows: _Axis, columns: _Axis, cell: float, left: float, top: float) -> list[str]:
    """Frame the blocks of words and of sentences, and name them."""
    parts = []
    for kind in (WORD, SENTENCE):
        if kind not in rows.kinds or kind not in columns.kinds:
            continue
        y, y_end = rows.block(kind, cell)
        x, x_end = columns.block(kind, cell)
        parts.append(
            f'<rect class="block" x="{left + x - 1:.1f}" y="{top + y - 1:.1f}" '
            f'width="{x_end - x + 2:.1f}" height="{y_end - y + 2:.1f}"/>'
        )
        if x_end - x > 50:
            parts.append(
                f'<text class="block-name" x="{left + x_end - 4:.1f}" y="{top + y_end - 5:.1f}" '
                f'text-anchor="end">{kind}s</text>'
            )
    return parts


def _labels(rows: _Axis, columns: _Axis, cell: float, left: float, top: float) -> list[str]:
    parts = []
    for group, label in enumerate(rows.labels):
        y = top + rows.place(group, cell) + cell / 2 + 3.5
        parts.append(
            f'<text class="of-{rows.kinds[group]}" x="{left - 6:.1f}" y="{y:.1f}" '
            f'text-anchor="end">{escape(_short(label))}</text>'
        )
    for group, label in enumerate(columns.labels):
        x = left + columns.place(group, cell) + cell / 2 + 3.5
        parts.append(
            f'<text class="of-{columns.kinds[group]}" transform="translate({x:.1f} {top - 6:.1f}) '
            f'rotate(-90)">{escape(_short(label))}</text>'
        )
    return parts


def _short(text: str) -> str:
    shown = "".join(c if c.isprintable() else " " for c in text)
    return shown if len(shown) <= _LABEL_LENGTH else f"{shown[: _LABEL_LENGTH - 1]}…"
