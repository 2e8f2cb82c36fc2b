"""Calls by MCP: what they come to, and how they end early."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import TextResourceContents

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
from toolcrib.host_tools import HostToolDefinition
from toolcrib.runtime.principal import Principal
from toolcrib.transports.mcp import McpOptions

each_era = pytest.mark.parametrize("era", ERAS)


async def _broken(input: dict[str, Any], context: Any) -> str:
    raise RuntimeError("the shelf fell down")


async def _long(input: dict[str, Any], context: Any) -> str:
    return input["text"] * 60_000


BROKEN = HostToolDefinition("broken", "It breaks.", TEXT, _broken)
LONG = HostToolDefinition("long", "Much of it.", TEXT, _long)
TALKER = HostToolDefinition("talker", "Talks back.", TEXT, _long, requires=("elicitation",))


async def sessions_of(bench: Bench) -> list[Any]:
    return (await bench.runtime.ask("session.list")).sessions


@each_era
class TestOutcomes:
    async def test_a_failure_is_a_result_with_its_kind(self, era: str) -> None:
        """R19, R22: the model reads what went wrong, a program its kind, nobody a traceback."""
        async with connected(era, BROKEN) as bench:
            result = await bench.call("broken")

        assert result.is_error
        assert text_of(result) == "RuntimeError: the shelf fell down"
        assert facts_of(result)["failure"]["kind"] == "tool_error"
        assert "Traceback" not in result.model_dump_json()

    async def test_arguments_that_do_not_fit_are_named(self, era: str) -> None:
        """R45: checked before anything runs; each fault has its place."""
        async with connected(era) as bench:
            result = await bench.client.call_tool("write", {"text": 5})

        assert result.is_error
        assert facts_of(result)["failure"]["faults"][0]["pointer"] == "/text"
        assert bench.work.done == []

    async def test_an_unknown_tool_is_an_error_of_the_protocol(self, era: str) -> None:
        """The specification wants -32602; what the ledger says of it comes along."""
        async with connected(era) as bench:
            with pytest.raises(MCPError, match="Unknown tool: nowhere") as caught:
                await bench.call("nowhere")

        assert caught.value.code == -32602
        assert caught.value.data["toolcrib/call"]["failure"]["kind"] == "not_found"

    async def test_a_misspelt_tool_is_answered_with_the_one_that_was_meant(self, era: str) -> None:
        """Newcomers B: the client's own list of tools is what a suggestion comes from."""
        async with connected(era) as bench:
            with pytest.raises(MCPError, match=r"Unknown tool: wrte; did you mean 'write'\?"):
                await bench.call("wrte")

    async def test_who_may_not_call_is_refused(self, era: str) -> None:
        """R46: a principal that may only read gets nothing run."""
        who = Principal("reader", frozenset({"auditor"}), transport="mcp")
        async with connected(era, who=who) as bench:
            with pytest.raises(MCPError, match="role 'caller'") as caught:
                await bench.call("write")

        assert caught.value.data["kind"] == "forbidden"
        assert bench.work.done == []

    async def test_every_call_is_recorded_with_who_and_how(self, era: str) -> None:
        """R46: the audit knows the principal and the transport."""
        async with connected(era) as bench:
            result = await bench.call("write")
            (session,) = await sessions_of(bench)
            asked = {"session_id": session.session_id}
            events = (await bench.runtime.ask("events.list", asked)).events

        (ended,) = [each["data"] for each in events if each["kind"] == "tool.invoked"]
        assert ended["call_id"] == facts_of(result)["call_id"]
        assert (ended["principal"], ended["transport"]) == ("ada", "mcp")

    async def test_a_long_result_is_cut_and_can_be_read_whole(self, era: str) -> None:
        """The link leads to all of it, in the client's own session only."""
        async with connected(era, LONG) as bench:
            result = await bench.call("long", "ä🐚")
            link = result.content[1]
            assert link.type == "resource_link"
            (whole,) = (await bench.client.read_resource(link.uri)).contents
            with pytest.raises(MCPError, match="Resource not found"):
                await bench.client.read_resource(f"{link.uri}x")
            with pytest.raises(MCPError, match="Resource not found"):
                await bench.client.read_resource("file:///etc/passwd")

        assert isinstance(whole, TextResourceContents)
        assert whole.text == "ä🐚" * 60_000
        assert len(text_of(result)) < len(whole.text)


@each_era
class TestCancelling:
    async def test_who_cancels_the_request_cancels_the_call(self, era: str) -> None:
        """R42: a notification in one protocol, a closed stream in the other; the handler stops."""
        async with connected(era) as bench:
            asking = asyncio.ensure_future(bench.call("hold"))
            await bench.work.entered.wait()
            asking.cancel()
            await bench.work.stopped.wait()
            other = await bench.call("write")

        assert not other.is_error

    async def test_what_somebody_else_cancels_is_told(self, era: str) -> None:
        """An operator who stops the call leaves the client with a result that says so."""
        async with connected(era) as bench:
            named: Any = {"toolcrib/call_id": "held-1"}
            asking = asyncio.ensure_future(bench.call("hold", meta=named))
            await bench.work.entered.wait()
            (session,) = await sessions_of(bench)
            asked = {"session_id": session.session_id, "call_id": "held-1"}
            await bench.runtime.ask("tools.cancel", asked)
            result = await asking

        assert facts_of(result)["failure"]["kind"] == "cancelled"

    async def test_an_id_that_is_taken_is_refused(self, era: str) -> None:
        """Two calls cannot run under one id."""
        async with connected(era) as bench:
            named: Any = {"toolcrib/call_id": "held-1"}
            asking = asyncio.ensure_future(bench.call("hold", meta=named))
            await bench.work.entered.wait()
            with pytest.raises(MCPError, match="is running") as caught:
                await bench.call("write", meta=named)
            asking.cancel()

        assert caught.value.data["kind"] == "conflict"


class TestSessions:
    async def test_a_connection_is_a_session_that_ends_with_it(self) -> None:
        """R27: it is opened when it is first needed, knows the client, and is closed."""
        async with connected(STATELESS) as bench:
            async with Client(bench.server.sdk, mode=HANDSHAKE) as client:
                assert await sessions_of(bench) == []
                await client.call_tool("write", {"text": "one"})
                await client.call_tool("write", {"text": "two"})
                (session,) = await sessions_of(bench)
            (ended,) = await sessions_of(bench)

        assert session.state == "open"
        assert session.metadata["principal"] == "ada"
        assert session.metadata["client"].startswith("mcp")
        assert ended.state == "closed"

    async def test_without_connections_a_principal_has_a_session(self) -> None:
        """Requests of the stateless protocol share it, those of other principals do not."""
        async with connected(STATELESS) as bench:
            await bench.call("write")
            await bench.call("write")
            (session,) = await sessions_of(bench)

        assert session.session_id.startswith("ada:mcp_")

    @each_era
    async def test_all_may_work_in_one_session(self, era: str) -> None:
        """A host that names the session has every call in it."""
        async with connected(era, options=McpOptions(session="shop")) as bench:
            await bench.call("write")
            (session,) = await sessions_of(bench)

        assert session.session_id == "shop"

    @each_era
    async def test_a_session_that_somebody_closed_is_replaced(self, era: str) -> None:
        """The client did not open it and cannot be told to."""
        async with connected(era) as bench:
            await bench.call("write", "one")
            (session,) = await sessions_of(bench)
            await bench.runtime.ask("session.close", {"session_id": session.session_id})
            again = await bench.call("write", "two")

        assert not again.is_error
        assert bench.work.done == ["one", "two"]

    @each_era
    @pytest.mark.parametrize("can_elicit", [True, False])
    async def test_tools_that_need_a_form_are_for_clients_that_have_one(
        self, era: str, can_elicit: bool
    ) -> None:
        """R49: what the client can do decides which tools it gets."""

        async def answer(context: Any, params: Any) -> Any:
            raise AssertionError

        more: dict[str, Any] = {"elicitation_callback": answer} if can_elicit else {}
        async with connected(era, TALKER, who=CALLER, **more) as bench:
            names = [each.name for each in (await bench.client.list_tools()).tools]

        assert ("talker" in names) is can_elicit
