"""Deferred tools: hidden from the backend until a search loads them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from openai import BadRequestError

from tests.embedded.scripted_provider import Puppet, function, served
from tests.embedded.sdk_types import check_event, check_input_item, check_response
from tests.mcp_client.mounted_servers import web_peer
from toolcrib.embedded import (
    BackendCall,
    BackendCallResult,
    BackendOutput,
    BackendRequest,
    BackendText,
    ProposedCall,
)


def deferred(name: str, about: str) -> Any:
    return {**function(name), "description": about, "defer_loading": True}


SHOP: Any = {
    "type": "namespace",
    "name": "shop",
    "description": "Orders of the shop.",
    "tools": [
        deferred("list_orders", "List the orders of a customer."),
        deferred("cancel_order", "Cancel an order."),
    ],
}
WEATHER: Any = deferred("forecast", "The weather of a city.")
SEARCH: Any = {"type": "tool_search"}
TOOLS: Any = [SHOP, WEATHER, function("always"), SEARCH]


def offered(puppet: Puppet) -> list[list[str]]:
    return [[tool.name for tool in request.tools] for request in puppet.requests]


def searches(arguments: str, then: str) -> Any:
    """A backend that searches, calls a tool if it is offered then, and else says so."""

    def script(request: BackendRequest) -> Sequence[BackendOutput]:
        names = [tool.name for tool in request.tools]
        if then in names:
            return [ProposedCall(then, "{}")]
        if isinstance(request.history[-1], BackendCallResult):
            return [BackendText("nothing")]
        return [ProposedCall("tool_search", arguments)]

    return script


async def test_a_search_loads_tools_and_only_those() -> None:
    """The items have the official form, and the call names the namespace."""
    script = searches('{"query": "cancelling an order"}', "shop__cancel_order")
    async with served(script) as (client, puppet):
        response = await client.responses.create(model="puppet", input="x", tools=TOOLS)
    body = json.loads(response.to_json())
    check_response(body)
    call, output, function_call = body["output"]
    assert (call["type"], call["execution"], call["call_id"]) == (
        "tool_search_call",
        "server",
        None,
    )
    assert output["type"] == "tool_search_output"
    [namespace] = output["tools"]
    assert namespace["name"] == "shop"
    assert {tool["name"] for tool in namespace["tools"]} == {"cancel_order", "list_orders"}
    assert (function_call["namespace"], function_call["name"]) == ("shop", "cancel_order")
    before, after = offered(puppet)
    assert before == ["always", "tool_search"]
    assert set(after) == {"always", "shop__list_orders", "shop__cancel_order", "tool_search"}
    about = puppet.requests[0].tools[-1].description
    assert "shop: Orders of the shop." in about
    assert "forecast: The weather of a city." in about


@pytest.mark.parametrize(
    ("arguments", "loaded"),
    [
        ('{"paths": ["forecast"]}', {"forecast"}),
        ('{"paths": ["shop.cancel_order"]}', {"shop__cancel_order"}),
        ('{"paths": ["shop"]}', {"shop__list_orders", "shop__cancel_order"}),
        ('{"query": "weather"}', {"forecast"}),
        ('{"query": "elephants"}', set[str]()),
    ],
)
async def test_a_search_finds_by_words_or_by_path(arguments: str, loaded: set[str]) -> None:
    """Nothing is loaded that was not looked for."""
    async with served(searches(arguments, "none")) as (client, puppet):
        await client.responses.create(model="puppet", input="x", tools=TOOLS)
    assert set(offered(puppet)[1]) == {"always", "tool_search", *loaded}
    if not loaded:
        result = puppet.requests[1].history[-1]
        assert isinstance(result, BackendCallResult)
        assert "No tool fits" in result.text


async def test_what_was_found_stays_loaded() -> None:
    """The next response of the conversation offers it at once, stored or sent back."""
    script = searches('{"paths": ["forecast"]}', "none")
    async with served(script) as (client, puppet):
        first = await client.responses.create(model="puppet", input="x", tools=TOOLS)
        await client.responses.create(
            model="puppet", input="y", tools=TOOLS, previous_response_id=first.id
        )
        items: Any = [item.to_dict() for item in first.output]
        await client.responses.create(
            model="puppet",
            input=[{"role": "user", "content": "x"}, *items, {"role": "user", "content": "y"}],
            tools=TOOLS,
            store=False,
        )
    assert "forecast" in offered(puppet)[2]
    assert "forecast" in offered(puppet)[4]
    history = puppet.requests[2].history
    assert [type(turn) for turn in history[1:3]] == [BackendCall, BackendCallResult]


async def test_without_a_search_nothing_is_hidden() -> None:
    """A deferred tool that nobody could find is offered."""
    async with served(lambda q: [BackendText("ok")]) as (client, puppet):
        await client.responses.create(model="puppet", input="x", tools=[SHOP, WEATHER])
    assert offered(puppet) == [["shop__list_orders", "shop__cancel_order", "forecast"]]


async def test_a_choice_of_a_deferred_tool_needs_no_search() -> None:
    """Whoever is forced to call it sees it."""
    choice: Any = {"type": "function", "name": "forecast"}
    async with served(lambda q: [ProposedCall("forecast", "{}")]) as (client, puppet):
        await client.responses.create(model="puppet", input="x", tools=TOOLS, tool_choice=choice)
    assert offered(puppet) == [["forecast"]]


CLIENT_SEARCH: Any = {
    "type": "tool_search",
    "execution": "client",
    "description": "Search our tools.",
    "parameters": {"type": "object", "properties": {"goal": {"type": "string"}}},
}


async def test_the_client_may_search_itself() -> None:
    """It gets the arguments, and the tools of its answer can be called."""
    script = searches('{"goal": "orders"}', "shop__list_orders")
    async with served(script) as (client, puppet):
        first = await client.responses.create(model="puppet", input="x", tools=[CLIENT_SEARCH])
        [call] = first.output
        assert call.type == "tool_search_call"
        assert (call.execution, call.arguments) == ("client", {"goal": "orders"})
        answer: Any = {
            "type": "tool_search_output",
            "execution": "client",
            "call_id": call.call_id,
            "status": "completed",
            "tools": [SHOP],
        }
        last = await client.responses.create(
            model="puppet", input=[answer], previous_response_id=first.id, tools=[CLIENT_SEARCH]
        )
        inputs: Any = client.responses.input_items.with_raw_response
        listed = json.loads((await inputs.list(last.id)).content)["data"]
    check_response(json.loads(first.to_json()))
    for item in listed:
        check_input_item(item)
    [function_call] = last.output
    assert function_call.type == "function_call"
    assert function_call.namespace == "shop"
    search = puppet.requests[0].tools[0]
    assert (search.description, search.parameters) == (
        "Search our tools.",
        CLIENT_SEARCH["parameters"],
    )
    result = puppet.requests[1].history[-1]
    assert isinstance(result, BackendCallResult)
    assert "shop__list_orders: [shop: Orders of the shop.] List the orders" in result.text


async def test_additional_tools_are_offered_from_their_item_on() -> None:
    """A developer adds tools in the middle of a conversation."""
    more: Any = [
        {"role": "user", "content": "x"},
        {"type": "additional_tools", "role": "developer", "tools": [function("late")]},
    ]
    async with served(lambda q: [BackendText("ok")]) as (client, puppet):
        early: Any = [function("early")]
        await client.responses.create(model="puppet", input=more, tools=early)
    assert offered(puppet) == [["early", "late"]]
    assert len(puppet.requests[0].history) == 1


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({"type": "additional_tools", "role": "developer"}, "input[0].tools"),
        (
            {"type": "additional_tools", "role": "developer", "tools": [{"type": "mcp"}]},
            "input[0].tools[0].type",
        ),
        (
            {"type": "tool_search_output", "call_id": "none", "tools": []},
            "input[0]",
        ),
    ],
)
async def test_an_item_brings_only_tools_of_the_client(item: Any, param: str) -> None:
    """Hosted tools are named in the request, where they are checked."""
    async with served(lambda q: [BackendText("ok")]) as (client, _):
        with pytest.raises(BadRequestError) as refused:
            await client.responses.create(model="puppet", input=[item])
    assert refused.value.param == param


@pytest.mark.wire
async def test_the_tools_of_an_mcp_server_can_be_deferred() -> None:
    """A search shows the server's tools, and the call runs there."""

    def script(request: BackendRequest) -> Sequence[BackendOutput]:
        results = [turn for turn in request.history if isinstance(turn, BackendCallResult)]
        match results:
            case []:
                return [ProposedCall("tool_search", '{"query": "add numbers"}')]
            case [_]:
                return [ProposedCall("desk__add", '{"a": 20, "b": 22}')]
            case _:
                return [BackendText(results[-1].text)]

    async with web_peer() as peer, served(script) as (client, puppet):
        tools: Any = [
            {
                "type": "mcp",
                "server_label": "desk",
                "server_url": f"http://127.0.0.1:{peer.port}/mcp",
                "allowed_tools": ["add"],
                "require_approval": "never",
                "defer_loading": True,
                "authorization": "a-secret-of-the-client",
            },
            SEARCH,
        ]
        stream: Any = await client.responses.create(
            model="puppet", input="x", tools=tools, stream=True
        )
        events = [json.loads(event.to_json()) async for event in stream]
    for event in events:
        check_event(event)
    assert "42" in events[-1]["response"]["output"][-1]["content"][0]["text"]
    assert offered(puppet)[:2] == [["tool_search"], ["desk__add"]]
    assert "a-secret-of-the-client" not in json.dumps(events)
