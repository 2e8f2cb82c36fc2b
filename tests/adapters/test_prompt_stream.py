"""`adapter.stream`: events as they happen, and the response at the end."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from tests.adapters.openai.loopback_adapter import ask
from toolcrib import (
    ApprovalRequested,
    Approve,
    Event,
    EventBus,
    PromptEvaluationError,
    PromptResponse,
    Session,
    TextDelta,
    ToolContext,
    ToolInvoked,
    ToolProgress,
    tool,
)
from toolcrib.adapters.prompt_stream import MAX_UNREAD
from toolcrib.adapters.pydantic_ai import PydanticAIAdapter
from toolcrib.errors import UsageError
from toolcrib.ledger import ArgumentsDelta, TurnEnded
from toolcrib.testing import Recorder

PATIENCE = 10


@tool
async def count(number: int, context: ToolContext) -> int:
    """Count."""
    context.progress(1, number)
    return number


@tool(requires_approval=True)
async def erase(path: str) -> str:
    """Erase."""
    return path


def adapter_of(*pieces: str) -> PydanticAIAdapter:
    """An adapter whose model gives these pieces of text."""

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        for piece in pieces:
            yield piece

    return PydanticAIAdapter(FunctionModel(stream_function=stream))


def calling_adapter(name: str, *arguments: str) -> PydanticAIAdapter:
    """An adapter whose model calls a tool, with arguments in pieces, and then answers."""

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        if len(messages) > 1:
            yield "Done."
            return
        yield {0: DeltaToolCall(name=name, tool_call_id="c1")}
        for piece in arguments:
            yield {0: DeltaToolCall(json_args=piece)}

    return PydanticAIAdapter(FunctionModel(stream_function=stream))


async def test_the_last_item_is_the_response_and_the_rest_are_events() -> None:
    """`async for` yields events, and last the response that `evaluate` would have returned."""
    items = [item async for item in adapter_of("It ", "is ", "fine.").stream(ask())]

    *events, response = items
    assert all(isinstance(event, Event) for event in events)
    assert isinstance(response, PromptResponse)
    assert response.text == "It is fine."
    texts = [event.text for event in events if isinstance(event, TextDelta)]
    assert texts == ["It ", "is ", "fine."]
    assert isinstance(events[-1], TurnEnded)


async def test_calls_are_seen_from_their_first_letter_to_their_end() -> None:
    """Arguments while they are written, then the progress and the end of the call."""
    adapter = calling_adapter("count", '{"num', 'ber": 2}')
    events = [item async for item in adapter.stream(ask(count))]

    pieces = [event for event in events if isinstance(event, ArgumentsDelta)]
    assert [(piece.call_id, piece.tool, piece.text) for piece in pieces] == [
        ("c1", "count", ""),
        ("c1", "count", '{"num'),
        ("c1", "count", 'ber": 2}'),
    ]
    kinds = [type(event) for event in events]
    assert kinds.index(ArgumentsDelta) < kinds.index(ToolProgress) < kinds.index(ToolInvoked)
    invoked = next(event for event in events if isinstance(event, ToolInvoked))
    assert invoked.call_id == "c1"


async def test_an_approval_is_an_event_and_stream_resume_goes_on() -> None:
    """The stream of a prompt that waits ends with a waiting response; another one continues it."""
    adapter = calling_adapter("erase", '{"path": "a"}')
    session = Session()
    items = [item async for item in adapter.stream(ask(erase), session=session)]
    assert any(isinstance(item, ApprovalRequested) for item in items)
    waiting = items[-1]
    assert isinstance(waiting, PromptResponse)
    assert waiting.status == "waiting"

    await session.approvals.decide("c1", Approve(), by="ann")
    again = [item async for item in adapter.stream_resume(ask(erase), session=session)]
    answered = again[-1]
    assert isinstance(answered, PromptResponse)
    assert (answered.status, answered.text) == ("completed", "Done.")


async def test_an_error_is_raised_after_what_happened_before_it() -> None:
    """Exceptions surface at the iteration, and no event is lost to them."""

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "It "
        raise ValueError("broken")

    adapter = PydanticAIAdapter(FunctionModel(stream_function=stream))
    texts: list[str] = []
    with pytest.raises(PromptEvaluationError, match="broken"):  # noqa: PT012
        async for item in adapter.stream(ask()):
            if isinstance(item, TextDelta):
                texts.append(item.text)
    assert texts == ["It "]


async def test_leaving_the_loop_cancels_the_evaluation() -> None:
    """After `break` nothing is produced any more, and the turn ends as cancelled."""
    ended, is_cancelled = asyncio.Event(), False

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        nonlocal is_cancelled
        yield "It "
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            is_cancelled = True
            raise

    session = Session()
    outcomes: list[str] = []

    def on_end(event: TurnEnded) -> None:
        outcomes.append(event.outcome)
        ended.set()

    session.bus.subscribe(TurnEnded, on_end)
    adapter = PydanticAIAdapter(FunctionModel(stream_function=stream))
    async for item in adapter.stream(ask(), session=session):
        if isinstance(item, TextDelta):
            break
    gc.collect()
    await asyncio.wait_for(ended.wait(), PATIENCE)

    assert outcomes == ["cancelled"]
    assert is_cancelled


async def test_leaving_it_as_a_context_manager_waits_for_the_end() -> None:
    """With `async with`, the evaluation is over when the block is."""
    session = Session()
    recorder = Recorder(session.bus)

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "It "
        await asyncio.Event().wait()

    adapter = PydanticAIAdapter(FunctionModel(stream_function=stream))
    async with adapter.stream(ask(), session=session) as events:
        async for item in events:
            if isinstance(item, TextDelta):
                break
    assert [event.outcome for event in recorder.of(TurnEnded)] == ["cancelled"]
    with pytest.raises(UsageError, match="not over"):
        _ = events.response


async def test_a_slow_reader_slows_the_model_down_and_loses_nothing() -> None:
    """What waits for a reader is bounded: the model's stream is read no faster."""
    produced = 0
    total = 4 * MAX_UNREAD

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        nonlocal produced
        for number in range(total):
            produced = number
            yield f"{number} "

    events = PydanticAIAdapter(FunctionModel(stream_function=stream)).stream(ask())
    texts: list[str] = []
    async for item in events:
        if isinstance(item, TextDelta):
            if not texts:
                for _ in range(total * 4):
                    await asyncio.sleep(0)
                assert produced <= MAX_UNREAD + 2
            texts.append(item.text)
    assert texts == [f"{number} " for number in range(total)]


async def test_a_stream_can_be_awaited_and_keeps_its_response() -> None:
    """`await` passes over the events; `response` has the result afterwards, and not before."""
    stream = adapter_of("Fine.").stream(ask())
    with pytest.raises(UsageError, match="not over"):
        _ = stream.response
    response = await stream
    assert response.text == "Fine."
    assert stream.response is response
    assert [item async for item in stream] == []


async def test_a_bus_that_was_passed_hears_the_events_too() -> None:
    """The option `bus` means the same as for `evaluate`."""
    bus = EventBus()
    recorder = Recorder(bus)
    await adapter_of("Fine.").stream(ask(), bus=bus)
    assert [event.text for event in recorder.of(TextDelta)] == ["Fine."]


def test_a_program_without_a_loop_can_follow_a_prompt() -> None:
    """`stream_blocking` yields the same, and leaving it cancels the evaluation."""
    adapter = adapter_of("It ", "is ", "fine.")
    *events, response = adapter.stream_blocking(ask())
    assert isinstance(response, PromptResponse)
    assert "".join(each.text for each in events if isinstance(each, TextDelta)) == response.text

    adapter.close()

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "It "
        await asyncio.Event().wait()

    session = Session()
    recorder = Recorder(session.bus)
    endless = PydanticAIAdapter(FunctionModel(stream_function=stream))
    for item in endless.stream_blocking(ask(), session=session):
        if isinstance(item, TextDelta):
            break
    gc.collect()
    endless.close()
    assert [event.outcome for event in recorder.of(TurnEnded)] == ["cancelled"]


def test_a_program_without_a_loop_gets_errors_once() -> None:
    """The error is raised at the step where it happens."""

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        raise ValueError("broken")
        yield ""

    adapter = PydanticAIAdapter(FunctionModel(stream_function=stream))
    with pytest.raises(PromptEvaluationError, match="broken"):
        list(adapter.stream_blocking(ask()))
    adapter.close()
