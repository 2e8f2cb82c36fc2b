"""Answers as results."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from toolcrib.errors import CallEnded
from toolcrib.mcp_client.results import tool_result
from toolcrib.tools.result import ToolResult

BYTES = base64.b64encode(b"12345").decode()


def result(*blocks: Any, most: int = 1_000, **more: Any) -> ToolResult[Any]:
    return tool_result(CallToolResult(content=list(blocks), **more), "tool", most)


def text(said: str) -> TextContent:
    return TextContent(type="text", text=said)


def test_several_texts_are_one() -> None:
    """The parts of a text stand below each other."""
    assert result(text("one"), text("two")).value == "one\ntwo"


def test_no_content_is_an_empty_text() -> None:
    """A tool that says nothing has still succeeded."""
    found = result()

    assert (found.success, found.value) == (True, "")


@pytest.mark.parametrize(
    ("block", "shown"),
    [
        (
            ImageContent(type="image", data=BYTES, mime_type="image/png"),
            "[image, image/png, 5 bytes]",
        ),
        (
            AudioContent(type="audio", data=BYTES, mime_type="audio/wav"),
            "[audio, audio/wav, 5 bytes]",
        ),
        (ResourceLink(type="resource_link", name="n", uri="x://y"), "[resource n: x://y]"),
        (
            EmbeddedResource(
                type="resource", resource=TextResourceContents(uri="x://y", text="inside")
            ),
            "inside",
        ),
        (
            EmbeddedResource(
                type="resource",
                resource=BlobResourceContents(uri="x://y", blob=BYTES, mime_type="a/b"),
            ),
            "[resource x://y, a/b, 5 bytes]",
        ),
    ],
)
def test_a_part_is_named_to_the_model_and_whole_in_the_value(block: Any, shown: str) -> None:
    """Whoever reads text learns what there is; a program gets it as MCP writes it."""
    found = result(text("See:"), block)

    assert found.message == f"See:\n{shown}"
    assert found.value is not None
    assert found.value["content"][1] == block.model_dump(
        mode="json", by_alias=True, exclude_none=True
    )


def test_what_has_no_room_is_left_out_and_said_to_be() -> None:
    """The parts of an answer share one limit; what comes first is taken first."""
    small = ImageContent(type="image", data=BYTES, mime_type="image/png")
    large = ImageContent(type="image", data="A" * 2_000, mime_type="image/png")
    found = result(small, large, small)

    assert found.value is not None
    parts = found.value["content"]
    assert [part.get("omitted", False) for part in parts] == [False, True, False]


def test_an_error_without_words_is_a_failure_with_some() -> None:
    """A failure always says something."""
    found = result(is_error=True)

    assert (found.success, found.message) == (
        False,
        "`tool` failed; its server gives no reason.",
    )


def test_data_that_is_too_large_is_refused() -> None:
    """There is no half of a value."""
    with pytest.raises(CallEnded, match="at most 1000 are accepted"):
        result(structured_content={"x": "y" * 1_000})
