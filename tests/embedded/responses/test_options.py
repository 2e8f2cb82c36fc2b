"""What a request may say: choices of tools, formats, limits, and what it goes on from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from openai import BadRequestError, NotFoundError

from tests.embedded.scripted_provider import function, served
from toolcrib.embedded import (
    BackendCall,
    BackendCallResult,
    BackendMessage,
    BackendOutput,
    BackendRequest,
    BackendText,
    BackendTool,
    ProposedCall,
    Truncation,
)
from toolcrib.embedded.responses.request import ResponseRequest
from toolcrib.embedded.responses.writer import ResponseWriter
from toolcrib.embedded.tools.tool import ToolAnswer
from toolcrib.errors import BackendFailed

BOTH: Any = [function("alpha"), function("beta"), {"type": "lamp"}]


class Lamp:
    """A hosted kind of the tests: it lights up each time."""

    types = frozenset({"lamp"})
    backend_tools = (BackendTool("light", "Light the lamp.", {"type": "object"}),)

    def check(self, config: Mapping[str, Any], param: str) -> None: ...

    async def open(self, config: Mapping[str, Any], asked: ResponseRequest, opened: Any) -> Lamp:
        return self

    async def run(
        self, name: str, arguments: Mapping[str, Any], writer: ResponseWriter
    ) -> ToolAnswer:
        return ToolAnswer("lamp_1", "lit")

    async def close(self) -> None: ...


def quiet(request: BackendRequest) -> Sequence[BackendOutput]:
    return [BackendText("ok")]


@pytest.mark.parametrize(
    ("choice", "offered", "mode"),
    [
        (None, {"alpha", "beta", "light"}, "auto"),
        ("auto", {"alpha", "beta", "light"}, "auto"),
        ("none", {"alpha", "beta", "light"}, "none"),
        ("required", {"alpha", "beta", "light"}, "required"),
        ({"type": "function", "name": "beta"}, {"beta"}, "required"),
        ({"type": "lamp"}, {"light"}, "required"),
        (
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "alpha"}, {"type": "lamp"}],
            },
            {"alpha", "light"},
            "auto",
        ),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "lamp"}]},
            {"light"},
            "required",
        ),
    ],
)
async def test_a_choice_of_tools_reaches_the_backend(
    choice: Any, offered: set[str], mode: str
) -> None:
    """Only what the choice lets be proposed is offered, and whether something has to be."""
    more: Any = {} if choice is None else {"tool_choice": choice}
    async with served(quiet, kinds=[Lamp()]) as (client, puppet):
        await client.responses.create(model="puppet", input="x", tools=BOTH, **more)
    [request] = puppet.requests
    assert {tool.name for tool in request.tools} == offered
    assert request.tool_choice == mode


@pytest.mark.parametrize(
    "choice",
    [
        "sometimes",
        {"type": "function", "name": "gamma"},
        {"type": "web_search"},
        {"type": ""},
        {"type": "fun"},
        {},
        {"type": "mcp", "server_label": "none"},
        {"type": "allowed_tools", "mode": "never", "tools": []},
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "no"}]},
        {"type": "allowed_tools", "mode": "auto", "tools": "all"},
    ],
)
async def test_a_choice_of_what_is_not_there_is_refused(choice: Any) -> None:
    """The parameter is named."""
    async with served(quiet, kinds=[Lamp()]) as (client, _):
        with pytest.raises(BadRequestError) as refused:
            await client.responses.create(model="puppet", input="x", tools=BOTH, tool_choice=choice)
    assert (refused.value.param or "").startswith("tool_choice")


async def test_calls_beyond_the_limit_are_not_run() -> None:
    """`max_tool_calls` counts what the provider runs; then the backend has to answer."""
    lit: list[str] = []

    def script(request: BackendRequest) -> Sequence[BackendOutput]:
        lit[:] = [turn.text for turn in request.history if isinstance(turn, BackendCallResult)]
        return [ProposedCall("light", "{}")] if request.tools else [BackendText("enough")]

    async with served(script, kinds=[Lamp()]) as (client, _):
        lamp: Any = [{"type": "lamp"}]
        response = await client.responses.create(
            model="puppet", input="x", tools=lamp, max_tool_calls=2
        )
    assert (lit, response.output_text) == (["lit", "lit"], "enough")


async def test_a_backend_that_will_not_stop_is_stopped() -> None:
    """Calls that were never offered are refused, and after a few of them the response fails."""
    async with served(lambda q: [ProposedCall("light", "{}")], kinds=[Lamp()]) as (client, _):
        lamp: Any = [{"type": "lamp"}]
        response = await client.responses.create(
            model="puppet", input="x", tools=lamp, max_tool_calls=1
        )
    assert response.status == "failed"


async def test_formats_and_parallel_calls_reach_the_backend() -> None:
    """A schema comes through whole, and is told back."""
    schema: Any = {"type": "object", "properties": {"a": {"type": "integer"}}}
    text: Any = {"format": {"type": "json_schema", "name": "sum", "schema": schema}}
    async with served(lambda q: [BackendText('{"a": 1}')]) as (client, puppet):
        response = await client.responses.create(
            model="puppet", input="x", text=text, parallel_tool_calls=False
        )
        await client.responses.create(
            model="puppet", input="x", text={"format": {"type": "json_object"}}
        )
    first, second = puppet.requests
    assert (first.output.name, first.output.schema) == ("sum", schema)
    assert (first.is_parallel, second.is_parallel) == (False, True)
    assert second.output.kind == "json_object"
    assert response.parallel_tool_calls is False
    assert response.text is not None
    assert response.text.format is not None
    assert response.text.format.type == "json_schema"


async def test_an_item_may_be_named_by_its_id() -> None:
    """A reference stands for the item, also in what comes after it."""
    async with served(lambda q: [BackendText("ok")]) as (client, puppet):
        first = await client.responses.create(model="puppet", input="remember")
        refers: Any = [
            {"type": "item_reference", "id": first.output[0].id},
            {"role": "user", "content": "what"},
        ]
        second = await client.responses.create(model="puppet", input=refers)
        await client.responses.create(model="puppet", input="more", previous_response_id=second.id)
        lost: Any = [{"type": "item_reference", "id": "msg_none"}]
        with pytest.raises(NotFoundError, match="Item not found"):
            await client.responses.create(model="puppet", input=lost)
    said = [turn.text for turn in puppet.requests[-1].history if isinstance(turn, BackendMessage)]
    assert said == ["ok", "what", "ok", "more"]


@pytest.mark.parametrize("ending", ["failed", "incomplete"])
async def test_a_response_that_did_not_end_well_can_be_gone_on_from(ending: str) -> None:
    """What was said before it broke is part of the conversation."""

    def script(request: BackendRequest) -> Sequence[BackendOutput]:
        if len(request.history) > 1:
            return [BackendText("whole")]
        if ending == "failed":
            raise BackendFailed("away")
        return [BackendText("half"), Truncation("max_output_tokens")]

    async with served(script) as (client, puppet):
        first = await client.responses.create(model="puppet", input="a")
        assert first.status == ending
        second = await client.responses.create(
            model="puppet", input="b", previous_response_id=first.id
        )
    assert second.output_text == "whole"
    assert puppet.requests[1].history[-1] == BackendMessage("user", "b")


async def test_what_failed_in_a_call_can_be_gone_on_from_with_its_output() -> None:
    """A call that the client has to run is answered in the next response."""

    def script(request: BackendRequest) -> Sequence[BackendOutput]:
        last = request.history[-1]
        return (
            [BackendText("fine")]
            if isinstance(last, BackendCallResult)
            else [ProposedCall("alpha", "{}")]
        )

    async with served(script) as (client, puppet):
        first = await client.responses.create(model="puppet", input="a", tools=[BOTH[0]])
        [call] = first.output
        assert call.type == "function_call"
        output: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": "1"}]
        await client.responses.create(
            model="puppet", previous_response_id=first.id, input=output, tools=[BOTH[0]]
        )
    assert [type(turn) for turn in puppet.requests[1].history] == [
        BackendMessage,
        BackendCall,
        BackendCallResult,
    ]


async def test_a_conversation_may_be_long() -> None:
    """Each response goes on from the one before, sixty times, and none is lost."""
    async with served(lambda q: [BackendText("ok")]) as (client, puppet):
        previous: str | None = None
        for number in range(60):
            response = await client.responses.create(
                model="puppet", input=f"n{number}", previous_response_id=previous
            )
            previous = response.id
        assert previous is not None
        page = await client.responses.input_items.list(previous, order="asc", limit=100)
        listed = [item async for item in page]
    heard = [t.text for t in puppet.requests[-1].history if isinstance(t, BackendMessage)]
    assert heard[::2] == [f"n{number}" for number in range(60)]
    assert len(listed) == 119


async def test_a_conversation_with_a_hole_is_not_gone_on_from() -> None:
    """Rather than with half of it the request is refused, by name."""
    async with served(quiet) as (client, _):
        first = await client.responses.create(model="puppet", input="a")
        second = await client.responses.create(
            model="puppet", input="b", previous_response_id=first.id
        )
        await client.responses.delete(first.id)
        with pytest.raises(BadRequestError) as refused:
            await client.responses.create(model="puppet", input="c", previous_response_id=second.id)
    assert refused.value.code == "previous_response_not_found"


@pytest.mark.parametrize(
    "asked",
    [
        {"metadata": {str(number): "x" for number in range(17)}},
        {"metadata": {"a": "x" * 513}},
        {"metadata": {"a" * 65: "x"}},
        {"metadata": {"a": 1}},
        {"include": ["message.output_text.logprobs"]},
        {"max_tool_calls": 0},
        {"max_output_tokens": 0},
        {"top_logprobs": 3},
        {"text": {"format": {"type": "xml"}}},
        {"text": {"format": {"type": "json_schema", "schema": {}}}},
    ],
)
async def test_a_value_beyond_its_limits_is_refused(asked: Any) -> None:
    """Nothing that would not be kept to is taken."""
    async with served(quiet) as (client, puppet):
        with pytest.raises(BadRequestError) as refused:
            await client.responses.create(model="puppet", input="x", **asked)
    assert (refused.value.param or "").startswith(next(iter(asked)))
    assert puppet.requests == []


async def test_metadata_at_its_limits_is_kept() -> None:
    """Sixteen pairs, as long as they may be."""
    metadata = {f"{number:064}": "x" * 512 for number in range(16)}
    async with served(quiet) as (client, _):
        response = await client.responses.create(model="puppet", input="x", metadata=metadata)
        assert (await client.responses.retrieve(response.id)).metadata == metadata
