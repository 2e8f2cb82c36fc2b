"""What a browser is told about pages of other origins that were allowed by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from starlette.types import Scope, Send

    from toolcrib.transports.http.headers import Headers

_ALLOWED: Final = (
    (b"access-control-allow-methods", b"GET, POST, DELETE"),
    (
        b"access-control-allow-headers",
        b"authorization, content-type, idempotency-key, last-event-id, mcp-method, mcp-name, "
        b"mcp-protocol-version, mcp-session-id, toolcrib-session",
    ),
    (b"access-control-max-age", b"600"),
)


def is_preflight(scope: Scope, headers: Headers) -> bool:
    """Whether a browser asks before it sends what a page wants to send. It has no token yet."""
    return (
        scope["type"] == "http"
        and scope["method"] == "OPTIONS"
        and b"origin" in headers
        and b"access-control-request-method" in headers
    )


async def send_preflight(send: Send, origin: str | None) -> None:
    """Answer for an origin that was checked."""
    headers = [*_ALLOWED, *_named(origin)]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


def allow(send: Send, origin: str | None) -> Send:
    """Let the page of an allowed origin read the response."""

    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *_named(origin)]}
        await send(message)

    return sending


def _named(origin: str | None) -> list[tuple[bytes, bytes]]:
    name = (origin or "").encode("latin-1")
    return [
        (b"access-control-allow-origin", name),
        (b"access-control-expose-headers", b"mcp-session-id"),
        (b"vary", b"Origin"),
    ]
