"""Who may come in, how much they may send, and what happens when they leave."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from httpx2 import AsyncClient
from openai import AsyncOpenAI, AuthenticationError, PermissionDeniedError
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.embedded.provider_server import SECRET, Place, listening
from tests.embedded.scripted_provider import Puppet
from tests.embedded.sdk_types import check_event
from tests.embedded.test_client import Waiting
from tests.helpers.patience import PATIENCE
from toolcrib.embedded import (
    BackendMessage,
    BackendOutput,
    BackendRequest,
    BackendText,
    EmbeddedProvider,
)
from toolcrib.embedded.access import PROCESS_ACCESS
from toolcrib.embedded.http.bodies import MAX_BODY
from toolcrib.embedded.http.responses import MAX_WAITING
from toolcrib.embedded.server import ProviderServer
from toolcrib.errors import UsageError
from toolcrib.runtime.principal import Principal
from toolcrib.serving.connections import ListenerLimits
from toolcrib.serving.tokens import Token, TokenFile, Tokens

BEARER = {"authorization": f"Bearer {SECRET}"}


def hello(request: BackendRequest) -> list[BackendOutput]:
    return [BackendText("hello")]


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with listening(hello) as found:
        yield found


async def asked(place: Place, **headers: str) -> int:
    async with AsyncClient(verify=False, timeout=PATIENCE) as client:
        return (await client.get(f"{place.url}/models", headers=headers)).status_code


async def test_only_holders_of_a_token_come_in(place: Place) -> None:
    """Without one, or with another, nothing is reached; the SDK names the fault."""
    assert await asked(place) == 401
    assert await asked(place, authorization="Bearer somebody-elses-token") == 401
    assert await asked(place, **BEARER) == 200
    client = AsyncOpenAI(base_url=place.url, api_key="somebody-elses-token", max_retries=0)
    with pytest.raises(AuthenticationError, match="token"):
        await client.models.list()
    await client.close()


async def test_pages_of_other_names_are_refused(place: Place) -> None:
    """A name that was made to resolve here, and a page of somewhere else, get nothing."""
    assert await asked(place, host="evil.example", **BEARER) == 403
    assert await asked(place, origin="https://evil.example", **BEARER) == 403


async def test_a_socket_has_the_same_gate(place: Place) -> None:
    """It is refused before it opens."""
    address = place.url.replace("http", "ws", 1) + "/responses"
    for headers in ({}, {**BEARER, "origin": "https://evil.example"}):
        with pytest.raises(InvalidStatus):
            await connect(address, additional_headers=headers)


async def test_who_may_only_read_has_nothing_run() -> None:
    """A token with the scope `read` lists, and cannot ask."""
    reader = Token("a-token-that-may-read", Principal("auditor", frozenset({"auditor"})))
    async with (
        EmbeddedProvider(Puppet(hello)) as provider,
        ProviderServer(provider, port=0, tokens=Tokens([reader])) as server,
        AsyncOpenAI(base_url=server.url, api_key=reader.secret, max_retries=0) as client,
    ):
        assert [model.id async for model in client.models.list()] == ["puppet"]
        with pytest.raises(PermissionDeniedError, match="call"):
            await client.responses.create(model="puppet", input="x")


async def test_a_token_is_made_in_a_private_file(tmp_path: Path) -> None:
    """Only its owner can read it, and it is made only for a server on loopback."""
    file = tmp_path / "token"
    async with EmbeddedProvider(Puppet(hello)) as provider:
        async with (
            ProviderServer(provider, port=0, token_file=file) as server,
            AsyncOpenAI(base_url=server.url, api_key=file.read_text().strip()) as client,
        ):
            assert (await client.models.retrieve("puppet")).id == "puppet"
        with pytest.raises(UsageError, match="other machines"):
            ProviderServer(provider, host="0.0.0.0", token_file=tmp_path / "missing")
    assert not (tmp_path / "missing").exists()
    assert os.stat(file).st_mode & 0o777 == 0o600


async def test_the_sdk_speaks_over_the_socket(place: Place) -> None:
    """The official client's own connection hears typed events."""
    kinds: list[str] = []
    async with (
        AsyncOpenAI(base_url=place.url, api_key=SECRET) as client,
        client.responses.connect() as connection,
    ):
        await connection.response.create(model="puppet", input="x")
        while "response.completed" not in kinds:
            kinds.append((await connection.recv()).type)
    assert kinds[0] == "response.created"
    assert "response.output_text.delta" in kinds


async def test_a_body_has_a_limit(place: Place) -> None:
    """What is too large is refused, and the next request is answered."""
    status, body = await place.post("/responses", {"model": "puppet", "input": "x" * MAX_BODY})
    assert (status, body["error"]["code"]) == (413, "too_large")
    assert (await place.post("/responses", {"model": "puppet", "input": "x"}))[0] == 200


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ("no json", "invalid_json"),
        (b"bytes", "invalid_json"),
        ("[]", "unknown_event"),
        ('{"type": "response.cancel"}', "unknown_event"),
        ('{"type": "response.create"}', "missing_required_parameter"),
        ('{"type": "response.create", "model": "puppet", "stream": true}', "invalid_request_error"),
        ('{"type": "response.create", "model": "other", "input": "x"}', "model_not_found"),
    ],
)
async def test_nonsense_over_a_socket_is_answered(
    place: Place, sent: str | bytes, code: str
) -> None:
    """Each message gets one error, and the connection goes on."""
    address = place.url.replace("http", "ws", 1) + "/responses"
    async with connect(address, additional_headers=BEARER) as socket:
        for _ in range(2):
            await socket.send(sent)
            told = json.loads(await socket.recv())
            check_event(told, is_socket=True)
            assert told["error"]["code"] == code


async def test_a_warm_up_asks_no_backend(place: Place) -> None:
    """With `generate: false` the input is taken, and the next response goes on from it."""
    ask = {"type": "response.create", "model": "puppet", "store": False}
    warm, real = await place.talk(
        {**ask, "input": "first", "generate": False},
        lambda turns: {**ask, "input": "then", "previous_response_id": turns[0].response["id"]},
    )
    assert (warm.response["output"], real.response["status"]) == ([], "completed")
    [request] = place.puppet.requests
    assert request.history[:2] == [BackendMessage("user", "first"), BackendMessage("user", "then")]


async def test_a_stored_response_goes_on_from_one_that_was_not(place: Place) -> None:
    """What only the connection knew is kept with the response that needs it."""
    ask = {"type": "response.create", "model": "puppet"}
    _, second = await place.talk(
        {**ask, "input": "first", "store": False},
        lambda turns: {**ask, "input": "then", "previous_response_id": turns[0].response["id"]},
    )
    status, _ = await place.post(
        "/responses",
        {"model": "puppet", "input": "last", "previous_response_id": second.response["id"]},
    )
    assert status == 200
    said = [
        turn.text for turn in place.puppet.requests[-1].history if isinstance(turn, BackendMessage)
    ]
    assert said == ["first", "hello", "then", "hello", "last"]


async def waiting_server(backend: Waiting, leaves: Any) -> None:
    """Begin a response that would never end, and leave."""
    tokens = Tokens([Token(SECRET)])
    async with (
        EmbeddedProvider(backend) as provider,
        ProviderServer(provider, port=0, tokens=tokens) as server,
    ):
        await leaves(server.url)
        async with asyncio.timeout(PATIENCE):
            await backend.was_stopped.wait()


@pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])
async def test_a_client_that_leaves_ends_its_response(stream: bool) -> None:
    """Nobody would read it: the backend is stopped."""
    backend = Waiting()

    async def leaves(url: str) -> None:
        body = {"model": "puppet", "input": "x", "stream": stream}
        async with AsyncClient(verify=False, timeout=PATIENCE) as client:
            asking = asyncio.create_task(
                client.post(f"{url}/responses", json=body, headers=BEARER, timeout=PATIENCE)
            )
            await backend.is_asked.wait()
            asking.cancel()
            await asyncio.wait([asking])

    await waiting_server(backend, leaves)


async def test_a_socket_that_closes_ends_its_response() -> None:
    """The same over a socket."""
    backend = Waiting()

    async def leaves(url: str) -> None:
        address = url.replace("http", "ws", 1) + "/responses"
        async with connect(address, additional_headers=BEARER) as socket:
            await socket.send('{"type": "response.create", "model": "puppet", "input": "x"}')
            await backend.is_asked.wait()

    await waiting_server(backend, leaves)


async def test_a_socket_may_not_pile_up_requests() -> None:
    """Who sends more than may wait is cut, and what was being made is stopped."""
    backend = Waiting()

    async def piles_up(url: str) -> None:
        address = url.replace("http", "ws", 1) + "/responses"
        async with connect(address, additional_headers=BEARER) as socket:
            await socket.send('{"type": "response.create", "model": "puppet", "input": "x"}')
            await backend.is_asked.wait()
            for _ in range(MAX_WAITING + 1):
                await socket.send("{}")
            await socket.wait_closed()
            assert (socket.close_code, socket.close_reason) == (1008, "too many requests wait")

    await waiting_server(backend, piles_up)


async def test_a_background_response_goes_on_without_its_client() -> None:
    """It is asked for later, so leaving does not end it."""
    go_on = asyncio.Event()

    class Slow(Puppet):
        async def propose(self, request: BackendRequest) -> AsyncIterator[BackendOutput]:
            await go_on.wait()
            yield BackendText("done")

    tokens = Tokens([Token(SECRET)])
    async with (
        EmbeddedProvider(Slow(hello)) as provider,
        ProviderServer(provider, port=0, tokens=tokens) as server,
    ):
        async with AsyncOpenAI(base_url=server.url, api_key=SECRET) as client:
            stream = await client.responses.create(
                model="puppet", input="x", background=True, stream=True
            )
            begun = await anext(stream)
            await stream.close()
        go_on.set()
        async with AsyncOpenAI(base_url=server.url, api_key=SECRET) as client:
            events: Any = await client.responses.retrieve(begun.response.id, stream=True)  # pyright: ignore
            assert [event.type async for event in events][-1] == "response.completed"


async def test_a_revoked_token_ends_a_stream_that_only_the_body_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a response is streamed is said in the body, so `Accept` does not matter: the stream
    of a revoked token ends while the backend still answers.
    """
    monkeypatch.setattr("toolcrib.serving.auth.CHECK_SECONDS", 0.01)
    tokens = TokenFile(tmp_path / "tokens.json")
    issued = tokens.create("eve", ["caller"])
    async with (
        asyncio.timeout(PATIENCE),
        EmbeddedProvider(Waiting()) as provider,
        ProviderServer(
            provider, port=0, token_file=tmp_path / "token", tokens_file=tokens.path
        ) as server,
        AsyncClient(timeout=PATIENCE) as client,
        client.stream(
            "POST",
            f"{server.url}/responses",
            json={"model": "puppet", "input": "x", "stream": True},
            headers={"authorization": f"Bearer {issued.token}", "accept": "*/*"},
        ) as stream,
    ):
        assert stream.status_code == 200
        tokens.revoke(issued.record.id)
        text = "".join([piece async for piece in stream.aiter_text()])
    assert "response.created" in text
    assert "response.completed" not in text


async def test_a_large_file_is_downloaded_as_the_client_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file larger than what may wait for one client is not cut, however slowly it is read: only a
    little of it is on its way at a time.
    """
    monkeypatch.setattr("toolcrib.serving.uvicorn_server._ENFORCE_SECONDS", 0.001)
    size = 20_000_000
    limits = ListenerLimits(unsent_bytes=1_000_000)
    tokens = Tokens([Token(SECRET)])
    async with (
        asyncio.timeout(PATIENCE),
        EmbeddedProvider(Puppet(hello)) as provider,
        ProviderServer(provider, port=0, tokens=tokens, limits=limits) as server,
        AsyncClient(timeout=PATIENCE, headers=BEARER) as client,
    ):
        stored = await provider.files.add("a.bin", bytes(size), "assistants", PROCESS_ACCESS)
        read = 0
        url = f"{server.url}/files/{stored.id}/content"
        async with client.stream("GET", url) as answer:
            async for piece in answer.aiter_raw():
                read += len(piece)
    assert (answer.headers["content-length"], read) == (str(size), size)
