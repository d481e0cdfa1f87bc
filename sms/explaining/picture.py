"""A picture for papers and notebooks: two texts, and lines for what moves between them.

In the manner of Clark et al. 2019, figure 1: a line's width is the mass that moves, its label the
Euclidean distance. Sentences have a bar at the inner edge of their text; their lines run from bar
to bar. Without a plan the bars say what the score loses without the sentence.

Plain SVG without scripts or fonts of its own: every word has its place and width here. For a page
that reacts to its reader, words and sentences say which point they are (`data-p`, with "c" or "o"
for the side), lines and labels which move (`data-flow`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from sms.explaining.arithmetic import is_shown, signed_text
from sms.explaining.records import SENTENCE, Flow, Moves, SentenceEffect, TextUnits, Unit

COST_COLOURS = ("#3f7f8f", "#5d73ae", "#8a62ab", "#ad4f86", "#b93c52", "#a52a14")
"""From cheap to costly; each has a contrast of at least 3 with white."""
MAX_LINES = 12
"""Lines in a picture: the moves that add most to the distance."""
MAX_SENTENCES = 12
"""Sentences of one text in a picture; from longer texts those that matter most are shown."""
MAX_LIVE_SENTENCES = 30
"""The same on a page."""
FONT_SIZE = 14.0
"""Of the texts of a picture, in pixels."""

_INK, _MUTED, _BLUE = "#1c1b19", "#6b6862", "#17568c"
_HELPS, _HURTS = "#17568c", "#a8480f"
_LINE_HEIGHT, _SENTENCE_GAP = 24.0, 12.0
_MARGIN, _COLUMN, _GUTTER = 24.0, 350.0, 210.0
_TOP = 92.0
_BAR = 5.0
_THINNEST, _WIDEST = 1.2, 16.0
_WIDTH = 2 * (_MARGIN + _COLUMN) + _GUTTER
# Widths of Helvetica in thousandths of the font size; other letters are about as wide as "n".
_WIDTHS = {
    **dict.fromkeys("il'j|", 222),
    **dict.fromkeys(" !,./:;[]\\ft", 278),
    **dict.fromkeys("()-r{}`", 333),
    **dict.fromkeys("*", 389),
    **dict.fromkeys("ckszvxyJ", 500),
    **dict.fromkeys("+<=>~", 584),
    **dict.fromkeys("TFZ", 611),
    **dict.fromkeys("ABEKPSVXY&", 667),
    **dict.fromkeys("CDHNRUw", 722),
    **dict.fromkeys("GOQ", 778),
    **dict.fromkeys("mM", 833),
    **dict.fromkeys("%—", 889),
    **dict.fromkeys("W@", 960),
}
_OTHER_WIDTH, _WIDE_WIDTH = 556, 1000


def cost_class(cost: float, highest: float) -> int:
    """Return the place of a cost in `COST_COLOURS`, which span 0 to `highest` evenly."""
    if highest <= 0:
        return 0
    return min(int(cost / highest * len(COST_COLOURS)), len(COST_COLOURS) - 1)


def highest_cost(moves: Sequence[Moves]) -> float:
    """Return the cost that is the end of the colour scale."""
    return max((flow.cost for move in moves for flow in move.flows), default=0.0)


def mean_costs(moves: Moves) -> tuple[list[float], list[float]]:
    """Return the mean cost of a unit of mass of every point of the candidate, and of the other."""
    sides = ([0.0] * len(moves.candidate.points), [0.0] * len(moves.other.points))
    for flow in moves.flows:
        cost = flow.contribution
        sides[0][flow.candidate] += cost / moves.candidate.points[flow.candidate].weight
        sides[1][flow.other] += cost / moves.other.points[flow.other].weight
    return sides


# The two kinds of picture


def moves_picture(
    moves: Moves,
    metric: str,
    score: str,
    other: str,
    title: str,
    *,
    highest: float | None = None,
    is_live: bool = False,
) -> str:
    """Draw the costliest moves between the candidate and the text named `other`.

    Costs are coloured from 0 to `highest`, by default the highest of the plan. A live picture has
    more sentences and all moves between them; those beyond the first `MAX_LINES` are hidden.
    """
    lines = moves.flows[:MAX_LINES]
    highest = highest_cost([moves]) if highest is None else highest
    n_sentences = MAX_LIVE_SENTENCES if is_live else MAX_SENTENCES
    left = _Column(moves.candidate, "Candidate", _MARGIN, is_left=True)
    right = _Column(moves.other, other, _MARGIN + _COLUMN + _GUTTER, is_left=False)
    costs = mean_costs(moves)
    for column, of_points, ends in (
        (left, costs[0], [flow.candidate for flow in lines]),
        (right, costs[1], [flow.other for flow in lines]),
    ):
        wanted = [_sentence_of(column.text, point) for point in ends]
        tints = {k: cost_class(cost, highest) for k, cost in enumerate(of_points)}
        column.fill(wanted, tints, most=n_sentences)
    widest = max(flow.mass for flow in lines)
    drawn = [
        _Line.between(number, flow, left, right, widest, highest)
        for number, flow in enumerate(moves.flows if is_live else lines)
        if left.has(flow.candidate) and right.has(flow.other)
    ]
    foot = (
        f"The {len(lines)} moves that add most to the distance, of {len(moves.flows)}. "
        "Width: mass moved. Colour and label: cost of a unit of mass. Grey: words that do not "
        "count."
    )
    parts = [
        _heading(title, f"{score}; distance {moves.distance:.6f}"),
        *(column.heading() for column in (left, right)),
        *(line.path() for line in drawn),
        *left.parts,
        *right.parts,
        *_labels([line for line in drawn if line.number < MAX_LINES]),
    ]
    label = f"{metric} between a candidate and a {moves.other.side}"
    return _document(max(left.bottom, right.bottom), parts, foot, label)


def effects_picture(
    texts: Mapping[str, TextUnits],
    effects: Sequence[SentenceEffect],
    metric: str,
    score: str,
    title: str,
    *,
    is_live: bool = False,
) -> str:
    """Draw one or two texts, by their names, with what the score loses without each sentence."""
    parts = [_heading(title, score)]
    bottom = _TOP
    largest = max((abs(e.drop) for e in effects if e.drop is not None), default=0.0)
    for place, (name, text) in enumerate(texts.items()):
        own = {
            effect.unit.sentence: effect
            for effect in effects
            if (effect.side, effect.number) == (text.side, text.number)
        }
        ranked = sorted(own, key=lambda k: -abs(own[k].drop or 0.0))
        column = _Column(text, name, _MARGIN + place * (_COLUMN + _GUTTER), is_left=place == 0)
        bars = {k: _effect_bar(effect, largest) for k, effect in own.items()}
        column.fill(ranked, {}, bars, most=MAX_LIVE_SENTENCES if is_live else MAX_SENTENCES)
        parts += [column.heading(), *column.parts]
        bottom = max(bottom, column.bottom)
    foot = (
        "Numbers: what the score loses when the sentence is left out. Blue raises the score, "
        "orange lowers it."
    )
    return _document(bottom, parts, foot, f"{metric} of a candidate, sentence by sentence")


# Layout of a text


@dataclass(slots=True)
class _Column:
    """One text, laid out line by line."""

    text: TextUnits
    name: str
    x: float
    is_left: bool
    parts: list[str] = field(default_factory=list)
    words: dict[int, tuple[float, float, float]] = field(default_factory=dict)
    """Left, right and baseline of a unit."""
    bars: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Top and bottom of a sentence, by its number."""
    bottom: float = _TOP

    @property
    def side(self) -> str:
        """Before the number of a point in `data-p`."""
        return "c" if self.is_left else "o"

    @property
    def bar_x(self) -> float:
        """Left edge of the bars."""
        return self.x + _COLUMN + 8 if self.is_left else self.x - 8 - _BAR

    def heading(self) -> str:
        return _text(self.x, _TOP - 18, self.name, size=13, colour=_MUTED, weight=600)

    def fill(
        self,
        wanted: Sequence[int],
        tints: dict[int, int],
        bars: dict[int, tuple[str, str]] | None = None,
        *,
        most: int = MAX_SENTENCES,
    ) -> None:
        """Lay out the sentences that are wanted most, in the order of the text."""
        listed = list(self.text.sentences())
        shown = set(list(dict.fromkeys([*wanted, *range(len(listed))]))[:most])
        y = _TOP
        n_left_out = 0
        for k, (sentence, words) in enumerate(listed):
            if k not in shown:
                n_left_out += 1
                continue
            y = self._left_out(n_left_out, y)
            n_left_out = 0
            top = y
            y = self._sentence(words, tints, y) + _SENTENCE_GAP
            self.bars[sentence.sentence] = (top + 3, y - _SENTENCE_GAP - 1)
            colour, label = (bars or {}).get(sentence.sentence, (_BLUE, ""))
            self._bar(sentence, colour, label)
        self.bottom = self._left_out(n_left_out, y)

    def has(self, point: int) -> bool:
        """Tell whether the sentence of a point is shown."""
        return _sentence_of(self.text, point) in self.bars

    def _left_out(self, n_sentences: int, y: float) -> float:
        if not n_sentences:
            return y
        shown = f"… {n_sentences} sentence{'s' * (n_sentences > 1)} …"
        self.parts.append(_text(self.x, y + 16, shown, size=12, colour=_MUTED))
        return y + _LINE_HEIGHT + _SENTENCE_GAP

    def _sentence(
        self, words: Sequence[tuple[int, Unit]], tints: dict[int, int], y: float
    ) -> float:
        """Lay out one sentence from `y` down and return where it ends."""
        at = 0.0
        baseline = y + 17
        is_from_right = _is_from_right(words)
        for cluster in _clusters(self.text.text, words):
            is_long = sum(_word_width(unit) for _, unit in cluster) > _COLUMN
            for part in [[each] for each in cluster] if is_long else [cluster]:
                width = sum(_word_width(unit) for _, unit in part)
                if at > 0 and at + width > _COLUMN:
                    at = 0.0
                    baseline += _LINE_HEIGHT
                for k, unit in part:
                    from_left = _COLUMN - at - _word_width(unit) if is_from_right else at
                    self._word(k, unit, self.x + from_left, baseline, tints)
                    at += _word_width(unit)
            at += _width_of(" ")
        return baseline + 7

    def _word(self, k: int, unit: Unit, x: float, baseline: float, tints: dict[int, int]) -> None:
        width = _word_width(unit)
        self.words[k] = (x, x + width, baseline)
        if unit.point is not None and unit.point in tints:
            self.parts.append(
                f'<rect x="{x - 1.5:.1f}" y="{baseline - 13:.1f}" width="{width + 3:.1f}" '
                f'height="17" rx="3" fill="{COST_COLOURS[tints[unit.point]]}" '
                f'fill-opacity="0.16"/>'
            )
        colour = _INK if unit.is_kept else "#767676"
        data = self._data(unit)
        self.parts.append(_text(x, baseline, unit.text, colour=colour, width=width, data=data))

    def _data(self, unit: Unit) -> str:
        if unit.dropped is not None:
            return f' data-why="{escape(unit.dropped)}"'
        return "" if unit.point is None else f' data-p="{self.side}{unit.point}"'

    def _bar(self, sentence: Unit, colour: str, label: str) -> None:
        top, bottom = self.bars[sentence.sentence]
        self.parts.append(
            f'<rect{self._data(sentence)} x="{self.bar_x:.1f}" y="{top:.1f}" width="{_BAR:g}" '
            f'height="{bottom - top:.1f}" rx="2" fill="{colour}"/>'
        )
        if label:
            x = self.bar_x + (12 if self.is_left else -7)
            anchor = "start" if self.is_left else "end"
            middle = (top + bottom) / 2 + 4
            self.parts.append(_text(x, middle, label, size=12, colour=colour, anchor=anchor))


def _clusters(text: str, words: Sequence[tuple[int, Unit]]) -> list[list[tuple[int, Unit]]]:
    """Group words that stand together without white space."""
    clusters: list[list[tuple[int, Unit]]] = []
    end = -1
    for k, unit in words:
        if clusters and not any(c.isspace() for c in text[end : unit.start]):
            clusters[-1].append((k, unit))
        else:
            clusters.append([(k, unit)])
        end = unit.stop
    return clusters


def _is_from_right(words: Sequence[tuple[int, Unit]]) -> bool:
    """Tell whether a sentence is written from the right: what its first letter is."""
    letters = (unicodedata.bidirectional(c) for _, unit in words for c in unit.text)
    return next((kind for kind in letters if kind in ("L", "R", "AL")), "L") != "L"


def _word_width(unit: Unit) -> float:
    return min(_width_of(unit.text), _COLUMN)


def _sentence_of(text: TextUnits, point: int) -> int:
    return text.units[text.points[point].units[0]].sentence


# Lines


_EDGES = (_MARGIN + _COLUMN + 8 + _BAR, _MARGIN + _COLUMN + _GUTTER - 8 - _BAR)
_LABEL_PLACES = (0.5, 0.36, 0.64, 0.24, 0.76, 0.14, 0.86)  # along a line, best first
_LABEL_SIZE = (38.0, 16.0)


@dataclass(frozen=True, slots=True)
class _Line:
    """A move, drawn."""

    number: int
    start: tuple[float, float]
    end: tuple[float, float]
    width: float
    colour: str
    cost: float

    @classmethod
    def between(
        cls,
        number: int,
        flow: Flow,
        left: _Column,
        right: _Column,
        widest: float,
        highest: float,
    ) -> _Line:
        width = min(max(_THINNEST, flow.mass / widest * _WIDEST), _WIDEST)
        colour = COST_COLOURS[cost_class(flow.cost, highest)]
        ends = _end(left, flow.candidate), _end(right, flow.other)
        return cls(number, *ends, width, colour, flow.cost)

    def path(self) -> str:
        """Run under the word's line of text to the edge, across the gutter, under the other."""
        (x1, y1), (x2, y2) = self.start, self.end
        middle = sum(_EDGES) / 2
        hidden = ' visibility="hidden"' if self.number >= MAX_LINES else ""
        curve = f"{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {_EDGES[1]:.1f} {y2:.1f}"
        return (
            f'<path data-flow="{self.number}"{hidden} d="M{x1:.1f} {y1:.1f}H{_EDGES[0]:.1f}'
            f'C{curve}H{x2:.1f}" fill="none" stroke="{self.colour}" '
            f'stroke-width="{self.width:.2f}" stroke-opacity="0.62" stroke-linejoin="round"/>'
        )

    def at(self, t: float) -> tuple[float, float]:
        """Return a point of the curve across the gutter, `t` from 0 to 1."""
        bend = 3 * t * t - 2 * t * t * t
        middle = sum(_EDGES) / 2
        x = (1 - t) ** 3 * _EDGES[0] + 3 * t * (1 - t) * middle + t**3 * _EDGES[1]
        return x, self.start[1] + bend * (self.end[1] - self.start[1])


def _labels(lines: Sequence[_Line]) -> list[str]:
    """Write each line's cost on it, where no label is yet; a label without room is left out."""
    taken: list[tuple[float, float]] = []
    labels = []
    for line in lines:
        free = (
            (x, y)
            for x, y in map(line.at, _LABEL_PLACES)
            if not any(
                abs(x - u) < _LABEL_SIZE[0] and abs(y - v) < _LABEL_SIZE[1] for u, v in taken
            )
        )
        place = next(free, None)
        if place is None:
            continue
        taken.append(place)
        labels.append(
            _text(
                place[0], place[1] + 4, f"{line.cost:.2f}", size=11, colour=line.colour,
                anchor="middle", halo=True, weight=600, data=f' data-flow="{line.number}"',
            )
        )  # fmt: skip
    return labels


def _end(column: _Column, point: int) -> tuple[float, float]:
    """Return where lines of a point begin or end."""
    unit = column.text.points[point].units[0]
    if column.text.points[point].kind == SENTENCE:
        top, bottom = column.bars[column.text.units[unit].sentence]
        return column.bar_x + (_BAR if column.is_left else 0.0), (top + bottom) / 2
    x_left, x_right, baseline = column.words[unit]
    return (x_left if column.is_left else x_right), baseline + 6.5


def _effect_bar(effect: SentenceEffect, largest: float) -> tuple[str, str]:
    """Return colour and label of the bar of a sentence."""
    if effect.drop is None:
        return _MUTED, "–"
    label = signed_text(effect.drop)
    if not is_shown(effect.drop) or abs(effect.drop) < largest / 50:
        return _MUTED, label
    return (_HELPS if effect.drop > 0 else _HURTS), label


# SVG


def _document(bottom: float, parts: Sequence[str], foot: str, label: str) -> str:
    height = bottom + 40
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {height:.0f}" '
        f'width="{_WIDTH:g}" height="{height:.0f}" role="img" aria-label="{escape(label)}" '
        "font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\">"
        f'<rect width="{_WIDTH:g}" height="{height:.0f}" fill="#ffffff"/>{"".join(parts)}'
        f"{_text(_MARGIN, height - 14, foot, size=11.5, colour=_MUTED)}</svg>"
    )


def _heading(title: str, numbers: str) -> str:
    if not title:
        return _text(_MARGIN, 34, numbers, size=17, weight=600)
    return _text(_MARGIN, 30, title, size=17, weight=600) + _text(
        _MARGIN, 50, numbers, size=13, colour=_MUTED
    )


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: float = FONT_SIZE,
    colour: str = _INK,
    weight: int = 400,
    anchor: str = "",
    width: float | None = None,
    halo: bool = False,
    data: str = "",
) -> str:
    attributes = f'x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{colour}"'
    if weight != 400:
        attributes += f' font-weight="{weight}"'
    if anchor:
        attributes += f' text-anchor="{anchor}"'
    if width is not None:  # whatever font there is, the word is as wide as the layout takes it
        attributes += f' textLength="{width:.1f}" lengthAdjust="spacingAndGlyphs"'
    if halo:
        attributes += ' stroke="#ffffff" stroke-width="3.5" paint-order="stroke"'
    return f"<text{data} {attributes}>{escape(_printable(text))}</text>"


def _printable(text: str) -> str:
    """Replace what XML does not allow."""
    return "".join(c if c.isprintable() else " " for c in text)


def _width_of(text: str) -> float:
    """Return the width of a text, in Helvetica of the size of the texts."""
    units = 0
    for character in unicodedata.normalize("NFD", text):
        if unicodedata.combining(character):
            continue
        is_wide = unicodedata.east_asian_width(character) in "WF"
        units += _WIDE_WIDTH if is_wide else _WIDTHS.get(character, _OTHER_WIDTH)
    return units * FONT_SIZE / 1000
