"""Headers of one principal that a command prints, such as that of a secret store."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.errors import CredentialFailed, InvalidTool
from toolcrib.mcp_client.oauth.live_secrets import LiveScrubber
from toolcrib.tools.mcp.credentials import check_headers

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    import httpx2

    from toolcrib.mcp_client.server_auth import HeadersCommand

_MAX_BYTES: Final = 65_536
_FAILED_SECONDS: Final = 5.0
"""How long a command that failed is not run again."""


class PrincipalHeaders:
    """The headers of a principal, printed by a command and used for as long as it says. A server
    that refuses them with 401 has the command run again, once.
    """

    def __init__(self, command: HeadersCommand, principal: str) -> None:
        self.scrubber = LiveScrubber()
        self._command = command
        self._principal = principal
        self._headers: Mapping[str, str] = {}
        self._until = float("-inf")
        self._trouble: str | None = None
        self._noted_at = float("-inf")
        self._lock = asyncio.Lock()

    @property
    def auth(self) -> httpx2.Auth:
        """Adds the headers to requests."""
        return _auth(self)

    @property
    def how_to_sign_in(self) -> None:
        """Nobody signs in."""
        return None

    def trouble_since(self, started: float) -> str | None:
        """As `RequestCredential.trouble_since`."""
        return self._trouble if self._noted_at >= started else None

    async def news(self, seconds: float) -> None:
        """As `RequestCredential.news`: nothing tells of new headers."""
        await asyncio.sleep(seconds)

    async def headers(self, *, after: Mapping[str, str] | None = None) -> Mapping[str, str]:
        """The headers of now; others than `after`, if the command has others."""
        async with self._lock:
            is_refused = bool(after) and after is self._headers
            if time.monotonic() >= self._until or is_refused:
                try:
                    self._headers, pause = await self._run(), self._command.ttl
                except CredentialFailed as error:
                    self._headers, pause = dict[str, str](), _FAILED_SECONDS
                    self._trouble = str(error)
                for value in self._headers.values():
                    self.scrubber.learn(value, *value.split()[1:])
                self._until = time.monotonic() + pause
            if not self._headers:
                self._noted_at = time.monotonic()
            return self._headers

    def refused(self) -> None:
        """The server does not take the headers."""
        self._trouble = "it does not take the credential that headers_command printed"
        self._noted_at = time.monotonic()

    async def _run(self) -> Mapping[str, str]:
        """Run the command. Raises `CredentialFailed`, which repeats nothing that it printed."""
        command = (*self._command.command, self._principal)
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
        except OSError as error:
            raise CredentialFailed(f"headers_command cannot run: {error.strerror}") from None
        assert process.stdout is not None
        try:
            async with asyncio.timeout(self._command.timeout):
                output = b""
                while chunk := await process.stdout.read(_MAX_BYTES):
                    output += chunk
                    if len(output) > _MAX_BYTES:
                        raise CredentialFailed(f"headers_command printed over {_MAX_BYTES} bytes")
                status = await process.wait()
        except TimeoutError:
            raise CredentialFailed(
                f"headers_command took more than {self._command.timeout:g} seconds"
            ) from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if status != 0:
            raise CredentialFailed(f"headers_command ended with status {status}")
        return _read(output)


def _read(output: bytes) -> Mapping[str, str]:
    try:
        headers = check_headers("headers_command", json.loads(output))
    except (ValueError, RecursionError, InvalidTool):
        headers = None
    if not headers:
        raise CredentialFailed(
            "headers_command must print a JSON object of headers and their values"
        )
    return headers


def _auth(source: PrincipalHeaders) -> httpx2.Auth:
    import httpx2

    class _HeadersAuth(httpx2.Auth):
        async def async_auth_flow(
            self, request: httpx2.Request
        ) -> AsyncGenerator[httpx2.Request, Any]:
            sent = await source.headers()
            request.headers.update(sent)
            response = cast("httpx2.Response", (yield request))
            if response.status_code != 401:
                return
            headers = await source.headers(after=sent)
            if not headers:
                return
            if headers == sent:
                source.refused()
                return
            request.headers.update(headers)
            response = cast("httpx2.Response", (yield request))
            if response.status_code == 401:
                source.refused()

    return _HeadersAuth()
