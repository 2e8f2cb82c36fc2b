"""A chat over HTTP is the chat of the process: events, decisions, the way back, the history."""

from __future__ import annotations

import json
from typing import Any

from tests.client.thread_server import served_in_thread
from tests.runtime.host_runtime import model
from tests.transports.http.served_runtime import CALLERS, OWNERS, served
from toolcrib import (
    ApprovalRequested,
    ArgumentsDelta,
    HostedToolProgress,
    PromptResult,
    ReasoningDelta,
    ToolInvoked,
)
from toolcrib.client import AsyncClient, Client, Refused
from toolcrib.runtime import Chat, ChatEvent
from toolcrib.runtime.blocking_chat import BlockingChat
from toolcrib.testing import calls, says
from toolcrib.tools.code_interpreter import code_interpreter_tool

ASKING = [calls("careful", {"text": "a"})]
THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Let me see."}],
}
RUN = {
    "type": "code_interpreter_call",
    "id": "ci_1",
    "status": "completed",
    "code": "print(1)",
    "container_id": "c_1",
    "outputs": [{"type": "logs", "logs": "1\n"}],
}
ECHO = calls("echo", {"text": "a"})


async def test_a_call_is_decided_in_the_midst_of_its_turn() -> None:
    """N section A: the same loop as in the process."""
    events: list[ChatEvent] = []
    async with (
        served(adapter=model(ASKING, [says("Done.")])) as crib,
        AsyncClient(crib.server.url, OWNERS) as client,
    ):
        chat = await client.chat("desk")
        async for event in chat.send("Go!"):
            events.append(event)
            if isinstance(event, ApprovalRequested):
                await chat.approve(event)
        [exchange] = await chat.history()

    assert isinstance(events[-1], PromptResult)
    assert events[-1].text == "Done."
    assert [event.name for event in events if isinstance(event, ToolInvoked)] == ["careful"]
    assert (exchange.text, exchange.answer) == ("Go!", "Done.")


async def test_another_client_goes_on_with_what_waits() -> None:
    """A client that left loses nothing; the next one is asked the same question."""
    async with served(adapter=model(ASKING, [says("Done.")])) as crib:
        async with AsyncClient(crib.server.url, OWNERS) as client:
            chat = await client.chat("desk")
            await chat.send("Go!", waits=False)
        async with AsyncClient(crib.server.url, OWNERS) as client:
            chat = await client.chat("desk")
            was_unfinished = await chat.is_unfinished()
            turn = chat.resume()
            async for event in turn:
                if isinstance(event, ApprovalRequested):
                    await chat.deny(event, "no")

    assert was_unfinished
    assert turn.result.text == "Done."


async def test_nobody_decides_their_own_calls_over_the_wire() -> None:
    """A chat gives a caller no right that the caller lacks."""
    async with (
        served(adapter=model(ASKING)) as crib,
        AsyncClient(crib.server.url, CALLERS) as client,
    ):
        chat = await client.chat("caller:desk")
        await chat.send("Go!", waits=False)
        [request] = await chat.pending()
        try:
            await chat.approve(request)
            kind = ""
        except Refused as refused:
            kind = refused.kind

    assert kind == "forbidden"


def test_a_program_without_an_event_loop_has_the_same_chat() -> None:
    """Both clients have the same methods, and a chat is one of them."""
    events: list[ChatEvent] = []
    with (
        served_in_thread(adapter=model(ASKING, [says("Done.")])) as url,
        Client(url, OWNERS) as client,
    ):
        chat = client.chat("desk")
        was_waiting = chat.send("Go!", waits=False).wait().status
        was_unfinished = chat.is_unfinished()
        turn = chat.resume()
        for event in turn:
            events.append(event)
            if isinstance(event, ApprovalRequested):
                chat.approve(event)
        [exchange] = chat.history()
        pending = chat.pending()

    assert (was_waiting, was_unfinished, pending) == ("waiting", True, [])
    assert events[-1] == turn.result
    assert [event.name for event in events if isinstance(event, ToolInvoked)] == ["careful"]
    assert (exchange.text, exchange.answer) == ("Go!", "Done.")


def test_both_chats_have_the_same_methods() -> None:
    """None is forgotten when the other gets one."""
    methods, blocking = (
        {name for name in vars(kind) if not name.startswith("_")} for kind in (Chat, BlockingChat)
    )
    assert methods == blocking


async def test_what_the_provider_runs_is_seen_over_http() -> None:
    """Reasoning, code and output, and arguments come over SSE as they do in the process."""
    heard: list[ChatEvent] = []
    adapter = model([THOUGHT, RUN, ECHO], [says("Done.")])
    tools: list[Any] = [code_interpreter_tool()]
    async with (
        served(adapter=adapter, hosted_tools=tools) as crib,
        AsyncClient(crib.server.url, OWNERS) as client,
    ):
        chat = await client.chat("desk")
        heard += [event async for event in chat.send("Go!")]

    progress = [event for event in heard if isinstance(event, HostedToolProgress)]
    assert {event.call_id for event in progress} == {"ci_1"}
    assert "".join(event.code or "" for event in progress) == "print(1)"
    assert "".join(event.output or "" for event in progress) == "1\n"
    assert [event.text for event in heard if isinstance(event, ReasoningDelta)] == ["Let me see."]
    written = [event.text for event in heard if isinstance(event, ArgumentsDelta)]
    assert json.loads("".join(written)) == {"text": "a"}
