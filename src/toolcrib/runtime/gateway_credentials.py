"""The credentials of a runtime for its mounted servers, made when the first server needs one: most
runtimes have none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from toolcrib.runtime.mounted_servers import MountedServers

if TYPE_CHECKING:
    from toolcrib.mcp_client.config import McpServerConfig
    from toolcrib.mcp_client.server_credentials import ServerCredentials
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.live_session import LiveSession
    from toolcrib.store.shared_store import ValueStore
    from toolcrib.store.store import Store


class GatewayCredentials:
    """Gives the servers of a runtime their credentials."""

    def __init__(self, config: RuntimeConfig, store: Store) -> None:
        self._config = config
        self._store = store
        self._credentials: ServerCredentials | None = None
        self._servers: MountedServers | None = None
        self._public_url: str | None = None

    def mount(
        self,
        configs: Iterable[McpServerConfig],
        live_sessions: Callable[[], Iterable[LiveSession]],
    ) -> MountedServers:
        """Connect the servers of the runtime."""
        self._servers = MountedServers(configs, live_sessions, credentials=lambda: self.credentials)
        return self._servers

    @property
    def credentials(self) -> ServerCredentials:
        """The credentials, made now if they are not."""
        if self._credentials is None:
            from toolcrib.mcp_client.server_credentials import ServerCredentials

            self._credentials = ServerCredentials(
                self._config_of, self._values, os.environ, self._config.egress
            )
            self._credentials.public_url = self._public_url
        return self._credentials

    def serve_at(self, public_url: str) -> None:
        """Say where people reach the server of this runtime, to sign in."""
        self._public_url = public_url
        if self._credentials is not None:
            self._credentials.public_url = public_url

    def note_caller_token(self, principal: str, token: str, expires_at: float | None) -> None:
        """Remember the token of a request that was let in, if a server takes exchanged ones."""
        if self._servers is not None and self._servers.takes_exchanged_tokens:
            self.credentials.note_caller_token(principal, token, expires_at)

    def _config_of(self, name: str) -> McpServerConfig | None:
        if self._servers is not None:
            return self._servers.config_of(name)
        # A command uses the credentials of a runtime that is not started.
        return next((each for each in self._config.mcp_servers if each.name == name), None)

    def _values(self) -> ValueStore:
        from toolcrib.store.secret_values import secret_values

        return secret_values(self._store)
