"""Charts: what is read from a prompt, and what is drawn."""

from __future__ import annotations

import io
import json
import math
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from toolcrib.embedded.images import (
    ChartImages,
    DrawRequest,
    FinishedImage,
    ImageFormat,
    ImageOutput,
    ImageSize,
    UnfinishedImage,
    canvas,
)
from toolcrib.errors import BackendFailed

SVG = "{http://www.w3.org/2000/svg}"
BARS = {"chart": "bar", "title": "Sales", "labels": ["a", "b"], "series": [{"values": [10, 20]}]}


async def drawn(prompt: object, **more: Any) -> list[ImageOutput]:
    text = prompt if isinstance(prompt, str) else json.dumps(prompt)
    return [output async for output in ChartImages().draw(DrawRequest(text, **more))]


async def svg(prompt: object) -> ET.Element:
    [image] = await drawn(prompt, format="svg")
    return ET.fromstring(image.data)


def texts(root: ET.Element) -> list[str]:
    return [each.text or "" for each in root.iter(f"{SVG}text")]


def heights(root: ET.Element) -> list[float]:
    """The heights of the bars."""
    corners = [each.get("points", "").split() for each in root.iter(f"{SVG}polygon")]
    lists = [[float(point.partition(",")[2]) for point in points] for points in corners]
    return [max(levels) - min(levels) for levels in lists]


async def test_bars_are_as_high_as_their_values() -> None:
    """The drawing shows the numbers of the prompt, with title, labels and scale."""
    root = await svg(BARS)
    low, high = heights(root)
    assert high == pytest.approx(2 * low, abs=0.2)
    assert {"Sales", "a", "b", "0", "20"} <= set(texts(root))


@pytest.mark.parametrize(
    ("prompt", "kind", "labels"),
    [
        ("Sales by month:\nJan: 3\nFeb: 4.5", "polygon", ["Jan", "Feb"]),
        ("A line chart of load; mon = 1, tue = 2", "polyline", ["mon", "tue"]),
        ('Draw this: {"chart": "scatter", "values": [1, 2, 3]} please', "circle", ["1", "2", "3"]),
        ("pie\n- tea: 3\n- milk: 1", "polygon", ["tea 75.0 %", "milk 25.0 %"]),
    ],
)
async def test_prompts_may_be_json_or_lines(prompt: str, kind: str, labels: list[str]) -> None:
    """Each kind has its own marks."""
    root = await svg(prompt)
    assert root.find(f"{SVG}{kind}") is not None
    assert set(labels) <= set(texts(root))


async def test_text_of_a_prompt_is_text() -> None:
    """Nothing in a prompt becomes an element, a script or a line of its own."""
    title = '<script>alert("x")</script>\n&amp;'
    root = await svg({**BARS, "title": title})
    assert root.find(f".//{SVG}script") is None
    assert texts(root)[0] == '<script>alert("x")</script> &amp;'


@pytest.mark.parametrize("values", [[0, 0], [-5, -1], [1e300, 1e-300], [0.001, -1e9], [1]])
async def test_every_scale_can_be_drawn(values: list[float]) -> None:
    """Zero, negative, huge and tiny values have finite places."""
    for kind in ("bar", "line", "scatter"):
        root = await svg({"chart": kind, "values": values})
        for each in root.iter(f"{SVG}text"):
            assert math.isfinite(float(each.get("y", "nan")))


@pytest.mark.parametrize(
    ("prompt", "why"),
    [
        ("a cat on a mat", "no values"),
        ('{"chart": "cat"}', "no chart 'cat'"),
        ('{"chart": ', "not valid"),
        ({"chart": "bar", "series": []}, "1 to 8 series"),
        ({"chart": "bar", "series": [{"values": ["x"]}]}, "no list of numbers"),
        ('{"values": [NaN]}', "no list of numbers"),
        ({"labels": ["a"], "series": [[1, 2]]}, "one value for each label"),
        ({"chart": "pie", "values": [1, -1]}, "not negative"),
        ({"values": list(range(201))}, "1 to 200 values"),
        ({"labels": "ab", "values": [1, 2]}, "labels are no list"),
    ],
)
async def test_what_is_no_chart_is_refused_with_the_form(prompt: object, why: str) -> None:
    """The model learns what was wrong, and how to write a prompt."""
    with pytest.raises(BackendFailed, match=why) as refused:
        await drawn(prompt)
    assert "Write the prompt as JSON" in str(refused.value)


@pytest.mark.parametrize("format_", ["png", "jpeg", "webp"])
async def test_pixels_show_the_bars(format_: ImageFormat) -> None:
    """Equal prompts give equal images of the wanted size and format, with the color of the bars."""
    from PIL import Image

    size = ImageSize(300, 200)
    [image] = await drawn(BARS, format=format_, size=size)
    [again] = await drawn(BARS, format=format_, size=size)
    assert isinstance(image, FinishedImage)
    assert (image, image.size) == (again, size)
    picture = Image.open(io.BytesIO(image.data))
    assert (picture.format, picture.size) == (format_.upper(), (300, 200))
    pixel: Any = picture.convert("RGB").getpixel((225, 140))
    assert pixel == pytest.approx((0x33, 0x66, 0xCC), abs=6)


async def test_a_transparent_background_is_transparent() -> None:
    """Between the bars nothing is painted."""
    from PIL import Image

    [image] = await drawn(BARS, format="png", is_transparent=True)
    alpha: Any = Image.open(io.BytesIO(image.data)).getpixel((5, 5))
    assert alpha[3] == 0


async def test_partial_images_grow() -> None:
    """Each partial image has more of the values, on the scale of the whole."""
    outputs = await drawn({"values": [1, 2, 3]}, format="svg", partial_images=2)
    assert [type(output) for output in outputs] == [UnfinishedImage, UnfinishedImage, FinishedImage]
    bars = [len(heights(ET.fromstring(output.data))) for output in outputs]
    assert bars == [1, 2, 3]


async def test_without_pillow_there_is_svg(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default is then SVG, and pixels name the extra."""
    monkeypatch.setattr(canvas, "find_spec", lambda name: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    assert ChartImages().formats == ("svg",)
    [image] = await drawn(BARS)
    assert isinstance(image, FinishedImage)
    assert image.format == "svg"
    with pytest.raises(BackendFailed, match="images"):
        await drawn(BARS, format="png")
