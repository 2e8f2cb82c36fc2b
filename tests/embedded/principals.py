"""A provider on a real socket that several principals share."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from httpx2 import AsyncClient, Response
from openai import AsyncOpenAI

from tests.embedded.scripted_provider import Puppet, Script
from tests.helpers.patience import PATIENCE
from toolcrib.embedded import EmbeddedProvider
from toolcrib.embedded.server import ProviderServer
from toolcrib.runtime.principal import Principal, Role
from toolcrib.serving.tokens import Token, Tokens

ROLES: dict[str, Role] = {
    "alice": "caller",
    "bob": "caller",
    "audrey": "auditor",
    "ada": "admin",
    "april": "approver",
}
"""The principals of the tests, and their roles."""


@dataclass(frozen=True, slots=True)
class SharedProvider:
    """A provider that listens on loopback, and its principals' ways to it."""

    provider: EmbeddedProvider
    puppet: Puppet
    url: str
    http: AsyncClient

    async def send(self, name: str, method: str, path: str, **content: Any) -> Response:
        """Send one request as a principal."""
        headers = {"authorization": f"Bearer {secret_of(name)}"}
        return await self.http.request(method, f"{self.url}{path}", headers=headers, **content)

    def client(self, name: str) -> AsyncOpenAI:
        """The official client with a principal's token."""
        return AsyncOpenAI(base_url=self.url, api_key=secret_of(name), max_retries=0)


def secret_of(name: str) -> str:
    """The token of a principal."""
    return f"the-token-of-{name}-in-these-tests"


@asynccontextmanager
async def shared_provider(script: Script, **options: Any) -> AsyncGenerator[SharedProvider]:
    """A started provider with a token for each principal of `ROLES`."""
    puppet = Puppet(script)
    tokens = Tokens(
        [Token(secret_of(name), Principal(name, frozenset({role}))) for name, role in ROLES.items()]
    )
    async with (
        EmbeddedProvider(puppet, **options) as provider,
        ProviderServer(provider, port=0, tokens=tokens) as server,
        AsyncClient(timeout=PATIENCE) as http,
    ):
        yield SharedProvider(provider, puppet, server.url, http)
