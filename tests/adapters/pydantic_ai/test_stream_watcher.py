"""What is announced while the parts of a pydantic-ai response grow."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel

from tests.adapters.openai.loopback_adapter import ask
from tests.adapters.pydantic_ai.provider_dialects import ANTHROPIC
from tests.adapters.pydantic_ai.scripted_adapter import wire_bench
from toolcrib import Event, PromptResponse, Secret, Session, tool
from toolcrib.adapters.pydantic_ai import PydanticAIAdapter
from toolcrib.adapters.pydantic_ai.stream_watcher import JsonMember
from toolcrib.ledger import ArgumentsDelta, HostedToolProgress, ReasoningDelta
from toolcrib.tools.code_interpreter import code_interpreter_tool


def of(events: Sequence[Event | PromptResponse[Any]], kind: type[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def in_pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


@given(code=st.text(max_size=40), size=st.integers(1, 9), is_ascii=st.booleans())
def test_the_code_is_read_from_its_json_however_it_is_cut(
    code: str, size: int, is_ascii: bool
) -> None:
    """A string member is known letter by letter; an escape that is cut in two waits."""
    written = json.dumps({"container_id": 'a "b"', "code": code}, ensure_ascii=is_ascii)
    member = JsonMember(("code",))
    read = "".join(map(member.add, in_pieces(written, size)))
    assert read == code


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_an_object_is_read_as_json(size: int) -> None:
    """The arguments for a remote server are the JSON that the model wrote for it."""
    inner = {"q": "}", "n": {"m": [1, 2]}}
    written = json.dumps({"action": "call_tool", "tool_args": inner})
    member = JsonMember(("tool_args",))
    read = "".join(map(member.add, in_pieces(written, size)))
    assert json.loads(read) == inner


async def test_secret_arguments_are_in_no_piece() -> None:
    """The arguments of a tool with secrets are held back, and announced without them."""

    @tool
    def login(user: str, password: Annotated[str, Secret()]) -> str:
        """Log in."""
        return "in"

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        if len(messages) > 1:
            yield "Fine."
            return
        yield {0: DeltaToolCall(name="login", tool_call_id="c1")}
        for piece in in_pieces('{"user": "jo", "password": "hunter2"}', 7):
            yield {0: DeltaToolCall(json_args=piece)}

    adapter = PydanticAIAdapter(FunctionModel(stream_function=stream))
    events = [item async for item in adapter.stream(ask(login))]

    pieces = of(events, ArgumentsDelta)
    assert "hunter2" not in repr(events)
    assert [json.loads(each.text or "{}").get("user") for each in pieces] == [None, "jo"]


async def test_reasoning_is_streamed_and_in_the_response() -> None:
    """What a model thinks comes in pieces, and stands in the response."""

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        yield {0: DeltaThinkingPart(content="First ")}
        yield {0: DeltaThinkingPart(content="this.")}
        yield "Fine."

    adapter = PydanticAIAdapter(FunctionModel(stream_function=stream))
    events = [item async for item in adapter.stream(ask())]

    assert [(each.index, each.text) for each in of(events, ReasoningDelta)] == [
        (0, "First "),
        (0, "this."),
    ]
    response = events[-1]
    assert isinstance(response, PromptResponse)
    assert response.reasoning == ("First this.",)


def test_code_and_its_output_are_in_the_events() -> None:
    """Hosted tools 4: on other providers, too."""
    run: dict[str, Any] = {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "code_execution",
        "input": {"code": "print('\\n')"},
    }
    result: dict[str, Any] = {
        "type": "code_execution_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": {
            "type": "code_execution_result",
            "stdout": "12\n",
            "stderr": "",
            "return_code": 0,
            "content": [],
        },
    }
    answer = ANTHROPIC.answer(run, result, {"type": "text", "text": "Fine."})
    session, events = Session(), list[Event]()
    session.bus.subscribe(Event, events.append)
    with wire_bench(ANTHROPIC, answer) as (adapter, _):
        adapter.evaluate(ask(hosted=[code_interpreter_tool()]), session=session, stream=True)

    progress = of(events, HostedToolProgress)
    assert {(each.call_id, each.tool) for each in progress} == {("srvtoolu_1", "code_interpreter")}
    assert "".join(each.code or "" for each in progress) == "print('\\n')"
    assert "".join(each.output or "" for each in progress) == "12\n"
    assert (progress[0].status, progress[-1].status) == ("in_progress", "completed")
