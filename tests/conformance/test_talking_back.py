"""What a tool can say to the MCP client that called it, and ask of it, in both eras."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client
from mcp.client import ClientRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    ImageContent,
    LoggingMessageNotificationParams,
    TextContent,
)

from tests.conformance.fixture import server_of
from toolcrib.ledger.events import ToolInvoked
from toolcrib.store.memory import MemoryStore

# The newest specification deprecates logging, so that the SDK's client warns of it.
pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
HANDSHAKE = "legacy"
STATELESS = "2026-07-28"
ERAS = (HANDSHAKE, STATELESS)


async def answers(context: ClientRequestContext, asked: ElicitRequestParams) -> ElicitResult:
    assert isinstance(asked, ElicitRequestFormParams)
    [name] = asked.requested_schema["properties"]
    return ElicitResult(action="accept", content={name: f"my {name}"})


async def samples(
    context: ClientRequestContext, asked: CreateMessageRequestParams
) -> CreateMessageResult:
    content = TextContent(type="text", text="Paris")
    return CreateMessageResult(role="assistant", content=content, model="scripted")


class Heard:
    """The log messages that a client was sent."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    async def __call__(self, said: LoggingMessageNotificationParams) -> None:
        self.messages.append(said.data)


@asynccontextmanager
async def client_of(
    era: str, store: MemoryStore | None = None, **can: Any
) -> AsyncGenerator[Client]:
    server = server_of(store or MemoryStore())
    async with server.runtime, Client(server.sdk, mode=era, **can) as client:
        yield client


def text_of(result: Any) -> str:
    return result.content[0].text


@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_asks_and_goes_on_with_the_answers(era: str) -> None:
    """A tool that asks twice gives the same in both eras: asked while it runs, or run again."""
    async with client_of(era, elicitation_callback=answers) as client:
        result = await client.call_tool("test_input_required_result_multi_round", {})

    assert text_of(result) == (
        'step1: accept {"name": "my name"}; step2: accept {"color": "my color"}'
    )


@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_that_needs_sampling_runs_for_a_client_that_can(era: str) -> None:
    """What the client says it can do is what `require` looks at."""
    async with client_of(era, sampling_callback=samples) as client:
        needed = await client.call_tool("test_missing_capability", {})
        asked = await client.call_tool("test_input_required_result_sampling", {})

    assert text_of(needed) == "The client can sample."
    assert text_of(asked) == "capital_question: Paris"


async def test_a_stateless_client_is_told_which_capability_it_lacks() -> None:
    """Its answer is the error that the protocol has for this, not a result."""
    async with client_of(STATELESS) as client:
        with pytest.raises(
            MCPError, match="the client lacks capabilities that this call needs: sampling"
        ) as raised:
            await client.call_tool("test_missing_capability", {})

    assert raised.value.error.code == MISSING_REQUIRED_CLIENT_CAPABILITY
    assert raised.value.error.data == {"requiredCapabilities": {"sampling": {}}}


async def test_a_client_of_the_handshake_protocol_gets_a_result_that_says_so() -> None:
    """That protocol has no such error, so that the call has failed."""
    async with client_of(HANDSHAKE) as client:
        result = await client.call_tool("test_missing_capability", {})

    assert result.is_error
    assert "the client lacks capabilities that this call needs: sampling" in text_of(result)


@pytest.mark.parametrize(("level", "heard"), [("debug", 3), ("info", 3), ("notice", 0)])
async def test_a_connection_hears_what_it_set_its_level_to(level: Any, heard: int) -> None:
    """`logging/setLevel` holds for the calls that come after it on its connection."""
    said = Heard()
    async with client_of(HANDSHAKE, logging_callback=said) as client:
        await client.set_logging_level(level)  # pyright: ignore[reportDeprecated]
        await client.call_tool("test_tool_with_logging", {})

    assert len(said.messages) == heard


@pytest.mark.parametrize(("level", "heard"), [(None, 0), ("info", 3), ("notice", 0)])
async def test_a_stateless_request_hears_what_it_asked_for(level: Any, heard: int) -> None:
    """Without a level in the request nothing is sent, as the protocol demands."""
    said = Heard()
    async with client_of(STATELESS, logging_callback=said, log_level=level) as client:
        await client.call_tool("test_tool_with_logging", {})

    assert len(said.messages) == heard


@pytest.mark.parametrize("era", ERAS)
async def test_content_goes_to_the_client_and_a_value_to_the_ledger(era: str) -> None:
    """A picture is answered as MCP has it; the record keeps what the handler returned."""
    store = MemoryStore()
    async with client_of(era, store) as client:
        result = await client.call_tool("test_image_content", {})
    [session] = store.sessions().items
    records = store.records(session.session_id)
    [ended] = [each.event for each in records if each.kind == ToolInvoked.kind]

    assert [type(each) for each in result.content] == [ImageContent]
    assert isinstance(ended, ToolInvoked)
    assert (ended.value, ended.success, ended.transport) == ("1 blocks of content", True, "mcp")


async def test_an_answer_that_was_changed_on_its_way_is_refused() -> None:
    """What a stateless client carries between two requests is sealed."""
    async with client_of(STATELESS, elicitation_callback=answers) as client:
        with pytest.raises(MCPError, match="requestState"):
            await client.session.call_tool(
                "test_input_required_result_multi_round", {}, request_state='{"step1": "mine"}'
            )
