"""The client of the official suite's client scenarios: mounts the server of a scenario through the
gateway's configuration, signs in where a person would, and calls every tool.

`conformance client --command "python -m tests.conformance.client" --scenario NAME` adds the address
of its server, and says in the environment which scenario it plays.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx2

from toolcrib import RuntimeConfig
from toolcrib.errors import CredentialFailed
from toolcrib.host_tools import parse_host_tools
from toolcrib.runtime import OWNER, Runtime

NAME = "suite"
SOURCE = f"mcp:{NAME}"
REDIRECT_URI = "http://127.0.0.1:3000/callback"
METADATA_URL = "https://conformance-test.local/client-metadata.json"
"""The address of the client metadata document that the suite expects."""
MOST_SIGN_INS = 3
SECONDS = 20.0


def auth_of(scenario: str, context: Mapping[str, Any]) -> dict[str, Any]:
    """What an operator would write for the server of a scenario."""
    auth: dict[str, Any] = {"type": "oauth"}
    match scenario:
        case "auth/client-credentials-basic":
            auth |= {"grant": "client_credentials", "client_secret": context["client_secret"]}
            auth |= {"client_id": context["client_id"], "client_auth": "client_secret_basic"}
        case "auth/client-credentials-jwt":
            auth |= {"grant": "client_credentials", "client_id": context["client_id"]}
            auth |= {"private_key": context["private_key_pem"], "client_auth": "private_key_jwt"}
            auth["signing_algorithm"] = context.get("signing_algorithm", "ES256")
        case "auth/pre-registration":
            auth |= {"client_id": context["client_id"], "client_secret": context["client_secret"]}
        case _:
            auth["client_metadata_url"] = METADATA_URL
    return auth


async def person(url: str) -> dict[str, str]:
    """Follow an authorization address as a browser does, up to the redirect address."""
    async with httpx2.AsyncClient() as browser:
        for _ in range(10):
            answer = await browser.get(url)
            url = urljoin(url, answer.headers["location"])
            if url.startswith(REDIRECT_URI):
                return dict(parse_qsl(urlsplit(url).query))
    raise AssertionError("too many redirects")


class Visitor:
    """Somebody who uses the mounted server, and signs in when asked to."""

    def __init__(self, runtime: Runtime, session_id: str) -> None:
        self._runtime = runtime
        self._session_id = session_id
        self.sign_ins = 0

    async def fault(self) -> str | None:
        """Why the server is away; None when it is there."""
        listed = await self._runtime.list_tools(self._session_id)
        return listed.unavailable.get(SOURCE)

    async def connected(self) -> str | None:
        """Wait until the server is there, or asks somebody to sign in."""
        async with asyncio.timeout(SECONDS):
            while (fault := await self.fault()) is not None and "sign in" not in fault:
                if "it is being connected to" not in fault:
                    print(fault, file=sys.stderr)
                await asyncio.sleep(0.05)
        return fault

    async def sign_in(self) -> None:
        """Sign in as a person would, at most so often."""
        self.sign_ins += 1
        if self.sign_ins > MOST_SIGN_INS:
            raise CredentialFailed("it asks to sign in again and again")
        credentials = self._runtime.gateway.credentials
        departure = await credentials.begin(NAME, OWNER.name, REDIRECT_URI)
        is_away, before = await self.fault() is not None, await self._attempts()
        await credentials.finish(await person(departure.url))
        async with asyncio.timeout(SECONDS):
            while is_away and await self._attempts() == before:  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def _attempts(self) -> tuple[int, int]:
        """How often the server was connected to, and how often not since then."""
        [server] = (await self._runtime.list_servers()).servers
        return server.connections, server.failed_attempts

    async def visit(self) -> None:
        """Connect, and call every tool, signing in when that is asked for."""
        while await self.connected() is not None:
            await self.sign_in()
        for tool in (await self._runtime.list_tools(self._session_id)).tools:
            while True:
                done = await self._runtime.call_tool(self._session_id, tool.name, {})
                message = "" if done.failure is None else done.failure.message
                if "sign in" not in message:
                    break
                await self.sign_in()
            print(tool.name, message or "done", file=sys.stderr)


async def main(url: str) -> None:
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    context = cast("dict[str, Any]", json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")))
    entry: dict[str, Any] = {"url": url, "approval": "policy"}
    if scenario.startswith("auth/"):
        entry["auth"] = auth_of(scenario, context)
    # JSON is YAML.
    file = parse_host_tools(json.dumps({"mcp_servers": {NAME: entry}}))
    async with Runtime(RuntimeConfig(mcp_servers=file.mcp_servers)) as runtime:
        session = await runtime.create_session()
        await Visitor(runtime, session.session_id).visit()


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[-1]))
    except (CredentialFailed, TimeoutError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
