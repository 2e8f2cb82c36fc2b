"""Tools that the client runs: in namespaces, with free text, as patches."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from openai import BadRequestError

from tests.embedded.backends.chat_server import chat_server, chunk
from tests.embedded.scripted_provider import function, served
from tests.embedded.sdk_types import check_event, check_input_item, check_response
from toolcrib.embedded import (
    BackendCall,
    BackendCallResult,
    BackendOutput,
    BackendRequest,
    BackendText,
    EmbeddedProvider,
    ProposedCall,
)
from toolcrib.embedded.backends.chat import ChatBackend

CRM: Any = {
    "type": "namespace",
    "name": "crm",
    "description": "Customers and their orders.\nMore about them.",
    "tools": [
        {**function("lookup"), "description": "Find a customer."},
        {"type": "custom", "name": "note", "description": "Write a note."},
    ],
}
CLASH: Any = [CRM, function("lookup"), function("crm__lookup")]


def calls(name: str, arguments: str = "{}") -> Any:
    """A backend that calls one tool, and says `done` to its result."""

    def script(request: BackendRequest) -> Sequence[BackendOutput]:
        if isinstance(request.history[-1], BackendCallResult):
            return [BackendText("done")]
        return [ProposedCall(name, arguments)]

    return script


async def test_a_call_names_its_namespace() -> None:
    """The backend knows flat names; the client gets name and namespace, and answers by the id."""
    async with served(calls("crm__lookup", '{"id": 7}')) as (client, puppet):
        first = await client.responses.create(model="puppet", input="who?", tools=[CRM])
        [call] = first.output
        assert call.type == "function_call"
        assert (call.name, call.namespace, call.arguments) == ("lookup", "crm", '{"id": 7}')
        answer: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "Ada"}
        last = await client.responses.create(
            model="puppet", input=[answer], previous_response_id=first.id, tools=[CRM]
        )
    check_response(json.loads(first.to_json()))
    assert last.output_text == "done"
    offered, replayed = puppet.requests
    assert [tool.name for tool in offered.tools] == ["crm__lookup", "crm__note"]
    assert offered.tools[0].description == "[crm: Customers and their orders.] Find a customer."
    assert replayed.history[1:] == [
        BackendCall(call.call_id, "crm__lookup", '{"id": 7}'),
        BackendCallResult(call.call_id, "crm__lookup", "Ada"),
    ]


async def test_a_history_without_store_names_the_namespace_too() -> None:
    """A client that sends the items back gets the same conversation to the backend."""
    items: Any = [
        {"role": "user", "content": "who?"},
        {
            "type": "function_call",
            "call_id": "c1",
            "namespace": "crm",
            "name": "lookup",
            "arguments": "{}",
        },
        {"type": "function_call_output", "call_id": "c1", "output": "Ada"},
    ]
    async with served(calls("crm__lookup")) as (client, puppet):
        response = await client.responses.create(
            model="puppet", input=items, tools=[CRM], store=False
        )
    assert response.output_text == "done"
    assert BackendCall("c1", "crm__lookup", "{}") in puppet.requests[0].history


async def test_equal_flat_names_are_told_apart() -> None:
    """Each tool has a flat name of its own, which leads back to it."""
    script = calls("crm__lookup_2")
    async with served(script) as (client, puppet):
        response = await client.responses.create(model="puppet", input="x", tools=CLASH)
    names = [tool.name for tool in puppet.requests[0].tools]
    assert names == ["crm__lookup", "crm__note", "lookup", "crm__lookup_2"]
    [call] = response.output
    assert call.type == "function_call"
    assert (call.name, call.namespace) == ("crm__lookup", None)


@pytest.mark.parametrize(
    ("choice", "offered"),
    [
        ({"type": "function", "name": "lookup"}, ["lookup"]),
        ({"type": "custom", "name": "note"}, ["crm__note"]),
        (
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "lookup", "namespace": "crm"}],
            },
            ["crm__lookup"],
        ),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "namespace", "name": "crm"}],
            },
            ["crm__lookup", "crm__note"],
        ),
    ],
)
async def test_a_choice_reaches_into_a_namespace(choice: Any, offered: list[str]) -> None:
    """A bare name means the tool outside of namespaces, if there is one."""
    async with served(lambda q: [BackendText("ok")]) as (client, puppet):
        await client.responses.create(model="puppet", input="x", tools=CLASH, tool_choice=choice)
    assert [tool.name for tool in puppet.requests[0].tools] == offered


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        ({"type": "namespace", "tools": [function("a")]}, "tools[0].name"),
        ({"type": "namespace", "name": "n", "description": "d"}, "tools[0].tools"),
        ({"type": "namespace", "name": "n", "tools": [{"type": "mcp"}]}, "tools[0].tools[0].type"),
        ({"type": "namespace", "name": "n", "tools": [function("")]}, "tools[0].tools[0].name"),
        (
            {"type": "namespace", "name": "n", "tools": [function("a"), function("a")]},
            "tools[0].name",
        ),
        ({**function("a"), "allowed_callers": ["programmatic"]}, "tools[0].allowed_callers"),
    ],
)
async def test_a_wrong_namespace_is_refused_by_its_place(tool: Any, param: str) -> None:
    """The fault names the entry."""
    async with served(calls("a")) as (client, _):
        with pytest.raises(BadRequestError) as refused:
            await client.responses.create(model="puppet", input="x", tools=[tool])
    assert refused.value.param == param


async def test_free_text_is_the_same_for_models_that_know_only_json() -> None:
    """A chat endpoint calls a custom tool with JSON; the client gets the text, and its answer goes
    back in the endpoint's form.
    """
    text = 'say "hi"\n'
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
    tool: Any = {"type": "custom", "name": "write", "description": "Write.", "format": grammar}
    arguments = json.dumps({"input": text})
    called = {"index": 0, "id": "c", "function": {"name": "write", "arguments": arguments}}
    with chat_server() as chat:
        chat.plays(chunk({"tool_calls": [called]}), chunk({}, "tool_calls"))
        backend = ChatBackend("m", base_url=chat.base_url, retries=0)
        async with EmbeddedProvider(backend) as provider:
            client = provider.client()
            first = await client.responses.create(model="m", input="x", tools=[tool])
            [call] = first.output
            chat.says({"content": "done"})
            output = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "ok"}
            await client.responses.create(
                model="m", input=[output], previous_response_id=first.id, tools=[tool]
            )
    assert (call.type, call.input) == ("custom_tool_call", text)
    offered, replayed = chat.requests
    assert "start: /.+/" in offered["tools"][0]["function"]["description"]
    [again] = replayed["messages"][-2]["tool_calls"]
    assert json.loads(again["function"]["arguments"]) == {"input": text}


PATCH = {"type": "update_file", "path": "a.txt", "diff": "@@\n-old\n+new\n"}


async def test_a_patch_is_the_clients_to_apply() -> None:
    """The call has the official form, streamed and stored, and its output goes to the backend."""
    tools: Any = [{"type": "apply_patch"}]
    script = calls("apply_patch", json.dumps(PATCH))
    async with served(script) as (client, puppet):
        first = await client.responses.create(
            model="puppet", input="x", tools=tools, tool_choice={"type": "apply_patch"}
        )
        [call] = first.output
        assert call.type == "apply_patch_call"
        assert call.operation.to_dict() == PATCH
        output: Any = {
            "type": "apply_patch_call_output",
            "call_id": call.call_id,
            "status": "failed",
            "output": "no such line",
        }
        last = await client.responses.create(
            model="puppet", input=[output], previous_response_id=first.id, tools=tools
        )
        inputs: Any = client.responses.input_items.with_raw_response
        listed = json.loads((await inputs.list(last.id)).content)["data"]
        stream: Any = await client.responses.create(
            model="puppet", input="x", tools=tools, stream=True
        )
        events = [json.loads(event.to_json()) async for event in stream]
    check_response(json.loads(first.to_json()))
    for event in events:
        check_event(event)
    for item in listed:
        check_input_item(item)
    assert last.output_text == "done"
    result = puppet.requests[1].history[-1]
    assert isinstance(result, BackendCallResult)
    assert (result.name, result.text) == ("apply_patch", "failed: no such line")


async def test_a_patch_that_is_none_goes_back_to_the_backend() -> None:
    """The client never sees an operation without a path or a diff."""
    wrong = ['{"type": "update_file", "path": "a"}', '{"type": "rename", "path": "a"}', "[]"]

    def script(request: BackendRequest) -> Sequence[BackendOutput]:
        at = sum(isinstance(turn, BackendCallResult) for turn in request.history)
        return [ProposedCall("apply_patch", wrong[at])] if at < 3 else [BackendText("sorry")]

    tools: Any = [{"type": "apply_patch"}]
    async with served(script) as (client, puppet):
        response = await client.responses.create(model="puppet", input="x", tools=tools)
    assert [item.type for item in response.output] == ["message"]
    results = [turn for turn in puppet.requests[-1].history if isinstance(turn, BackendCallResult)]
    assert all("A patch needs a type" in result.text for result in results)
