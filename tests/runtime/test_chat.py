"""`Chat`: events while a turn is answered, decisions in its midst, and the way back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.pydantic_ai.scripted_adapter import bench
from tests.runtime.host_runtime import (
    CALLER,
    Gate,
    SlowModel,
    host_tool,
    model,
    refusal,
    scripted,
    serving,
)
from toolcrib import (
    ApprovalRequested,
    ArgumentsDelta,
    PromptResult,
    ReasoningDelta,
    RuntimeConfig,
    SqliteStore,
    TextDelta,
    ToolContext,
    ToolInvoked,
    ToolProgress,
    create_runtime,
)
from toolcrib.embedded import EmbeddedProvider
from toolcrib.embedded.backends import ScriptedBackend, read_scenario
from toolcrib.errors import Refused, UsageError
from toolcrib.host_tools import HostToolRegistry
from toolcrib.ledger.prompt_events import PromptAnswered
from toolcrib.runtime import OWNER, ChatEvent, ChatTurn, Principal
from toolcrib.runtime.runtime import PrincipalOperations, Runtime
from toolcrib.testing import ScriptedOpenAI, calls, says

ADD = {"a": 1, "b": 2}
SCENARIO = """
name: clerk
turns:
  - steps:
      - think: "I must add."
        calls: [{tool: add, arguments: {a: 1, b: 2}, as: sum}]
      - say: "It is {{ sum.text }}, I am quite sure of that."
"""


async def heard(turn: ChatTurn) -> list[ChatEvent]:
    """All that a turn yields."""
    return [event async for event in turn]


def kinds(events: list[ChatEvent]) -> list[type[Any]]:
    return [type(event) for event in events]


async def test_a_turn_yields_typed_events_and_last_its_result() -> None:
    """N section A: text, progress, invocations and the answer come as dataclasses, in order."""

    async def add(given: dict[str, Any], context: ToolContext) -> int:
        context.progress(1, 2, "adding")
        return given["a"] + given["b"]

    tool = host_tool("add", add)
    adapter = EmbeddedProvider(ScriptedBackend(read_scenario(SCENARIO))).adapter()
    async with adapter, serving(tool, adapter=adapter) as runtime:
        chat = await runtime.chat("desk")
        turn = chat.send("1+2?")
        events = await heard(turn)

    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    wanted = [each for each in kinds(events) if each in (ToolProgress, ToolInvoked, PromptAnswered)]
    assert text == "It is 3, I am quite sure of that."
    assert sum(isinstance(event, TextDelta) for event in events) > 1
    assert wanted == [ToolProgress, ToolInvoked, PromptAnswered]
    thoughts = [event.text for event in events if isinstance(event, ReasoningDelta)]
    assert "".join(thoughts) == "I must add."
    pieces = [event for event in events if isinstance(event, ArgumentsDelta)]
    [invoked] = [event for event in events if isinstance(event, ToolInvoked)]
    assert {piece.call_id for piece in pieces} == {invoked.call_id}
    assert json.loads("".join(piece.text for piece in pieces)) == {"a": 1, "b": 2}
    assert isinstance(events[-1], PromptResult)
    assert turn.result is events[-1]
    assert (events[-1].status, events[-1].text) == ("completed", text)


async def test_a_turn_has_no_result_before_its_end() -> None:
    """A program that reads it too early is told, and gets no half of it."""
    async with serving(adapter=model([says("Hi.")])) as runtime:
        turn = (await runtime.chat()).send("Hello")
        with pytest.raises(UsageError, match="not over"):
            _ = turn.result
        await turn

    assert turn.result.text == "Hi."


async def test_a_runtime_may_be_given_its_tools() -> None:
    """`tools` is the short form of a registry, and not beside one."""
    with pytest.raises(UsageError, match="not both"):
        RuntimeConfig(tools=[host_tool("add")], host_tool_registry=HostToolRegistry())
    async with create_runtime(RuntimeConfig(tools=[host_tool("add")])) as runtime:
        tools = await (await runtime.chat()).tools()

    assert [tool.name for tool in tools.tools] == ["add"]


async def test_a_turn_can_be_awaited() -> None:
    """Who needs only the answer awaits it."""
    async with serving(adapter=model([says("Hi.")])) as runtime:
        chat = await runtime.chat()
        result = await chat.send("Hello")

    assert result.text == "Hi."


async def test_a_conversation_goes_on_and_has_a_history() -> None:
    """The model knows what was said before, and the program reads it typed."""
    outputs = [calls("add", ADD)], [says("3")], [says("As I said, 3.")]
    async with serving(host_tool("add"), adapter=model(*outputs)) as runtime:
        chat = await runtime.chat("desk")
        await chat.send("1+2?")
        await chat.send("Sure?")
        history = await chat.history()

    assert [(each.text, each.answer) for each in history] == [
        ("1+2?", "3"),
        ("Sure?", "As I said, 3."),
    ]
    assert [[call.name for call in each.calls] for each in history] == [["add"], []]


@pytest.mark.parametrize("decision", ["approve", "edit", "deny", "answer"])
async def test_a_call_is_decided_in_the_midst_of_its_turn(decision: str) -> None:
    """The event of the request is all that `approve`, `deny` and `answer` need."""
    outputs = [calls("add", ADD)], [says("done")]
    tool = host_tool("add", requires_approval=True)
    events: list[ChatEvent] = []
    async with serving(tool, adapter=model(*outputs)) as runtime:
        chat = await runtime.chat("desk")
        async for event in chat.send("1+2?"):
            events.append(event)
            if not isinstance(event, ApprovalRequested):
                continue
            match decision:
                case "approve":
                    await chat.approve(event)
                case "edit":
                    await chat.approve(event, arguments={"a": 5, "b": 5})
                case "deny":
                    await chat.deny(event, "not today")
                case _:
                    await chat.answer(event, 42)

    (invoked,) = [event for event in events if isinstance(event, ToolInvoked)]
    assert {"approve": "3", "edit": "10", "deny": "not today", "answer": "42"}[
        decision
    ] in invoked.message
    assert invoked.success is (decision != "deny")
    assert isinstance(events[-1], PromptResult)
    assert events[-1].text == "done"


async def test_a_long_chat_is_shortened_by_itself() -> None:
    """With `compact_above` on the adapter, a summary takes the place of what was said; it is no
    exchange of the chat.
    """
    with bench("Hi Ada.", "She is Ada.", "Ada.", compact_above=1) as (adapter, script):
        async with serving(adapter=adapter) as runtime:
            chat = await runtime.chat()
            await chat.send("I am Ada.")
            answer = await chat.send("Who am I?")
            history = await chat.history()

    assert answer.text == "Ada."
    assert "She is Ada." in str(script.asked[-1])
    assert [(each.text, each.answer) for each in history] == [
        ("I am Ada.", "Hi Ada."),
        ("Who am I?", "Ada."),
    ]


async def test_without_waiting_a_turn_ends_and_is_resumed_after_the_decision() -> None:
    """`pending` has what waits, and `resume` goes on with it."""
    outputs = [calls("add", ADD)], [says("done")]
    tool = host_tool("add", requires_approval=True)
    async with serving(tool, adapter=model(*outputs)) as runtime:
        chat = await runtime.chat("desk")
        first = await chat.send("1+2?", waits=False)
        was_unfinished = await chat.is_unfinished()
        (request,) = await chat.pending()
        await chat.approve(request)
        second = await chat.resume()
        is_unfinished = await chat.is_unfinished()

    assert (first.status, first.pending) == ("waiting", [request.approval_id])
    assert (second.status, second.text) == ("completed", "done")
    assert (was_unfinished, is_unfinished) == (True, False)


async def test_another_process_goes_on_with_the_question_that_waits(tmp_path: Path) -> None:
    """The same loop serves: `resume` yields the requests that wait first."""
    tool = host_tool("add", requires_approval=True)
    with SqliteStore(tmp_path / "crib.sqlite3") as store:
        async with serving(tool, adapter=model([calls("add", ADD)]), store=store) as runtime:
            chat = await runtime.chat("desk")
            async for event in chat.send("1+2?"):
                if isinstance(event, ApprovalRequested):
                    break
    with SqliteStore(tmp_path / "crib.sqlite3") as store:
        async with serving(tool, adapter=model([says("It is 3.")]), store=store) as runtime:
            chat = await runtime.chat("desk")
            was_unfinished = await chat.is_unfinished()
            events: list[ChatEvent] = []
            async for event in chat.resume():
                events.append(event)
                if isinstance(event, ApprovalRequested):
                    await chat.approve(event)

    assert was_unfinished
    assert isinstance(events[0], ApprovalRequested)
    assert isinstance(events[-1], PromptResult)
    assert events[-1].text == "It is 3."


async def test_leaving_a_turn_does_not_cancel_it() -> None:
    """The prompt goes on without a listener, and its answer is in the history."""
    gate = Gate()
    outputs = [calls("gate")], [says("done")]
    async with serving(host_tool("gate", gate), adapter=model(*outputs)) as runtime:
        chat = await runtime.chat("desk")
        turn = chat.send("go")
        leaving = asyncio.ensure_future(heard(turn))
        await gate.is_entered.wait()
        leaving.cancel()
        await asyncio.wait([leaving])
        gate.is_open.set()
        async with runtime.events("desk") as events:
            async for event in events:
                if isinstance(event, PromptAnswered):
                    break
        (exchange,) = await chat.history()

    assert leaving.cancelled()
    assert not gate.was_cancelled
    assert exchange.answer == "done"


async def test_a_prompt_is_cancelled_by_name() -> None:
    """`cancel` ends the prompt; the turn ends with it."""
    slow = SlowModel()
    async with serving(adapter=slow.adapter()) as runtime:
        chat = await runtime.chat("desk")
        answering = asyncio.ensure_future(heard(chat.send("go")))
        await slow.is_asked.wait()
        cancelled = await chat.cancel()
        events = await answering

    assert cancelled.was_running
    assert isinstance(events[-1], PromptResult)
    assert events[-1].status == "cancelled"


async def test_what_is_refused_is_raised_where_the_turn_is_iterated() -> None:
    """A runtime without a model says so at the first step."""
    async with serving() as runtime:
        chat = await runtime.chat("desk")
        with pytest.raises(Refused, match="no model"):
            await heard(chat.send("go"))
        with pytest.raises(Refused, match="no model"):
            await chat.resume()


async def test_a_failed_turn_has_a_result_that_says_why() -> None:
    """A provider's refusal is a result, not an exception: the chat goes on."""
    async with serving(adapter=model()) as runtime:
        chat = await runtime.chat("desk")
        result = await chat.send("go")

    assert result.status == "failed"
    assert "the script is over" in (result.error or "")


async def test_a_chat_belongs_to_the_principal_that_opened_it() -> None:
    """`as_principal` has chats too, and another principal's session does not exist for it."""
    async with serving(adapter=model([says("Hi.")])) as runtime:
        await runtime.chat("desk")
        mine = await runtime.as_principal(CALLER).chat("bot:desk")
        result = await mine.send("Hello")
        refused = await refusal(runtime, "session.get", {"session_id": "desk"}, CALLER)

    assert result.text == "Hi."
    assert refused.kind == "not_found"


async def test_tools_are_listed() -> None:
    """A chat can show what the model may use."""
    async with serving(host_tool("add")) as runtime:
        tools = await (await runtime.chat()).tools()

    assert [tool.name for tool in tools.tools] == ["add"]


class Lossy(PrincipalOperations):
    """Loses the first answer to a prompt, as a connection does that is idle for too long."""

    def __init__(self, runtime: Runtime, who: Principal, gate: Gate) -> None:
        super().__init__(runtime, who)
        self._gate = gate
        self.keys: list[str] = []

    async def run_operation(self, name: str, params: Mapping[str, Any]) -> Any:
        if name != "prompt.send":
            return await super().run_operation(name, params)
        self.keys.append(params["idempotency_key"])
        if len(self.keys) > 1:
            self._gate.is_open.set()
            return await super().run_operation(name, params)
        lost = asyncio.ensure_future(super().run_operation(name, params))
        await self._gate.is_entered.wait()
        lost.cancel()
        raise Refused("unavailable", "no answer")


async def test_a_prompt_may_last_longer_than_its_connection() -> None:
    """The same request is made again under the same key while the session is at it: nothing is
    sent twice.
    """
    gate = Gate()
    script = ScriptedOpenAI([calls("gate")], [says("done")])
    async with serving(host_tool("gate", gate), adapter=scripted(script)) as runtime:
        operations = Lossy(runtime, OWNER, gate)
        chat = await operations.chat("desk")
        result = await chat.send("go")
        history = await chat.history()

    assert result.text == "done"
    assert len(set(operations.keys)) == 1
    assert (len(operations.keys), len(script.requests), len(history)) == (2, 2, 1)
    assert gate.entered == 1
