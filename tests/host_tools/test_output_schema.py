"""What a host tool promises to give: checked when it is defined, and kept by every result."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib import Executor, Hooks, Session, ToolResult
from toolcrib.calls.outcome import Outcome
from toolcrib.errors import InvalidTool
from toolcrib.host_tools import HostToolDefinition

LEVEL: dict[str, Any] = {
    "type": "object",
    "properties": {"left": {"type": "integer"}},
    "required": ["left"],
    "additionalProperties": False,
}
TEXT: dict[str, Any] = {"type": "string", "maxLength": 3}


def gives(value: Any, schema: dict[str, Any] = LEVEL) -> HostToolDefinition:
    return HostToolDefinition(
        name="level",
        description="How much is left.",
        parameters={"type": "object"},
        handler=lambda input, context: value,
        output_schema=schema,
    )


async def called(definition: HostToolDefinition, hooks: Hooks | None = None) -> Outcome:
    return await Executor(Session(), [definition], hooks=hooks).call("level", {})


async def test_a_result_that_fits_goes_out() -> None:
    """The value is as the handler gave it, in a `ToolResult` or alone."""
    assert (await called(gives({"left": 3}))).value == {"left": 3}
    assert (await called(gives(ToolResult(output={"left": 3})))).value == {"left": 3}
    assert (await called(gives("abc", TEXT))).value == "abc"


@pytest.mark.parametrize(
    ("value", "schema", "pointer"),
    [
        ({"left": "three"}, LEVEL, "/left"),
        ({}, LEVEL, "/left"),
        ({"left": 3, "right": 4}, LEVEL, "/right"),
        ("three", LEVEL, ""),
        (None, LEVEL, ""),
        (ToolResult(output={"left": 0.5}), LEVEL, "/left"),
        ("abcd", TEXT, ""),
    ],
)
async def test_another_result_is_a_failure(value: Any, schema: Any, pointer: str) -> None:
    """Nothing of it leaves: neither as a value nor as text."""
    outcome = await called(gives(value, schema))

    assert outcome.failure is not None
    assert outcome.failure.kind == "invalid_result"
    assert [fault.pointer for fault in outcome.failure.faults] == [pointer]
    assert outcome.text.startswith("`level` gave a result that is not what it promises:\n- ")
    assert outcome.value is None
    assert "three" not in outcome.text


async def test_what_a_hook_puts_in_the_results_place_is_checked_too() -> None:
    """The promise is about what leaves, whoever made it."""

    async def hide(context: Any, name: str, result: ToolResult[Any]) -> ToolResult[Any]:
        return ToolResult(value={"hidden": True})

    outcome = await called(gives({"left": 3}), Hooks(global_post=hide))

    assert outcome.failure is not None
    assert outcome.failure.kind == "invalid_result"


async def test_a_failure_need_not_fit() -> None:
    """A tool that says that it failed promises nothing."""
    outcome = await called(gives(ToolResult(success=False, error="the shelf is locked")))

    assert outcome.failure is not None
    assert outcome.failure.kind == "tool_error"


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ({"type": "lots"}, "output_schema: no valid JSON Schema at /type"),
        ({"$ref": "https://example.org/a.json"}, "output_schema: it refers to"),
        ({"$schema": "http://json-schema.org/draft-07/schema"}, "must be JSON Schema draft 2020"),
        (["object"], "output_schema must be a JSON Schema as a dict, not list"),
    ],
)
def test_what_is_no_schema_is_refused(schema: Any, complaint: str) -> None:
    """Where the tool is defined, not when it is first called."""
    with pytest.raises(InvalidTool, match=complaint) as caught:
        gives({}, schema)
    assert str(caught.value).startswith("tool 'level': ")


def test_the_schema_cannot_change_after_its_check() -> None:
    """The definition has a copy of its own."""
    schema = {"type": "object", "properties": {"left": {"type": "integer"}}}
    definition = gives({}, schema)
    schema["type"] = "string"

    assert definition.output_schema is not None
    assert definition.output_schema["type"] == "object"
