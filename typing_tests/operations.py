"""The operations of a runtime are typed: parameters are checked, results are dataclasses."""

from typing import assert_type

from toolcrib import RuntimeConfig, create_runtime
from toolcrib.client import AsyncClient, Client
from toolcrib.ledger import Event
from toolcrib.runtime.messages import CallResult, PromptResult, SessionFacts
from toolcrib.runtime.principal import Principal


async def operate() -> None:
    async with create_runtime(RuntimeConfig()) as runtime:
        assert_type(await runtime.open_session("s1"), SessionFacts)
        result = await runtime.call_tool("s1", "add", {"a": 1})
        assert_type(result, CallResult)
        result.valeu  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        await runtime.call_tool("s1", "add", arguements={})  # pyright: ignore[reportCallIssue]
        await runtime.decide("apr_1", "allow")  # pyright: ignore[reportArgumentType]
        ann = runtime.as_principal(Principal("ann", frozenset({"caller"})))
        assert_type(await ann.send_prompt("s1", "Hello"), PromptResult)
        async for event in runtime.events("s1"):
            assert_type(event, Event)


async def operate_remotely() -> None:
    async with AsyncClient("http://127.0.0.1:8420") as client:
        assert_type(await client.call_tool("s1", "add", {"a": 1}), CallResult)
        await client.call_tool("s1", 5)  # pyright: ignore[reportArgumentType]
        async for event in client.events("s1"):
            assert_type(event, Event)


def operate_blocking() -> None:
    with Client("http://127.0.0.1:8420") as client:
        assert_type(client.open_session("s1"), SessionFacts)
        assert_type(client.call_tool("s1", "add", {"a": 1}), CallResult)
        client.call_tool("s1", "add", arguements={})  # pyright: ignore[reportCallIssue]
        for event in client.events("s1"):
            assert_type(event, Event)
