"""A chat over HTTP is the chat of the process: events, decisions, the way back, the history."""

from __future__ import annotations

from tests.runtime.host_runtime import model
from tests.transports.http.served_runtime import CALLERS, OWNERS, served
from toolcrib import ApprovalRequested, PromptResult, ToolInvoked
from toolcrib.client import AsyncClient, Refused
from toolcrib.runtime import ChatEvent
from toolcrib.testing import calls, says

ASKING = [calls("careful", {"text": "a"})]


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
