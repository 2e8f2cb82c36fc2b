"""The same response, read by our own codecs and through pydantic-ai: the same typed outputs."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.adapters.openai.response_samples import Items, fixture, recorded_outputs, recordings
from tests.adapters.pydantic_ai.codecs.recorded_items import answered
from toolcrib.adapters.codec import Codec
from toolcrib.adapters.openai import adapter as ours
from toolcrib.adapters.pydantic_ai.codecs import registry as theirs
from toolcrib.adapters.tool_declarations import undeclared
from toolcrib.tools.file_search import FileSearchResult
from toolcrib.tools.image_generation import ImageGenerationResult
from toolcrib.tools.mcp import McpResult
from toolcrib.tools.tool_search import ToolSearchResult
from toolcrib.tools.web_search import WebSearchResult

# pydantic-ai passes over, or warns about, what it has no part for.
UNKNOWN = {
    "shell_call",
    "local_shell_call",
    "apply_patch_call",
    "mcp_approval_request",
    "custom_tool_call",
    "computer_call",
}
FIXTURES = {
    "code_interpreter": ["code_interpreter", "code_interpreter_exception"],
    "file_search": ["file_search"],
    "image_generation": ["image_generation"],
    "mcp": ["mcp"],
    "tool_search": ["tool_search"],
    "web_search": ["web_search", "web_search_many"],
}


def through_pydantic_ai(items: Items) -> Items:
    body = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "gpt-5.4",
        "status": "completed",
        "output": items,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    (step,) = answered("openai-responses", "gpt-5.4", json.dumps(body))
    return step


def pair(kind: str) -> tuple[Codec[Any, Any], Codec[Any, Any]]:
    own, other = ours.default_codecs()[kind], theirs.default_codecs("openai-responses")[kind]
    assert isinstance(own, Codec)
    assert isinstance(other, Codec)
    return own, other


def readable(items: Items) -> Items:
    """The items that pydantic-ai can read: it stops at JSON that is none, and at its own gaps."""
    return [
        item
        for item in items
        if item.get("type") not in {*UNKNOWN, "hologram_call"} and item.get("arguments") != "{"
    ]


def as_told(output: Any) -> Any:
    """The output without what pydantic-ai leaves out: it names found functions and nothing else,
    does not say why there is no image, and knows of no approvals.
    """
    match output:
        case ToolSearchResult(tools=tools):
            return [each.name for each in tools if each.name not in ("route", "library")]
        case ImageGenerationResult(images=images, errors=errors):
            # Recorded images are cut short, so they are no base64.
            return [replace(each, base64=each.base64[:40]) for each in images], len(errors)
        case McpResult(calls=calls):
            return replace(
                output, calls=tuple(replace(each, approval_request_id=None) for each in calls)
            )
        case WebSearchResult() | FileSearchResult() | ToolSearchResult():
            return replace(output, error=output.error is not None)
        case _:
            return output


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in FIXTURES.items() for name in names]
)
def test_a_response_gives_the_same_either_way(kind: str, name: str) -> None:
    """H30, H33: the adapter does not change what a tool gives."""
    own, other = pair(kind)
    tool, items = undeclared(kind), readable(fixture(name))
    seen = through_pydantic_ai(items)

    expected, found = own.parse_output(items, tool), other.parse_output(seen, tool)

    assert expected is not None
    assert type(found) is type(expected)
    assert as_told(found) == as_told(expected)
    told = [each.success for each in own.invocations(items, tool)]
    assert [each.success for each in other.invocations(seen, tool)] == told


@pytest.mark.parametrize("kind", ["code_interpreter", "file_search", "mcp", "web_search"])
def test_a_call_gives_the_same_either_way(kind: str) -> None:
    """N21: one call has the same params and the same result."""
    own, other = pair(kind)
    tool, items = undeclared(kind), readable(fixture(FIXTURES[kind][0]))

    found = other.invocations(through_pydantic_ai(items), tool)

    for mine, theirs_ in zip(own.invocations(items, tool), found, strict=True):
        assert theirs_.params == mine.params
        assert as_told(McpResult((theirs_.value,)) if kind == "mcp" else theirs_.value) == as_told(
            McpResult((mine.value,)) if kind == "mcp" else mine.value
        )
        assert theirs_.item_id == mine.item_id


@pytest.mark.parametrize("path", recordings("openai", "azure"))
def test_recorded_responses_give_the_same_either_way(path: Any) -> None:
    """H33: whatever OpenAI ran, both adapters tell the same calls, failed or not."""
    for items in recorded_outputs(path):
        if not items:
            continue
        seen = through_pydantic_ai(items)
        for kind in FIXTURES:
            own, other = pair(kind)
            tool = undeclared(kind)
            expected = [each.success for each in own.invocations(items, tool)]
            assert [each.success for each in other.invocations(seen, tool)] == expected
            output, found = own.parse_output(items, tool), other.parse_output(seen, tool)
            assert as_told(found) == as_told(output)
