"""The Messages API over HTTP: credentials, principals, errors and clients that leave."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest
from anthropic import AsyncAnthropic

from tests.embedded.messages.anthropic_provider import PYTHON, ask, calls
from tests.embedded.principals import secret_of, shared_provider
from tests.embedded.provider_server import SECRET, listening
from tests.embedded.scripted_provider import Script
from toolcrib.embedded import BackendText

HI: Script = lambda _: [BackendText("Hi.")]  # noqa: E731
BODY: Any = {
    "model": "puppet",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Go."}],
}


def client_at(url: str, secret: str = SECRET) -> AsyncAnthropic:
    """Anthropic's client of a provider that listens."""
    return AsyncAnthropic(base_url=url.removesuffix("/v1"), api_key=secret, max_retries=0)


async def test_the_sdk_over_a_socket() -> None:
    """The official client works with a token of the server."""
    async with listening(HI) as place, client_at(place.url) as client:
        assert (await ask(client)).content[0].text == "Hi."
        stream: Any = client.messages.stream
        async with stream(**BODY) as open_stream:
            assert await open_stream.get_final_text() == "Hi."


@pytest.mark.parametrize("secret", [SECRET, "wrong"])
async def test_the_key_of_older_clients(secret: str) -> None:
    """`x-api-key` is a credential like a bearer token."""
    async with listening(HI) as place:
        headers = {"authorization": "", "x-api-key": secret, "anthropic-version": "2023-06-01"}
        from httpx2 import AsyncClient

        async with AsyncClient() as http:
            headers.pop("authorization")
            answer = await http.post(f"{place.url}/messages", json=BODY, headers=headers)
    assert answer.status_code == (200 if secret == SECRET else 401)
    if secret == "wrong":
        body = answer.json()
        assert (body["type"], body["error"]["type"]) == ("error", "authentication_error")
        assert body["request_id"] == answer.headers["request-id"]


async def test_the_sdk_reads_refusals_of_the_server() -> None:
    """What the server refuses before the provider is an error of the SDK with its message."""
    async with listening(HI) as place, client_at(place.url, "wrong") as client:
        with pytest.raises(anthropic.AuthenticationError, match="not known here"):
            await ask(client)
    async with listening(HI) as place, client_at(place.url) as client:
        with pytest.raises(anthropic.NotFoundError, match="nothing for GET"):
            await client.messages.batches.retrieve("msgbatch_1")


async def test_a_principal_reaches_only_its_own() -> None:
    """Containers and files of others do not exist for a principal; an approver may not ask."""
    code = "open('a.txt', 'w').write('secret of alice')"
    async with shared_provider(calls(("python", {"code": code}))) as shared:
        alice, bob, april = (
            client_at(shared.url, secret_of(name)) for name in ("alice", "bob", "april")
        )
        message = await ask(alice, tools=[PYTHON])
        file_id = message.content[1].content.content[0].file_id
        assert (await alice.files.retrieve_metadata(file_id)).filename == "a.txt"
        with pytest.raises(anthropic.NotFoundError):
            await bob.files.download(file_id)
        with pytest.raises(anthropic.NotFoundError):
            await ask(bob, tools=[PYTHON], container=message.container.id)
        with pytest.raises(anthropic.PermissionDeniedError):
            await ask(april)
        for client in (alice, bob, april):
            await client.close()
