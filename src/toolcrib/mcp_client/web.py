"""A server at an address: nothing is sent elsewhere, and no answer is larger than it may be.

Keeps the secrets of an address out of what the libraries below us log.
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
    from mcp.client._transport import TransportStreams

    from toolcrib.tools.redaction import Scrubber


_LOGGERS: Final = ("httpx2", "mcp.client.streamable_http")
"""These name the whole address of every request."""


class _Hiding(logging.Filter):
    def __init__(self, hidden: Scrubber) -> None:
        super().__init__()
        self._hidden = hidden

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._hidden.scrub(record.getMessage()), ()
        return True


@contextmanager
def redacted_logs(hidden: Scrubber) -> Generator[None]:
    """Within this, what those libraries log has no secret of ours in it."""
    hiding = _Hiding(hidden)
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(hiding)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(hiding)


_CONNECT_SECONDS: Final = 30.0


@asynccontextmanager
async def http_streams(
    address: ServerAddress, ending: ConnectionEnd
) -> AsyncGenerator[TransportStreams]:
    """Speak with a Streamable HTTP server. `ending` is told when it no longer knows us."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    # How long a call may take is its tool's to say, so reading has no limit of its own.
    timeout = httpx2.Timeout(_CONNECT_SECONDS, read=None)
    is_far = address.url.startswith("https:")
    async with httpx2.AsyncClient(
        headers={**address.headers, "accept-encoding": "identity"},
        timeout=timeout,
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
        # What is sent to this machine in plain text must not take a way over another one.
        trust_env=is_far,
        event_hooks={"response": [_watch(ending)]},
    ) as client:
        streams = streamable_http_client(
            address.url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
        )
        with redacted_logs(address.hidden):
            async with streams as opened:
                yield opened


def _watch(ending: ConnectionEnd) -> Any:
    async def look(response: httpx2.Response) -> None:
        if response.status_code == 404 and "mcp-session-id" in response.request.headers:
            ending.end("it has forgotten our session")
        is_refused = response.status_code >= 400
        ending.hint = f"it answered with HTTP {response.status_code}" if is_refused else ""
        # We asked for no compression: a small answer must not become a huge one here.
        response.headers.pop("content-encoding", None)
        content_type = response.headers.get("content-type", "").lower()
        if not content_type.startswith("text/event-stream"):
            response.stream = _capped(cast("httpx2.AsyncByteStream", response.stream))

    return look


def _capped(stream: httpx2.AsyncByteStream) -> httpx2.AsyncByteStream:
    """The same bytes, up to the most that a message may have."""
    import httpx2

    class _CappedBody(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            taken = 0
            async for chunk in stream:
                taken += len(chunk)
                if taken > MAX_MESSAGE_BYTES:
                    # An error of this kind fails the one request and not the connection.
                    raise httpx2.StreamError(f"the answer has more than {MAX_MESSAGE_BYTES} bytes")
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return _CappedBody()
