"""The examples of the document on host-defined tools, run as they are written, names changed.

What they show of runtimes and transports is proved where those are.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import ask
from tests.host_tools.project import Project
from toolcrib import Executor, Session
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.host_tools import (
    HostTool,
    HostToolDefinition,
    HostToolRegistry,
    SessionTools,
    ToolContext,
    ToolResult,
    ToolScope,
    load_host_tools,
)
from toolcrib.testing import ScriptedOpenAI, calls, says


async def stock_handler(input: dict[str, Any], context: ToolContext) -> ToolResult[Any]:
    return ToolResult(success=True, output={"item": input["item"], "shop": context.cwd})


stock = HostToolDefinition(
    name="stock_level",
    description="Says how many of an item are left",
    parameters={
        "type": "object",
        "properties": {"item": {"type": "string"}},
        "required": ["item"],
    },
    handler=stock_handler,
)


class TestDataStructures:
    def test_the_types_are_built_as_shown(self) -> None:
        """R1, R2, R3, R4: with the documented fields and defaults, by position and by name."""
        context = ToolContext(session_id="s", cwd="/shop")
        other = ToolContext("t", "/shop", {"LANG": "C"}, {"user": "ann"})
        result: ToolResult[Any] = ToolResult()

        assert [scope.value for scope in ToolScope] == ["global", "session"]
        assert (context.environment, context.metadata) == ({}, {})
        assert (other.environment, other.metadata) == ({"LANG": "C"}, {"user": "ann"})
        assert (result.success, result.output, result.error) == (True, None, None)
        assert result.metadata == {}
        assert (stock.scope, stock.category) == (ToolScope.GLOBAL, None)
        assert (stock.requires_approval, stock.timeout) == (False, None)

    def test_no_two_contexts_share_their_dicts(self) -> None:
        """R2: changing one session's context never changes another's."""
        first, second = ToolContext("a", "/"), ToolContext("b", "/")
        first.environment["KEY"] = first.metadata["key"] = "x"

        assert (second.environment, second.metadata) == ({}, {})


class TestRegistry:
    async def test_register_tool(self) -> None:
        """R8: the document's first test."""
        registry = HostToolRegistry()
        await registry.register(stock)

        assert registry.get("stock_level") is not None

    async def test_duplicate_registration_fails(self) -> None:
        """R8: the document's second test."""
        registry = HostToolRegistry()
        await registry.register(stock)

        with pytest.raises(ValueError, match="stock_level"):
            await registry.register(stock)

    async def test_create_session_tools(self) -> None:
        """R13: the document's third test."""
        registry = HostToolRegistry()
        await registry.register(stock)
        context = ToolContext(session_id="test", cwd="/tmp")

        tools = registry.create_session_tools("test", context)

        assert len(tools) == 1
        assert tools[0].name == "stock_level"


class TestWrapper:
    async def test_the_wrapper_has_the_documented_face(self) -> None:
        """R16, R17: properties, and `execute` that gives a result."""
        tool = HostTool(stock, ToolContext(session_id="s", cwd="/shop"))

        assert (tool.name, tool.description) == (stock.name, stock.description)
        assert tool.parameters == tool.input_schema == stock.parameters
        result = await tool.execute({"item": "nuts"})
        assert result == ToolResult(
            success=True,
            output={"item": "nuts", "shop": "/shop"},
            message='{"item":"nuts","shop":"/shop"}',
        )


class TestSession:
    async def test_tool_available_in_session(self) -> None:
        """R23: a session's tools are a mapping by name."""
        registry = HostToolRegistry()
        await registry.register(stock)
        session = Session("s")
        mounted = SessionTools(registry, session)
        mounted.follow(Executor(session, mounted.for_executor))

        assert "stock_level" in mounted.tools
        assert [tool.name for tool in mounted.tools.values()] == ["stock_level"]

    async def test_tool_execution_via_llm(self) -> None:
        """R22, R40: a model calls a host tool and reads what it gave as JSON."""
        registry = HostToolRegistry()
        await registry.register(stock)
        session = Session("s", cwd="/shop")
        model = ScriptedOpenAI([calls("stock_level", {"item": "nuts"})], [says("Enough.")])
        adapter = OpenAIAdapter(model="any", client=model.client())

        answer = await adapter.evaluate_async(ask(*registry.list_tools()), session=session)

        assert answer.text == "Enough."
        assert model.requests[0]["tools"][0]["parameters"]["required"] == ["item"]
        (item,) = model.requests[1]["input"]
        assert item["output"] == '{"item":"nuts","shop":"/shop"}'

    async def test_a_handler_can_change_what_the_host_has(self) -> None:
        """R17: the document's last test, with a function in place of the model."""
        state = {"called": False}

        async def stateful_handler(input: dict[str, Any], context: ToolContext) -> ToolResult[str]:
            state["called"] = True
            return ToolResult(success=True, output="done")

        registry = HostToolRegistry()
        await registry.register(
            HostToolDefinition(
                name="ring_bell",
                description="Rings the bell",
                parameters={"type": "object"},
                handler=stateful_handler,
            )
        )
        (tool,) = registry.create_session_tools("s", ToolContext(session_id="s", cwd="/"))

        assert (await tool.execute({})).output == "done"
        assert state["called"] is True


class TestConfiguration:
    async def test_a_file_and_a_module_together(self, project: Project) -> None:
        """R29, R31: what `--host-tools` and `--host-tools-module` load."""
        project.write("myshop/__init__.py", "")
        project.write("myshop/tools/__init__.py", "")
        project.write(
            "myshop/tools/database.py",
            "async def query_handler(input, context):\n    return [input['sql']]\n",
        )
        project.write(
            "myshop/tools/bell.py",
            """
            from toolcrib import tool

            @tool
            def ring(times: int = 1) -> str:
                '''Ring the bell.'''
                return "ding " * times
            """,
        )
        project.write(
            "my-tools.yaml",
            """
            tools:
              - name: shop_database_query
                description: "Query the shop's database"
                module: myshop.tools.database
                function: query_handler
                parameters:
                  type: object
                  properties:
                    sql:
                      type: string
                      description: "SQL query to execute"
                  required: [sql]
            """,
        )
        registry = HostToolRegistry()

        await load_host_tools(registry, files=["./my-tools.yaml"], modules=["myshop.tools.bell"])

        tools = registry.create_session_tools("s", ToolContext(session_id="s", cwd="/"))
        query, ring = [
            (await tool.execute(input)) for tool, input in zip(tools, INPUTS, strict=True)
        ]
        assert (query.output, ring.output) == (["select 1"], "ding ding ")


INPUTS: list[dict[str, Any]] = [{"sql": "select 1"}, {"times": 2}]


def test_the_document_registers_from_several_loops() -> None:
    """R11: the document's own `asyncio.Lock` would be bound to the first loop that waits for it."""
    registry = HostToolRegistry()

    for number in range(3):
        definition = HostToolDefinition(f"t{number}", "A tool.", {"type": "object"}, stock_handler)
        asyncio.run(registry.register(definition))

    assert len(registry.list_tools()) == 3
