"""The options of commands that serve over HTTP, and serving a runtime with them.

`takes_access_options` adds the options that say who may use a server; the command gets their
values as one `ServerOptions`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from toolcrib.cli.output import redirected_stdout, require_extra, show_note
from toolcrib.cli.runtime_options import option_of, run_served
from toolcrib.cli.service import TOKEN_VARIABLE
from toolcrib.cli.shared_options import Command, option, takes_options
from toolcrib.errors import UsageError
from toolcrib.project.settings import (
    ACCESS_SETTINGS,
    DEFAULT_PORT,
    ELICITATION_SETTING,
)
from toolcrib.transports.mcp.options import ElicitedApproval, McpOptions

if TYPE_CHECKING:
    import asyncio

    from toolcrib.project.runtime import RuntimeOptions
    from toolcrib.runtime.principal import Role
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.serving.access import AccessOptions
    from toolcrib.serving.connections import ListenerLimits
    from toolcrib.serving.listener import TlsFiles
    from toolcrib.serving.oidc import OidcIssuer
    from toolcrib.transports.http import HttpServer
    from toolcrib.transports.mcp.server import McpServer

OWNER_TOKEN_VARIABLE: Final = "TOOLCRIB_OWNER_TOKEN"
"""The owner's token of a server. Not the variable of clients, or whoever starts a server with
somebody's token in the environment would make that the owner's.
"""

CLIENT_SECRET_VARIABLE: Final = "TOOLCRIB_OIDC_CLIENT_SECRET"
"""The secret of a server that is a client of an OpenID issuer."""

_ACCESS_OPTIONS: Final = {setting.name: setting for setting in ACCESS_SETTINGS}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Where a server listens, who may use it, and how they prove it."""

    host: str
    port: int
    replica_url: str | None = None
    token_file: Path | None = None
    tokens: Path | None = None
    allow_host: Sequence[str] | None = None
    allow_origin: Sequence[str] | None = None
    public_url: str | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    trusted_proxy: Sequence[str] | None = None
    oidc_issuer: str | None = None
    oidc_audience: Sequence[str] | None = None
    oidc_groups_claim: str = "groups"
    oidc_name_claim: str = "sub"
    oidc_role: Sequence[str] | None = None
    oidc_scope: Sequence[str] | None = None
    oidc_client_id: str | None = None
    oidc_client_secret_file: Path | None = None
    oidc_sign_in_scope: Sequence[str] | None = None
    console: bool = True
    max_connections: int | None = None
    max_connections_per_peer: int = 512

    def access(self, *, is_shared: bool = False) -> AccessOptions:
        """Who may use the server. On a store that several share, tokens are kept there unless a
        file is named. Raises `UsageError`.
        """
        from toolcrib.serving.tokens import Token, Tokens, default_tokens_file

        owner = None if self.token_file else os.environ.get(OWNER_TOKEN_VARIABLE)
        return {
            "tokens": Tokens([Token(owner)]) if owner else None,
            "token_file": self.token_file,
            "tokens_file": self.tokens or (None if is_shared else default_tokens_file()),
            "issuers": [issuer] if (issuer := self._issuer()) else [],
            "public_url": self.public_url,
            "trusted_proxies": self.trusted_proxy or (),
            "allowed_hosts": self._hosts(),
            "allowed_origins": self.allow_origin or None,
        }

    def limits(self) -> ListenerLimits:
        """What one client may take of the server. Raises `UsageError`."""
        from toolcrib.serving.connections import ListenerLimits

        return ListenerLimits(
            connections=self.max_connections, connections_per_peer=self.max_connections_per_peer
        )

    def tls(self) -> TlsFiles | None:
        """The certificate and its key. Raises `UsageError` when one is without the other."""
        from toolcrib.serving.listener import TlsFiles

        if self.tls_cert is None and self.tls_key is None:
            return None
        if self.tls_cert is None or self.tls_key is None:
            raise UsageError("--tls-cert and --tls-key go together; give both")
        return TlsFiles(self.tls_cert, self.tls_key)

    def announce(self, url: str) -> None:
        """Tell the person where the server is, where its token is, and what is not safe."""
        from toolcrib.serving.origins import is_loopback

        show_note(f"serving on {url}")
        show_note(f"the owner's token is {self._token_place()}")
        if os.environ.get(TOKEN_VARIABLE):
            show_note(
                f"{TOKEN_VARIABLE} is the token of clients and is not used here; a server's owner "
                f"has {OWNER_TOKEN_VARIABLE}",
                "yellow",
            )
        if not is_loopback(self.host) and self.tls_cert is None and not self.trusted_proxy:
            show_note(
                f"WARNING: {self.host} is reachable from other machines WITHOUT ENCRYPTION: "
                "whoever sees the traffic has the tokens. Give --tls-cert and --tls-key, or put a "
                "TLS proxy in front and name it with --trusted-proxy.",
                "red",
            )

    def _token_place(self) -> str:
        from toolcrib.serving.origins import is_loopback
        from toolcrib.serving.tokens import default_token_file

        if self.token_file is None and os.environ.get(OWNER_TOKEN_VARIABLE):
            return f"that of {OWNER_TOKEN_VARIABLE}"
        if self.token_file is None and not is_loopback(self.host):
            return "not set; others log in with their own"
        return f"in {self.token_file or default_token_file()}"

    def _hosts(self) -> list[str] | None:
        """The accepted Host headers: the configured ones, and the server's own."""
        from toolcrib.serving.origins import LOOPBACK_HOSTS

        if not self.allow_host:
            return None
        own = f"[{self.host}]" if ":" in self.host else self.host
        return [*LOOPBACK_HOSTS, own, *self.allow_host]

    def _issuer(self) -> OidcIssuer | None:
        from toolcrib.serving.oidc import OidcIssuer

        if self.oidc_issuer is None:
            if self.oidc_role or self.oidc_audience or self.oidc_scope or self.oidc_client_id:
                raise UsageError(
                    "--oidc-role, --oidc-audience, --oidc-scope and --oidc-client-id need "
                    "--oidc-issuer"
                )
            return None
        require_extra("oidc", "--oidc-issuer")
        roles: dict[str, set[Role]] = {}
        for pair in self.oidc_role or ():
            group, _, role = pair.rpartition("=")
            if not group or not role:
                raise UsageError(f"--oidc-role {pair[:80]!r}: write GROUP=ROLE")
            roles.setdefault(group, set()).add(cast("Role", role))
        return OidcIssuer(
            url=self.oidc_issuer,
            audiences=tuple(self.oidc_audience or ()),
            default_roles=roles.pop("*", ()),
            roles=roles,
            groups_claim=self.oidc_groups_claim,
            name_claim=self.oidc_name_claim,
            required_scopes=tuple(self.oidc_scope or ()),
            client_id=self.oidc_client_id,
            client_secret=self._client_secret(),
            sign_in_scopes=tuple(self.oidc_sign_in_scope or ()),
        )

    def _client_secret(self) -> str | None:
        from toolcrib.serving.private_file import private_text

        if self.oidc_client_id is None:
            return None
        if self.oidc_client_secret_file is not None:
            return private_text(self.oidc_client_secret_file, "client secret").strip()
        return os.environ.get(CLIENT_SECRET_VARIABLE) or None


def takes_access_options(
    *, port: int = DEFAULT_PORT, has_runtime: bool = True
) -> Callable[[Command], Command]:
    """Add the options of a server to a command, which gets them as its parameter `server`. Without
    a runtime there is no console, and no other replica.
    """
    defaults = {"port": port}
    options = [
        option(name, option_of(setting), defaults.get(name, setting.default))
        for name, setting in _ACCESS_OPTIONS.items()
        if has_runtime or name not in ("console", "replica_url")
    ]
    return takes_options("server", options, lambda taken: ServerOptions(**taken))


if TYPE_CHECKING:
    ApproveByElicitation = ElicitedApproval
else:
    ApproveByElicitation = option_of(ELICITATION_SETTING)


def serve_over_http(
    options: RuntimeOptions,
    server: ServerOptions,
    approval: ElicitedApproval = "role",
    *,
    on_ready: Callable[[HttpServer, Runtime], None] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM. A fault in the options ends the command with status 1.

    `on_ready` gets the server and the runtime once clients can connect.
    """
    require_extra("server", "serve --http")

    async def serve(runtime: Runtime) -> None:
        from toolcrib.cli.server_watch import metrics_listener, metrics_of
        from toolcrib.store.shared_store import is_shared
        from toolcrib.transports.http import HttpServer

        def ready(url: str) -> None:
            _announce(url, server)
            if on_ready is not None:
                on_ready(http, runtime)

        access, tls = server.access(is_shared=is_shared(runtime.store)), server.tls()
        metrics = metrics_of(runtime, options)
        http = HttpServer(
            runtime,
            host=server.host,
            port=server.port,
            limits=server.limits(),
            tls=tls,
            mcp=_mcp(runtime, approval),
            access_log=options.access_log,
            metrics=metrics,
            console=server.console,
            replica_url=server.replica_url,
            **access,
        )
        async with runtime, metrics_listener(http, runtime, metrics, options, tls):
            await http.until_stopped(ready)

    with redirected_stdout():
        run_served(options, serve, loop_factory=_loop_factory(), log_level="info")


def invite_to_console(http: HttpServer, server: ServerOptions, *, opens: bool = False) -> None:
    """Print a link that signs the owner in, once the page is built, and open it on request."""
    from toolcrib.cli.console import PageBuild, open_browser

    if not server.console:
        return

    def invite(is_built: bool) -> None:
        if not is_built:
            show_note("there is no console: `make console` in the checkout builds it", "yellow")
            return
        try:
            link = http.sign_in_link()
        except UsageError as error:
            show_note(f"the console is at {http.own_url}; {error}")
            return
        show_note(f"the console, signed in once with this link:\n  {link}")
        if opens:
            open_browser(link)

    PageBuild(invite).start()


def _mcp(runtime: Runtime, approval: ElicitedApproval) -> McpServer | None:
    """The server of /mcp; None for one with the defaults, loaded at the first request."""
    if approval == "role":
        return None
    require_extra("mcp", "--approve-by-elicitation")
    from toolcrib.transports.mcp.server import McpServer

    return McpServer(runtime, McpOptions(approve_by_elicitation=approval))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    import uvloop

    return uvloop.new_event_loop


def _announce(url: str, server: ServerOptions) -> None:
    server.announce(url)
    show_note(f"the API is described at {url}/openapi.json; stop with Ctrl-C")
