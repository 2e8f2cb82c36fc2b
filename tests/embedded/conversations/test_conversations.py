"""Stored conversations, and responses that continue them, with the official client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError, ConflictError, NotFoundError
from openai.types.responses import Response

from tests.embedded.principals import shared_provider
from tests.embedded.scripted_provider import Puppet, function, served
from toolcrib.embedded import (
    BackendCall,
    BackendCallResult,
    BackendFailed,
    BackendMessage,
    BackendOutput,
    BackendRequest,
    BackendText,
    EmbeddedProvider,
    ProposedCall,
)

pytestmark = pytest.mark.wire


def counts(request: BackendRequest) -> Sequence[BackendOutput]:
    """Says how many messages of the user it has seen."""
    seen = [turn for turn in request.history if getattr(turn, "role", None) == "user"]
    return [BackendText(f"seen {len(seen)}")]


def message(text: str) -> Any:
    return {"type": "message", "role": "user", "content": text}


async def respond(client: AsyncOpenAI, **options: Any) -> Response:
    create: Any = client.responses.create
    return await create(**{"model": "puppet", "input": "x", **options})


async def texts(client: AsyncOpenAI, conversation_id: str) -> list[str]:
    items: Any = client.conversations.items.list(conversation_id, order="asc")
    return [item.content[0].text async for item in items]


async def test_a_conversation_is_created_read_changed_and_deleted() -> None:
    async with served(counts) as (client, _):
        made = await client.conversations.create(
            items=[message("first")], metadata={"topic": "demo"}
        )
        again = await client.conversations.retrieve(made.id)
        changed = await client.conversations.update(made.id, metadata={"topic": "other"})
        deleted = await client.conversations.delete(made.id)
        with pytest.raises(NotFoundError):
            await client.conversations.retrieve(made.id)

    assert made.id.startswith("conv_")
    assert (again.object, again.metadata) == ("conversation", {"topic": "demo"})
    assert changed.metadata == {"topic": "other"}
    assert (deleted.id, deleted.deleted) == (made.id, True)


async def test_items_are_added_listed_read_and_deleted() -> None:
    async with served(counts) as (client, _):
        made = await client.conversations.create()
        added = await client.conversations.items.create(
            made.id, items=[message("one"), message("two"), message("three")]
        )
        ids = [str(item.id) for item in added.data]
        newest: Any = await client.conversations.items.list(made.id, limit=2)
        second: Any = await client.conversations.items.retrieve(ids[1], conversation_id=made.id)
        left = await client.conversations.items.delete(ids[1], conversation_id=made.id)

        assert [item.id for item in newest.data] == [ids[2], ids[1]]
        assert newest.has_more
        assert (second.role, second.status, second.content[0].text) == ("user", "completed", "two")
        assert left.id == made.id
        assert await texts(client, made.id) == ["one", "three"]
        with pytest.raises(NotFoundError):
            await client.conversations.items.retrieve(ids[1], conversation_id=made.id)


async def test_a_response_continues_the_conversation_and_is_added_to_it() -> None:
    async with served(counts) as (client, _):
        made = await client.conversations.create(items=[message("one")])
        first = await client.responses.create(model="puppet", input="two", conversation=made.id)
        second = await client.responses.create(
            model="puppet", input="three", conversation={"id": made.id}, store=False
        )
        said = await texts(client, made.id)

    assert first.conversation is not None
    assert first.conversation.id == made.id
    assert (first.output_text, second.output_text) == ("seen 2", "seen 3")
    assert said == ["one", "two", "seen 2", "three", "seen 3"]


async def test_a_streamed_response_is_in_the_conversation_when_its_end_is_read() -> None:
    said: list[str] = []
    async with served(counts) as (client, _):
        made = await client.conversations.create()
        async with client.responses.stream(
            model="puppet", input="one", conversation=made.id
        ) as stream:
            async for event in stream:
                if event.type == "response.completed":
                    said = await texts(client, made.id)

    assert said == ["one", "seen 1"]


async def test_calls_and_their_outputs_stay_in_the_conversation() -> None:
    def script(request: BackendRequest) -> Sequence[BackendOutput]:
        if any(isinstance(turn, BackendCallResult) for turn in request.history):
            return [BackendText("done")]
        return [ProposedCall("lookup", "{}")]

    tools: Any = [function("lookup")]
    async with served(script) as (client, puppet):
        made = await client.conversations.create()
        options: Any = {"model": "puppet", "conversation": made.id, "tools": tools}
        first: Any = await respond(client, input="go", **options)
        output = {
            "type": "function_call_output",
            "call_id": first.output[0].call_id,
            "output": "42",
        }
        await respond(client, input=[output], **options)

    call_id = first.output[0].call_id
    assert list(puppet.requests[1].history) == [
        BackendMessage("user", "go"),
        BackendCall(call_id, "lookup", "{}"),
        BackendCallResult(call_id, "lookup", "42", 42),
    ]


async def test_a_failed_response_leaves_the_conversation_unchanged() -> None:
    def broken(request: BackendRequest) -> Sequence[BackendOutput]:
        raise BackendFailed("the model is ill")

    async with served(broken) as (client, puppet):
        made = await client.conversations.create()
        options: Any = {"model": "puppet", "input": "x", "conversation": made.id}
        failed = await respond(client, **options)
        left = await texts(client, made.id)
        puppet.script = counts
        again = await respond(client, **options)

    assert (failed.status, left) == ("failed", [])
    assert again.output_text == "seen 1"


async def test_a_response_of_a_conversation_can_be_continued_by_its_id() -> None:
    async with served(counts) as (client, _):
        made = await client.conversations.create(items=[message("one")])
        first = await client.responses.create(model="puppet", input="two", conversation=made.id)
        await client.conversations.delete(made.id)
        second = await client.responses.create(
            model="puppet", input="three", previous_response_id=first.id
        )

    assert second.output_text == "seen 3"


class Patient:
    """A backend that answers when it may."""

    is_scripted, name = False, "patient"

    def __init__(self) -> None:
        self.is_asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def propose(self, request: BackendRequest) -> AsyncIterator[BackendOutput]:
        self.is_asked.set()
        await self.may_answer.wait()
        yield BackendText("at last")

    async def aclose(self) -> None: ...


async def test_two_responses_cannot_add_to_one_conversation_at_once() -> None:
    """Otherwise each would miss what the other one says."""
    backend = Patient()
    async with EmbeddedProvider(backend) as provider:
        client: AsyncOpenAI = provider.client()
        made = await client.conversations.create()
        options: Any = {"model": "patient", "input": "x", "conversation": made.id}
        waiting = asyncio.create_task(respond(client, **options))
        await backend.is_asked.wait()
        with pytest.raises(ConflictError) as refused:
            await respond(client, **options)
        with pytest.raises(ConflictError):
            await client.conversations.items.create(made.id, items=[message("y")])
        backend.may_answer.set()
        await waiting
        again = await respond(client, **options)

    assert refused.value.code == "conversation_locked"
    assert again.status == "completed"


async def test_invalid_requests_are_refused() -> None:
    async with served(counts) as (client, puppet):
        made = await client.conversations.create()
        orphan: Any = {"type": "function_call_output", "call_id": "none", "output": "x"}
        create: Any = client.responses.create
        with pytest.raises(BadRequestError) as both:
            await create(
                model="puppet", input="x", conversation=made.id, previous_response_id="resp_1"
            )
        with pytest.raises(NotFoundError):
            await create(model="puppet", input="x", conversation="conv_unknown")
        with pytest.raises(BadRequestError) as unanswered:
            await client.conversations.items.create(made.id, items=[orphan])
        with pytest.raises(BadRequestError) as many:
            await client.conversations.items.create(made.id, items=[message("x")] * 21)
        with pytest.raises(BadRequestError):
            await client.conversations.create(metadata={"x" * 65: "y"})

    assert both.value.code == "mutually_exclusive_parameters"
    assert unanswered.value.param == "items[0]"
    assert many.value.param == "items"
    assert puppet.requests == []


async def test_a_conversation_survives_a_restart(tmp_path: Path) -> None:
    async with EmbeddedProvider(Puppet(counts), data=tmp_path) as provider:
        client: AsyncOpenAI = provider.client()
        made = await client.conversations.create()
        await client.responses.create(model="puppet", input="one", conversation=made.id)
    async with EmbeddedProvider(Puppet(counts), data=tmp_path) as provider:
        client = provider.client()
        second = await client.responses.create(model="puppet", input="two", conversation=made.id)

    assert second.output_text == "seen 2"


async def test_a_conversation_belongs_to_its_principal() -> None:
    async with shared_provider(counts) as shared:
        alice = shared.client("alice")
        made = await alice.conversations.create(items=[message("mine")])
        [item] = [each async for each in alice.conversations.items.list(made.id)]
        paths: list[tuple[str, str, Any]] = [
            ("GET", "", None),
            ("POST", "", {"metadata": {}}),
            ("DELETE", "", None),
            ("GET", "/items", None),
            ("POST", "/items", {"items": [message("x")]}),
            ("GET", f"/items/{item.id}", None),
            ("DELETE", f"/items/{item.id}", None),
        ]
        for method, rest, body in paths:
            path = f"/conversations/{made.id}{rest}"
            answer = await shared.send("bob", method, path, json=body)
            assert answer.status_code == 404, (method, rest)
        used = await shared.send(
            "bob",
            "POST",
            "/responses",
            json={"model": "puppet", "input": "x", "conversation": made.id},
        )
        audited = await shared.send("audrey", "GET", f"/conversations/{made.id}/items")
        refused = await shared.send("audrey", "DELETE", f"/conversations/{made.id}/items/{item.id}")
        kept = await texts(alice, made.id)
        await alice.close()

    assert used.status_code == 404
    assert audited.status_code == 200
    assert refused.status_code == 403
    assert kept == ["mine"]
