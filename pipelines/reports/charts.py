"""Charts as SVG, drawn here without a library: on pages, and as files for papers.

A mark has a class, which says its colour: on a page that of the theme, in a file a fixed one. Where
it has a title, a browser shows that when the mark is pointed at. Nothing is measured by a browser:
texts are as wide as they are in Helvetica.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from markupsafe import Markup

from pipelines.reports.numbers import MINUS, number_text
from sms.svg_text import text_width, xml_text
from sms.writing import ending, isolated

FONT_SIZE = 12
STYLE = Path(__file__).with_name("templates") / "charts.css"
"""What marks look like; its colours are variables."""
FILE_COLOURS: Mapping[str, str] = {
    "ink": "#000000",
    "muted": "#444444",
    "rule": "#dddddd",
    "rule-strong": "#777777",
    "paper": "#ffffff",
    "accent": "#17568c",
    "counter": "#a8480f",
}
"""The variables, in a file."""
FILE_FONT = (
    f'font-size="{FONT_SIZE}" font-family="Helvetica, Arial, \'Liberation Sans\', sans-serif"'
)
N_SERIES = 8
"""Colours of lines and bars that a legend names; more of them are dashed."""
MOST_TICKS = 8
MOST_DECIMALS = 4
"""Of a number at an axis; other numbers are written with an exponent."""
LARGEST_TICK = 1e6
"""The first that is written with an exponent."""
SMALLEST_SPAN, LARGEST_SPAN = 1e-12, 1e12
"""Between these an axis has ticks at round numbers."""
OTHER_FONTS = 1.15
"""How much wider than Helvetica the font of a reader may be."""
SHORT_NAME = 48
"""Pixels of a name beside a dot that is as wide as the font makes it."""
LONGEST_LABEL, LONGEST_TITLE = 20, 36
"""Cells of a terminal that a name in a chart fills, and the title of a chart or an axis; a wide
character fills two."""

Place = tuple[float, float]
Ends = tuple[float | None, float | None]
Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


# Axes


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One side of a chart: its ends, what is written along it, and its title."""

    low: float
    high: float
    labels: Mapping[float, str]
    """By value."""
    title: str = ""

    @classmethod
    def of_numbers(cls, values: Iterable[float | None], title: str = "") -> Axis:
        """Begin and end at round numbers around the values that are defined.

        Where numbers are too large or too small for that, the ends are the values.
        """
        known = [value for value in values if value is not None and math.isfinite(value)]
        low, high = _apart(min(known, default=0.0), max(known, default=1.0))
        span = high - low
        if not SMALLEST_SPAN < span < LARGEST_SPAN:
            ticks, n_decimals = [low, high], MOST_DECIMALS + 1
        else:
            step = _round_step(span)
            first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
            n_decimals = max(0, -math.floor(math.log10(step) + 1e-9))
            ticks = [round(k * step, n_decimals) for k in range(first, last + 1)]
        labels = {tick: _tick_text(tick, n_decimals) for tick in ticks}
        return cls(low=ticks[0], high=ticks[-1], labels=labels, title=title)

    @classmethod
    def of_names(cls, names: Sequence[str], title: str = "") -> Axis:
        """Give each name a place of its own: 0, 1, 2, ..."""
        labels = {float(k): short_name(name) for k, name in enumerate(names)}
        return cls(low=-0.5, high=len(names) - 0.5, labels=labels, title=title)

    def share(self, value: float) -> float:
        """Return where a value is, from 0 at the low end to 1 at the high one."""
        largest = max(abs(self.low), abs(self.high))  # a span may be too large for a float
        low, high, value = (each / largest for each in (self.low, self.high, value))
        return (value - low) / (high - low)


def _apart(low: float, high: float) -> Place:
    """Move two ends apart that are equal, or nearly so."""
    largest = max(abs(low), abs(high))
    if largest > LARGEST_SPAN:
        return min(low, 0.0), max(high, 0.0)
    if high - low <= 1e-9 * largest:
        margin = max(largest or 1.0, 1e-300) / 10  # of the smallest numbers there is no tenth
        return low - margin, high + margin
    return low, high


def _round_step(span: float) -> float:
    power = 10.0 ** math.floor(math.log10(span / MOST_TICKS))
    return next(k * power for k in (1, 2, 5, 10) if k * power * MOST_TICKS >= span)


def _tick_text(tick: float, n_decimals: int) -> str:
    if n_decimals <= MOST_DECIMALS and abs(tick) < LARGEST_TICK:
        return number_text(tick, n_decimals)
    return f"{tick:.3g}".replace("-", MINUS)


def short_name(name: str, longest: int = LONGEST_LABEL) -> str:
    """Shorten a name at its beginning: what tells names apart is mostly at the end."""
    return ending(name, longest)


# Charts of two axes


class Chart:
    """Marks between two axes; later ones lie on earlier ones."""

    def __init__(
        self,
        x: Axis,
        y: Axis,
        *,
        width: float = 190,
        height: float = 150,
        title: str = "",
        has_grid: bool = True,
    ) -> None:
        """Begin without marks; the size in pixels is that of the area between the axes."""
        self.x, self.y, self.width, self.height = x, y, width, height
        self.title, self.has_grid = title, has_grid
        self._marks: list[str] = []
        self._whiskers: list[str] = []
        self._dots: list[Place] = []
        self._names: list[tuple[Place, str]] = []

    def dot(self, x: float, y: float, kind: str, title: str = "", name: str = "") -> None:
        """Draw a value; its name stands beside it if there is room."""
        place = self._place(x, y)
        self._add(f'circle class="{kind}" cx="{_px(place[0])}" cy="{_px(place[1])}" r="4"', title)
        self._dots.append(place)
        if name:
            self._names.append((place, name))

    def cross(self, x: float, y: float, across: Ends, upright: Ends) -> None:
        """Draw the intervals of a value on both axes, where they are known."""
        (left, right), (low, high) = across, upright
        if left is not None and right is not None:
            (start, level), (end, _) = self._place(left, y), self._place(right, y)
            self._whiskers.append(f"M{_px(start)} {_px(level)}H{_px(end)}")
        if low is not None and high is not None:
            (middle, start), (_, end) = self._place(x, low), self._place(x, high)
            self._whiskers.append(f"M{_px(middle)} {_px(start)}V{_px(end)}")

    def line(self, points: Iterable[Place], kind: str, title: str = "") -> None:
        """Join points."""
        self._add(f'polyline class="{kind}" points="{self._path(points)}"', title)

    def area(self, points: Iterable[Place], kind: str) -> None:
        """Fill what lies inside points."""
        self._add(f'polygon class="{kind}" points="{self._path(points)}"')

    def bar(self, start: Place, end: Place, kind: str, title: str = "", text: str = "") -> None:
        """Fill a rectangle between two corners, and write in its middle."""
        (x1, y1), (x2, y2) = self._place(*start), self._place(*end)
        left, top = min(x1, x2), min(y1, y2)
        size = f'width="{_px(abs(x2 - x1))}" height="{_px(abs(y2 - y1))}"'
        self._add(f'rect class="{kind}" x="{_px(left)}" y="{_px(top)}" {size}', title)
        if text:
            where = f'x="{_px((x1 + x2) / 2)}" y="{_px((y1 + y2) / 2 + 4)}" text-anchor="middle"'
            self._marks.append(f'<text class="name" {where}>{_label(text)}</text>')

    def svg(self, label: str, *, is_file: bool = False) -> Markup:
        """Draw the chart alone."""
        return drawn([[self]], label, is_file=is_file)

    def parts(self) -> list[str]:
        """Draw title, axes and marks, from the corner between the axes and the title."""
        whiskers = f'<path class="whisker" d="{"".join(self._whiskers)}"/>'
        below = [whiskers] if self._whiskers else []
        return [*self._axes(), *below, *self._marks, *self._placed_names()]

    def margins(self) -> Box:
        """Return the room that labels and titles take at the left, top, right and bottom."""
        widest = max((text_width(text, FONT_SIZE) for text in self.y.labels.values()), default=0.0)
        last = text_width([*self.x.labels.values(), ""][0], FONT_SIZE) / 2
        left = 8 + OTHER_FONTS * widest + (20 if self.y.title else 0)
        top = 24 if self.title else 8
        return left, top, max(8.0, last), 22 + (20 if self.x.title else 0)

    def _axes(self) -> Iterable[str]:
        xs = [(self.x.share(value) * self.width, text) for value, text in self.x.labels.items()]
        ys = [((1 - self.y.share(v)) * self.height, text) for v, text in self.y.labels.items()]
        below, middle = _px(self.height + 16), _px(self.width / 2)
        if self.has_grid:
            upright = "".join(f"M{_px(x)} 0V{_px(self.height)}" for x, _ in xs)
            level = "".join(f"M0 {_px(y)}H{_px(self.width)}" for y, _ in ys)
            yield f'<path class="grid" d="{upright}{level}"/>'
        yield '<g text-anchor="middle">'
        widest = OTHER_FONTS * max((text_width(text, FONT_SIZE) for _, text in xs), default=0.0)
        step = math.ceil((widest + 4) * max(len(xs) - 1, 1) / self.width)
        for x, text in xs[::step]:  # as many as there is room for
            yield f'<text x="{_px(x)}" y="{below}">{_label(text)}</text>'
        if self.title:
            yield f'<text class="title" x="{middle}" y="-8">{_titled(self.title)}</text>'
        if self.x.title:
            place = f'x="{middle}" y="{_px(self.height + 36)}"'
            yield f'<text class="title" {place}>{_titled(self.x.title)}</text>'
        if self.y.title:
            place = f"translate({_px(12 - self.margins()[0])} {_px(self.height / 2)}) rotate(-90)"
            yield f'<text class="title" transform="{place}">{_titled(self.y.title)}</text>'
        yield '</g><g text-anchor="end">'
        yield from (f'<text x="-8" y="{_px(y + 4)}">{_label(text)}</text>' for y, text in ys)
        yield "</g>"

    def _placed_names(self) -> Iterable[str]:
        """Write names where they lie on no dot, on no other name and inside the chart."""
        taken: list[Box] = [(x - 5, y - 5, x + 5, y + 5) for x, y in self._dots]
        for (x, y), name in self._names:
            shown = short_name(name)
            width = text_width(shown, FONT_SIZE)
            for dx, dy in product((7, -7 - width, -width / 2), (4, -8, 17)):
                box = (x + dx, y + dy - 10, x + dx + width, y + dy + 3)
                is_inside = box[0] >= 0 and box[2] <= self.width and box[1] >= 0
                if is_inside and box[3] <= self.height and not any(_meet(box, b) for b in taken):
                    taken.append(box)
                    place = f'x="{_px(box[0])}" y="{_px(y + dy)}"'
                    if width > SHORT_NAME:
                        # whatever font there is, the name is as wide as this takes it
                        place += f' textLength="{_px(width)}" lengthAdjust="spacingAndGlyphs"'
                    yield f'<text class="name" {place}>{_label(shown)}</text>'
                    break

    def _add(self, element: str, title: str = "") -> None:
        name = element.partition(" ")[0]
        inside = f"><title>{xml_text(title)}</title></{name}>" if title else "/>"
        self._marks.append(f"<{element}{inside}")

    def _place(self, x: float, y: float) -> Place:
        return self.x.share(x) * self.width, (1 - self.y.share(y)) * self.height

    def _path(self, points: Iterable[Place]) -> str:
        return " ".join(f"{_px(x)},{_px(y)}" for x, y in (self._place(*each) for each in points))


def _px(value: float) -> str:
    """Write a place with one decimal, if it needs it."""
    return f"{value:.1f}".removesuffix(".0")


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _label(text: str) -> str:
    """Write a text of a chart, in the direction of its own letters."""
    return xml_text(isolated(text))


def _titled(text: str) -> str:
    return _label(short_name(text, LONGEST_TITLE))


def series(number: int) -> str:
    """Return the class of a line or bar that a legend names."""
    return f"series series-{number % N_SERIES}" + (" dashed" if number >= N_SERIES else "")


def drawn(
    rows: Sequence[Sequence[Chart]],
    label: str,
    *,
    legend: Sequence[str] = (),
    is_file: bool = False,
) -> Markup:
    """Draw charts in rows, with a legend of their series above them, as one SVG.

    A file has its colours in it and no need of a page.
    """
    charts = [chart for row in rows for chart in row]
    left, top, right, bottom = (
        max(side) for side in zip(*(c.margins() for c in charts), strict=True)
    )
    step_x = left + max(chart.width for chart in charts) + right + 8
    step_y = top + max(chart.height for chart in charts) + bottom + 8
    width = step_x * max(map(len, rows))
    parts, legend_height = _legend(legend, width)
    for i, row in enumerate(rows):
        for j, chart in enumerate(row):
            x, y = j * step_x + left, i * step_y + top + legend_height
            parts += [f'<g transform="translate({x:.1f} {y:.1f})">', *chart.parts(), "</g>"]
    height = legend_height + step_y * len(rows)
    size = f'width="{width:.0f}" height="{height:.0f}"'
    parts = [
        f'<style>{_file_style()}</style><rect class="back" {size}/>' if is_file else "",
        *parts,
    ]
    of_file = f'xmlns="http://www.w3.org/2000/svg" {FILE_FONT} ' if is_file else ""
    return Markup(
        f'<svg {of_file}class="chart" viewBox="0 0 {width:.0f} {height:.0f}" {size} role="img" '
        f'aria-label="{xml_text(label)}">{"".join(parts)}</svg>'
    )


def _legend(names: Sequence[str], width: float) -> tuple[list[str], float]:
    """Write the names of the series in lines, and return the height of these lines."""
    parts, x, y = [], 8.0, 18.0
    for number, name in enumerate(names):
        needed = 18 + OTHER_FONTS * text_width(name, FONT_SIZE)
        if x > 8 and x + needed > width:
            x, y = 8.0, y + 18
        parts.append(f'<path class="key {series(number)}" d="M{x:.1f} {y - 4:g}h12"/>')
        parts.append(f'<text x="{x + 17:.1f}" y="{y:g}">{_label(name)}</text>')
        x += needed + 16
    return parts, y + 8 if names else 0.0


def _file_style() -> str:
    style = STYLE.read_text("utf-8")
    return re.sub(r"var\(--([\w-]+)\)", lambda found: FILE_COLOURS[found[1]], style)


# Small charts in a line of text or a cell of a table, as wide as there is room


@dataclass(frozen=True, slots=True)
class Mark:
    """A value on a strip."""

    value: float
    kind: str = "mark"
    title: str = ""


def strip(
    axis: Axis,
    marks: Iterable[Mark],
    *,
    interval: Ends = (None, None),
    lines: Iterable[Mark] = (),
    label: str = "",
) -> Markup:
    """Draw values as dots on a line, over an interval and upright lines.

    Without a label it says nothing that the text beside it does not say.
    """
    parts = [f'<rect class="{line.kind}" {_across(axis, line.value)}/>' for line in lines]
    low, high = interval
    if low is not None and high is not None and low <= high:  # False for NaN
        start, end = 100 * axis.share(low), 100 * axis.share(high)
        parts.append(f'<rect class="interval" x="{start:.1f}%" width="{end - start:.1f}%"/>')
    for mark in marks:
        inside = f"><title>{xml_text(mark.title)}</title></circle>" if mark.title else "/>"
        parts.append(f'<circle class="{mark.kind}" c{_across(axis, mark.value)}{inside}')
    role = f'role="img" aria-label="{xml_text(label)}"' if label else 'aria-hidden="true"'
    return Markup(f'<svg class="strip" {role}>{"".join(parts)}</svg>')


def spot(axis: Axis, value: float, interval: Ends = (None, None)) -> str:
    """Say where one value and its interval lie, as the style of an element in a `bar-cell`.

    The style sheet draws them: a table of thousands of rows stays small.
    """
    low, high = interval
    places = {"at": value}
    if low is not None and high is not None and low <= high:  # False for NaN
        places |= {"from": low, "to": high}
    return _places(axis, places)


def upright(axis: Axis, lines: Iterable[Mark]) -> str:
    """Say where upright lines of a kind lie, as a style for all spots in a table or in one cell."""
    return _places(axis, {line.kind: line.value for line in lines})


def _places(axis: Axis, places: Mapping[str, float]) -> str:
    return ";".join(f"--{name}:{100 * axis.share(x):.1f}" for name, x in places.items())


def ticks(axis: Axis) -> Markup:
    """Write the numbers of an axis above strips."""
    middle = 'y="12" text-anchor="middle"'
    texts = (
        f"<text {_across(axis, value)} {middle}>{xml_text(text)}</text>"
        for value, text in axis.labels.items()
    )
    return Markup(f'<svg class="ticks" aria-hidden="true">{"".join(texts)}</svg>')


def _across(axis: Axis, value: float) -> str:
    return f'x="{100 * axis.share(value):.1f}%"'


def columns(values: Sequence[float], titles: Sequence[str], label: str) -> Markup:
    """Draw values as columns side by side, those below 0 downwards."""
    lowest, highest = min(0.0, *values), max(0.0, *values)
    largest = max(-lowest, highest) or 1.0
    parts = [
        f'<rect class="{"below" if value < 0 else "above"}" x="{k + 0.05:.2f}" width=".9" '
        f'y="{-max(value, 0.0) / largest:.3f}" height="{abs(value) / largest:.3f}">'
        f"<title>{xml_text(title)}</title></rect>"
        for k, (value, title) in enumerate(zip(values, titles, strict=True))
    ]
    box = f"0 {-highest / largest:.3f} {len(values)} {(highest - lowest) / largest or 1.0:.3f}"
    return Markup(
        f'<svg class="columns" viewBox="{box}" preserveAspectRatio="none" role="img" '
        f'aria-label="{xml_text(label)}">{"".join(parts)}</svg>'
    )
