"""Image generation: its options, its output and its factory."""

import base64
import dataclasses
from typing import Any

import pytest

from toolcrib.errors import InvalidTool
from toolcrib.tools.image_generation import (
    GeneratedImage,
    ImageError,
    ImageGenerationConfig,
    ImageGenerationResult,
    ImageMask,
    SvgAuthor,
    image_generation_tool,
)


def test_the_factory_leaves_everything_to_the_provider() -> None:
    """H41: kind, name and a description; no option is set."""
    tool = image_generation_tool()

    assert (tool.kind, tool.name) == ("image_generation", "image_generation")
    assert all(value is None for value in dataclasses.asdict(tool.config).values())
    assert image_generation_tool(name="draw").name == "draw"


@pytest.mark.parametrize(
    "options",
    [
        {"action": "draw"},
        {"background": "blue"},
        {"complexity": "max"},
        {"input_fidelity": "medium"},
        {"moderation": "none"},
        {"output_format": "bmp"},
        {"quality": "best"},
        {"model": " "},
        {"size": "big"},
        {"size": "1024X1024"},
        {"size": "0x10"},
        {"size": 1024},
        {"output_compression": 101},
        {"output_compression": -1},
        {"output_compression": True},
        {"partial_images": 4},
        {"mask": "file_1"},
        {"svg": "model"},
    ],
)
def test_unsound_options_are_refused(options: dict[str, Any]) -> None:
    """H2: when they are made, with the name of the option."""
    with pytest.raises(InvalidTool, match=f"ImageGenerationConfig.{next(iter(options))}"):
        ImageGenerationConfig(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"background": "transparent", "output_format": "jpeg"},
        {"frame_count": 3},
        {"frame_duration_ms": 100, "output_format": "webp"},
        {"svg": SvgAuthor("m")},
        {"output_format": "gif", "partial_images": 1},
        {"output_format": "gif", "mask": ImageMask("file_1")},
        {"output_format": "gif", "output_compression": 0},
    ],
)
def test_options_that_a_format_cannot_have_are_refused(options: dict[str, Any]) -> None:
    """H2: before any request."""
    with pytest.raises(InvalidTool, match=r"png|gif|svg"):
        ImageGenerationConfig(**options)


def test_options_that_go_together_are_taken() -> None:
    """H2: transparency with png, frames with gif, an author with svg."""
    assert ImageGenerationConfig(background="transparent").background == "transparent"
    assert ImageGenerationConfig(output_format="gif", frame_count=2).frame_count == 2
    assert ImageGenerationConfig(output_format="svg", svg=SvgAuthor(effort="max")).svg is not None
    assert ImageGenerationConfig(size="auto").size == "auto"


def test_a_mask_names_an_image() -> None:
    """H2: one of two ways."""
    with pytest.raises(InvalidTool, match="ImageMask needs"):
        ImageMask()
    with pytest.raises(InvalidTool, match=r"SvgAuthor\.effort"):
        SvgAuthor(effort="huge")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("made", [ImageGenerationConfig(), ImageMask("f"), SvgAuthor()])
def test_options_are_frozen_and_slotted(made: Any) -> None:
    """H2: options cannot change after their check."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, dataclasses.fields(made)[0].name, None)
    assert not hasattr(made, "__dict__")


def test_a_result_renders_one_line_for_each_image() -> None:
    """H6: images are not text; what is known of them is."""
    image = GeneratedImage(base64.b64encode(b"x").decode(), "png", "8x8", prompt="A cat")
    result = ImageGenerationResult((image, GeneratedImage("eA==")), (ImageError("Refused."),))

    assert image.data == b"x"
    assert result.render() == ("an image (png, 8x8): A cat\nan image (of unknown format)\nRefused.")
