"""The embedded provider served over HTTP on a socket, with the authentication of the runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Unpack

from toolcrib.embedded.http.bodies import MAX_BODY, PRINCIPAL, READ_METHODS
from toolcrib.embedded.http.message_api import MessageApiMiddleware
from toolcrib.errors import Refused
from toolcrib.serving.access import AccessOptions, create_access
from toolcrib.serving.auth import principal_of, refuse
from toolcrib.serving.connections import ListenerLimits
from toolcrib.serving.health import HealthMiddleware, Readiness
from toolcrib.serving.listener import Listener, TlsFiles
from toolcrib.serving.request_log import RequestLog

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from toolcrib.embedded.provider import EmbeddedProvider
    from toolcrib.runtime.principal import Role

DEFAULT_PORT: Final = 8421
DRAIN_SECONDS: Final = 5
"""How long active responses may continue when the server stops."""

_CALLERS: Final[tuple[Role, ...]] = ("caller",)
_READERS: Final[tuple[Role, ...]] = ("caller", "auditor")


class ProviderServer(Listener):
    """Serves a started provider from `async with` on. The caller closes the provider.

    The access options say who may use it; without them, the owner. A principal reaches what it has
    made itself; an auditor reads everything and changes nothing, an admin may do everything. With
    `access_log` every request is logged.
    """

    def __init__(
        self,
        provider: EmbeddedProvider,
        *,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        limits: ListenerLimits | None = None,
        tls: TlsFiles | None = None,
        access_log: bool = False,
        **access_options: Unpack[AccessOptions],
    ) -> None:
        access = create_access(host, access_options)
        readiness = Readiness(lambda: provider.is_started and not self.is_stopping)
        # Whether a response is streamed is said in the body of its request.
        app = access.protect(_with_principal(provider.app), any_may_stream=True)
        app = HealthMiddleware(MessageApiMiddleware(app), is_ready=readiness.check)
        if access_log:
            app = RequestLog(app, routes=provider.app.routes, writes_lines=True)
        super().__init__(
            app,
            host,
            port,
            max_message=MAX_BODY,
            drain_seconds=DRAIN_SECONDS,
            limits=limits,
            access=access,
            tls=tls,
        )

    @property
    def url(self) -> str:
        """The base URL for clients. With port 0 it is known once the server listens."""
        return f"{super().url}/v1"


async def serve_provider(
    provider: EmbeddedProvider,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    *,
    on_ready: Callable[[str], None] | None = None,
    limits: ListenerLimits | None = None,
    tls: TlsFiles | None = None,
    access_log: bool = False,
    **access_options: Unpack[AccessOptions],
) -> None:
    """Serve a started provider until SIGINT or SIGTERM. `on_ready` gets the base URL."""
    server = ProviderServer(
        provider,
        host=host,
        port=port,
        limits=limits,
        tls=tls,
        access_log=access_log,
        **access_options,
    )
    await server.until_stopped(on_ready)


def _with_principal(app: ASGIApp) -> ASGIApp:
    """Require the role `caller`, or `auditor` for a request that only reads; pass on who asks."""

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            principal = principal_of(scope)
            is_reading = scope["type"] == "http" and scope["method"] in READ_METHODS
            try:
                principal.check(_READERS if is_reading else _CALLERS, "this request")
            except Refused as refused:
                await refuse(scope, send, refused)
                return
            scope[PRINCIPAL] = principal
        await app(scope, receive, send)

    return checked
