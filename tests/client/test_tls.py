"""TLS of the client: certificates are checked, over HTTP and WebSocket."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serving.certificate import Certificate
from tests.transports.http.served_runtime import OWNERS, TOKENS
from toolcrib import create_runtime, tool
from toolcrib.client import AsyncClient, Refused
from toolcrib.transports.http.server import HttpServer


@tool
def ping() -> str:
    """Answer."""
    return "pong"


async def test_certificates_are_checked(tmp_path: Path) -> None:
    """A server that nobody vouches for gets no token; one of `ca_file` serves everything."""
    certificate = Certificate.make(tmp_path, "one")
    async with (
        create_runtime() as runtime,
        HttpServer(runtime, port=0, tokens=TOKENS, tls=certificate.files) as server,
    ):
        url = server.url.replace("127.0.0.1", "localhost")
        async with AsyncClient(url, OWNERS) as client:
            with pytest.raises(Refused, match="certificate") as unknown:
                await client.open_session("s")
            with pytest.raises(Refused, match="certificate"):
                await client.run_client_tools("s", [ping])
        trusted = certificate.files.certificate
        async with AsyncClient(url, OWNERS, ca_file=trusted) as client:
            await client.open_session("s")
            async with client.client_tools("s", [ping]):
                result = await client.call_tool("s", "ping")
            async with client.events("s") as events:
                first = await anext(events)
    assert (unknown.value.kind, result.value, first.kind) == (
        "unavailable",
        "pong",
        "session.opened",
    )
