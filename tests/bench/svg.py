"""Charts as SVG text: axes with units, points, lines, a legend; readable on a light and on a dark page. Pure.

Colours come as classes with a second set for dark pages, and every series has a shape or a dash of its own besides.
"""

from __future__ import annotations

import dataclasses
import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 820, 470
LEFT, RIGHT, TOP, BOTTOM = 72, 596, 66, 404  # the plotted area
LEGEND = 616
#: For light and for dark pages; each has a contrast of at least 3 to its own.
COLOURS = (("#2065b4", "#6cb0ff"), ("#b8550b", "#f5a04c"), ("#1a7f4e", "#4fce90"), ("#8347b8", "#c49af5"),
           ("#c0354a", "#ff8490"), ("#0b7c8c", "#45c8da"), ("#6d6200", "#d6bf3d"))
LIGHT = {"page": "#ffffff", "ink": "#1b2027", "dim": "#5a6472", "grid": "#e2e6eb", "axis": "#7a8492"}
DARK = {"page": "#12161c", "ink": "#e8ecf1", "dim": "#a3adba", "grid": "#2a313b", "axis": "#7a8492"}
#: Round a point of 0, 0.
SHAPES = {
    "circle": "M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0z",
    "square": "M-4,-4h8v8h-8z",
    "triangle": "M0,-5.2L5,3.8H-5z",
    "diamond": "M0,-5.6L5,0L0,5.6L-5,0z",
    "wedge": "M0,5.2L5,-3.8H-5z",
    "plus": "M-1.6,-5h3.2v3.4h3.4v3.2h-3.4v3.4h-3.2v-3.4h-3.4v-3.2h3.4z",
    "hourglass": "M-4.5,-5h9L0.9,0L4.5,5h-9L-0.9,0z",
}


@dataclasses.dataclass(frozen=True)
class Axis:
    """From `low` to `high`; on a logarithmic one both are above 0."""

    label: str
    low: float
    high: float
    log: bool = False
    #: Instead of numbers: names at 0, 1, 2...
    names: tuple[str, ...] = ()

    def share(self, value: float) -> float:
        """0 at its beginning, 1 at its end."""
        if self.log:
            value = max(value, self.low / 10)
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[tuple[float, str]]:
        if self.names:
            return [(float(i), name) for i, name in enumerate(self.names)]
        values = decades(self.low, self.high) if self.log else steps(self.low, self.high)
        return [(value, f"{value:.6g}") for value in values]


@dataclasses.dataclass(frozen=True)
class Point:
    """With what is shown when one points at it; `low` and `high` are the ends of its interval."""

    x: float
    y: float
    words: str
    low: float | None = None
    high: float | None = None


@dataclasses.dataclass(frozen=True)
class Series:
    """Points of one colour and shape."""

    name: str
    colour: int
    points: list[Point]
    shape: str = "circle"
    hollow: bool = False


@dataclasses.dataclass(frozen=True)
class Line:
    """A polyline; without a colour it is a thing of reference, without points an entry of the legend."""

    name: str
    points: list[tuple[float, float]]
    colour: int | None = None
    dashed: bool = False


def linear(label: str, values: list[float], whole: bool = True) -> Axis:
    """Holds all values, and ends at ticks; `whole`: begins at 0, where nothing is below."""
    low = min([*values, 0.0] if whole else values, default=0.0)
    high = max(values, default=1.0)
    if high <= low:
        high = low + 1
    ticks = steps(low, high)
    step = ticks[1] - ticks[0]
    return Axis(label, math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step)


def logarithmic(label: str, values: list[float]) -> Axis:
    """Holds all values above 0, with some room."""
    known = [value for value in values if value > 0] or [1.0]
    return Axis(label, min(known) / 1.25, max(known) * 1.25, log=True)


def steps(low: float, high: float) -> list[float]:
    """Round numbers, five to ten of them."""
    rough = (high - low) / 5
    size = 10 ** math.floor(math.log10(rough))
    step = max(factor * size for factor in (1, 2, 5) if factor * size <= rough * (1 + 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def decades(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten, or only these where there are many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if len(powers) <= 4 else (1,)
    return [factor * 10.0 ** power for power in powers for factor in factors if low <= factor * 10.0 ** power <= high]


@dataclasses.dataclass(frozen=True)
class Chart:
    """`notes` stand under the title, one a line."""

    title: str
    notes: list[str]
    x: Axis
    y: Axis
    series: list[Series]
    lines: list[Line]

    def svg(self) -> str:
        words = " ".join([self.title, *self.notes])
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
            f'role="img" aria-label="{_quoted(words)}">',
            f"<style>{_style()}</style>",
            f'<clipPath id="area"><rect x="{LEFT}" y="{TOP}" width="{RIGHT - LEFT}" height="{BOTTOM - TOP}"/></clipPath>',
            f'<rect class="page" width="{WIDTH}" height="{HEIGHT}"/>',
            _text(LEFT, 24, self.title, "title"),
            *(_text(LEFT, 41 + 14 * i, note, "dim") for i, note in enumerate(self.notes)),
            *self._axes(), '<g clip-path="url(#area)">', *(self._line(line) for line in self.lines if line.points), "</g>",
            *(part for one in self.series for part in self._points(one)), *self._legend(), "</svg>"]
        return "\n".join(parts) + "\n"

    def _at(self, x: float, y: float) -> tuple[float, float]:
        return (round(LEFT + self.x.share(x) * (RIGHT - LEFT), 2), round(BOTTOM - self.y.share(y) * (BOTTOM - TOP), 2))

    def _axes(self) -> list[str]:
        parts = []
        for value, text in self.x.ticks():
            at = self._at(value, self.y.low)[0]
            if not self.x.names:
                parts.append(f'<path class="grid" d="M{at},{TOP}V{BOTTOM}"/>')
            parts.append(_text(at, BOTTOM + 17, text, "dim mid"))
        for value, text in self.y.ticks():
            at = self._at(self.x.low, value)[1]
            parts += [f'<path class="grid" d="M{LEFT},{at}H{RIGHT}"/>', _text(LEFT - 8, at + 4, text, "dim end")]
        middle = (TOP + BOTTOM) / 2
        return [*parts, f'<path class="axis" d="M{LEFT},{TOP}V{BOTTOM}H{RIGHT}"/>',
                _text((LEFT + RIGHT) / 2, BOTTOM + 42, self.x.label, "ink mid"),
                f'<text class="ink mid" transform="translate(20,{middle}) rotate(-90)">{escape(self.y.label)}</text>']

    def _line(self, line: Line) -> str:
        path = "M" + "L".join(f"{x},{y}" for x, y in (self._at(*point) for point in line.points))
        return f'<path class="{_line_class(line)}" d="{path}"/>'

    def _points(self, series: Series) -> list[str]:
        parts = [f'<g data-series="{_quoted(series.name)}">']
        for point in series.points:
            x, y = self._at(point.x, point.y)
            if point.low is not None and point.high is not None:
                low, high = (min(max(self._at(point.x, end)[1], TOP), BOTTOM) for end in (point.low, point.high))
                parts.append(f'<path class="bar l{series.colour}" d="M{x},{low}V{high}M{x - 3},{low}h6M{x - 3},{high}h6"/>')
            parts.append(f'<g class="point" transform="translate({x},{y})"><title>{escape(point.words)}</title>'
                         f'<path class="{_point_class(series)}" d="{SHAPES[series.shape]}"/></g>')
        return [*parts, "</g>"]

    def _legend(self) -> list[str]:
        parts = []
        y = TOP + 8
        entries: list[Series | Line] = [*self.series, *self.lines]
        for entry in entries:
            if not entry.name:
                continue
            first, *rest = entry.name.split("\n")
            if isinstance(entry, Series):
                parts.append(f'<path class="{_point_class(entry)}" transform="translate({LEGEND + 12},{y})" d="{SHAPES[entry.shape]}"/>')
            else:
                parts.append(f'<path class="{_line_class(entry)}" d="M{LEGEND},{y}h24"/>')
            parts.append(_text(LEGEND + 32, y + 4, first, "ink"))
            for more in rest:
                y += 15
                parts.append(_text(LEGEND + 32, y + 4, more, "dim"))
            y += 21
        return parts


def _line_class(line: Line) -> str:
    colour = "reference" if line.colour is None else f"l{line.colour}"
    return f"line {colour}{' dashed' if line.dashed else ''}"


def _point_class(series: Series) -> str:
    return f"hollow l{series.colour}" if series.hollow else f"full f{series.colour}"


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text x="{round(x, 2)}" y="{round(y, 2)}" class="{kind}">{escape(text)}</text>'


def _quoted(text: str) -> str:
    return escape(text, {'"': "&quot;", "\n": " "})


def _colours(set_: int, base: dict[str, str]) -> str:
    rules = [f".page{{fill:{base['page']}}}.ink,.title{{fill:{base['ink']}}}.dim{{fill:{base['dim']}}}",
             f".grid{{stroke:{base['grid']}}}.axis,.reference{{stroke:{base['axis']}}}",
             f".full{{stroke:{base['page']}}}.hollow{{fill:{base['page']}}}"]
    rules += [f".f{i}{{fill:{pair[set_]}}}.l{i}{{stroke:{pair[set_]}}}" for i, pair in enumerate(COLOURS)]
    return "".join(rules)


def _style() -> str:
    """The dark set is the reader's wish, as told by the browser."""
    return ("text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}.title{font-size:15px;font-weight:600}"
            ".mid{text-anchor:middle}.end{text-anchor:end}.grid,.axis,.line,.bar{fill:none}.grid,.axis{stroke-width:1}"
            ".line{stroke-width:1.8}.bar{stroke-width:1.2;opacity:.65}.reference{stroke-width:1.3}.dashed{stroke-dasharray:6 4}"
            ".full{stroke-width:1}.hollow{stroke-width:1.8}"
            + _colours(0, LIGHT) + "@media(prefers-color-scheme:dark){" + _colours(1, DARK) + "}")
