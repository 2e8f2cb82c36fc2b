"""Charts: the description in a prompt, and the drawing of it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias, cast

from toolcrib.embedded.images.backend import ImageSize
from toolcrib.embedded.images.canvas import Circle, Drawing, Point, Polygon, Polyline, Shape, Text
from toolcrib.errors import BackendFailed

ChartKind: TypeAlias = Literal["bar", "line", "scatter", "pie"]

FORM: Final = (
    'Write the prompt as JSON: {"chart": "bar" | "line" | "scatter" | "pie", "title": TEXT, '
    '"labels": [TEXT, ...], "series": [{"name": TEXT, "values": [NUMBER, ...]}, ...]}, or as '
    "lines: the title, then `label: number` for each value."
)
MAX_SERIES: Final = 8
MAX_VALUES: Final = 200
_LONGEST_TEXT: Final = 80
_KINDS: Final = ("bar", "line", "scatter", "pie")
_COLORS: Final = (
    "#3366cc", "#dc3912", "#ff9900", "#109618", "#990099", "#0099c6", "#dd4477", "#66aa00",
)  # fmt: skip
_GRID: Final = "#dddddd"
_PAIR: Final = re.compile(r"\s*(?:[-*]\s+)?(.{1,80}?)\s*[:=]\s*(-?[0-9]+(?:\.[0-9]+)?)\s*%?\s*")
_TICKS: Final = 5


@dataclass(frozen=True, slots=True)
class Series:
    """Values under one name, one for each label."""

    name: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """What a chart shows."""

    kind: ChartKind
    title: str
    labels: tuple[str, ...]
    series: tuple[Series, ...]

    @property
    def summary(self) -> str:
        """The chart in one line."""
        count = len(self.labels)
        return f"{self.kind} chart {self.title!r}: {len(self.series)} series of {count} values"

    def first(self, part: float) -> Chart:
        """The chart with only the first part of its values, as it is while being drawn."""
        count = int(len(self.labels) * part)
        series = [replace(each, values=each.values[:count]) for each in self.series]
        return replace(self, series=tuple(series))


def read_chart(prompt: str) -> Chart:
    """Read the description of a chart. The `BackendFailed` says what a prompt has to be."""
    start = prompt.find("{")
    if start >= 0:
        try:
            read = cast(object, json.JSONDecoder().raw_decode(prompt[start:])[0])
        except (ValueError, RecursionError):
            raise _unreadable("its JSON is not valid") from None
        if isinstance(read, dict):
            return _from_json(cast(dict[str, Any], read))
    return _from_lines(prompt)


def _unreadable(why: str) -> BackendFailed:
    return BackendFailed(f"only charts are drawn here, and {why}. {FORM}")


def _from_json(facts: dict[str, Any]) -> Chart:
    kind = facts.get("chart") or facts.get("type") or "bar"
    if kind not in _KINDS:
        raise _unreadable(f"there is no chart {str(kind)[:40]!r}")
    listed = facts.get("series")
    if listed is None and "values" in facts:
        listed = [{"name": "", "values": facts["values"]}]
    if not isinstance(listed, list) or not 1 <= len(cast(list[Any], listed)) <= MAX_SERIES:
        raise _unreadable(f"it needs 1 to {MAX_SERIES} series")
    series = tuple(map(_series, cast(list[object], listed)))
    count = len(series[0].values)
    labels = facts.get("labels")
    if labels is None:
        labels = [str(number) for number in range(1, count + 1)]
    if not isinstance(labels, list):
        raise _unreadable("its labels are no list")
    shown = tuple(_text(label) for label in cast(list[object], labels))
    return _checked(Chart(kind, _text(facts.get("title") or ""), shown, series))


def _series(listed: object) -> Series:
    facts = cast(dict[str, Any], listed) if isinstance(listed, dict) else {"values": listed}
    values = facts.get("values")
    if not isinstance(values, list) or not all(map(_is_number, cast(list[object], values))):
        raise _unreadable("the values of a series are no list of numbers")
    return Series(_text(facts.get("name") or ""), tuple(map(float, cast(list[float], values))))


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(cast(float, value))


def _from_lines(prompt: str) -> Chart:
    pairs: list[tuple[str, float]] = []
    others: list[str] = []
    for line in re.split(r"[\n;,]", prompt):
        pair = _PAIR.fullmatch(line)
        if pair is not None:
            pairs.append((_text(pair[1]), float(pair[2])))
        elif line.strip():
            others.append(line.strip())
    if not pairs:
        raise _unreadable("the prompt has no values")
    words = re.findall(r"[a-z]+", " ".join(others).lower())
    kind = next((word for word in words if word in _KINDS), "bar")
    title = _text(others[0].rstrip(":")) if others else ""
    series = Series("", tuple(value for _, value in pairs))
    labels = tuple(label for label, _ in pairs)
    return _checked(Chart(cast(ChartKind, kind), title, labels, (series,)))


def _text(value: object) -> str:
    text = str(value)[: 2 * _LONGEST_TEXT]
    shown = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return shown if len(shown) <= _LONGEST_TEXT else f"{shown[: _LONGEST_TEXT - 1]}…"


def _checked(chart: Chart) -> Chart:
    count = len(chart.labels)
    if not 1 <= count <= MAX_VALUES:
        raise _unreadable(f"it needs 1 to {MAX_VALUES} values")
    if any(len(series.values) != count for series in chart.series):
        raise _unreadable("each series needs one value for each label")
    if chart.kind == "pie":
        values = chart.series[0].values
        if len(chart.series) != 1 or min(values) < 0 or sum(values) <= 0:
            raise _unreadable("a pie needs one series of values that are not negative")
    return chart


def draw_chart(
    chart: Chart, size: ImageSize, *, whole: Chart | None = None, is_transparent: bool = False
) -> Drawing:
    """The drawing of a chart. The scale is that of `whole`, of which the chart is a part."""
    whole = whole or chart
    shapes: list[Shape] = []
    if chart.title:
        place = (size.width / 2, 24.0)
        shapes.append(Text(chart.title, place, size=18, anchor="middle"))
    if chart.kind == "pie":
        shapes += _pie(chart, whole, size)
    else:
        shapes += _plot(chart, whole, size)
    return Drawing(size, shapes, None if is_transparent else "#ffffff")


@dataclass(frozen=True, slots=True)
class _Frame:
    """The rectangle of a plot, and the values at its lower and upper edge."""

    left: float
    top: float
    right: float
    bottom: float
    low: float
    high: float
    count: int

    def x(self, at: float) -> float:
        """Where the middle of a label's column is."""
        return self.left + (at + 0.5) * (self.right - self.left) / self.count

    def y(self, value: float) -> float:
        """Where a value is."""
        part = (value - self.low) / (self.high - self.low)
        return self.bottom - part * (self.bottom - self.top)


def _plot(chart: Chart, whole: Chart, size: ImageSize) -> Iterable[Shape]:
    values = [value for series in whole.series for value in series.values]
    step = _step(min(0.0, *values), max(0.0, *values))
    low = math.floor(min(0.0, *values) / step) * step
    high = max(math.ceil(max(0.0, *values) / step) * step, low + step)
    bottom = size.height - 44.0
    frame = _Frame(64, 64, size.width - 24.0, bottom, low, high, len(whole.labels))
    for number in range(round((high - low) / step) + 1):
        value = low + number * step
        level = frame.y(value)
        yield Polyline([(frame.left, level), (frame.right, level)], _GRID)
        yield Text(f"{value:g}", (frame.left - 8, level), size=12, anchor="end")
    yield from _labels(whole.labels, frame)
    yield from _legend([series.name for series in chart.series], frame)
    for at, series in enumerate(chart.series):
        yield from _marks(chart.kind, series, at, len(chart.series), frame)
    yield Polyline([(frame.left, frame.y(0)), (frame.right, frame.y(0))], "#333333")


def _step(low: float, high: float) -> float:
    """A round distance between the lines of a grid."""
    rough = (high - low or 1) / _TICKS
    power = 10 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)


def _labels(labels: Sequence[str], frame: _Frame) -> Iterable[Shape]:
    longest = max(map(len, labels))
    room = max(1, int((frame.right - frame.left) / (longest * 7 + 10)))
    every = math.ceil(len(labels) / room)
    for at, label in enumerate(labels):
        if at % every == 0:
            yield Text(label, (frame.x(at), frame.bottom + 18), size=12, anchor="middle")


def _legend(names: Sequence[str], frame: _Frame) -> Iterable[Shape]:
    left = frame.left
    for at, name in enumerate(names):
        if name:
            yield _box(left, frame.top - 22, left + 12, frame.top - 10, _COLORS[at])
            yield Text(name, (left + 18, frame.top - 16), size=12)
            left += 34 + 7 * len(name)


def _marks(kind: ChartKind, series: Series, at: int, count: int, frame: _Frame) -> Iterable[Shape]:
    color = _COLORS[at]
    points: list[Point] = [
        (frame.x(place), frame.y(value)) for place, value in enumerate(series.values)
    ]
    if kind == "bar":
        wide = 0.8 * (frame.right - frame.left) / frame.count / count
        for x, y in points:
            left = x + (at - count / 2) * wide
            yield _box(left, y, left + wide, frame.y(0), color)
        return
    if kind == "line" and len(points) > 1:
        yield Polyline(points, color, width=2)
    for point in points:
        yield Circle(point, 4 if kind == "scatter" else 3, color)


def _pie(chart: Chart, whole: Chart, size: ImageSize) -> Iterable[Shape]:
    total = sum(whole.series[0].values)
    radius = max(20.0, min(size.width * 0.3, size.height / 2 - 50))
    middle = (size.width * 0.36, size.height / 2 + 16)
    start = -math.pi / 2
    for at, (label, value) in enumerate(zip(whole.labels, chart.series[0].values, strict=False)):
        color, end = _COLORS[at % len(_COLORS)], start + 2 * math.pi * value / total
        yield Polygon([middle, *_arc(middle, radius, start, end)], color)
        start = end
        top = 64.0 + 22 * at
        if top < size.height - 20:
            left = size.width * 0.7
            yield _box(left, top - 6, left + 12, top + 6, color)
            yield Text(f"{label} {100 * value / total:.1f} %", (left + 18, top), size=12)


def _arc(middle: Point, radius: float, start: float, end: float) -> Iterable[Point]:
    steps = max(1, math.ceil((end - start) / 0.05))
    for number in range(steps + 1):
        angle = start + (end - start) * number / steps
        yield middle[0] + radius * math.cos(angle), middle[1] + radius * math.sin(angle)


def _box(left: float, top: float, right: float, bottom: float, color: str) -> Polygon:
    return Polygon([(left, top), (right, top), (right, bottom), (left, bottom)], color)
