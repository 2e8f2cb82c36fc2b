"""`adapter.stream` on the embedded provider, which really runs every tool."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.adapters.openai.loopback_adapter import ask
from tests.embedded.full_provider import CODE, workshop
from toolcrib import Event, PromptResponse, Session, TextDelta, ToolInvoked
from toolcrib.adapters.codec import Invocation
from toolcrib.ledger import HostedToolProgress, ReasoningDelta
from toolcrib.tools.code_interpreter import code_interpreter_tool
from toolcrib.tools.file_search import FileSearchConfig, file_search_tool
from toolcrib.tools.mcp import McpConfig, mcp_tool
from toolcrib.tools.shell import container_shell_tool
from toolcrib.tools.web_search import web_search_tool


async def test_a_stream_shows_what_every_tool_does_while_it_does_it(tmp_path: Path) -> None:
    """Hosted tools 4: code, output, queries and arguments are in the events, under the declared
    names, before the call is over; reasoning and text come in pieces; the blocking result is equal.
    """
    async with workshop(tmp_path) as shop:
        desk = McpConfig(
            server_label="desk",
            server_url=shop.server_url,
            allowed_tools=("add",),
            require_approval="never",
        )
        tools = [
            web_search_tool(),
            file_search_tool(FileSearchConfig(vector_store_ids=(shop.store_id,))),
            code_interpreter_tool(),
            container_shell_tool(),
            mcp_tool(desk),
        ]
        async with shop.provider.adapter() as adapter:
            session = Session()
            items = [item async for item in adapter.stream(ask(hosted=tools), session=session)]
            blocking = await adapter.evaluate_async(ask(hosted=tools))

    *events, response = items
    assert isinstance(response, PromptResponse)
    progress = [event for event in events if isinstance(event, HostedToolProgress)]
    content = gathered(progress)
    assert content["code_interpreter"]["code"] == f"import json\n{CODE}"
    assert content["code_interpreter"]["output"] == "42\n"
    assert content["shell"]["code"] == "printf 42\nexit 3"
    assert content["shell"]["output"] == "42"
    assert content["desk"]["arguments"] == '{"a": 20, "b": 22}'
    assert content["web_search"]["queries"] == "opening hours"
    assert content["file_search"]["queries"] == "returns"
    assert last_statuses(progress) == dict.fromkeys(content, "completed")
    check_order([event for event in events if isinstance(event, Event)])
    thoughts = [event.text for event in events if isinstance(event, ReasoningDelta)]
    assert tuple(thoughts) == response.reasoning == blocking.reasoning
    assert len(thoughts) == len(tools)
    texts = [event.text for event in events if isinstance(event, TextDelta)]
    assert "".join(texts) == response.text == blocking.text
    assert [shown(each) for each in response.invocations] == [
        shown(each) for each in blocking.invocations
    ]


def gathered(progress: Sequence[HostedToolProgress]) -> dict[str, dict[str, str]]:
    """The pieces of each tool, put together."""
    content: defaultdict[str, defaultdict[str, str]] = defaultdict(lambda: defaultdict(str))
    for event in progress:
        pieces = content[event.tool]
        for name in ("code", "output", "arguments"):
            pieces[name] += getattr(event, name) or ""
        pieces["queries"] += " ".join(event.queries)
    return {tool: dict(pieces) for tool, pieces in content.items()}


def last_statuses(progress: Sequence[HostedToolProgress]) -> dict[str, str]:
    return {event.tool: event.status for event in progress}


def check_order(events: Sequence[Event]) -> None:
    """What is announced of a call precedes its end, under the id that the ledger keeps."""
    ended: set[str] = set()
    begun: set[str] = set()
    for event in events:
        match event:
            case HostedToolProgress(call_id=call_id):
                assert call_id not in ended
                begun.add(call_id)
            case ToolInvoked(call_id=call_id, origin="provider"):
                ended.add(call_id)
            case _:
                pass
    assert begun == ended


def shown(called: tuple[str, Invocation]) -> tuple[str, Any]:
    """A call without the ids that are other ones in every response."""
    name, invocation = called
    return name, replace(invocation, item_id="", raw={}, value=None).message
