"""`@resource` and `@prompt`: what a function says about itself, and what its results become."""

from __future__ import annotations

import base64
from enum import Enum
from typing import Any, Literal

import pytest

from toolcrib import CallEnded, ToolContext
from toolcrib.errors import DuplicateTool, InvalidTool
from toolcrib.features import (
    FeatureChange,
    FeatureRegistry,
    PromptMessage,
    ResourceContent,
    prompt,
    resource,
)
from toolcrib.features.declaration import GET_PROMPT, READ_RESOURCE


class Colour(Enum):
    RED = "red"
    GREEN = "green"


@resource(
    "stock://{item}",
    title="Stock",
    mime_type="application/json",
    annotations={"priority": 0.5},
    icons=[{"src": "https://example.org/i.png"}],
    meta={"org.example/a": 1},
)
def stock(item: str, context: ToolContext) -> dict[str, str]:
    """How many there are."""
    return {item: context.session_id}


@prompt(title="Review")
def review(code: str, lines: list[int], style: Literal["short", "long"] = "short") -> str:
    """Review code.

    Args:
        code: What to review.
    """
    return f"{code} {sum(lines)} {style}"


def read(function: Any, uri: str) -> Any:
    handler: Any = function.feature.tool.handler
    return handler({"uri": uri}, ToolContext("s1", cwd=".")).value["contents"]


def test_a_resource_says_what_it_is() -> None:
    """All that MCP has a place for, from the decorator, the function and its docstring."""
    assert stock.feature.as_mcp() == {
        "uriTemplate": "stock://{item}",
        "name": "stock",
        "title": "Stock",
        "description": "How many there are.",
        "mimeType": "application/json",
        "annotations": {"priority": 0.5},
        "icons": [{"src": "https://example.org/i.png"}],
        "_meta": {"org.example/a": 1},
    }
    assert (stock.feature.tool.name, stock.feature.tool.source) == (READ_RESOURCE, "host")
    assert stock(item="saw", context=ToolContext("x", cwd=".")) == {"saw": "x"}


def test_a_prompt_says_what_it_is() -> None:
    """Its arguments are the parameters, described in the docstring."""
    assert review.feature.as_mcp() == {
        "name": "review",
        "title": "Review",
        "description": "Review code.",
        "arguments": [
            {"name": "code", "description": "What to review.", "required": True},
            {"name": "lines", "required": True},
            {"name": "style", "required": False},
        ],
    }
    assert review.feature.tool.name == GET_PROMPT


def test_results_become_text_bytes_or_json() -> None:
    """With the type of the resource, or the usual one of the result."""

    @resource("a://text")
    def text() -> str:
        return "hello"

    @resource("a://bytes", mime_type="image/png")
    def binary() -> bytes:
        return b"\x89PNG"

    @resource("a://many")
    def many() -> list[ResourceContent]:
        return [
            ResourceContent(data="one", uri="a://many/1", meta={"n": 1}),
            ResourceContent(data=b"two", mime_type="x/y"),
        ]

    assert read(text, "a://text") == [
        {"uri": "a://text", "mimeType": "text/plain", "text": "hello"}
    ]
    (contents,) = read(binary, "a://bytes")
    assert contents["mimeType"] == "image/png"
    assert base64.b64decode(contents["blob"]) == b"\x89PNG"
    (given,) = read(stock, "stock://saw")
    assert (given["mimeType"], given["text"]) == ("application/json", '{"saw":"s1"}')
    first, second = read(many, "a://many")
    assert (first["uri"], first["_meta"]) == ("a://many/1", {"n": 1})
    assert (second["uri"], second["mimeType"]) == ("a://many", "x/y")


def test_variables_have_the_types_of_the_parameters() -> None:
    """A URI whose value does not fit is the URI of nothing."""

    @resource("page://{number}{?size}")
    def page(number: int, size: int = 10) -> list[int]:
        return [number, size]

    assert read(page, "page://3?size=5")[0]["text"] == "[3,5]"
    for uri in ("page://three", "page://3?size=many"):
        with pytest.raises(CallEnded) as caught:
            read(page, uri)
        assert caught.value.failure.kind == "not_found"


def test_prompts_give_messages() -> None:
    """A text is one message of the user; arguments of other types are read from their text."""

    @prompt
    def talk(colour: Colour) -> list[str | PromptMessage]:
        return [f"I like {colour.value}.", PromptMessage("So do I.", role="assistant")]

    get: Any = talk.feature.tool.handler
    value = get({"name": "talk", "arguments": {"colour": "red"}}, None).value
    assert value["messages"] == [
        {"role": "user", "content": {"type": "text", "text": "I like red."}},
        {"role": "assistant", "content": {"type": "text", "text": "So do I."}},
    ]
    reviewed: Any = review.feature.tool.handler
    arguments = {"code": "x", "lines": "[1, 2]"}
    assert reviewed({"name": "review", "arguments": arguments}, None).message == "x 3 short"
    for faulty in ({"code": "x"}, {**arguments, "style": "odd"}, {**arguments, "other": "1"}):
        with pytest.raises(CallEnded) as caught:
            reviewed({"name": "review", "arguments": faulty}, None)
        assert caught.value.failure.kind == "invalid_arguments"


async def test_completions_come_from_types_lists_and_functions() -> None:
    """An enumeration completes itself; a function may look at the other arguments."""

    async def cities(value: str, arguments: dict[str, str]) -> list[str]:
        return [f"{arguments['country']} {value}"]

    @prompt(completions={"city": cities, "country": ["France", "Finland", "Peru"]})
    def travel(country: str, city: str, colour: Colour | None = None) -> str:
        return city

    async def complete(name: str, value: str) -> tuple[str, ...]:
        arguments = travel.feature.arguments
        return (await arguments.complete(name, value, {"country": "Peru"})).values

    assert await complete("country", "f") == ("France", "Finland")
    assert await complete("city", "L") == ("Peru L",)
    assert await complete("colour", "g") == ("green",)
    assert await complete("nothing", "g") == ()


@pytest.mark.parametrize(
    "declare",
    [
        lambda: resource("a://{x}")(lambda: ""),
        lambda: resource("a://b")(_takes_x),
        lambda: resource("a://{x}", size=5)(_takes_x),
        lambda: resource("a://{x}", completions={"y": ["1"]})(_takes_x),
        lambda: resource("a://{x}{?y}")(_takes_both),
        lambda: prompt(name="")(_takes_x),
        lambda: prompt(title="bell \a")(_takes_x),
    ],
)
def test_a_faulty_declaration_is_refused(declare: Any) -> None:
    """When it is made, not when somebody reads."""
    with pytest.raises(InvalidTool):
        declare()


def _takes_x(x: str) -> str:
    return x


def _add_both(registry: FeatureRegistry) -> None:
    with registry.all_or_nothing():
        registry.add([review.feature])
        registry.add([stock.feature])


def _takes_both(x: str, y: str) -> str:
    return x


def test_a_registry_tells_of_changes_and_takes_back_failed_ones() -> None:
    """A URI is of one resource; a block that raises leaves nothing behind."""
    registry, heard = FeatureRegistry(), list[FeatureChange]()
    registry.add([stock.feature])
    registry.subscribe(heard.append)
    with pytest.raises(DuplicateTool):
        _add_both(registry)
    registry.updated("stock://saw")

    assert registry.all == [stock.feature]
    assert heard == [
        FeatureChange("prompts"),
        FeatureChange("prompts"),
        FeatureChange("updated", "stock://saw"),
    ]
