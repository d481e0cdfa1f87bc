"""A picture for papers and notebooks: two texts, and lines for what moves between them.

In the manner of Clark et al. 2019, figure 1: a line's width is the mass that moves, its label the
Euclidean distance. Sentences have a bar at the inner edge of their text; their lines run from bar
to bar. Without a plan the bars say what the score loses without the sentence.

Plain SVG without scripts or fonts of its own: every word has its place and width here, and a title
with its numbers. For a page that reacts to its reader, words and sentences say which point they are
(`data-p`, with "c" or "o" for the side), lines and labels which two they join (`data-ends`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby
from types import MappingProxyType

from sms.explaining.lines import Box, lines_of
from sms.explaining.records import SENTENCE, Flow, Moves, SentenceEffect, TextUnits, Unit
from sms.naming import counted
from sms.svg_text import xml_text
from sms.writing import isolated

MINUS = "\N{MINUS SIGN}"
SCORE_DIGITS = 6
"""Decimals of a printed score."""
DROP_DIGITS = 4
"""Decimals of what a score loses; a drop that shows none of them is none."""
_MOST_DIGITS = 12

COST_COLOURS = ("#3f7f8f", "#5d73ae", "#8a62ab", "#ad4f86", "#b93c52", "#a52a14")
"""From cheap to costly; each has a contrast of at least 3 with white."""
MAX_LINES = 12
"""Lines in a picture: the moves that add most to the distance."""
MAX_SENTENCES = 12
"""Sentences of one text in a picture; from longer texts those that matter most are shown."""
MAX_LIVE_SENTENCES = 30
"""The same on a page."""

MAX_PARTNERS = 4
"""Words or sentences in the title of one that it moves to."""

Place = tuple[float, float]

_FONT_SIZE = 14.0
_INK, _MUTED, _BLUE, _ORANGE = "#1c1b19", "#6b6862", "#17568c", "#a8480f"
_NOT_COUNTED = "#767676"
_LINE_HEIGHT, _SENTENCE_GAP = 24.0, 12.0
_MARGIN, _COLUMN, _GUTTER = 24.0, 350.0, 210.0
_TOP = 92.0
_BAR = 5.0
_THINNEST, _WIDEST = 1.2, 16.0
_WIDTH = 2 * (_MARGIN + _COLUMN) + _GUTTER
_EDGES = (_MARGIN + _COLUMN + 8 + _BAR, _MARGIN + _COLUMN + _GUTTER - 8 - _BAR)
_LABEL_PLACES = (0.5, 0.36, 0.64, 0.24, 0.76, 0.14, 0.86)  # along a line, best first
_LABEL_SIZE = (38.0, 16.0)


def printed_parts(parts: Sequence[float], total: float, digits: int) -> list[str]:
    """Round parts so that the printed ones add up to the printed total (largest remainders)."""
    unit = 10**digits
    exact = [part * unit for part in parts]
    whole = [math.floor(value) for value in exact]
    missing = round(total * unit) - sum(whole)
    by_loss = sorted(range(len(parts)), key=lambda k: whole[k] - exact[k])
    step = 1 if missing > 0 else -1  # -1 only where rounding made the sum of the parts too large
    order = by_loss if missing > 0 else by_loss[::-1]
    for k in range(abs(missing)):
        whole[order[k % len(order)]] += step
    return [f"{value / unit:.{digits}f}" for value in whole]


def signed_text(value: float) -> str:
    """Write a number with its sign; one that rounds to zero has none."""
    sign = "+" if value > 0 else MINUS
    return f"{sign if is_shown(value) else ''}{abs(value):.{DROP_DIGITS}f}"


def is_shown(value: float) -> bool:
    """Tell whether a number is still one when it is printed, or rounds to zero."""
    return float(f"{value:.{DROP_DIGITS}f}") != 0


def distance_digits(distance: float) -> int:
    """Choose how many decimals of a distance give its score to all printed digits."""
    score = f"{math.exp(-distance):.{SCORE_DIGITS}f}"
    for digits in range(SCORE_DIGITS, _MOST_DIGITS):
        if f"{math.exp(-round(distance, digits)):.{SCORE_DIGITS}f}" == score:
            return digits
    return _MOST_DIGITS


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


def moves_picture(
    moves: Moves,
    metric: str,
    score: str,
    other: str,
    title: str,
    *,
    highest: float | None = None,
    language: str = "",
    is_live: bool = False,
) -> str:
    """Draw the costliest moves between the candidate and the text named `other`.

    Costs are coloured from 0 to `highest`, by default the highest of the plan. A live picture has
    more sentences and all moves between them; those beyond the first `MAX_LINES` are hidden.
    """
    highest = highest_cost([moves]) if highest is None else highest
    most = MAX_LIVE_SENTENCES if is_live else MAX_SENTENCES
    places = [(flow.candidate, flow.other) for flow in moves.flows]
    columns = []
    for side, (text, name) in enumerate(((moves.candidate, "Candidate"), (moves.other, other))):
        wanted = [_sentence_of(text, ends[side]) for ends in places[:MAX_LINES]]
        costs = enumerate(mean_costs(moves)[side])
        tints = {k: COST_COLOURS[cost_class(cost, highest)] for k, cost in costs}
        column = _Column(
            text, name, side == 0, wanted, most,
            tints=tints, titles=_point_titles(moves, side), language=language,
        )  # fmt: skip
        columns.append(column)
    widest = max(flow.mass for flow in moves.flows[:MAX_LINES])
    lines, labels = list[str](), list[str]()
    taken: list[Place] = []
    for number, flow in enumerate(moves.flows if is_live else moves.flows[:MAX_LINES]):
        start, end = (c.end(k) for c, k in zip(columns, places[number], strict=True))
        if start is None or end is None:
            continue
        width = min(max(_THINNEST, flow.mass / widest * _WIDEST), _WIDEST)
        colour = COST_COLOURS[cost_class(flow.cost, highest)]
        ends = f' data-ends="c{flow.candidate} o{flow.other}"'
        hidden = ' visibility="hidden"' if number >= MAX_LINES else ""
        lines.append(_line(start, end, width, colour, f"{ends}{hidden}", _flow_title(moves, flow)))
        place = _label_place(start[1], end[1], taken)
        if place is not None and number < MAX_LINES:
            taken.append(place)
            labels.append(
                _text(
                    place[0], place[1] + 4, f"{flow.cost:.2f}", size=11, colour=colour,
                    more=f' font-weight="600" text-anchor="middle" stroke="#ffffff" '
                    f'stroke-width="3.5" paint-order="stroke"{ends}',
                )
            )  # fmt: skip
    n_lines = min(MAX_LINES, len(moves.flows))
    foot = (
        f"The {n_lines} moves that add most to the distance, of {len(moves.flows)}. "
        "Width: mass moved. Colour and label: cost of a unit of mass. Grey: words that do not "
        "count."
    )
    heading = _heading(title, f"{score}; distance {moves.distance:.6f}")
    label = f"{metric} between a candidate and a {moves.other.side}"
    return _document([heading, *lines], columns, labels, foot, label)


def effects_picture(
    texts: Mapping[str, TextUnits],
    effects: Sequence[SentenceEffect],
    metric: str,
    score: str,
    title: str,
    *,
    language: str = "",
    is_live: bool = False,
) -> str:
    """Draw one or two texts, by their names, with what the score loses without each sentence."""
    largest = max((abs(e.drop) for e in effects if e.drop is not None), default=0.0)
    most = MAX_LIVE_SENTENCES if is_live else MAX_SENTENCES
    columns = []
    for place, (name, text) in enumerate(texts.items()):
        effect_of = {
            e.unit.sentence: e for e in effects if (e.side, e.number) == (text.side, text.number)
        }
        ranked = sorted(effect_of, key=lambda k: -abs(effect_of[k].drop or 0.0))
        bars = {k: _effect_bar(effect, largest) for k, effect in effect_of.items()}
        is_left = place == 0
        column = _Column(text, name, is_left, ranked, most, bars=bars, language=language)
        columns.append(column)
    foot = (
        "Numbers: what the score loses when the sentence is left out. Blue raises the score, "
        "orange lowers it."
    )
    label = f"{metric} of a candidate, sentence by sentence"
    return _document([_heading(title, score)], columns, [], foot, label)


def _effect_bar(effect: SentenceEffect, largest: float) -> tuple[str, str]:
    """Return colour and label of the bar of a sentence."""
    if effect.drop is None:
        return _MUTED, "–"
    label = signed_text(effect.drop)
    if not is_shown(effect.drop) or abs(effect.drop) < largest / 50:
        return _MUTED, label
    return (_BLUE if effect.drop > 0 else _ORANGE), label


class _Column:
    """One text, laid out line by line, as `parts` of a picture."""

    def __init__(
        self,
        text: TextUnits,
        name: str,
        is_left: bool,
        wanted: Sequence[int],
        most: int,
        *,
        tints: Mapping[int, str] = MappingProxyType({}),
        titles: Mapping[int, str] = MappingProxyType({}),
        bars: Mapping[int, tuple[str, str]] = MappingProxyType({}),
        language: str = "",
    ) -> None:
        """Lay out the sentences that are wanted most, in the order of the text.

        `tints` are colours of points, `titles` say what moves from or to them; `bars` are colour
        and label of sentences; `language` is that of the text, where it is known.
        """
        self.text, self.is_left, self._tints, self._titles = text, is_left, tints, titles
        self._language = language
        self.x = _MARGIN if is_left else _MARGIN + _COLUMN + _GUTTER
        self.bar_x = self.x + _COLUMN + 8 if is_left else self.x - 8 - _BAR
        self.parts = [_text(self.x, _TOP - 18, name, size=13, colour=_MUTED, weight=600)]
        self.words: dict[int, tuple[float, float, float]] = {}  # left, right, baseline of a unit
        self.bars: dict[int, tuple[float, float]] = {}  # top, bottom of a sentence
        self.bottom = _TOP
        listed = list(text.sentences())
        shown = set(list(dict.fromkeys([*wanted, *range(len(listed))]))[:most])
        for is_shown_, group in groupby(range(len(listed)), key=shown.__contains__):
            numbers = list(group)
            if not is_shown_:
                said = f"… {counted(len(numbers), 'sentence')} …"
                self.parts.append(_text(self.x, self.bottom + 16, said, size=12, colour=_MUTED))
                self.bottom += _LINE_HEIGHT + _SENTENCE_GAP
                continue
            for k in numbers:
                sentence, words = listed[k]
                top, end = self.bottom + 3, self._sentence(sentence, words) + 6
                self.bars[k], self.bottom = (top, end), end + 1 + _SENTENCE_GAP
                self._bar(sentence, top, end, *bars.get(k, (_BLUE, "")))

    def end(self, point: int) -> Place | None:
        """Return where lines of a point begin or end; None if it is not shown."""
        sentence = _sentence_of(self.text, point)
        if sentence not in self.bars:
            return None
        if self.text.points[point].kind == SENTENCE:
            top, bottom = self.bars[sentence]
            return self.bar_x + (_BAR if self.is_left else 0.0), (top + bottom) / 2
        word = self.text.points[point].units[0]
        if word not in self.words:  # it is within a grapheme of the word before it
            return None
        left, right, baseline = self.words[word]
        return (left if self.is_left else right), baseline + 6.5

    def _sentence(self, sentence: Unit, words: Sequence[tuple[int, Unit]]) -> float:
        """Lay out one sentence and return the baseline of its last line."""
        spans = [(unit.start - sentence.start, unit.stop - sentence.start) for _, unit in words]
        baseline = self.bottom + 17
        self.parts.append(f'<g xml:lang="{escape(self._language)}">' if self._language else "<g>")
        for number, line in enumerate(lines_of(sentence.text, spans, _COLUMN, _FONT_SIZE)):
            baseline = self.bottom + 17 + number * _LINE_HEIGHT
            for box in line:
                self._box(box, baseline, None if box.word is None else words[box.word])
        self.parts.append("</g>")
        return baseline

    def _box(self, box: Box, baseline: float, word: tuple[int, Unit] | None) -> None:
        """Draw a word, a part of one, or what stands between words (`None`)."""
        x, width = self.x + box.left, box.width
        start, direction = (x + width, ' direction="rtl"') if box.is_from_right else (x, "")
        colour = _INK if word and word[1].is_kept else _NOT_COUNTED
        # whatever font there is, the word is as wide as the layout takes it
        fixed = f'{direction} textLength="{width:.1f}" lengthAdjust="spacingAndGlyphs"'
        drawn = _text(start, baseline, box.text, colour=colour, more=fixed)
        if word is None:
            self.parts.append(drawn)
            return
        k, unit = word
        self._place(k, x, x + width, baseline)
        tint = ""
        if unit.point is not None and unit.point in self._tints:
            tint = (
                f'<rect x="{x - 1.5:.1f}" y="{baseline - 13:.1f}" width="{width + 3:.1f}" '
                f'height="17" rx="3" fill="{self._tints[unit.point]}" fill-opacity="0.16"/>'
            )
        data, title = self._data(unit)
        self.parts.append(f"<g{data}>{title}{tint}{drawn}</g>" if data else f"{tint}{drawn}")

    def _place(self, k: int, left: float, right: float, baseline: float) -> None:
        """Remember where a word stands; one that goes on in another line, where it begins."""
        known = self.words.setdefault(k, (left, right, baseline))
        if known[2] == baseline:
            self.words[k] = (min(known[0], left), max(known[1], right), baseline)

    def _data(self, unit: Unit) -> tuple[str, str]:
        """Return what a word or sentence says of itself: an attribute, and its title."""
        if unit.dropped is not None:
            return ' data-why=""', _title(f"{isolated(unit.text)} does not count: {unit.dropped}")
        if unit.point is None:
            return "", ""
        side = "c" if self.is_left else "o"
        return f' data-p="{side}{unit.point}"', _title(self._titles.get(unit.point, ""))

    def _bar(self, sentence: Unit, top: float, bottom: float, colour: str, label: str) -> None:
        data, title = self._data(sentence)
        self.parts.append(
            f'<rect{data} x="{self.bar_x:.1f}" y="{top:.1f}" width="{_BAR:g}" '
            f'height="{bottom - top:.1f}" rx="2" fill="{colour}">{title}</rect>'
        )
        if label:
            x = self.bar_x + (12 if self.is_left else -7)
            anchor = f' text-anchor="{"start" if self.is_left else "end"}"'
            middle = (top + bottom) / 2 + 4
            self.parts.append(_text(x, middle, label, size=12, colour=colour, more=anchor))


def _sentence_of(text: TextUnits, point: int) -> int:
    return text.units[text.points[point].units[0]].sentence


def _line(start: Place, end: Place, width: float, colour: str, attributes: str, title: str) -> str:
    """Run under the word's line of text to the edge, across the gutter, under the other."""
    (x1, y1), (x2, y2) = start, end
    middle = sum(_EDGES) / 2
    curve = f"{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {_EDGES[1]:.1f} {y2:.1f}"
    return (
        f'<path{attributes} d="M{x1:.1f} {y1:.1f}H{_EDGES[0]:.1f}'
        f'C{curve}H{x2:.1f}" fill="none" stroke="{colour}" '
        f'stroke-width="{width:.2f}" stroke-opacity="0.62" stroke-linejoin="round">'
        f"{_title(title)}</path>"
    )


def _title(text: str) -> str:
    """Write what a browser shows when a mark is pointed at."""
    return f"<title>{xml_text(text)}</title>" if text else ""


def _flow_title(moves: Moves, flow: Flow) -> str:
    return (
        f"{_name_of(moves.candidate, flow.candidate)} → {_name_of(moves.other, flow.other)}: mass "
        f"{flow.mass:.4f} at cost {flow.cost:.2f}, adds {flow.contribution:.4f} to the distance"
    )


def _point_titles(moves: Moves, side: int) -> dict[int, str]:
    """Say of each point of one side where its mass goes, or comes from."""
    texts, verb = (moves.candidate, moves.other), ("moves to", "is reached from")[side]
    flows_of: dict[int, list[Flow]] = {}
    for flow in moves.flows:
        flows_of.setdefault((flow.candidate, flow.other)[side], []).append(flow)
    titles = {}
    for point, flows in flows_of.items():
        flows.sort(key=lambda flow: -flow.mass)
        partners = [
            f"{_name_of(texts[1 - side], (flow.other, flow.candidate)[side])} "
            f"({flow.mass:.4f} at {flow.cost:.2f})"
            for flow in flows[:MAX_PARTNERS]
        ]
        more = f" and {len(flows) - MAX_PARTNERS} more" if len(flows) > MAX_PARTNERS else ""
        mass, added = (
            math.fsum(values)
            for values in ((f.mass for f in flows), (f.contribution for f in flows))
        )
        titles[point] = (
            f"{_name_of(texts[side], point)}, mass {mass:.4f}, {verb} {', '.join(partners)}{more}; "
            f"adds {added:.4f} to the distance"
        )
    return titles


def _name_of(text: TextUnits, point: int) -> str:
    found = text.points[point]
    if found.kind == SENTENCE:
        return f"sentence {text.units[found.units[0]].sentence + 1}"
    return isolated(found.text)


def _label_place(y1: float, y2: float, taken: Sequence[Place]) -> Place | None:
    """Find a place on a line's curve across the gutter where no label is yet."""
    middle = sum(_EDGES) / 2
    for t in _LABEL_PLACES:
        x = (1 - t) ** 3 * _EDGES[0] + 3 * t * (1 - t) * middle + t**3 * _EDGES[1]
        y = y1 + (3 * t * t - 2 * t * t * t) * (y2 - y1)
        if all(abs(x - u) >= _LABEL_SIZE[0] or abs(y - v) >= _LABEL_SIZE[1] for u, v in taken):
            return x, y
    return None


def _document(
    parts: Sequence[str], columns: Sequence[_Column], labels: Sequence[str], foot: str, label: str
) -> str:
    height = max(column.bottom for column in columns) + 40
    drawn = "".join([*parts, *(part for column in columns for part in column.parts), *labels])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {height:.0f}" '
        f'width="{_WIDTH:g}" height="{height:.0f}" role="img" aria-label="{escape(label)}" '
        "font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\">"
        f'<rect width="{_WIDTH:g}" height="{height:.0f}" fill="#ffffff"/>{drawn}'
        f"{_text(_MARGIN, height - 14, foot, size=11.5, colour=_MUTED)}</svg>"
    )


def _heading(title: str, numbers: str) -> str:
    if not title:
        return _text(_MARGIN, 34, numbers, size=17, weight=600)
    return _text(_MARGIN, 30, isolated(title), size=17, weight=600) + _text(
        _MARGIN, 50, numbers, size=13, colour=_MUTED
    )


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: float = _FONT_SIZE,
    colour: str = _INK,
    weight: int = 400,
    more: str = "",
) -> str:
    """Write a text; `more` are further attributes."""
    bold = f' font-weight="{weight}"' if weight != 400 else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{colour}"{bold}{more}>'
        f"{xml_text(text)}</text>"
    )
