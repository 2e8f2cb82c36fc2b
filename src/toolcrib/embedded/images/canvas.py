"""Drawings made of shapes and text, written as SVG or as pixels."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final, Literal, TypeAlias, assert_never
from xml.sax.saxutils import escape, quoteattr

from toolcrib.embedded.images.backend import ImageFormat, ImageSize
from toolcrib.errors import BackendFailed
from toolcrib.extras import install_command

Point: TypeAlias = tuple[float, float]
Anchor: TypeAlias = Literal["start", "middle", "end"]

RASTER_FORMATS: Final[tuple[ImageFormat, ...]] = ("png", "jpeg", "webp")
_SCALE: Final = 2
"""Pixels are drawn larger and then averaged, which smooths their edges."""


@dataclass(frozen=True, slots=True)
class Polygon:
    """A filled area."""

    points: Sequence[Point]
    color: str


@dataclass(frozen=True, slots=True)
class Polyline:
    """A line through points."""

    points: Sequence[Point]
    color: str
    width: float = 1


@dataclass(frozen=True, slots=True)
class Circle:
    """A filled circle."""

    center: Point
    radius: float
    color: str


@dataclass(frozen=True, slots=True)
class Text:
    """One line of text; its place is the middle of its height."""

    text: str
    place: Point
    size: float = 13
    anchor: Anchor = "start"
    color: str = "#333333"


Shape: TypeAlias = Polygon | Polyline | Circle | Text


@dataclass(frozen=True, slots=True)
class Drawing:
    """Shapes from back to front. Without a background it is transparent."""

    size: ImageSize
    shapes: Sequence[Shape]
    background: str | None = "#ffffff"


def has_raster() -> bool:
    """Whether drawings can be written as pixels."""
    return find_spec("PIL") is not None


def svg(drawing: Drawing) -> bytes:
    """A drawing as an SVG document. It holds no script and no address."""
    width, height = drawing.size.width, drawing.size.height
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif">'
    ]
    if drawing.background is not None:
        lines.append(f'<rect width="{width}" height="{height}" fill="{drawing.background}"/>')
    lines += [_element(shape) for shape in drawing.shapes]
    return "\n".join([*lines, "</svg>", ""]).encode()


def _element(shape: Shape) -> str:
    match shape:
        case Polygon():
            return f'<polygon points="{_points(shape.points)}" fill="{shape.color}"/>'
        case Polyline():
            return (
                f'<polyline points="{_points(shape.points)}" fill="none" '
                f'stroke="{shape.color}" stroke-width="{shape.width:g}"/>'
            )
        case Circle():
            x, y = shape.center
            return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{shape.radius:g}" fill="{shape.color}"/>'
        case Text():
            x, y = shape.place
            return (
                f'<text x="{x:.1f}" y="{y:.1f}" font-size="{shape.size:g}" '
                f'fill={quoteattr(shape.color)} text-anchor="{shape.anchor}" '
                f'dominant-baseline="central">{escape(shape.text)}</text>'
            )
        case _:
            assert_never(shape)


def _points(points: Sequence[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def pixels(drawing: Drawing, format_: ImageFormat) -> bytes:
    """A drawing as PNG, JPEG or WebP. Raises `BackendFailed` without Pillow."""
    if not has_raster():
        raise BackendFailed(f"pixels need Pillow; run: {install_command('images')}")
    from PIL import Image, ImageDraw

    size = (drawing.size.width, drawing.size.height)
    background = drawing.background or "#ffffff00"
    canvas: Any = Image.new("RGBA", (size[0] * _SCALE, size[1] * _SCALE), background)
    draw = ImageDraw.Draw(canvas)
    for shape in drawing.shapes:
        _paint(draw, shape)
    image = canvas.resize(size, Image.Resampling.LANCZOS)
    if format_ == "jpeg":
        image = image.convert("RGB")
    data = io.BytesIO()
    image.save(data, format_.upper(), **({"lossless": True} if format_ == "webp" else {}))
    return data.getvalue()


_ANCHORS: Final = {"start": "lm", "middle": "mm", "end": "rm"}


def _paint(draw: Any, shape: Shape) -> None:
    match shape:
        case Polygon():
            draw.polygon(_scaled(shape.points), fill=shape.color)
        case Polyline():
            width = max(1, round(shape.width * _SCALE))
            draw.line(_scaled(shape.points), fill=shape.color, width=width, joint="curve")
        case Circle():
            [center] = _scaled([shape.center])
            draw.circle(center, shape.radius * _SCALE, fill=shape.color)
        case Text():
            from PIL import ImageFont

            [place] = _scaled([shape.place])
            font = ImageFont.load_default(shape.size * _SCALE)
            draw.text(place, shape.text, fill=shape.color, font=font, anchor=_ANCHORS[shape.anchor])
        case _:
            assert_never(shape)


def _scaled(points: Sequence[Point]) -> list[Point]:
    return [(x * _SCALE, y * _SCALE) for x, y in points]
