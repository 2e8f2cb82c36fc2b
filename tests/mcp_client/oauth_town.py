"""A real authorization server, a real MCP server that takes its tokens, and a gateway before it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin

import httpx2
import jwt
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer

from tests.helpers.patience import PATIENCE
from tests.mcp_client.mounted_servers import free_port
from tests.node.identity import IdentityServer, Key, identity_server
from toolcrib import RuntimeConfig
from toolcrib.host_tools import parse_host_tools
from toolcrib.mcp_client.config import McpServerConfig
from toolcrib.runtime.runtime import Runtime

NAME = "notes"
KEY = Key("town")
CALLBACK = "http://127.0.0.1:9/callback"
"""Where nobody listens: the browser of a test stops before it."""


@dataclass
class Resource(TokenVerifier):
    """An MCP server on the official SDK, behind tokens of the authorization server."""

    issuer: str
    port: int
    seen: list[str] = field(default_factory=list[str])
    """Every token that was sent to it."""
    refused: set[str] = field(default_factory=set[str])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def verify_token(self, token: str) -> AccessToken | None:
        self.seen.append(token)
        if token in self.refused:
            return None
        try:
            claims = jwt.decode(
                token, KEY.private.public_key(), ["RS256"], audience=self.url, issuer=self.issuer
            )
        except jwt.PyJWTError:
            return None
        subject = claims.get("sub", claims["client_id"])
        return AccessToken(
            token=token, client_id=claims["client_id"], scopes=["mcp"], subject=subject
        )

    def app(self) -> Any:
        server = MCPServer(
            "notes",
            token_verifier=self,
            auth=AuthSettings.model_validate(
                {
                    "issuer_url": self.issuer,
                    "resource_server_url": self.url,
                    "required_scopes": ["mcp"],
                    "validate_token_resource": False,
                }
            ),
        )

        @server.tool()
        def whoami() -> str:
            """Say whose token came with the call."""
            token = get_access_token()
            return "nobody" if token is None else str(token.subject)

        @server.tool()
        def repeat_token() -> str:
            """Repeat the token that came with the call."""
            token = get_access_token()
            return "none" if token is None else f"it was {token.token}, was it not?"

        return server.streamable_http_app()


@asynccontextmanager
async def served(app: Any, port: int) -> AsyncGenerator[None]:
    config = uvicorn.Config(app, port=port, log_level="warning", lifespan="on")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    try:
        async with asyncio.timeout(PATIENCE):
            while not server.started:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        yield
    finally:
        server.should_exit = True
        await task


@dataclass
class Town:
    identity: IdentityServer
    resource: Resource

    def config(self, **auth: Any) -> tuple[McpServerConfig, ...]:
        """The server, as a file configures it."""
        entry = {"url": self.resource.url, "approval": "policy", "auth": {"type": "oauth", **auth}}
        # JSON is YAML.
        return parse_host_tools(json.dumps({"mcp_servers": {NAME: entry}})).mcp_servers

    def runtime(self, store: Any = None, adapter: Any = None, **auth: Any) -> Runtime:
        servers = self.config(**auth)
        return Runtime(RuntimeConfig(mcp_servers=servers, store=store, adapter=adapter))


@asynccontextmanager
async def town(access_ttl: int | None = None) -> AsyncGenerator[Town]:
    async with identity_server() as identity:
        port = free_port()
        url = f"http://127.0.0.1:{port}/mcp"
        more = {} if access_ttl is None else {"access_ttl": access_ttl}
        await identity.set_up([KEY], [url], **more)
        resource = Resource(identity.issuer, port)
        async with served(resource.app(), port):
            yield Town(identity, resource)


async def browse(
    url: str,
    account: str,
    *,
    until: str = CALLBACK,
    stays: str | None = None,
    client: httpx2.AsyncClient | None = None,
) -> str:
    """Sign in as an account where a link leads, and follow redirects up to an address that begins
    with `until`, and not with `stays`.
    """
    async with httpx2.AsyncClient(timeout=PATIENCE) as own:
        browser = client or own
        for _ in range(20):
            if "/auth?" in url and "login_hint" not in url:
                url = f"{url}&login_hint={account}"
            if url.startswith(until) and (stays is None or not url.startswith(stays)):
                return url
            answer = await browser.get(url)
            assert answer.status_code in (302, 303), (answer.status_code, answer.text)
            url = urljoin(url, answer.headers["location"])
    raise AssertionError(f"too many redirects, the last to {url}")


async def until(holds: Callable[[], Any]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
