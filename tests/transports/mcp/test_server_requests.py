"""Log messages, progress and requests of a mounted server, at the client whose call caused them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from tests.helpers.patience import PATIENCE
from tests.mcp_client.mounted_servers import rich
from tests.transports.mcp.connected_client import HANDSHAKE, STATELESS, facts_of, text_of
from toolcrib import RuntimeConfig, create_runtime
from toolcrib.ledger.events import ToolEmitted
from toolcrib.mcp_client.config import MountTerms
from toolcrib.mcp_client.request_terms import RequestTerms
from toolcrib.runtime.runtime import Runtime
from toolcrib.transports.mcp import McpServer

pytestmark = pytest.mark.wire

PAIRS = [(HANDSHAKE, "older"), (STATELESS, "newer")]
"""The revisions of the protocol that the client and the mounted server speak."""
EVERY_PAIR = [*PAIRS, (HANDSHAKE, "newer"), (STATELESS, "older")]
CANARY = "canary-5f1c9d07"
SAMPLE = types.CreateMessageResult(
    role="assistant", content=types.TextContent(type="text", text="42"), model="small-model"
)


class Answers:
    """The callbacks of a client, and what they were asked."""

    def __init__(self, *choices: types.ElicitResult) -> None:
        self.asked: list[Any] = []
        self._choices = list(choices)

    async def sample(self, context: Any, params: Any) -> types.CreateMessageResult:
        self.asked.append(params)
        return SAMPLE

    async def elicit(self, context: Any, params: Any) -> types.ElicitResult:
        self.asked.append(params)
        return self._choices.pop(0)

    async def roots(self, context: Any) -> types.ListRootsResult:
        root = types.Root.model_validate({"uri": "file:///home/ada", "name": "home"})
        return types.ListRootsResult(roots=[root])


@asynccontextmanager
async def gateway(
    era: str, upstream: Any, terms: RequestTerms | None = None, **client: Any
) -> AsyncGenerator[tuple[Client, Runtime]]:
    server = rich(upstream, requests=terms or RequestTerms(sampling="allow"), env={"TOKEN": CANARY})
    config = RuntimeConfig(mcp_servers=[server])
    async with (
        create_runtime(config) as runtime,
        Client(McpServer(runtime).sdk, mode=era, **client) as connection,
    ):
        yield connection, runtime


async def requests_of(runtime: Runtime, result: types.CallToolResult) -> list[Any]:
    """What the ledger has of the requests that a call forwarded."""
    call_id = facts_of(result)["call_id"]
    [session] = (await runtime.ask("session.list", {})).sessions
    events = (record.event for record in runtime.store.records(session.session_id))
    return [
        event.data
        for event in events
        if isinstance(event, ToolEmitted) and event.call_id == call_id
    ]


@pytest.mark.parametrize(("era", "upstream"), PAIRS)
async def test_log_messages_and_progress_reach_the_caller(era: str, upstream: str) -> None:
    """Of the levels that the client wants, without the secrets of the server; every progress."""
    logged: list[types.LoggingMessageNotificationParams] = []
    reported: list[tuple[float, float | None, str | None]] = []

    async def log(params: types.LoggingMessageNotificationParams) -> None:
        logged.append(params)

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reported.append((progress, total, message))

    options: dict[str, Any] = {"log_level": "info"} if era == STATELESS else {}
    async with gateway(era, upstream, logging_callback=log, **options) as (client, _):
        if era == HANDSHAKE:
            await client.session.send_request(
                types.SetLevelRequest(params=types.SetLevelRequestParams(level="info")),
                types.EmptyResult,
            )
        await client.call_tool("rich_talk", {}, progress_callback=report)
        for _ in range(100):
            # A notification may be handled after the result that follows it.
            if len(logged) == 3 and len(reported) == 4:
                break
            await asyncio.sleep(0)

    assert [(each.level, each.logger) for each in logged] == [
        ("info", "rich"),
        ("warning", "rich"),
        ("error", "rich"),
    ]
    assert [each.data["step"] for each in logged] == [2, 3, 4]
    assert CANARY not in str(logged)
    assert reported == [(number, 4, f"step {number}") for number in (1, 2, 3, 4)]


@pytest.mark.parametrize(("era", "upstream"), EVERY_PAIR)
async def test_the_clients_model_answers(era: str, upstream: str) -> None:
    """A request for a sample goes to the client that called, and is recorded with its answer."""
    answers = Answers()
    async with gateway(era, upstream, sampling_callback=answers.sample) as (client, runtime):
        done = await client.call_tool("rich_think", {})
        [recorded] = await requests_of(runtime, done)

    assert json.loads(text_of(done))["content"]["text"] == "42"
    assert answers.asked[0].messages[0].content.text == "What is 6 times 7?"
    assert (recorded["server"], recorded["method"]) == ("rich", "sampling/createMessage")
    assert recorded["response"]["model"] == "small-model"
    assert {"request_digest", "response_digest", "client"} <= recorded.keys()


@pytest.mark.parametrize(
    ("era", "decision", "works"), [(HANDSHAKE, "allow", True), (STATELESS, "refuse", False)]
)
async def test_by_default_a_person_agrees_to_the_use_of_the_model(
    era: str, decision: str, works: bool
) -> None:
    """The person reads which server asks and what; a refusal is told as ours."""
    choice = types.ElicitResult(action="accept", content={"answer": decision})
    answers = Answers(choice)
    async with gateway(
        era,
        "older",
        RequestTerms(),
        sampling_callback=answers.sample,
        elicitation_callback=answers.elicit,
    ) as (client, _):
        done = await client.call_tool("rich_think", {})

    assert "The MCP server `rich` asks: May it have your model" in answers.asked[0].message
    assert "What is 6 times 7?" in answers.asked[0].message
    assert len(answers.asked) == (2 if works else 1)
    assert done.is_error is not works
    if not works:
        assert "Toolcrib refused the request of the MCP server `rich`: a person" in text_of(done)


@pytest.mark.parametrize(("era", "upstream"), PAIRS)
async def test_a_client_without_the_capability_is_named_as_the_cause(
    era: str, upstream: str
) -> None:
    """The server is not blamed for what our client cannot do."""
    async with gateway(era, upstream) as (client, _):
        sampled = await client.call_tool("rich_think", {})
        asked = await client.call_tool("rich_fill_in", {})
        located = await client.call_tool("rich_locate", {})

    assert sampled.is_error
    assert "the client of the call has no capability sampling" in text_of(sampled)
    assert asked.is_error
    assert "the MCP client has no elicitation capability" in text_of(asked)
    assert "refused the call" not in text_of(sampled) + text_of(asked)
    assert json.loads(text_of(located))["roots"] == []


async def test_what_the_configuration_denies_is_said_to_be_denied_here() -> None:
    """Not even the capability is declared to the server; one that asks all the same is refused."""
    denied = RequestTerms(sampling="deny", elicitation="deny", shares_roots=False)
    answers = Answers()
    async with gateway(
        HANDSHAKE,
        "older",
        denied,
        sampling_callback=answers.sample,
        elicitation_callback=answers.elicit,
        list_roots_callback=answers.roots,
    ) as (client, _):
        results = [
            await client.call_tool(name, {})
            for name in ("rich_think", "rich_fill_in", "rich_visit")
        ]

    assert answers.asked == []
    assert all(result.is_error for result in results)
    assert "The MCP server `rich` may not" in text_of(results[0])


@pytest.mark.parametrize(("era", "upstream"), [*PAIRS, (HANDSHAKE, "newer")])
async def test_an_address_is_opened_by_the_client_that_can(era: str, upstream: str) -> None:
    """In the mode for addresses, with the name of the server that sends the person there."""
    answers = Answers(types.ElicitResult(action="accept"))
    over = asyncio.Event()

    async def hear(message: object) -> None:
        if isinstance(message, types.ElicitCompleteNotification):
            assert message.params.elicitation_id == "e1"
            over.set()

    async with gateway(
        era, upstream, elicitation_callback=answers.elicit, message_handler=hear
    ) as (client, _):
        done = await client.call_tool("rich_visit", {})
        if (era, upstream) == (HANDSHAKE, "older"):
            await asyncio.wait_for(over.wait(), PATIENCE)

    [asked] = answers.asked
    assert (asked.mode, asked.url) == ("url", "https://example.org/in")
    assert asked.message == "The MCP server `rich` asks: Sign in"
    assert json.loads(text_of(done))["action"] == "accept"


@pytest.mark.parametrize(("era", "upstream"), PAIRS)
async def test_roots_are_the_clients_else_the_configured(era: str, upstream: str) -> None:
    """A client's own roots come before those of the file."""
    configured = RequestTerms(roots=("file:///srv/data",))
    async with gateway(era, upstream, configured, list_roots_callback=Answers().roots) as (
        client,
        _,
    ):
        own = await client.call_tool("rich_locate", {})
    async with gateway(era, upstream, configured) as (client, _):
        others = await client.call_tool("rich_locate", {})

    assert json.loads(text_of(own))["roots"][0]["uri"] == "file:///home/ada"
    assert json.loads(text_of(others))["roots"] == [{"uri": "file:///srv/data"}]


@pytest.mark.parametrize("era", [HANDSHAKE, STATELESS])
async def test_a_form_is_filled_in_at_the_client_of_the_call(era: str) -> None:
    """Also when the server asks by itself, in the task of its connection."""
    answers = Answers(types.ElicitResult(action="accept", content={"colour": "red"}))
    async with gateway(era, "older", elicitation_callback=answers.elicit) as (client, _):
        done = await client.call_tool("rich_fill_in", {})

    assert answers.asked[0].message == "The MCP server `rich` asks: Which colour?"
    assert json.loads(text_of(done))["content"] == {"colour": "red"}


def test_the_terms_ask_a_person_unless_told_otherwise() -> None:
    """Nothing fails open: the use of a client's model needs a word."""
    assert MountTerms(prefix="x_").requests == RequestTerms(
        sampling="ask", elicitation="allow", shares_roots=True, roots=()
    )
