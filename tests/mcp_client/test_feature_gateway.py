"""Resources, templates, prompts, completions and subscriptions of mounted servers, through the
gateway, with the official client.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.subscriptions import ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import (
    PromptReference,
    ResourceListChangedNotification,
    ResourceTemplateReference,
    ResourceUpdatedNotification,
    TextContent,
    TextResourceContents,
)

from tests.helpers.patience import PATIENCE
from tests.mcp_client.mounted_servers import Era, terms
from tests.node.peers import MODULES, command, needs_node
from toolcrib.approval.pattern import Glob
from toolcrib.approval.policy import Policy, Rule
from toolcrib.mcp_client import StdioServerConfig
from toolcrib.runtime.config import RuntimeConfig
from toolcrib.runtime.principal import OWNER, Principal
from toolcrib.runtime.runtime import Runtime, create_runtime
from toolcrib.tools.audience import Audience
from toolcrib.transports.mcp import McpServer

pytestmark = pytest.mark.wire

PEER = Path(__file__).parent / "feature_peer.py"
CALLER = Principal("ada", frozenset({"caller"}), transport="mcp")


def peer(name: str = "notes", era: Era = "newer", *more: str, **given: Any) -> StdioServerConfig:
    env = given.pop("env", {})
    return StdioServerConfig(
        name=name,
        terms=terms(name, **given),
        command=sys.executable,
        args=(str(PEER), era, *more),
        env=env,
    )


@dataclass(frozen=True)
class Gateway:
    runtime: Runtime
    client: Client
    heard: asyncio.Queue[Any]

    async def text(self, uri: str) -> str:
        (contents,) = (await self.client.read_resource(uri)).contents
        assert isinstance(contents, TextResourceContents)
        return contents.text

    async def hears(self, kind: type[Any]) -> Any:
        """The next notification of a kind."""
        async with asyncio.timeout(PATIENCE):
            while not isinstance(message := await self.heard.get(), kind):
                pass
        return message

    async def calls(self) -> list[tuple[str, str, str]]:
        listed = await self.runtime.ask("calls.list", {}, OWNER)
        return [(each.tool, each.source, each.status) for each in reversed(listed.calls)]


@asynccontextmanager
async def gateway(
    *servers: StdioServerConfig, mode: str = "2026-07-28", **config: Any
) -> AsyncGenerator[Gateway]:
    heard: asyncio.Queue[Any] = asyncio.Queue()

    async def hear(message: Any) -> None:
        heard.put_nowait(message)

    async with create_runtime(RuntimeConfig(mcp_servers=servers, **config)) as runtime:
        server = McpServer(runtime, who=CALLER)
        async with Client(server.sdk, mode=mode, message_handler=hear, cache=None) as client:
            yield Gateway(runtime, client, heard)


@pytest.mark.parametrize(("era", "mode"), [("newer", "legacy"), ("older", "2026-07-28")])
async def test_what_a_server_gives_is_what_clients_get(era: Era, mode: str) -> None:
    """Lists are whole, page by page, with all that the server says; reads, prompts and completions
    reach the server, also where the client speaks the other protocol than the server.
    """
    async with gateway(peer("notes", era, "notes://two"), mode=mode) as gate:
        client = gate.client
        listed = (await client.list_resources()).resources
        (template,) = (await client.list_resource_templates()).resource_templates
        (prompt,) = (await client.list_prompts()).prompts
        got = await client.get_prompt("notes_sum_up", {"topic": "tea"})
        ref = PromptReference(type="ref/prompt", name="notes_sum_up")
        completed = await client.complete(ref, {"name": "topic", "value": "t"})
        day = ResourceTemplateReference(type="ref/resource", uri="notes://days/{day}")
        days = await client.complete(day, {"name": "day", "value": "m"})
        texts = [await gate.text(uri) for uri in ("notes://readme", "notes://days/monday")]

    readme = listed[0]
    assert [each.uri for each in listed] == ["notes://readme", "notes://two"]
    assert (readme.title, readme.size, readme.mime_type) == ("Read me", 12, "text/plain")
    assert readme.annotations
    assert readme.annotations.priority == 0.5
    assert readme.icons
    assert readme.icons[0].src == "https://example.org/note.png"
    assert readme.meta == {"org.example/kind": "note"}
    assert (template.uri_template, template.title) == ("notes://days/{day}", "A day")
    assert (prompt.name, prompt.title) == ("notes_sum_up", "Sum up")
    assert prompt.arguments
    assert prompt.arguments[0].required
    content = got.messages[0].content
    assert isinstance(content, TextContent)
    assert content.text == "Sum up tea."
    assert completed.completion.values == ["t-1", "t-2"]
    assert days.completion.values == ["m-1", "m-2"]
    assert texts == ["the text of notes://readme", "the text of notes://days/monday"]


@pytest.mark.parametrize(("mode", "code"), [("legacy", -32002), ("2026-07-28", -32602)])
async def test_a_resource_that_is_not_there(mode: str, code: int) -> None:
    """The server's own not-found becomes that of the client's protocol, and is recorded."""
    async with gateway(peer(), mode=mode) as gate:
        with pytest.raises(MCPError) as caught:
            await gate.client.read_resource("notes://missing")
        calls = await gate.calls()

    assert caught.value.code == code
    assert "nothing at notes://missing" in caught.value.message
    assert calls == [("resources.read", "mcp:notes", "failed")]


async def test_reads_are_recorded_with_who_asked() -> None:
    """Each read and each get is a call of the session, with its source; lists are not."""
    async with gateway(peer()) as gate:
        await gate.client.list_resources()
        await gate.text("notes://readme")
        await gate.client.get_prompt("notes_sum_up", {"topic": "tea"})
        calls = await gate.calls()
        rows = (await gate.runtime.ask("calls.list", {}, OWNER)).calls

    assert calls == [
        ("resources.read", "mcp:notes", "completed"),
        ("prompts.get", "mcp:notes", "completed"),
    ]
    assert {row.principal for row in rows} == {"ada"}


async def test_the_policy_decides_about_reads() -> None:
    """A denied resource is neither listed nor read; `approval: always` is about tools."""
    rules = (
        Rule("deny", "resources.read", arguments={"/uri": Glob("notes://two")}, id="not two"),
        Rule("deny", "prompts.get", source="mcp:notes", id="no prompts"),
    )
    server = peer("notes", "newer", "notes://two", approval="always")
    policy = Policy(rules, unmatched="risk")
    async with gateway(server, policy=policy) as gate:
        listed = [each.uri for each in (await gate.client.list_resources()).resources]
        prompts = (await gate.client.list_prompts()).prompts
        read = await gate.text("notes://readme")
        with pytest.raises(MCPError, match="not two"):
            await gate.client.read_resource("notes://two")
        with pytest.raises(MCPError, match="no prompts"):
            await gate.client.get_prompt("notes_sum_up", {"topic": "tea"})
        ref = PromptReference(type="ref/prompt", name="notes_sum_up")
        with pytest.raises(MCPError, match="Unknown prompt"):
            await gate.client.complete(ref, {"name": "topic", "value": "t"})

    assert listed == ["notes://readme"]
    assert prompts == []
    assert read == "the text of notes://readme"


async def test_a_server_that_is_not_shown_to_a_principal_has_nothing_for_it() -> None:
    """Its features are neither listed nor read nor completed nor subscribed to."""
    hidden = peer("notes", visible_to=Audience(principals=("bob",)))
    async with gateway(hidden) as gate:
        listed = (await gate.client.list_resources()).resources
        prompts = (await gate.client.list_prompts()).prompts
        with pytest.raises(MCPError, match="Resource not found"):
            await gate.client.read_resource("notes://readme")
        with pytest.raises(MCPError, match="There is no prompt"):
            await gate.client.get_prompt("notes_sum_up", {"topic": "tea"})
        ref = PromptReference(type="ref/prompt", name="notes_sum_up")
        with pytest.raises(MCPError, match="Unknown prompt"):
            await gate.client.complete(ref, {"name": "topic", "value": "t"})
        async with gate.client.listen(resource_subscriptions=["notes://readme"]) as changes:
            honored = changes.honored.resource_subscriptions
        bob = McpServer(gate.runtime, who=replace(CALLER, name="bob"))
        async with Client(bob.sdk) as client:
            shown = (await client.list_resources()).resources

    assert (listed, prompts, honored) == ([], [], None)
    assert [each.uri for each in shown] == ["notes://readme"]


async def test_a_read_that_needs_approval_waits() -> None:
    """The client is told so, and the same read after the decision is done, once."""
    policy = Policy((Rule("ask", "resources.read"),), unmatched="allow")
    async with gateway(peer(), policy=policy) as gate:
        with pytest.raises(MCPError, match="Waiting for approval apr_") as caught:
            await gate.client.read_resource("notes://readme")
        asked = caught.value.error.data["toolcrib/call"]["approval_id"]
        await gate.runtime.ask("approvals.decide", {"approval_id": asked, "decision": "approve"})
        read = await gate.text("notes://readme")
        with pytest.raises(MCPError, match="Waiting for approval apr_"):
            await gate.client.read_resource("notes://readme")

    assert read == "the text of notes://readme"


async def test_two_servers_with_one_uri() -> None:
    """The first server of the file has the URI; that of the other names its server, and both can be
    read.
    """
    async with gateway(peer("one"), peer("two")) as gate:
        listed = [each.uri for each in (await gate.client.list_resources()).resources]
        await gate.text("notes://readme")
        text = await gate.text("toolcrib://servers/two/notes://readme")
        calls = await gate.calls()

    assert listed == ["notes://readme", "toolcrib://servers/two/notes://readme"]
    assert text == "the text of notes://readme"
    assert [source for _, source, _ in calls] == ["mcp:one", "mcp:two"]


async def test_a_link_in_a_result_can_be_read() -> None:
    """By the session that got it, though no list has it, also beside another server; not by
    another session.
    """
    async with gateway(peer("other"), peer("notes")) as gate:
        with pytest.raises(MCPError, match="Resource not found"):
            await gate.client.read_resource("hidden://report")
        await gate.client.call_tool("notes_link", {})
        text = await gate.text("hidden://report")
        calls = await gate.calls()
        stranger = (await gate.runtime.create_session()).session_id
        elsewhere = await gate.runtime.call_tool(
            stranger, "resources.read", {"uri": "hidden://report"}
        )

    assert text == "the text of hidden://report"
    assert calls[-1] == ("resources.read", "mcp:notes", "completed")
    assert elsewhere.failure is not None
    assert elsewhere.failure.kind == "not_found"


async def test_secrets_of_a_server_are_in_no_list_and_no_content() -> None:
    """What the server was configured with does not come back out of it."""
    secret = "sk-canary-9f8e7d6c5b4a"
    async with gateway(peer(env={"PEER_SECRET": secret})) as gate:
        listed = await gate.client.list_resources()
        text = await gate.text("notes://readme")
        records = str(await gate.runtime.ask("calls.list", {}, OWNER))

    assert text == "the text of notes://readme[secret]"
    assert secret not in f"{listed} {records}"


@pytest.mark.parametrize("era", ["newer", "older"])
async def test_updates_reach_subscribers_of_the_stateless_protocol(era: Era) -> None:
    """Those of the URI that a client listens to, and no other; an older server is subscribed to
    that URI alone.
    """
    async with (
        gateway(peer("notes", era, "notes://two")) as gate,
        gate.client.listen(resource_subscriptions=["notes://readme"]) as changes,
    ):
        await gate.client.call_tool("notes_touch", {"uri": "notes://two"})
        touched = await gate.client.call_tool("notes_touch", {"uri": "notes://readme"})
        async with asyncio.timeout(PATIENCE):
            event = await anext(aiter(changes))

    assert event == ResourceUpdated("notes://readme")
    if era == "older":
        content = touched.content[0]
        assert isinstance(content, TextContent)
        assert content.text == "notes://readme"


@pytest.mark.parametrize("era", ["newer", "older"])
async def test_updates_reach_subscribers_of_the_handshake_protocol(era: Era) -> None:
    """After `resources/subscribe`, and no more after `resources/unsubscribe`."""
    async with gateway(peer("notes", era, "notes://two"), mode="legacy") as gate:
        session = gate.client.session
        for uri in ("notes://readme", "notes://two"):
            await _legacy(session, "subscribe_resource", uri)
        await gate.client.call_tool("notes_touch", {"uri": "notes://readme"})
        first = await gate.hears(ResourceUpdatedNotification)
        await _legacy(session, "unsubscribe_resource", "notes://readme")
        await gate.client.call_tool("notes_touch", {"uri": "notes://readme"})
        await gate.client.call_tool("notes_touch", {"uri": "notes://two"})
        second = await gate.hears(ResourceUpdatedNotification)

    assert (first.params.uri, second.params.uri) == ("notes://readme", "notes://two")


async def test_a_changed_list_is_told_and_listed_again() -> None:
    """The kept list is dropped when the server says that it changed."""
    async with gateway(peer("notes", "newer")) as gate:
        before = len((await gate.client.list_resources()).resources)
        async with gate.client.listen(resources_list_changed=True) as changes:
            await gate.client.call_tool("notes_grow", {})
            async with asyncio.timeout(PATIENCE):
                event = await anext(aiter(changes))
        after = len((await gate.client.list_resources()).resources)

    assert (before, after) == (1, 2)
    assert event == ResourcesListChanged()


async def test_too_large_a_content_is_refused() -> None:
    """It is not cut: half a file is another file."""
    async with gateway(peer(max_output_chars=40)) as gate:
        with pytest.raises(MCPError, match="max_output_chars"):
            await gate.client.read_resource("notes://readme")


async def test_a_server_that_says_the_same_again_and_again() -> None:
    """Clients hear of a changed list a few times, not a hundred times."""
    async with gateway(peer("notes", "older"), mode="legacy") as gate:
        await gate.client.list_resources()
        await gate.client.call_tool("notes_grow", {"times": 100})
        await gate.hears(ResourceListChangedNotification)
        listed = (await gate.client.list_resources()).resources
        told = 1 + gate.heard.qsize()

    assert len(listed) == 101
    assert told <= 5


@pytest.mark.parametrize("era", ["newer", "older"])
async def test_a_server_that_dies_comes_back_with_its_subscriptions(era: Era) -> None:
    """While it is away its resources stay listed and cannot be read; afterwards updates come again
    without the client's doing.
    """
    async with gateway(peer("notes", era), mode="legacy") as gate:
        await gate.client.list_resources()
        await _legacy(gate.client.session, "subscribe_resource", "notes://readme")
        await gate.client.call_tool("notes_die", {})
        listed = (await gate.client.list_resources()).resources
        with pytest.raises(MCPError, match=r"not connected|disconnected"):
            await gate.client.read_resource("notes://readme")
        async with asyncio.timeout(PATIENCE):
            while (await gate.client.call_tool("notes_touch", {"uri": "notes://readme"})).is_error:
                await gate.hears(object)
            update: Any = None
            while not isinstance(update, ResourceUpdatedNotification):
                await gate.client.call_tool("notes_touch", {"uri": "notes://readme"})
                if not gate.heard.empty():
                    update = gate.heard.get_nowait()

    assert [each.uri for each in listed] == ["notes://readme"]
    assert update.params.uri == "notes://readme"


@needs_node
async def test_the_reference_server_comes_through_whole() -> None:
    """Every resource, template and prompt of server-everything is what it is without a gateway."""
    script = MODULES / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
    config = StdioServerConfig(
        name="all",
        terms=terms("all"),
        command=command("node"),
        args=(str(script), "stdio"),
    )
    async with gateway(config, mode="legacy") as gate:
        resources = (await gate.client.list_resources()).resources
        templates = (await gate.client.list_resource_templates()).resource_templates
        prompts = {each.name for each in (await gate.client.list_prompts()).prompts}
        texts = [await gate.text(each.uri) for each in resources]
        dynamic = await gate.text("demo://resource/dynamic/text/3")
        got = await gate.client.get_prompt("all_args-prompt", {"city": "Ulm", "state": "BW"})
        linked = await gate.client.call_tool("all_get-resource-links", {"count": 3})
        uris = [block.uri for block in linked.content if block.type == "resource_link"]
        read = [(await gate.client.read_resource(uri)).contents[0] for uri in uris]

    assert len(resources) >= 7
    assert all(texts)
    assert {each.uri_template for each in templates} >= {
        "demo://resource/dynamic/text/{resourceId}",
        "demo://resource/dynamic/blob/{resourceId}",
    }
    assert prompts >= {"all_simple-prompt", "all_args-prompt", "all_completable-prompt"}
    assert "resource" in dynamic.lower()
    assert "Ulm" in str(got.messages)
    assert len(read) == len(uris) == 3


async def _legacy(session: Any, method: str, uri: str) -> None:
    with pytest.warns(MCPDeprecationWarning):
        pending = getattr(session, method)(uri)
    await pending
