"""Image generation to and from the Responses API."""

import base64
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tests.adapters.openai.response_samples import (
    Items,
    fixture,
    mangled,
    only_objects,
    recorded_outputs,
    recordings,
    sdk_items,
)
from tests.adapters.openai.typed_tools import assert_typed
from toolcrib.adapters.openai.codecs.image_generation import OpenAIImageGenerationCodec
from toolcrib.tools.image_generation import (
    GeneratedImage,
    ImageError,
    ImageGenerationConfig,
    ImageGenerationResult,
    ImageMask,
    ImageRequest,
    SvgAuthor,
    image_generation_tool,
)

CODEC = OpenAIImageGenerationCodec()
TOOL = image_generation_tool()


def serialized(**options: Any) -> dict[str, Any]:
    entry = CODEC.serialize(image_generation_tool(ImageGenerationConfig(**options)))
    assert_typed(entry)
    return entry


def call(data: bytes | str = b"x", **fields: Any) -> dict[str, Any]:
    result = data if isinstance(data, str) else base64.b64encode(data).decode()
    whole = {"id": "ig_1", "type": "image_generation_call", "status": "completed"}
    return {**whole, "result": result, **fields}


def image_of(item: dict[str, Any]) -> GeneratedImage:
    found = CODEC.invocation(item, [item], TOOL)
    assert found.success, found.error
    return found.value


def test_without_options_only_the_type_is_sent() -> None:
    """H30: what is not set is left to the provider."""
    assert serialized() == {"type": "image_generation"}


def test_every_option_has_its_place() -> None:
    """H30: none is dropped."""
    options: dict[str, Any] = {
        "action": "edit",
        "background": "transparent",
        "complexity": "high",
        "input_fidelity": "high",
        "model": "gpt-image-2",
        "moderation": "low",
        "output_compression": 0,
        "output_format": "webp",
        "partial_images": 0,
        "quality": "xhigh",
        "size": "1536x864",
    }

    assert serialized(**options, mask=ImageMask(file_id="file_1")) == {
        "type": "image_generation",
        **options,
        "input_image_mask": {"file_id": "file_1"},
    }


def test_moving_and_drawn_images_have_options_of_their_own() -> None:
    """H30: frames for gif, an author for svg."""
    assert serialized(output_format="gif", frame_count=4, frame_duration_ms=50) == {
        "type": "image_generation",
        "output_format": "gif",
        "frame_count": 4,
        "frame_duration_ms": 50,
    }
    assert serialized(output_format="svg", svg=SvgAuthor("gpt-5", "low"))["svg"] == {
        "model": "gpt-5",
        "reasoning": {"effort": "low"},
    }
    assert serialized(output_format="svg", svg=SvgAuthor())["svg"] == {}


def test_an_image_can_be_forced() -> None:
    """N18: `image_generation` is a tool choice of its own."""
    from openai.types.responses import ToolChoiceTypesParam
    from pydantic import TypeAdapter

    assert CODEC.choice(TOOL) == {"type": "image_generation"}
    TypeAdapter(ToolChoiceTypesParam).validate_python(CODEC.choice(TOOL), extra="forbid")


def test_calls_give_images_and_errors() -> None:
    """H30, H44, H48: the image as bytes with its facts; a refusal with the provider's code."""
    result = CODEC.parse_output(fixture("image_generation"), TOOL)

    assert result is not None
    (image,) = result.images
    assert image.data.startswith(b"\x89PNG")
    assert (image.format, image.size, image.quality, image.background, image.prompt) == (
        "png",
        "1024x1024",
        "low",
        "opaque",
        "A blue square",
    )
    assert result.errors == (
        ImageError(
            "image_generation_call failed: moderation_blocked: The request was rejected.",
            code="moderation_blocked",
            type="image_generation_user_error",
        ),
    )


def test_every_call_is_one_invocation() -> None:
    """N16, N17, N24, X9: in order, with the item itself; a refusal says why."""
    items = fixture("image_generation")

    drawn, refused = CODEC.invocations(items, TOOL)

    assert (drawn.raw, refused.raw) == (items[1], items[2])
    assert (drawn.item_id, drawn.kind) == ("ig_1", "image_generation")
    assert drawn.params == ImageRequest("A blue square", "generate")
    assert (drawn.success, drawn.error) == (True, None)
    assert drawn.message == "an image (png, 1024x1024): A blue square"
    assert (refused.success, refused.value.base64) == (False, "")
    assert refused.value.error.message == refused.error
    assert refused.error == refused.message
    assert "moderation_blocked" in (refused.error or "")


@pytest.mark.parametrize(
    ("item", "why"),
    [
        (call("", status="completed"), "has no image: completed"),
        ({"type": "image_generation_call"}, "has no image"),
        (call(b"x", status="failed"), "image_generation_call failed"),
        (call(b"x", status="incomplete"), "image_generation_call incomplete"),
        (call(b"x", error={"message": "no", "code": 7}), "7: no"),
    ],
)
def test_a_call_without_a_sound_image_has_failed(item: dict[str, Any], why: str) -> None:
    """N17, E5: whatever its status says."""
    found = CODEC.invocation(item, [item], TOOL)

    assert (found.success, found.value.base64) == (False, "")
    assert why in found.value.error.message
    assert why in (found.error or "")


def test_a_damaged_image_is_noticed_where_it_is_read() -> None:
    """E4: what the provider sent is kept as it is; nothing is decoded before it is needed."""
    damaged = image_of(call("UklGR...%%%"))

    assert (damaged.base64, damaged.format) == ("UklGR...%%%", None)
    with pytest.raises(ValueError, match="base64"):
        _ = damaged.data
    with pytest.raises(ValueError, match="padding"):
        _ = image_of(call("abc")).data


def test_a_late_status_does_not_hide_an_image() -> None:
    """E5: an image that is there counts, even when the status lags behind."""
    assert image_of(call(b"x", status="generating")).data == b"x"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x89PNG\r\n\x1a\n123", "png"),
        (b"\xff\xd8\xff\xe0", "jpeg"),
        (b"GIF89a", "gif"),
        (b"RIFF1234WEBP", "webp"),
        (b"\n<svg xmlns=''/>", "svg"),
        (b"<?xml version='1.0'?><svg/>", "svg"),
        (b"something", None),
        (b"RIFF1234WAVE", None),
    ],
)
def test_an_untold_format_is_read_from_the_image(data: bytes, expected: str | None) -> None:
    """E4: some providers do not tell the format; it is not invented."""
    assert image_of(call(data)).format == expected


def test_what_is_told_about_the_format_wins() -> None:
    """E4: the item's own word first, then a data URL's."""
    encoded = base64.b64encode(b"GIF89a").decode()

    assert image_of(call(b"GIF89a", output_format="webp")).format == "webp"
    assert image_of(call(f"data:image/jpeg;base64,{encoded}")).format == "jpeg"
    assert image_of(call(f"data:image/svg+xml;base64,{encoded}")) == GeneratedImage(
        encoded, format="svg"
    )


def test_a_prompt_that_was_not_revised_is_told_too() -> None:
    """E4: another provider of the same API calls it `prompt`."""
    assert image_of(call(prompt="A cat")).prompt == "A cat"


def test_no_image_is_shown_in_a_repr() -> None:
    """A log line does not hold megabytes of base64."""
    assert "eHh4" not in repr(image_of(call(b"xxx")))


@pytest.mark.parametrize("items", [[], [{"type": "message"}], [None, 5]])
def test_without_a_call_there_is_no_output(items: Items) -> None:
    """H30: None means that the tool was not invoked."""
    assert CODEC.parse_output(items, TOOL) is None


def test_objects_of_the_sdk_parse_like_plain_json() -> None:
    """E4: the client gives objects."""
    items = fixture("image_generation")

    assert CODEC.parse_output(sdk_items(items), TOOL) == CODEC.parse_output(items, TOOL)


@given(mangled(fixture("image_generation")))
def test_no_item_breaks_the_reader(items: Any) -> None:
    """E4: whatever is missing or of the wrong type, each call is an image or an error."""
    found = CODEC.invocations(only_objects(items), TOOL)
    result = CODEC.parse_output(items, TOOL) or ImageGenerationResult()

    assert len(found) == len(result.images) + len(result.errors)
    assert all(each.success == (each.value.error is None) for each in found)


@pytest.mark.parametrize("path", recordings("openai", "azure", "xai"))
def test_recorded_traffic_is_read(path: Path) -> None:
    """H48, N24: in real traffic each call is one invocation with an image."""
    for items in recorded_outputs(path):
        calls = [item for item in items if item["type"] == "image_generation_call"]
        found = CODEC.invocations(items, TOOL)

        assert [each.raw for each in found] == calls
        assert all(each.success and each.value.base64 and each.params.prompt for each in found)
        assert (CODEC.parse_output(items, TOOL) is None) == (not calls)
