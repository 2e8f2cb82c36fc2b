"""The provider's server in operation: health checks for anybody, and a line for each request."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from httpx2 import AsyncClient

from tests.embedded.provider_server import SECRET
from tests.embedded.scripted_provider import Puppet
from tests.helpers.patience import PATIENCE
from toolcrib.embedded import BackendOutput, BackendRequest, BackendText, EmbeddedProvider
from toolcrib.embedded.server import ProviderServer
from toolcrib.serving.tokens import Token, Tokens

TOKENS = Tokens([Token(SECRET)])


def hello(request: BackendRequest) -> list[BackendOutput]:
    return [BackendText("hello")]


async def test_health_checks_need_no_token() -> None:
    """They are beside the API; before the start and at the end the server is not ready."""
    provider = EmbeddedProvider(Puppet(hello))
    async with ProviderServer(provider, port=0, tokens=TOKENS) as server:
        root = server.url.removesuffix("/v1")
        async with AsyncClient(base_url=root, timeout=PATIENCE) as client:
            before = await client.get("/readyz")
            async with provider:
                ready = await client.get("/readyz", headers={"Host": "10.0.0.9"})
                alive = await client.get("/healthz")
                server.stop()
                after = await client.get("/readyz")

    assert (before.status_code, after.status_code) == (503, 503)
    assert (ready.status_code, ready.text) == (200, "ok\n")
    assert alive.status_code == 200


async def test_requests_are_logged_with_their_route(caplog: pytest.LogCaptureFixture) -> None:
    """The id of a file stays out of the line; who asked, and the id of the request, are in it."""
    caplog.set_level(logging.INFO, "toolcrib")
    async with (
        EmbeddedProvider(Puppet(hello)) as provider,
        ProviderServer(provider, port=0, tokens=TOKENS, access_log=True) as server,
        AsyncClient(base_url=server.url, timeout=PATIENCE) as client,
    ):
        headers = {"authorization": f"Bearer {SECRET}", "x-request-id": "r-1"}
        answer = await client.get("/files/file_0123456789", headers=headers)

    lines: list[Any] = [
        getattr(each, "toolcrib_facts")  # noqa: B009
        for each in caplog.records
        if each.name == "toolcrib.access"
    ]
    (line,) = lines
    assert line["path"] == "/v1/files/{file_id}"
    assert (line["status"], line["principal"], line["request_id"]) == (404, "owner", "r-1")
    assert answer.headers["x-request-id"] == "r-1"
