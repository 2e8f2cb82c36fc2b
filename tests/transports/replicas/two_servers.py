"""Two servers on one PostgreSQL, each with its own runtime, and a client that takes turns."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from tests.helpers.patience import PATIENCE
from tests.transports.http.served_runtime import TOKENS, Gates, registry_of
from toolcrib.runtime.config import RuntimeConfig
from toolcrib.runtime.runtime import Runtime, create_runtime
from toolcrib.store import PostgresStore
from toolcrib.store.cipher import new_key
from toolcrib.transports.http.server import HttpServer
from toolcrib.transports.mcp import McpServer

KEY = new_key()


@dataclass(frozen=True)
class ServedReplica:
    """One of the servers."""

    runtime: Runtime
    server: HttpServer
    store: PostgresStore
    client: httpx2.AsyncClient
    mcp: McpServer

    @property
    def url(self) -> str:
        return self.server.url


@asynccontextmanager
async def two_servers(url: str, **access: Any) -> AsyncGenerator[tuple[ServedReplica, ...]]:
    """Servers that know each other by the store alone."""
    gates = Gates()
    options: dict[str, Any] = {"tokens": TOKENS, **access}
    async with AsyncExitStack() as stack:
        replicas: list[ServedReplica] = []
        for _ in range(2):
            store = stack.enter_context(PostgresStore(url, key=KEY))
            config = RuntimeConfig(
                host_tool_registry=registry_of(gates), drain_seconds=1.0, store=store
            )
            runtime = await stack.enter_async_context(create_runtime(config))
            mcp = McpServer(runtime)
            server = HttpServer(runtime, port=0, mcp=mcp, **options)
            await stack.enter_async_context(server)
            client = await stack.enter_async_context(
                httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE)
            )
            replicas.append(ServedReplica(runtime, server, store, client, mcp))
        yield tuple(replicas)


class TakingTurns(httpx2.AsyncBaseTransport):
    """A balancer without memory: each request goes to the next server."""

    def __init__(self, *urls: str) -> None:
        self._urls = [httpx2.URL(url) for url in urls]
        self._wire = httpx2.AsyncHTTPTransport()
        self._count = 0
        self.statuses: list[tuple[str, int, int]] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        at = self._count % len(self._urls)
        self._count += 1
        target = self._urls[at]
        request.url = request.url.copy_with(host=target.host, port=target.port)
        request.headers["host"] = f"{target.host}:{target.port}"
        response = await self._wire.handle_async_request(request)
        self.statuses.append((request.method, at, response.status_code))
        return response

    async def aclose(self) -> None:
        await self._wire.aclose()
