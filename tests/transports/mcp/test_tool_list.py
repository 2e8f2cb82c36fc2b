"""The tools that an MCP client is told of."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ToolsListChanged
from mcp_types import ToolListChangedNotification

from tests.transports.mcp.connected_client import (
    CALLER,
    ERAS,
    HANDSHAKE,
    STATELESS,
    TEXT,
    Bench,
    connected,
    facts_of,
    text_of,
)
from toolcrib import Hooks, Tool, ToolResult, tool
from toolcrib.host_tools import HostToolDefinition
from toolcrib.runtime.principal import Principal
from toolcrib.transports.mcp import McpOptions

each_era = pytest.mark.parametrize("era", ERAS)


@dataclass
class Place:
    city: str


@dataclass
class Weather:
    city: str
    degrees: float


def _weather(params: Place) -> Weather:
    return Weather(params.city, 21.5)


weather = Tool[Place, Weather](
    name="weather",
    description="The weather of a city.",
    handler=_weather,
    is_read_only=True,
    version="1.2.0",
    category="sky",
)


@tool
def shout(text: str) -> str:
    """Say it louder.

    Args:
        text: What to say.
    """
    return text.upper()


async def _new(input: dict[str, Any], context: Any) -> str:
    return "new"


NEW = HostToolDefinition("new", "A new tool.", TEXT, _new)


async def listed(bench: Bench) -> dict[str, Any]:
    return {each.name: each for each in (await bench.client.list_tools()).tools}


@each_era
class TestListing:
    async def test_a_tool_is_told_with_all_that_a_client_can_use(self, era: str) -> None:
        """R37, R47: schema, hints, and in `_meta` which tool it is exactly."""
        async with connected(era, weather) as bench:
            found = (await listed(bench))["weather"]

        assert found.description == "The weather of a city."
        assert found.input_schema["properties"]["city"]["type"] == "string"
        hints = found.annotations
        assert (hints.title, found.title) == ("Weather", "Weather")
        assert (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint) == (
            True,
            False,
            True,
        )
        identity = found.meta["toolcrib/tool"]
        assert (identity["version"], identity["category"]) == ("1.2.0", "sky")
        assert len(identity["digest"]) == 64

    async def test_typed_results_that_are_objects_have_a_schema(self, era: str) -> None:
        """A result of another kind has none: the protocol knows only objects."""
        async with connected(era, weather, shout) as bench:
            found = await listed(bench)

        assert found["weather"].output_schema["properties"]["degrees"]["type"] == "number"
        assert found["shout"].output_schema is None
        assert found["write"].output_schema is None

    async def test_structured_content_is_what_the_schema_says(self, era: str) -> None:
        """R22: programs get the value, models the text, and the SDK's client checks the one
        against the schema.
        """
        async with connected(era, weather) as bench:
            await bench.client.list_tools()
            result = await bench.client.call_tool("weather", {"city": "Ulm"})

        assert result.structured_content == {"city": "Ulm", "degrees": 21.5}
        assert text_of(result) == '{"city":"Ulm","degrees":21.5}'

    async def test_what_breaks_the_promise_is_an_error(self, era: str) -> None:
        """A hook may put anything in the result's place; a client is never given what the schema
        rules out.
        """

        async def hide(context: Any, name: str, result: ToolResult[Any]) -> ToolResult[Any]:
            return ToolResult(value={"hidden": True})

        hooks = {"hooks": Hooks(global_post=hide)}
        async with connected(era, weather, config=hooks) as bench:
            result = await bench.client.call_tool("weather", {"city": "Ulm"})

        assert result.is_error
        assert result.structured_content is None
        assert facts_of(result)["failure"]["kind"] == "invalid_result"

    async def test_there_is_one_page(self, era: str) -> None:
        """A cursor that nobody gave out is refused."""
        async with connected(era) as bench:
            with pytest.raises(MCPError, match="cursor"):
                await bench.client.list_tools(cursor="2")

    async def test_who_may_not_read_is_not_told(self, era: str) -> None:
        """R46: roles hold here as on every transport."""
        who = Principal("mute", frozenset({"approver"}), transport="mcp")
        async with connected(era, who=who) as bench:
            with pytest.raises(MCPError, match="role 'caller'"):
                await bench.client.list_tools()


class TestChanges:
    async def test_a_connection_hears_that_its_tools_changed(self) -> None:
        """R15: the handshake protocol has a notification for it, and the next list is new."""
        heard: asyncio.Queue[Any] = asyncio.Queue()
        async with connected(HANDSHAKE, message_handler=heard.put) as bench:
            assert "new" not in await listed(bench)
            await bench.runtime.registry.register(NEW)
            message = await heard.get()
            assert "new" in await listed(bench)
            await bench.runtime.registry.unregister("new")
            await heard.get()
            assert "new" not in await listed(bench)

        assert isinstance(message, ToolListChangedNotification)

    async def test_the_server_says_that_it_will_tell(self) -> None:
        """A client that is not told so does not look."""
        async with connected(HANDSHAKE) as bench:
            capabilities = bench.client.server_capabilities

        assert capabilities.tools is not None
        assert capabilities.tools.list_changed is True

    async def test_who_listens_without_a_connection_hears_it_too(self) -> None:
        """R15: the stateless protocol has a stream of changes."""
        async with (
            connected(STATELESS) as bench,
            bench.client.listen(tools_list_changed=True) as changes,
        ):
            before = await listed(bench)
            await bench.runtime.registry.register(NEW)
            change = await anext(aiter(changes))
            after = await listed(bench)

        assert isinstance(change, ToolsListChanged)
        assert set(after) - set(before) == {"new"}

    async def test_a_list_may_be_kept_for_a_while(self) -> None:
        """The stateless protocol says for how long, and that it is this client's own."""
        options = McpOptions(list_ttl_ms=1_500)
        async with connected(STATELESS, options=options, who=CALLER) as bench:
            told = await bench.client.session.list_tools()

        assert (told.ttl_ms, told.cache_scope) == (1_500, "private")
