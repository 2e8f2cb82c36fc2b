"""Resources, prompts and completions of the application itself, for MCP clients of both eras."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest
from mcp import Client
from mcp.client.subscriptions import PromptsListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import (
    ElicitResult,
    PromptListChangedNotification,
    PromptReference,
    ResourceTemplateReference,
    ResourceUpdatedNotification,
    TextContent,
    TextResourceContents,
)

from tests.helpers.patience import PATIENCE
from tests.transports.mcp.connected_client import APPROVER, CALLER, ERAS, HANDSHAKE, STATELESS
from toolcrib import CallEnded, RuntimeConfig, create_runtime, tool
from toolcrib.approval.pattern import Equals
from toolcrib.approval.policy import Policy, Rule
from toolcrib.errors import InvalidTool, Refused
from toolcrib.features import prompt, resource
from toolcrib.host_tools import HostToolDefinition, HostToolRegistry
from toolcrib.runtime.principal import OWNER
from toolcrib.transports.mcp import McpOptions, McpServer

pytestmark = pytest.mark.wire

STOCK = {"saw": 7}


def items(value: str) -> list[str]:
    return [f"{value}w"]


@resource("shop://stock/{item}", completions={"item": items})
def stock(item: str) -> dict[str, int]:
    """How many of an item there are."""
    if item not in STOCK:
        raise CallEnded("not_found", f"no {item} here")
    return {item: STOCK[item]}


@resource("shop://hours", mime_type="text/markdown", size=12)
async def hours() -> str:
    return "# 9 to 5"


@resource("shop://broken")
def broken() -> str:
    raise RuntimeError("the shop is closed")


@prompt
def greet(name: str, tone: Literal["warm", "brief"] = "warm") -> str:
    """Greet somebody.

    Args:
        name: Whom to greet.
    """
    return f"Greet {name}, {tone}."


def registry() -> HostToolRegistry:
    made = HostToolRegistry()
    made.add_features([stock, hours, broken, greet])
    return made


def text_in(contents: Any) -> str:
    assert isinstance(contents, TextResourceContents)
    return contents.text


@pytest.mark.parametrize("era", [HANDSHAKE, "auto"])
async def test_a_client_lists_reads_and_completes(era: str) -> None:
    """Resources, templates and prompts, each in its list; each read is a call in the ledger."""
    async with create_runtime(RuntimeConfig(features=[stock, hours, greet])) as runtime:
        async with Client(McpServer(runtime, who=CALLER).sdk, mode=era) as client:
            assert client.server_capabilities.prompts is not None
            assert client.server_capabilities.completions is not None
            (listed,) = (await client.list_resources()).resources
            (template,) = (await client.list_resource_templates()).resource_templates
            (asked,) = (await client.list_prompts()).prompts
            read = await client.read_resource("shop://stock/saw")
            got = await client.get_prompt("greet", {"name": "Ada"})
            item = ResourceTemplateReference(type="ref/resource", uri="shop://stock/{item}")
            completed = await client.complete(item, {"name": "item", "value": "sa"})
            tone = PromptReference(type="ref/prompt", name="greet")
            tones = await client.complete(tone, {"name": "tone", "value": "b"})
            assert (await client.list_tools()).tools == []
        calls = (await runtime.ask("calls.list", {}, OWNER)).calls

    assert (listed.uri, listed.size, listed.mime_type) == ("shop://hours", 12, "text/markdown")
    assert template.uri_template == "shop://stock/{item}"
    assert asked.arguments
    assert asked.arguments[0].description == "Whom to greet."
    assert text_in(read.contents[0]) == '{"saw":7}'
    assert got.messages[0].content == TextContent(type="text", text="Greet Ada, warm.")
    assert completed.completion.values == ["saw"]
    assert tones.completion.values == ["brief"]
    assert [(each.tool, each.source, each.principal) for each in reversed(calls)] == [
        ("resources.read", "host", "ada"),
        ("prompts.get", "host", "ada"),
    ]


@pytest.mark.parametrize(("era", "missing"), [(HANDSHAKE, -32002), (STATELESS, -32602)])
async def test_failures_are_errors_of_the_protocol(era: str, missing: int) -> None:
    """Not found by its own code, faulty arguments as invalid, an exception as internal."""
    config = RuntimeConfig(host_tool_registry=registry())
    async with (
        create_runtime(config) as runtime,
        Client(McpServer(runtime, who=CALLER).sdk, mode=era) as client,
    ):
        codes: dict[str, int] = {}
        for uri in ("shop://stock/axe", "shop://nothing", "shop://broken"):
            with pytest.raises(MCPError) as caught:
                await client.read_resource(uri)
            codes[uri] = caught.value.code
        with pytest.raises(MCPError) as unknown:
            await client.get_prompt("nothing")
        with pytest.raises(MCPError, match="'name' is missing") as invalid:
            await client.get_prompt("greet")

    assert codes == {
        "shop://stock/axe": missing,
        "shop://nothing": missing,
        "shop://broken": -32603,
    }
    assert (unknown.value.code, invalid.value.code) == (-32602, -32602)


@pytest.mark.parametrize("era", [HANDSHAKE, "auto"])
async def test_a_plain_server_answers_and_advertises_nothing_it_has_not(era: str) -> None:
    """Empty lists rather than "Method not found". Prompts may come while it runs; completions and
    subscriptions are not announced where there is nothing for them.
    """

    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    async with (
        create_runtime(RuntimeConfig(tools=[add])) as runtime,
        Client(McpServer(runtime, who=CALLER).sdk, mode=era) as client,
    ):
        capabilities = client.server_capabilities
        templates = (await client.list_resource_templates()).resource_templates
        resources = (await client.list_resources()).resources
        prompts = (await client.list_prompts()).prompts

    assert capabilities.prompts is not None
    assert capabilities.prompts.list_changed
    assert capabilities.completions is None
    assert capabilities.resources is not None
    assert not capabilities.resources.subscribe
    assert (templates, resources, prompts) == ([], [], [])


@pytest.mark.parametrize("era", ERAS)
async def test_the_person_at_the_client_approves_a_read(era: str) -> None:
    """With the same form as a call of a tool."""
    forms: list[str] = []

    async def answer(context: Any, params: Any) -> ElicitResult:
        forms.append(params.message)
        return ElicitResult(action="accept", content={"decision": "approve"})

    policy = Policy((Rule("ask", "resources.read"),), unmatched="allow")
    config = RuntimeConfig(host_tool_registry=registry(), policy=policy, approve_own_calls=True)
    options = McpOptions(approve_by_elicitation="always")
    async with create_runtime(config) as runtime:
        server = McpServer(runtime, options, who=APPROVER)
        async with Client(server.sdk, mode=era, elicitation_callback=answer) as client:
            read = await client.read_resource("shop://hours")

    assert text_in(read.contents[0]) == "# 9 to 5"
    assert len(forms) == 1
    assert "shop://hours" in forms[0]


async def test_a_resource_may_require_approval_itself() -> None:
    """Then a read waits, while others are done."""

    @resource("shop://books", requires_approval=True)
    def books() -> str:
        return "all of it"

    async with (
        create_runtime(RuntimeConfig(features=[books, hours])) as runtime,
        Client(McpServer(runtime, who=CALLER).sdk) as client,
    ):
        await client.read_resource("shop://hours")
        with pytest.raises(MCPError, match="Waiting for approval") as caught:
            await client.read_resource("shop://books")
        asked = caught.value.error.data["toolcrib/call"]["approval_id"]
        await runtime.ask("approvals.decide", {"approval_id": asked, "decision": "approve"})
        read = await client.read_resource("shop://books")

    assert text_in(read.contents[0]) == "all of it"


async def test_a_session_without_the_tool_behind_reads_reads_nothing() -> None:
    """A session that allows some tools has only those."""
    async with create_runtime(RuntimeConfig(host_tool_registry=registry())) as runtime:
        created = await runtime.ask("session.create", {"denied_tools": ["resources.read"]})
        session = created.session_id
        read = await runtime.call_tool(session, "resources.read", {"uri": "shop://hours"})
        got = await runtime.call_tool(session, "prompts.get", {"name": "greet", "arguments": {}})

    assert read.failure is not None
    assert read.failure.kind == "not_found"
    assert got.failure is not None
    assert got.failure.kind == "invalid_arguments"


async def test_changes_are_told_to_clients_of_the_handshake_protocol() -> None:
    """A new prompt to everybody with a list; an update to those who subscribed to the resource."""
    heard: asyncio.Queue[Any] = asyncio.Queue()

    async def hear(message: Any) -> None:
        heard.put_nowait(message)

    made = registry()
    async with (
        create_runtime(RuntimeConfig(host_tool_registry=made)) as runtime,
        Client(McpServer(runtime, who=CALLER).sdk, mode=HANDSHAKE, message_handler=hear) as client,
    ):
        await client.list_prompts()
        with pytest.warns(MCPDeprecationWarning):
            pending = client.session.subscribe_resource("shop://hours")  # pyright: ignore[reportDeprecated]
        await pending
        made.features.updated("shop://stock/saw")
        made.features.updated("shop://hours")
        async with asyncio.timeout(PATIENCE):
            updated = await heard.get()
        made.add_features([_extra()])
        async with asyncio.timeout(PATIENCE):
            changed = await heard.get()

    assert isinstance(updated, ResourceUpdatedNotification)
    assert updated.params.uri == "shop://hours"
    assert isinstance(changed, PromptListChangedNotification)


async def test_changes_are_told_to_clients_of_the_stateless_protocol() -> None:
    """Over the stream that they listen to, as far as the policy lets them read."""
    made = registry()
    rule = Rule("deny", "resources.read", arguments={"/uri": Equals("shop://broken")})
    config = RuntimeConfig(host_tool_registry=made, policy=Policy((rule,), unmatched="allow"))
    uris = ["shop://hours", "shop://broken"]
    async with (
        create_runtime(config) as runtime,
        Client(McpServer(runtime, who=CALLER).sdk, mode=STATELESS) as client,
        client.listen(prompts_list_changed=True, resource_subscriptions=uris) as changes,
    ):
        made.features.updated("shop://broken")
        made.features.updated("shop://hours")
        made.add_features([_extra()])
        stream = aiter(changes)
        async with asyncio.timeout(PATIENCE):
            heard = [await anext(stream), await anext(stream)]

    assert changes.honored.resource_subscriptions == ["shop://hours"]
    assert heard == [ResourceUpdated("shop://hours"), PromptsListChanged()]


async def test_long_lists_come_in_pages() -> None:
    """Each with a cursor for the next; another cursor is refused."""
    many = [_numbered(number) for number in range(600)]
    async with (
        create_runtime(RuntimeConfig(features=many)) as runtime,
        Client(McpServer(runtime, who=CALLER).sdk) as client,
    ):
        names: list[str] = []
        cursor: str | None = None
        pages = 0
        while pages == 0 or cursor is not None:
            page = await client.list_resources(cursor=cursor)
            names += [each.uri for each in page.resources]
            cursor, pages = page.next_cursor, pages + 1
        with pytest.raises(MCPError, match="unknown cursor"):
            await client.list_resources(cursor="elsewhere")

    assert names == [f"shop://numbers/{number}" for number in range(600)]
    assert pages == 3


async def test_no_tool_takes_the_name_of_a_read() -> None:
    """A policy and a record mean reads by it."""
    for name in ("resources.read", "prompts.get"):
        with pytest.raises(InvalidTool, match="reserved"):
            HostToolDefinition(name, "A tool.", {"type": "object"}, lambda given, context: 1)
    declared = {"name": "prompts.get", "description": "x", "parameters": {"type": "object"}}
    async with create_runtime(RuntimeConfig(host_tool_registry=registry())) as runtime:
        with pytest.raises(Refused, match="reserved"):
            await runtime.ask("session.create", {"client_tools": [declared]})


def _extra() -> Any:
    @prompt
    def extra() -> str:
        return "more"

    return extra


def _numbered(number: int) -> Any:
    @resource(f"shop://numbers/{number}")
    def numbered() -> str:
        return str(number)

    return numbered
