"""HostToolDefinition: a tool of the host application, checked when it is defined."""

import dataclasses
import math
from typing import Any

import pytest

from toolcrib.errors import InvalidTool
from toolcrib.host_tools.definition import HostToolDefinition, ToolScope
from toolcrib.tools.context import ToolContext
from toolcrib.tools.prepared_tool import prepare
from toolcrib.tools.result import ToolResult

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string"}},
    "required": ["query"],
}
CONTEXT = ToolContext(session_id="s", cwd="/tmp")


async def search(input: dict[str, Any], context: ToolContext) -> ToolResult[str]:
    return ToolResult(success=True, output=input["query"] + context.cwd)


def search_now(input: dict[str, Any], context: ToolContext) -> ToolResult[str]:
    return ToolResult(success=True, output=input["query"] + context.cwd)


def define(**changes: Any) -> HostToolDefinition:
    sound: dict[str, Any] = {
        "name": "my_custom_tool",
        "description": "Does something useful",
        "parameters": SCHEMA,
        "handler": search,
    }
    return HostToolDefinition(**{**sound, **changes})


def test_a_scope_is_one_of_two_words() -> None:
    """R1: a str enum with exactly `global` and `session`."""
    assert {scope.value for scope in ToolScope} == {"global", "session"}
    assert ToolScope("session") == "session"
    assert issubclass(ToolScope, str)


def test_what_is_left_out_has_the_documented_default() -> None:
    """R1, R4: global, no category, no approval, no time limit."""
    tool = define()

    assert tool.scope is ToolScope.GLOBAL
    assert (tool.category, tool.requires_approval, tool.timeout) == (None, False, None)
    assert tool.version == "0.0.0"


@pytest.mark.parametrize("name", ["a", "my.Tool-1_x", "x" * 128])
def test_names_that_mcp_allows_are_taken(name: str) -> None:
    """R4: 1-128 of letters, digits, underscore, dot and dash."""
    assert define(name=name).name == name


@pytest.mark.parametrize("name", ["", "x" * 129, "tool:with:colons", "a b", "ä", "a\n", None])
def test_other_names_are_refused(name: Any) -> None:
    """R4: a name that no model or client could call is a ValueError."""
    with pytest.raises(ValueError, match="name must match"):
        define(name=name)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("description", ""),
        ("description", "  "),
        ("handler", None),
        ("handler", "search"),
        ("timeout", 0),
        ("timeout", -1.0),
        ("timeout", math.nan),
        ("timeout", math.inf),
        ("version", "one"),
        ("uses", ["other"]),
        ("category", ""),
        ("scope", "global"),
    ],
)
def test_other_unsound_parts_are_refused(field: str, value: Any) -> None:
    """R4: each part is checked when the tool is defined, and named when it is wrong."""
    with pytest.raises(ValueError, match=field):
        define(**{field: value})


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({"type": "objekt"}, "must describe an object"),
        ({}, "must describe an object"),
        ({"type": "array"}, "must describe an object"),
        ({"type": ["object", "null"]}, "must describe an object"),
        ({"type": "object", "properties": []}, "no valid JSON Schema at /properties"),
        ({"type": "object", "properties": {"a": {"type": "text"}}}, "/properties/a/type"),
        ({"type": "object", "required": "query"}, "no valid JSON Schema at /required"),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, "/properties/a/pattern"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}}, "no valid JSON Schema"),
        ({"type": "object", "properties": {"a": object()}}, "not JSON"),
        ("object", "as a dict, not str"),
        (None, "has no parameters"),
    ],
)
def test_what_is_not_a_json_schema_of_an_object_is_refused(schema: Any, fault: str) -> None:
    """R5: checked against the 2020-12 metaschema, and it must describe an object."""
    with pytest.raises(ValueError, match=fault):
        define(parameters=schema)


def test_another_draft_is_refused() -> None:
    """R5: a schema of an older draft would be read with other rules than it was written for."""
    draft_7 = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}
    draft_2020 = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}

    with pytest.raises(ValueError, match=r"draft 2020-12, not http://json-schema\.org/draft-07"):
        define(parameters=draft_7)
    assert define(parameters=draft_2020).parameters == draft_2020


@pytest.mark.parametrize(
    "outside",
    [
        {"$ref": "https://example.org/schema.json"},
        {"$ref": "other.json#/x"},
        {"$ref": "#anchor"},
        {"$dynamicRef": "#node"},
        {"$id": "https://example.org/x", "type": "string"},
    ],
)
def test_references_out_of_the_schema_are_refused(outside: dict[str, Any]) -> None:
    """R5: nothing is fetched, and no secret can hide behind a reference that is not followed."""
    with pytest.raises(ValueError, match="into the same schema"):
        define(parameters={"type": "object", "properties": {"a": outside}})


def test_a_property_may_be_called_like_a_keyword() -> None:
    """R5: a property named `$ref` is a property."""
    schema = {"type": "object", "properties": {"$ref": {"type": "string"}}}

    assert prepare(define(parameters=schema)).parse('{"$ref": "x"}') == {"$ref": "x"}


def test_the_schema_cannot_change_after_its_check() -> None:
    """R5: the definition keeps a copy of its own."""
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
    tool = define(parameters=schema)
    schema["properties"]["a"]["type"] = "integer"

    assert tool.parameters["properties"]["a"]["type"] == "string"


def test_a_handler_takes_input_and_context() -> None:
    """R4: a handler with another signature would fail on its first call, so it is refused."""

    def too_few(input: dict[str, Any]) -> None: ...

    def yields(input: dict[str, Any], context: ToolContext) -> Any:
        yield input

    with pytest.raises(InvalidTool, match=r"two arguments, \(input, context\)"):
        define(handler=too_few)
    with pytest.raises(InvalidTool, match="the handler yields"):
        define(handler=yields)


async def test_an_async_handler_runs() -> None:
    """R6: `async def` works, and is known to be async."""
    prepared = prepare(define(handler=search))

    assert prepared.is_async
    assert await prepared.invoke({"query": "x"}, CONTEXT) == ToolResult(value="x/tmp")


def test_a_sync_handler_runs() -> None:
    """R6: `def` works, and is known to be sync, so that it can be run off the loop."""
    prepared = prepare(define(handler=search_now))

    assert not prepared.is_async
    assert prepared.invoke({"query": "x"}, CONTEXT) == ToolResult(value="x/tmp")


def test_a_definition_becomes_a_tool() -> None:
    """Nothing downstream knows how a tool was written."""
    tool = define(
        name="db.Query",
        category="data",
        requires_approval=True,
        timeout=2.5,
        version="1.2.0",
        is_idempotent=True,
        is_read_only=True,
        uses=("other",),
    ).to_tool()

    assert (tool.name, tool.source, tool.place) == ("db.Query", "host", "local")
    assert (tool.category, tool.requires_approval, tool.timeout) == ("data", True, 2.5)
    assert (tool.version, tool.is_idempotent, tool.is_read_only) == ("1.2.0", True, True)
    assert tool.uses == ("other",)
    assert prepare(tool).declaration.parameters == SCHEMA


def test_a_definition_is_frozen_and_comparable() -> None:
    """A definition is a fact; two equal ones are equal and have one hash."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        define().name = "other"  # pyright: ignore[reportAttributeAccessIssue]
    assert define() == define()
    assert hash(define()) == hash(define())
    assert define() != define(timeout=1.0)


def test_a_definition_can_be_copied_with_changes() -> None:
    """Replacing a part checks everything again."""
    assert dataclasses.replace(define(), timeout=3.0).to_tool().timeout == 3.0
    with pytest.raises(ValueError, match="timeout"):
        dataclasses.replace(define(), timeout=0)
