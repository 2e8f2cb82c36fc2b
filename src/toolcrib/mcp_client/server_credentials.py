"""The credentials of a runtime's mounted servers: made for their connections, got by sign-ins, and
given up again.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote
from weakref import WeakSet

from toolcrib.errors import CredentialFailed, InvalidTool
from toolcrib.mcp_client.caller_tokens import CallerTokens
from toolcrib.mcp_client.config import HttpServerConfig
from toolcrib.mcp_client.oauth.credential_store import SHARED_BY_ALL, CredentialStore
from toolcrib.mcp_client.server_auth import DOCUMENT_PATH, SIGN_IN_PATH

if TYPE_CHECKING:
    from toolcrib.egress import EgressPolicy
    from toolcrib.mcp_client.config import McpServerConfig
    from toolcrib.mcp_client.oauth.credential import Credential
    from toolcrib.mcp_client.oauth.credential_store import KeptCredential
    from toolcrib.mcp_client.oauth.sign_in import Departure
    from toolcrib.mcp_client.oauth.upstream import Upstream
    from toolcrib.mcp_client.request_credential import RequestCredential
    from toolcrib.store.shared_store import ValueStore

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CredentialFacts:
    """Who has a credential for a server. The tokens are not in it."""

    server: str
    principal: str | None
    """None for one that all share."""
    issuer: str
    scope: str | None
    signed_in_at: float
    expires_at: float | None
    can_renew: bool


class ServerCredentials:
    """Every credential of the servers of a runtime. `config_of` finds a server by its name."""

    def __init__(
        self,
        config_of: Callable[[str], McpServerConfig | None],
        make_values: Callable[[], ValueStore],
        environ: Mapping[str, str],
        egress: EgressPolicy,
    ) -> None:
        self._config_of = config_of
        self._environ = environ
        self._egress = egress
        self._store = CredentialStore(make_values)
        self._live: dict[tuple[str, str], WeakSet[Credential]] = {}
        """The credentials of open connections, which are told of sign-ins."""
        self.caller_tokens = CallerTokens()
        self.public_url: str | None = None
        """Where people reach the server that serves this runtime; None without one."""

    def credential_for(
        self, config: McpServerConfig, principal: str | None
    ) -> RequestCredential | None:
        """What goes with the requests of a connection; None for a server that needs nothing more
        than its configuration. Raises `InvalidTool` for a missing variable.
        """
        if not isinstance(config, HttpServerConfig):
            return None
        if config.headers_command is not None:
            from toolcrib.mcp_client.principal_headers import PrincipalHeaders

            return PrincipalHeaders(config.headers_command, principal or SHARED_BY_ALL)
        if config.auth is None:
            return None
        from toolcrib.mcp_client.oauth.credential import Credential

        whose = principal or SHARED_BY_ALL
        credential = Credential(
            self._upstream(config),
            whose,
            self._store,
            how_to_sign_in=lambda: self.how_to_sign_in(config.name, principal),
            caller_token=lambda: self.caller_tokens.token(whose),
        )
        self._live.setdefault((config.name, whose), WeakSet()).add(credential)
        return credential

    def how_to_sign_in(self, server: str, principal: str | None) -> str:
        """What a person does to sign in, as the end of a sentence: it has no secret."""
        if self.public_url is not None:
            return f"open {self.public_url}{SIGN_IN_PATH}?server={quote(server, '')}"
        whose = "" if principal is None else f" --principal {shlex.quote(principal)}"
        return f"run `toolcrib gateway sign-in {server}{whose}`"

    def note_caller_token(self, principal: str, token: str, expires_at: float | None) -> None:
        """Remember the token of a request that was let in."""
        if self.caller_tokens.note(principal, token, expires_at):
            for (_, whose), credentials in self._live.items():
                for credential in credentials if whose == principal else ():
                    credential.wake()

    async def begin(
        self, server: str, principal: str, redirect_uri: str, *, browser: str | None = None
    ) -> Departure:
        """Begin a sign-in of a principal. Raises `CredentialFailed`."""
        from toolcrib.mcp_client.oauth.sign_in import begin_sign_in

        upstream = self._interactive(server)
        whose = principal if upstream.auth.is_per_principal else SHARED_BY_ALL
        live = self._live.get((server, whose), ())
        is_public = self.public_url is not None and self.public_url.startswith("https:")
        return await begin_sign_in(
            upstream,
            whose,
            redirect_uri,
            self._store,
            challenge=next((each.challenge for each in live if each.challenge is not None), None),
            metadata_url=f"{self.public_url}{DOCUMENT_PATH}" if is_public else None,
            browser=browser,
        )

    async def finish(
        self, answer: Mapping[str, str], *, browser: str | None = None
    ) -> CredentialFacts:
        """Finish a sign-in with the answer of the authorization server. Connections that wait for
        it go on. Raises `CredentialFailed`.
        """
        from toolcrib.mcp_client.oauth.sign_in import finish_sign_in, visit_of

        visit = await visit_of(answer, self._store)
        upstream = self._interactive(visit.server)
        kept = await finish_sign_in(upstream, answer, self._store, browser=browser)
        for credential in self._live.get((kept.server, kept.principal), ()):
            credential.adopt(kept)
        logger.info("somebody signed in to the MCP server %r", kept.server)
        return _facts(kept)

    async def sign_out(self, server: str, principal: str | None) -> bool:
        """Revoke the tokens of a principal at the authorization server where that is offered, and
        forget them; returns whether there were any. Raises `CredentialFailed` when the store fails.
        """
        whose = principal or SHARED_BY_ALL
        kept = await self._store.load(server, whose)
        await self._store.drop(server, whose)
        for credential in self._live.get((server, whose), ()):
            credential.adopt(None)
        if kept is not None:
            await self._revoke(kept)
        return kept is not None

    async def list(self) -> list[CredentialFacts]:
        """Who has a credential for which server."""
        return [_facts(each) for each in await self._store.all()]

    def is_shared(self, server: str) -> bool:
        """Whether all principals share the credential of a server. Raises `CredentialFailed`."""
        return not self._interactive(server).auth.is_per_principal

    async def _revoke(self, kept: KeptCredential) -> None:
        from toolcrib.mcp_client.oauth.credential import endpoint_of

        if kept.revocation_endpoint is None:
            return
        try:
            endpoint = endpoint_of(self._interactive(kept.server), kept)
            if kept.refresh_token is not None:
                await endpoint.revoke(kept.revocation_endpoint, kept.refresh_token, "refresh_token")
            await endpoint.revoke(kept.revocation_endpoint, kept.access_token, "access_token")
        except CredentialFailed as error:
            logger.warning("the tokens for %r were not revoked: %s", kept.server, error)

    def _interactive(self, server: str) -> Upstream:
        config = self._config_of(server)
        if (
            not isinstance(config, HttpServerConfig)
            or config.auth is None
            or not config.auth.is_interactive
        ):
            raise CredentialFailed(f"there is no MCP server {server[:80]!r} to sign in to")
        try:
            return self._upstream(config)
        except InvalidTool as error:
            raise CredentialFailed(str(error)) from None

    def _upstream(self, config: HttpServerConfig) -> Upstream:
        from toolcrib.mcp_client.oauth.upstream import upstream_of

        return upstream_of(config, self._environ, self._egress)


def _facts(kept: KeptCredential) -> CredentialFacts:
    return CredentialFacts(
        server=kept.server,
        principal=kept.principal or None,
        issuer=kept.issuer,
        scope=kept.scope,
        signed_in_at=kept.signed_in_at,
        expires_at=kept.expires_at,
        can_renew=kept.refresh_token is not None,
    )
