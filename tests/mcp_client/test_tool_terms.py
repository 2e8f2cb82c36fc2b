"""The terms of single tools of a server: who sees them, under which name, with which arguments."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp import Client

from tests.mcp_client.mounted_servers import Json, mounted, raw, tool
from tests.runtime.host_runtime import events, new_session, refusal, scripted, serving
from toolcrib.host_tools import parse_host_tools
from toolcrib.mcp_client import MountTerms
from toolcrib.mcp_client.tool_terms import ToolTerms
from toolcrib.runtime import Principal
from toolcrib.runtime.runtime import Runtime
from toolcrib.testing import ScriptedOpenAI, says
from toolcrib.tools import Audience
from toolcrib.tools.argument_transform import ArgumentTransform
from toolcrib.transports.mcp import McpServer

pytestmark = pytest.mark.wire

CALLER = frozenset({"caller"})
ANN = Principal("ann", CALLER, frozenset({"ops"}))  # pyright: ignore[reportArgumentType]
BOB = Principal("bob", CALLER)  # pyright: ignore[reportArgumentType]
AUDITOR = Principal("eve", frozenset({"auditor"}))
OPS = Audience(groups=("ops",))
TOKEN = "canary-2b81c05d-gateway-token"

SEARCH: Json = {
    "type": "object",
    "properties": {
        "word": {"type": "string"},
        "index": {"type": "string"},
        "token": {"type": "string", "minLength": 12},
        "limit": {"type": "integer", "default": 5},
    },
    "required": ["word", "index", "token"],
}


async def names(runtime: Runtime, session_id: str, who: Principal) -> list[str]:
    listed = await runtime.ask("tools.list", {"session_id": session_id}, who)
    return [each.name for each in listed.tools]


async def call_as(who: Principal, runtime: Runtime, session_id: str, name: str) -> Any:
    params: Json = {"session_id": session_id, "name": name, "arguments": {}}
    return await runtime.ask("tools.call", params, who)


async def test_tools_are_listed_and_called_by_their_audience_alone() -> None:
    """In one session that both use, a tool is there for the one and unknown to the other."""
    server = raw("read", visible_to=OPS)
    async with serving(mcp_servers=[server]) as runtime:
        session = await new_session(runtime)
        runtime.service.share(session)

        assert await names(runtime, session, ANN) == ["raw_read"]
        assert await names(runtime, session, BOB) == []
        assert (await call_as(ANN, runtime, session, "raw_read")).text == "ran read"
        hidden = await call_as(BOB, runtime, session, "raw_read")
        unknown = await call_as(BOB, runtime, session, "raw_reed")
        assert hidden.failure.kind == "not_found"
        assert hidden.text.replace("raw_read", "raw_reed") == unknown.text
        one = {"session_id": session, "name": "raw_read"}
        told = await refusal(runtime, "tools.info", one, BOB)
        assert (told.kind, str(told)) == ("not_found", "the session has no tool 'raw_read'")


async def test_the_catalog_and_the_servers_differ_by_caller() -> None:
    """Those outside of the audience hear nothing of the server; auditors see what there is."""
    async with serving(mcp_servers=[raw("read", visible_to=OPS)]) as runtime:
        await new_session(runtime)
        for who, expected in ((ANN, ["raw"]), (BOB, []), (AUDITOR, ["raw"])):
            listed = await runtime.ask("servers.list", {}, who)
            catalog = await runtime.ask("catalog.list", {}, who)
            assert [each.name for each in listed.servers] == expected
            assert [each.name for each in catalog.tools] == (["raw_read"] if expected else [])


async def test_a_server_that_is_away_is_unavailable_to_its_audience_alone() -> None:
    """The name of a server and the reason are no business of others."""
    server = raw("read", visible_to=OPS, tools={"gone": ToolTerms(title="Gone")})
    async with serving(mcp_servers=[server]) as runtime:
        session = await new_session(runtime)
        runtime.service.share(session)
        listed = {
            who: (await runtime.ask("tools.list", {"session_id": session}, who)).unavailable
            for who in (ANN, BOB)
        }
        facts = await runtime.ask("session.get", {"session_id": session})

    assert listed == {ANN: {"raw_gone": "the server has no such tool"}, BOB: {}}
    assert facts.unavailable_tools == {}


async def test_a_model_is_offered_what_its_principal_sees() -> None:
    """The tools of a prompt are those of who sends it."""
    script = ScriptedOpenAI([says("done")], [says("done")])
    async with serving(mcp_servers=[raw("read", visible_to=OPS)], adapter=scripted(script)) as host:
        session = await new_session(host)
        host.service.share(session)
        for who in (ANN, BOB):
            await host.ask("prompt.send", {"session_id": session, "text": "Hello"}, who)

    offered = [[each["name"] for each in sent.get("tools", [])] for sent in script.requests]
    assert offered == [["raw_read"], []]


async def test_mcp_clients_get_the_tools_of_their_principal() -> None:
    """`tools/list` and `tools/call` decide by the caller."""
    async with serving(mcp_servers=[raw("read", visible_to=OPS)]) as runtime:
        for who, expected in ((ANN, ["raw_read"]), (BOB, [])):
            async with Client(McpServer(runtime, who=who).sdk) as client:
                listed = await client.list_tools()
                assert [each.name for each in listed.tools] == expected


FILE = """
mcp_servers:
  raw:
    command: raw-peer
    visible_to: {groups: [ops], principals: ["svc-*"]}
    tools:
      structured:
        name: library.search
        title: Search
        description: Searches the library.
        approval: policy
        timeout: 3
        visible_to: {principals: [ann]}
        arguments:
          word: {name: query, description: What to look for.}
          index: {fixed: books}
          token: {fixed: "${LIBRARY_TOKEN}"}
          limit: {hidden: true}
"""
TERMS = ToolTerms(
    name="library.search",
    title="Search",
    description="Searches the library.",
    approval="policy",
    timeout=3,
    visible_to=Audience(principals=("ann",)),
    arguments=ArgumentTransform(
        fixed={"index": "books", "token": "${LIBRARY_TOKEN}"},
        renamed={"word": "query"},
        described={"word": "What to look for."},
        hidden=("limit",),
    ),
)


def test_a_file_has_the_terms_of_tools() -> None:
    """Every key, typed."""
    [server] = parse_host_tools(FILE).mcp_servers

    assert server.terms == MountTerms(
        prefix="raw_",
        visible_to=Audience(principals=("svc-*",), groups=("ops",)),
        tools={"structured": TERMS},
    )


async def test_a_tool_has_the_name_the_words_and_the_arguments_of_its_terms() -> None:
    """The server gets its own arguments, with what is fixed."""
    server = raw(tool("structured", SEARCH), approval="always", tools={"structured": TERMS})
    async with mounted(server, {"LIBRARY_TOKEN": TOKEN}) as peer:
        [served] = peer.server.tools.served.values()
        assert (served.name, served.description) == ("library.search", "Searches the library.")
        assert (served.timeout, served.requires_approval) == (3, False)
        shown = peer.executor.tools["library.search"].declaration.parameters
        assert shown["properties"] == {
            "query": {"type": "string", "description": "What to look for."}
        }
        assert shown["required"] == ["query"]


async def test_a_fixed_secret_is_sent_and_recorded_nowhere() -> None:
    """The server gets the value of the variable; records, results and approvals have its name."""
    terms = {"structured": ToolTerms(arguments=TERMS.arguments)}
    server = raw(tool("structured", SEARCH), env={}, approval="policy", tools=terms)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LIBRARY_TOKEN", TOKEN)
        async with serving(mcp_servers=[server]) as runtime:
            session = await new_session(runtime)
            params = {"session_id": session, "name": "raw_structured"}
            done = await runtime.ask("tools.call", {**params, "arguments": {"query": "saw"}})
            recorded = await events(runtime, session)
            catalog = await runtime.ask("catalog.get", {"name": "raw_structured"})

    expected = {"word": "saw", "index": "books", "limit": 5}
    # The server repeats what it got, and the secret is scrubbed from that.
    assert done.value == {**expected, "token": "[secret]"}
    [invoked] = [each["data"] for each in recorded if each["kind"] == "tool.invoked"]
    assert invoked["params"] == {**expected, "token": "${LIBRARY_TOKEN}"}
    assert TOKEN not in json.dumps(recorded)
    assert TOKEN not in repr(catalog)


@pytest.mark.parametrize(
    ("terms", "reason"),
    [
        (ArgumentTransform(fixed={"wrd": "x"}), "there is no argument 'wrd' to transform"),
        (ArgumentTransform(fixed={"word": 5}), "the fixed value of the argument 'word'"),
        (ArgumentTransform(hidden=("word",)), "'word' is required"),
    ],
)
async def test_terms_that_do_not_fit_the_tool_withhold_it(
    terms: ArgumentTransform, reason: str
) -> None:
    """A tool is never served without what its terms say."""
    server = raw(
        tool("structured", SEARCH), "read", tools={"structured": ToolTerms(arguments=terms)}
    )
    async with mounted(server) as peer:
        assert list(peer.server.tools.served) == ["raw_read"]
        assert reason in peer.server.tools.invalid["raw_structured"]


async def test_two_tools_do_not_get_one_name() -> None:
    """The first one has it."""
    server = raw("read", "list", tools={"list": ToolTerms(name="raw_read")})
    async with mounted(server) as peer:
        assert (await peer.call("raw_read")).text == "ran read"
        assert "two tools of that name" in peer.server.tools.invalid["raw_read"]


async def test_a_missing_variable_of_a_fixed_value_makes_the_server_invalid() -> None:
    """Nothing is sent with the name of the variable in the place of its value."""
    server = raw(tool("structured", SEARCH), tools={"structured": TERMS})
    async with mounted(server, {}) as peer:
        assert peer.server.history.state == "invalid"
        assert "LIBRARY_TOKEN" in str(peer.server.fault)
