"""The HTTP connection to a server at an address: responses have a size limit, and the secrets of
the address stay out of the logs of the HTTP libraries.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.mcp_client.child import MAX_MESSAGE_BYTES
from toolcrib.mcp_client.config import ServerAddress
from toolcrib.mcp_client.errors import ConnectionEnd

if TYPE_CHECKING:
    import httpx2

    from toolcrib.mcp_client.sdk_internals import TransportStreams
    from toolcrib.tools.redaction import Scrubber


_LOGGERS: Final = (
    "httpx2",
    "mcp.client.session",
    "mcp.client.streamable_http",
    "mcp.shared.jsonrpc_dispatcher",
)
"""Loggers that log the whole address of every request, or what a server answered."""


class _RedactingFilter(logging.Filter):
    def __init__(self, scrubber: Scrubber) -> None:
        super().__init__()
        self._scrubber = scrubber

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._scrubber.scrub(record.getMessage()), ()
        # A traceback of these libraries quotes what the server sent.
        record.exc_info = record.exc_text = None
        return True


@contextmanager
def redacted_logs(scrubber: Scrubber) -> Generator[None]:
    """Scrub secrets from the logs of the HTTP libraries within the block."""
    redacting = _RedactingFilter(scrubber)
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(redacting)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(redacting)


_CONNECT_SECONDS: Final = 30.0


@asynccontextmanager
async def http_streams(
    address: ServerAddress, end: ConnectionEnd
) -> AsyncGenerator[TransportStreams]:
    """Connect to a Streamable HTTP server. Sets `end` when the server forgets the session. Raises
    `EgressRefused` for an address of a caller that the host does not allow.
    """
    from mcp.client.streamable_http import streamable_http_client

    if address.egress is not None:
        await address.egress.check_url(address.url)
    async with _client(address, end) as client:
        streams = streamable_http_client(
            address.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
        )
        with redacted_logs(address.scrubber):
            async with streams as opened:
                yield opened


def _client(address: ServerAddress, end: ConnectionEnd) -> httpx2.AsyncClient:
    import httpx2

    from toolcrib.egress import egress_client

    options: dict[str, Any] = {
        "headers": {**address.headers, "accept-encoding": "identity"},
        # The tool's timeout bounds a call, so reading has no timeout of its own.
        "timeout": httpx2.Timeout(_CONNECT_SECONDS, read=None),
        "limits": httpx2.Limits(max_connections=None, max_keepalive_connections=20),
        "event_hooks": {"response": [_response_hook(end)]},
        "auth": address.auth,
    }
    if address.egress is not None:
        return egress_client(address.egress, **options)
    # A plain text request to this machine must not go through a proxy of the environment.
    return httpx2.AsyncClient(trust_env=address.url.startswith("https:"), **options)


def _response_hook(end: ConnectionEnd) -> Any:
    async def check(response: httpx2.Response) -> None:
        if response.status_code == 404 and "mcp-session-id" in response.request.headers:
            end.set("it has forgotten our session")
        is_refused = response.status_code >= 400
        end.hint = f"it answered with HTTP {response.status_code}" if is_refused else ""
        # Compression was not requested: a small response must not expand to a huge one here.
        response.headers.pop("content-encoding", None)
        content_type = response.headers.get("content-type", "").lower()
        if not content_type.startswith("text/event-stream"):
            response.stream = _capped(cast("httpx2.AsyncByteStream", response.stream))

    return check


def _capped(stream: httpx2.AsyncByteStream) -> httpx2.AsyncByteStream:
    """The same bytes, up to the limit of a message."""
    import httpx2

    class _CappedBody(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in stream:
                size += len(chunk)
                if size > MAX_MESSAGE_BYTES:
                    # An error of this type fails the request, not the connection.
                    raise httpx2.StreamError(
                        f"the response has more than {MAX_MESSAGE_BYTES} bytes"
                    )
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return _CappedBody()
