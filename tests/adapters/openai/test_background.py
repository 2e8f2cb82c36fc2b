"""Responses in the background: waited for by their id, in any process, and cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
from httpx2 import AsyncByteStream, AsyncClient, ReadError, Request, Response
from openai import AsyncOpenAI

from tests.adapters.openai.loopback_adapter import QUICK, ask, bench, happened
from tests.adapters.openai.scripted_provider import Body, Json, message, response
from tests.adapters.pydantic_ai.scripted_adapter import bench as script_bench
from toolcrib import PromptEvaluationError, Session, SqliteStore
from toolcrib.adapters.openai import OpenAIAdapter, Retry
from toolcrib.embedded import (
    BackendOutput,
    BackendRequest,
    BackendText,
    BackendUsage,
    EmbeddedProvider,
)
from toolcrib.embedded.client import BASE_URL, InProcessTransport, in_process_sync_client
from toolcrib.errors import UsageError
from toolcrib.ledger.prompt_events import (
    ModelCancelled,
    ModelQueued,
    ModelResponded,
    TextDelta,
)
from toolcrib.session.bus import EventBus

HISTORIES: Final = ["server", "client"]


class Slow:
    """A backend that answers when it is let."""

    is_scripted = False
    name = "slow"

    def __init__(self, *, is_open: bool = True) -> None:
        self.asked = 0
        self.gate = asyncio.Event()
        if is_open:
            self.gate.set()

    async def propose(self, request: BackendRequest) -> AsyncIterator[BackendOutput]:
        self.asked += 1
        yield BackendText("It is ")
        await self.gate.wait()
        yield BackendText("done.")
        yield BackendUsage(10, 5)

    async def aclose(self) -> None:
        pass


class Deaf(InProcessTransport):
    """Hears no answer but to the first request."""

    def __init__(self, provider: EmbeddedProvider) -> None:
        super().__init__(provider.app, provider.portal)

    async def handle_async_request(self, request: Request) -> Response:
        if request.method == "GET":
            raise ReadError("the line is lost")
        return await super().handle_async_request(request)


def client_of(transport: InProcessTransport) -> AsyncOpenAI:
    http = AsyncClient(transport=transport)
    return AsyncOpenAI(api_key="none", base_url=BASE_URL, http_client=http)


def adapter_of(provider: EmbeddedProvider, history: Any = "server", **options: Any) -> Any:
    return provider.adapter(history=history, poll_seconds=0, retry=QUICK, **options)


@pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])
@pytest.mark.parametrize("history", HISTORIES)
async def test_an_answer_in_the_background_is_like_any_other(history: Any, stream: bool) -> None:
    """The response is asked for until it is there, and equals the one that is waited for; with a
    history that we keep, nothing of it stays with the provider.
    """
    pieces: list[str] = []
    bus = EventBus()
    bus.subscribe(TextDelta, lambda event: pieces.append(event.text))
    session, backend = Session(), Slow()
    async with EmbeddedProvider(backend) as provider, adapter_of(provider, history) as adapter:
        plain = await adapter.evaluate_async(ask(), stream=stream)
        found = await adapter.evaluate_async(
            ask(), session=session, background=True, stream=stream, bus=bus
        )
        (queued,) = happened(session, ModelQueued)
        stored = provider.responses.retrieve(queued.response_id)
        if history == "server":
            assert (await stored)["background"] is True
        else:
            with pytest.raises(Exception, match="not found"):
                await stored

    assert (found.text, found.usage, found.status) == (plain.text, plain.usage, plain.status)
    assert "".join(pieces) == ("It is done." if stream else "")
    (responded,) = happened(session, ModelResponded)
    assert responded.response_id == queued.response_id
    assert backend.asked == 2


@pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])
@pytest.mark.parametrize("history", HISTORIES)
async def test_another_process_asks_for_the_same_response(
    tmp_path: Path, history: Any, stream: bool
) -> None:
    """A process that stops waiting leaves the id in the ledger: who resumes makes no request."""
    backend = Slow(is_open=False)
    options: Any = {"background": True, "stream": stream}
    async with EmbeddedProvider(backend) as provider:
        with SqliteStore(tmp_path / "store.db") as store:
            adapter = OpenAIAdapter(
                model="slow", client=client_of(Deaf(provider)), retry=Retry(1), history=history
            )
            async with await Session.open(store, "s") as session:
                with pytest.raises(PromptEvaluationError, match="could not be read"):
                    await adapter.evaluate_async(ask(), session=session, **options)
            await adapter.aclose()
        backend.gate.set()
        with SqliteStore(tmp_path / "store.db") as store:
            async with (
                await Session.open(store, "s") as session,
                adapter_of(provider, history) as again,
            ):
                found = await again.resume_async(ask(), session=session, **options)
                queued = happened(session, ModelQueued)

    assert found.text == "It is done."
    assert backend.asked == 1
    assert len(queued) == 1


async def test_cancelling_the_prompt_cancels_the_response() -> None:
    """The provider stops, the ledger says so, and going on makes the request again."""
    session, backend = Session(), Slow(is_open=False)
    async with EmbeddedProvider(backend) as provider, adapter_of(provider) as adapter:
        is_queued = asyncio.Event()
        session.bus.subscribe(ModelQueued, lambda _: is_queued.set())
        evaluation = asyncio.create_task(
            adapter.evaluate_async(ask(), session=session, background=True)
        )
        await is_queued.wait()
        evaluation.cancel()
        with pytest.raises(asyncio.CancelledError):
            await evaluation
        (queued,) = happened(session, ModelQueued)
        (cancelled,) = happened(session, ModelCancelled)
        body = await provider.responses.retrieve(queued.response_id)
        backend.gate.set()
        found = await adapter.resume_async(ask(), session=session, background=True)

    assert body["status"] == "cancelled"
    assert (cancelled.response_id, cancelled.is_confirmed) == (queued.response_id, True)
    assert found.text == "It is done."
    assert len(happened(session, ModelQueued)) == 2


@pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])
def test_a_blocking_client_waits_for_them_too(stream: bool) -> None:
    """The requests of a blocking client of the SDK are made in threads, also those that wait."""
    with EmbeddedProvider(Slow()) as provider:
        client = in_process_sync_client(provider.app, provider.portal)
        with OpenAIAdapter(model="slow", client=client, poll_seconds=0) as adapter:
            found = adapter.evaluate(ask(), background=True, stream=stream)

    assert found.text == "It is done."


class Breaking(InProcessTransport):
    """Loses the connection of the first stream that is followed, after some of its events."""

    def __init__(self, provider: EmbeddedProvider) -> None:
        super().__init__(provider.app, provider.portal)
        self.followed: list[str] = []

    async def handle_async_request(self, request: Request) -> Response:
        answer = await super().handle_async_request(request)
        if request.method == "GET" and b"stream" in request.url.query:
            self.followed.append(request.url.query.decode())
            if len(self.followed) == 1:
                assert isinstance(answer.stream, AsyncByteStream)
                answer.stream = _Cut(answer.stream)
        return answer


class _Cut(AsyncByteStream):
    def __init__(self, whole: AsyncByteStream) -> None:
        self._whole = whole

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._whole:
            yield piece
            if b"output_text.delta" in piece:
                raise ReadError("the line is lost")

    async def aclose(self) -> None:
        await self._whole.aclose()


async def test_a_lost_stream_goes_on_after_the_last_event() -> None:
    """Nothing is announced twice, and nothing is lost."""
    pieces: list[str] = []
    session, backend = Session(), Slow()
    session.bus.subscribe(TextDelta, lambda event: pieces.append(event.text))
    async with EmbeddedProvider(backend) as provider:
        transport = Breaking(provider)
        client = client_of(transport)
        adapter = OpenAIAdapter(model="slow", client=client, retry=QUICK, poll_seconds=0)
        found = await adapter.evaluate_async(ask(), session=session, background=True, stream=True)
        await adapter.aclose()

    assert found.text == "".join(pieces) == "It is done."
    first, second = transport.followed
    assert "starting_after" not in first
    assert "starting_after" in second
    assert backend.asked == 1


QUEUED: Final[Json] = {"id": "resp_1", "object": "response", "status": "queued", "output": []}
DONE: Final = response(message("Fine."), id="resp_1")


def test_a_response_that_is_still_queued_is_asked_for_by_its_id() -> None:
    """Recordings, bug 9: `queued` is no failure; the running response is read, and no second
    request is made.
    """
    session = Session()
    with bench(QUEUED, poll_seconds=0) as (adapter, provider):
        provider.routes["GET /v1/responses/resp_1"] = Body({**QUEUED, "status": "mangled"}, 500)
        with pytest.raises(PromptEvaluationError, match="resp_1 could not be read"):
            adapter.evaluate(ask(), session=session)
        provider.routes["GET /v1/responses/resp_1"] = Body(DONE)
        found = adapter.resume(ask(), session=session)

    assert found.text == "Fine."
    assert len(provider.requests) == 1


def test_a_response_that_the_provider_lost_is_asked_for_anew_by_resume() -> None:
    """Who polls for what is not there learns so, and is not stuck."""
    session = Session()
    with bench(QUEUED, DONE, poll_seconds=0) as (adapter, provider):
        with pytest.raises(PromptEvaluationError, match="no longer has response resp_1"):
            adapter.evaluate(ask(), session=session, background=True)
        found = adapter.resume(ask(), session=session, background=True)

    assert found.text == "Fine."
    assert [body["background"] for body in provider.bodies] == [True, True]


def test_where_there_is_no_background_it_is_refused() -> None:
    """A model of pydantic-ai cannot be left alone: that is told before anything is sent."""
    with (
        script_bench("Fine.") as (adapter, script),
        pytest.raises(UsageError, match="background=True works with OpenAIAdapter"),
    ):
        adapter.evaluate(ask(), background=True)

    assert script.asked == []


def test_the_pause_between_polls_is_a_number() -> None:
    """A misspelt pause would ask without end, or never."""
    with pytest.raises(UsageError, match="poll_seconds"):
        OpenAIAdapter(model="m", poll_seconds=-1)
