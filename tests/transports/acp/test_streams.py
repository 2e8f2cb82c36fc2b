"""What is told while a model writes, and to an editor that cannot keep up."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.adapters.openai.scripted_provider import Json, Provider, call, message, response
from tests.transports.acp.connected_editor import wired_desk
from tests.transports.shop import NOTHING, registry, shop
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.host_tools import HostToolDefinition, ToolContext
from toolcrib.runtime.runtime import Runtime

LONG = "Ada was greeted, and she was glad to be greeted, as she always is. " * 20


@contextmanager
def answering(*replies: Json) -> Generator[Runtime]:
    """A shop whose model streams these answers over HTTP."""
    with Provider(*replies) as provider:
        client = AsyncOpenAI(api_key="none", base_url=provider.url, max_retries=0)
        yield shop(adapter=OpenAIAdapter(model="test-model", client=client))


async def test_an_answer_is_told_in_pieces_as_it_is_written() -> None:
    """Each step is a message of its own, and nothing of it is told twice."""
    said = message("I greet her now.", id="msg_0")
    steps = (response(said, call("greet", {"name": "Ada"})), response(message(LONG)))
    with answering(*steps) as runtime:
        async with wired_desk(runtime) as at:
            await at.prompt(await at.open(), "Greet Ada.")

            chunks = at.editor.told("agent_message_chunk")
            by_message: dict[str, str] = {}
            for each in chunks:
                by_message[each.message_id] = (
                    by_message.get(each.message_id, "") + each.content.text
                )
            assert list(by_message.values()) == ["I greet her now.", LONG]
            assert len(chunks) > 2


@pytest.mark.parametrize(
    ("why", "reason"), [("max_output_tokens", "max_tokens"), ("content_filter", "refusal")]
)
async def test_an_answer_that_is_cut_off_ends_with_its_reason(why: str, reason: str) -> None:
    """Half an answer is not an answer: the person reads why it ends."""
    cut = response(message("Ada w"), status="incomplete", incomplete_details={"reason": why})
    with answering(cut) as runtime:
        async with wired_desk(runtime) as at:
            told = await at.prompt(await at.open(), "Greet Ada.")

            assert told.stop_reason == reason
            assert why in at.editor.text()


async def test_an_editor_that_falls_behind_is_told_from_the_ledger(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What it was too slow for is told all the same; none is lost or comes twice."""
    caplog.set_level(logging.INFO)

    def chatty(given: dict[str, Any], context: ToolContext) -> str:
        for number in range(100):
            context.output(f"{number} ")
        return "done"

    tools = registry()
    tools.add(HostToolDefinition("chatty", "Says a lot.", NOTHING, chatty))
    async with wired_desk(shop(host_tool_registry=tools, event_backlog=2)) as at:
        session_id = await at.open()
        told = await at.ask("tools.call", session_id=session_id, name="chatty", arguments={})
        while at.editor.statuses(told["call_id"])[-1:] != ["completed"]:
            await at.ask("runtime.capabilities")

        assert "after a gap" in caplog.text
        assert at.editor.statuses(told["call_id"]) == ["in_progress", "completed"]
        shown = [each for each in at.editor.told("tool_call_update") if each.content]
        assert shown[-2].content[0].content.text == "".join(f"{n} " for n in range(100))
