"""The published JSON Schema and the loader accept and refuse the same files."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import jsonschema_rs
import pytest
import yaml

from tests.host_tools.project import Project
from toolcrib.errors import InvalidTool
from toolcrib.host_tools import parse_host_tools


def schema() -> dict[str, Any]:
    text = resources.files("toolcrib.host_tools").joinpath("host-tools.schema.json")
    return json.loads(text.read_text("utf-8"))


def fits_schema(document: Any) -> bool:
    return jsonschema_rs.Draft202012Validator(schema()).is_valid(document)


def is_loaded(document: Any) -> bool:
    try:
        parse_host_tools(yaml.safe_dump(document))
    except InvalidTool:
        return False
    return True


def with_tool(**changes: Any) -> dict[str, Any]:
    tool = {
        "name": "look",
        "description": "Look around",
        "module": "shop_handlers",
        "function": "now",
        "parameters": {"type": "object"},
    }
    return {"tools": [{key: value for key, value in {**tool, **changes}.items() if value != ...}]}


def with_server(**server: Any) -> dict[str, Any]:
    return {"mcp_servers": {"docs": server}}


GOOD: list[Any] = [
    {"tools": []},
    {"mcp_servers": {}},
    with_tool(),
    *[with_tool(name=name) for name in ("a", "A.b-c_9", "x" * 128)],
    with_tool(function="Desk.look"),
    with_tool(scope="session", function="per_session"),
    with_tool(timeout=0.5, category="x", requires_approval=True, sandbox=False),
    *[with_tool(version=version) for version in ("0.0.0", "1.2.3-rc.1+b.5")],
    with_tool(uses=["a"], requires=[], is_idempotent=True, is_read_only=False, deprecated="x"),
    *[with_tool(sandbox=good) for good in (True, {}, {"network": True, "readable": ["."]})],
    with_tool(sandbox={"seconds": 0.5, "memory_bytes": 1, "env": {"A": ""}}),
    with_server(command="docs-server"),
    with_server(command="x", args=["a", ""], env={"A_1": ""}, cwd="."),
    with_server(url="https://example.org/mcp", headers={"X-Key": "${KEY}"}),
    with_server(url="http://localhost:80/mcp", prefix="", approval="policy"),
    with_server(command="x", prefix="d.", allowed_tools=["a"], denied_tools=[]),
]
BAD: list[Any] = [
    None,
    [],
    {},
    {"version": 1},
    {"tools": None},
    {"tools": {}},
    {"tools": [None]},
    *[with_tool(**{key: ...}) for key in ("name", "description", "module", "function")],
    *[with_tool(name=name) for name in ("", "a b", "a:b", "x" * 129, 5)],
    *[with_tool(module=module) for module in ("", ".a", "a.", "a-b", "a b", 5)],
    *[with_tool(function=function) for function in ("", "a()", None)],
    *[with_tool(parameters=bad) for bad in (None, ["type"], "object")],
    *[with_tool(timeout=bad) for bad in (0, -1, "5", True, None)],
    *[with_tool(version=bad) for bad in (1, "1", "1.0", "01.0.0", None)],
    *[with_tool(uses=bad) for bad in ("a", [1], ["a", "a"], [""], None)],
    *[with_tool(requires_approval=bad) for bad in ("true", 1, None)],
    *[with_tool(scope=bad) for bad in ("Global", None)],
    *[with_tool(category=bad) for bad in ("", " ", 5, None)],
    *[with_tool(sandbox=bad) for bad in ("yes", 1, None, {"sceonds": 5}, {"seconds": 0})],
    *[with_tool(sandbox=bad) for bad in ({"processes": 1.5}, {"network": "no"}, {"env": {"A": 1}})],
    *[with_tool(sandbox={"readable": bad}) for bad in (".", [""], [5])],
    with_tool(handler="x"),
    {"mcp_servers": []},
    {"mcp_servers": {"9": {"command": "x"}}},
    {"mcp_servers": {"a b": {"command": "x"}}},
    with_server(),
    with_server(command="x", url="https://example.org"),
    with_server(command=""),
    with_server(command=["x"]),
    with_server(command="x", headers={"A": "b"}),
    with_server(command="x", args="a"),
    with_server(command="x", args=[1]),
    with_server(command="x", env={"A B": "x"}),
    with_server(command="x", env={"A": 1}),
    with_server(url="https://example.org", env={"A": "b"}),
    with_server(url="https://example.org", args=[]),
    with_server(url="https://example.org", headers={"A B": "x"}),
    with_server(url="ftp://example.org"),
    with_server(command="x", allowed_tools=[]),
    with_server(command="x", prefix="a b"),
    with_server(command="x", approval="never"),
    with_server(command="x", other=1),
]


@pytest.mark.parametrize("document", GOOD, ids=json.dumps)
def test_schema_and_loader_accept_the_same(document: Any, project: Project) -> None:
    """R29: what an editor with the schema calls right, the loader takes."""
    project.shop()

    assert fits_schema(document)
    assert is_loaded(document)


@pytest.mark.parametrize("document", BAD, ids=repr)
def test_schema_and_loader_refuse_the_same(document: Any, project: Project) -> None:
    """R29: what the loader refuses, an editor with the schema marks."""
    project.shop()

    assert not fits_schema(document)
    assert not is_loaded(document)


@pytest.mark.parametrize(
    "document",
    [
        with_tool(function="missing"),
        with_tool(parameters=...),
        with_tool(parameters={"type": "array"}),
        with_tool(sandbox={"readable": ["no/such/folder"]}),
        with_tool(sandbox=True, scope="session", function="per_session"),
        {"tools": with_tool()["tools"] * 2},
        with_server(url="http://example.org/mcp"),
        with_server(url="https://user:word@example.org/mcp"),
        with_server(url="https://example.org", headers={"A": "b\nC: d"}),
    ],
    ids=json.dumps,
)
def test_the_loader_also_refuses_what_a_schema_cannot_say(document: Any, project: Project) -> None:
    """R30: what has to be imported, looked up or compared is beyond JSON Schema."""
    project.shop()

    assert fits_schema(document)
    assert not is_loaded(document)


def test_the_schema_is_a_schema() -> None:
    """R29: the published file is valid against the draft it names."""
    assert jsonschema_rs.meta.is_valid(schema())


def test_the_schema_covers_every_option_of_a_tool() -> None:
    """R29: the keys of the document, and those of a definition that a file can say."""
    keys = schema()["$defs"]["tool"]["properties"]

    assert set(keys) >= {
        *("name", "description", "module", "function", "parameters"),
        *("scope", "category", "requires_approval", "timeout", "version", "uses", "sandbox"),
    }
