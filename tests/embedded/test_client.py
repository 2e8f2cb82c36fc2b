"""A provider in the process: for code that waits, for several event loops, and for one folder."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from openai import NotFoundError

from tests.adapters.openai.loopback_adapter import add, ask
from tests.embedded.scripted_provider import Puppet
from tests.helpers.patience import PATIENCE
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.embedded import (
    BackendCallResult,
    BackendMessage,
    BackendOutput,
    BackendRequest,
    BackendText,
    EmbeddedProvider,
    ProposedCall,
)
from toolcrib.errors import UsageError


def adds(request: BackendRequest) -> Sequence[BackendOutput]:
    last = request.history[-1]
    if request.tools and not isinstance(last, BackendCallResult):
        return [ProposedCall("add", '{"a": 20, "b": 22}')]
    assert isinstance(last, BackendMessage | BackendCallResult)
    return [BackendText("it is "), BackendText(last.text)]


@pytest.fixture
def provider() -> Iterator[EmbeddedProvider]:
    with EmbeddedProvider(Puppet(adds)) as started:
        yield started


def test_the_sync_client_waits_for_answers_and_reads_streams(provider: EmbeddedProvider) -> None:
    """`openai.OpenAI` reaches a provider that lives in a thread of its own."""
    with provider.sync_client() as client:
        assert client.responses.create(model="puppet", input="5").output_text == "it is 5"
        stream = client.responses.create(model="puppet", input="5", stream=True)
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        with pytest.raises(NotFoundError):
            client.responses.retrieve("resp_none")
    assert deltas == ["it is ", "5"]


def test_a_prompt_is_evaluated_without_an_event_loop(provider: EmbeddedProvider) -> None:
    """`OpenAIAdapter.evaluate` works, though its loop is another than the provider's."""
    adapter = OpenAIAdapter(model="puppet", client=provider.client())
    for stream in (False, True):
        assert adapter.evaluate(ask(add), stream=stream).text == "it is 42"
    adapter.close()


def test_every_event_loop_may_use_one_client(provider: EmbeddedProvider) -> None:
    """Loops come and go, also two at once in two threads."""
    client = provider.client()
    heard: list[str] = []

    async def talk() -> None:
        stream = await client.responses.create(model="puppet", input="6", stream=True)
        events = [event async for event in stream]
        heard.append(events[-1].response.output_text)

    asyncio.run(talk())
    threads = [threading.Thread(target=asyncio.run, args=(talk(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heard == ["it is 6"] * 3


async def test_a_client_that_waits_may_not_wait_for_itself() -> None:
    """In the provider's own loop it is told so, and nothing hangs."""
    async with EmbeddedProvider(Puppet(adds)) as provider:
        with pytest.raises(UsageError, match="use async code"):
            provider.sync_client().responses.create(model="puppet", input="5")


def test_a_closed_provider_says_so(tmp_path: Path) -> None:
    """A client that is left over hangs neither."""
    with EmbeddedProvider(Puppet(adds)) as provider:
        client = provider.sync_client()
    with pytest.raises(UsageError, match="closed"):
        client.responses.create(model="puppet", input="5")
    with pytest.raises(UsageError, match="not started"):
        EmbeddedProvider(Puppet(adds)).client()


async def test_a_folder_belongs_to_one_provider(tmp_path: Path) -> None:
    """A second one is refused, and would take what the first makes for lost; later it may."""
    async with EmbeddedProvider(Puppet(adds), data=tmp_path) as first:
        with pytest.raises(UsageError, match="another provider"):
            await EmbeddedProvider(Puppet(adds), data=tmp_path).start()
        kept = await first.client().responses.create(model="puppet", input="5")
    async with EmbeddedProvider(Puppet(adds), data=tmp_path) as second:
        again = await second.client().responses.retrieve(kept.id)
    assert again.output_text == "it is 5"


class Waiting:
    """A backend that goes on when it is let, and says when it was stopped."""

    name, is_scripted = "puppet", False

    def __init__(self) -> None:
        self.is_asked = asyncio.Event()
        self.was_stopped = asyncio.Event()

    async def propose(self, request: BackendRequest) -> AsyncIterator[BackendOutput]:
        yield BackendText("begun")
        self.is_asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.was_stopped.set()

    async def aclose(self) -> None: ...


async def test_whoever_stops_reading_ends_the_response() -> None:
    """A stream that is closed stops the backend, and what there is stays."""
    backend = Waiting()
    async with EmbeddedProvider(backend) as provider:
        client = provider.client()
        stream = await client.responses.create(model="puppet", input="x", stream=True)
        events: list[Any] = []
        async for event in stream:
            events.append(event)
            if event.type == "response.output_text.delta":
                break
        await stream.close()
        assert backend.was_stopped.is_set()
        kept = await client.responses.retrieve(events[0].response.id)
    assert kept.status == "cancelled"
    assert kept.output_text == "begun"


async def test_whoever_stops_waiting_ends_the_response() -> None:
    """The same for a request without a stream."""
    backend = Waiting()
    async with EmbeddedProvider(backend) as provider:
        asking = asyncio.create_task(provider.client().responses.create(model="puppet", input="x"))
        await backend.is_asked.wait()
        asking.cancel()
        await asyncio.wait([asking])
        await asyncio.wait_for(backend.was_stopped.wait(), PATIENCE)
    assert asking.cancelled()


async def test_what_is_not_stored_cannot_be_asked_for_while_it_is_made() -> None:
    """It is its client's alone, from the first event on."""
    backend = Waiting()
    async with EmbeddedProvider(backend) as provider:
        client = provider.client()
        stream = await client.responses.create(model="puppet", input="x", stream=True, store=False)
        begun: Any = await anext(stream)
        for ask in (client.responses.retrieve, client.responses.cancel, client.responses.delete):
            with pytest.raises(NotFoundError):
                await ask(begun.response.id)
        assert not backend.was_stopped.is_set()
        await stream.close()
