"""The credential of one principal, or of all, for one mounted server: the token that is sent with
each request, renewed before it expires.

Nothing here raises towards a request. Without a token the request goes without one, the server
refuses it, and `trouble_since` says what to do.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import CredentialFailed
from toolcrib.mcp_client.oauth.challenge import Challenge, challenge_of
from toolcrib.mcp_client.oauth.live_secrets import LiveScrubber
from toolcrib.mcp_client.oauth.machine_grant import exchanged_token, machine_token
from toolcrib.mcp_client.oauth.token_request import TokenEndpoint

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import httpx2

    from toolcrib.mcp_client.oauth.credential_store import CredentialStore, KeptCredential
    from toolcrib.mcp_client.oauth.token_request import GrantedTokens
    from toolcrib.mcp_client.oauth.upstream import Upstream

logger = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0
"""How often a server that waits for a sign-in looks whether another process got one."""
_PERSON_SECONDS: Final = 30.0


class Credential:
    """The token of `principal` for a server. `how_to_sign_in` is what a person has to do without
    one; `caller_token` is the principal's own token, to be exchanged.
    """

    def __init__(
        self,
        upstream: Upstream,
        principal: str,
        store: CredentialStore,
        *,
        how_to_sign_in: Callable[[], str],
        caller_token: Callable[[], str | None],
    ) -> None:
        self.upstream = upstream
        self.principal = principal
        self.scrubber = LiveScrubber(upstream.secrets)
        self._trouble: str | None = None
        self._noted_at = float("-inf")
        self.challenge: Challenge | None = None
        """What the server asked for when it refused the last request."""
        self._store = store
        self._how_to_sign_in = how_to_sign_in
        self._caller_token = caller_token
        self._kept: KeptCredential | None = None
        self._tokens: GrantedTokens | None = None
        """A token that is never kept: it can be got again without a person."""
        self._lock = asyncio.Lock()
        self._is_new = asyncio.Event()

    @property
    def auth(self) -> httpx2.Auth:
        """Adds the token to requests."""
        return _auth(self)

    @property
    def how_to_sign_in(self) -> Callable[[], str] | None:
        """What a person does who has to sign in now; None when nobody has to."""
        is_needed = self._kept is None and self.upstream.auth.is_interactive
        return self._how_to_sign_in if is_needed else None

    def trouble_since(self, started: float) -> str | None:
        """Why a request since then, by the clock of the event loop, went without a token that the
        server takes, as a clause; None when none did.
        """
        return self._trouble if self._noted_at >= started else None

    def adopt(self, kept: KeptCredential | None) -> None:
        """Use what was saved by a sign-in, or nothing after a sign-out."""
        self._kept, self._tokens = kept, None
        if kept is not None:
            self.scrubber.learn(kept.access_token, kept.refresh_token, kept.client.client_secret)
            self._trouble = self.challenge = None
        self._is_new.set()

    def wake(self) -> None:
        """The caller has another token, which may be exchanged."""
        self._is_new.set()

    async def news(self, seconds: float) -> None:
        """Wait until there is another credential, here or in the store; at most so long, and longer
        for a person.
        """
        self._is_new.clear()
        is_interactive = self.upstream.auth.is_interactive
        deadline = time.monotonic() + (max(seconds, _PERSON_SECONDS) if is_interactive else seconds)
        before = None if self._kept is None else self._kept.access_token
        while (left := deadline - time.monotonic()) > 0:
            try:
                await asyncio.wait_for(self._is_new.wait(), min(left, LOOK_SECONDS))
                return
            except TimeoutError:
                pass
            kept = await self._load_quietly() if is_interactive else None
            if kept is not None and kept.access_token != before:
                self.adopt(kept)
                return

    async def bearer(self) -> str | None:
        """The token to send; None, with a trouble noted, when there is none."""
        try:
            if self.upstream.auth.is_interactive:
                return await self._kept_token()
            return await self._machine_token(self.challenge)
        except CredentialFailed as error:
            self._note(str(error))
            return None

    async def rejected(self, sent: str | None, challenge: Challenge) -> str | None:
        """The token to try once more with, after the server refused one; None when a person has to
        sign in, or nothing helps.
        """
        self.challenge = challenge
        try:
            if self.upstream.auth.is_interactive:
                return await self._after_refusal(sent, challenge)
            async with self._lock:
                if self._tokens is not None and self._tokens.access_token == sent:
                    self._tokens = None
            return await self._machine_token(challenge)
        except CredentialFailed as error:
            self._note(str(error))
            return None

    def refused_again(self, challenge: Challenge) -> None:
        """The server refused the second token, too."""
        self.challenge = challenge
        if self.upstream.auth.is_interactive:
            self._ask_to_sign_in(challenge)
        else:
            self._note("it does not take the token that its authorization server gave")

    async def _kept_token(self) -> str | None:
        kept = self._kept
        if kept is None:
            kept = await self._load()
            if kept is None:
                self._ask_to_sign_in(self.challenge)
                return None
            self.adopt(kept)
        if not kept.is_fresh(time.time()):
            kept = await self._renewed(kept)
        return None if kept is None else kept.access_token

    async def _after_refusal(self, sent: str | None, challenge: Challenge) -> str | None:
        kept = await self._load()
        if kept is not None and kept.access_token != sent:
            # A sign-in or a renewal elsewhere.
            self.adopt(kept)
            return kept.access_token
        if kept is not None and not challenge.is_step_up:
            renewed = await self._renewed(kept, is_forced=True)
            return None if renewed is None else renewed.access_token
        if kept is not None and challenge.scope is not None:
            await self._store.save(replace(kept, wanted_scope=challenge.scope))
        self._ask_to_sign_in(challenge)
        return None

    async def _renewed(
        self, old: KeptCredential, *, is_forced: bool = False
    ) -> KeptCredential | None:
        """Another access token for a refresh token; None when a person has to sign in again."""
        name, principal = self.upstream.name, self.principal
        async with self._lock, self._store.renewal(name, principal):
            kept = await self._load()
            if kept is not None and kept.access_token != old.access_token:
                self.adopt(kept)
                return kept
            if kept is None or kept.refresh_token is None:
                await self._drop()
                return None
            try:
                tokens = await self._refresh(kept)
            except CredentialFailed as error:
                if not error.is_refused:
                    # The token may still be good while its authorization server is away.
                    if not is_forced and (kept.expires_at or 0.0) > time.time():
                        return kept
                    raise
                await self._drop()
                return None
            kept = replace(
                kept,
                access_token=tokens.access_token,
                refresh_token=tokens.refresh_token or kept.refresh_token,
                expires_at=tokens.expires_at,
                lifetime=tokens.lifetime,
                scope=tokens.scope or kept.scope,
            )
            self.scrubber.learn(kept.access_token, kept.refresh_token)
            await self._store.save(kept)
            self.adopt(kept)
            return kept

    async def _refresh(self, kept: KeptCredential) -> GrantedTokens:
        assert kept.refresh_token is not None, "a credential without one is not refreshed"
        form = {
            "grant_type": "refresh_token",
            "refresh_token": kept.refresh_token,
            "resource": kept.resource,
        }
        return await endpoint_of(self.upstream, kept).ask(form)

    async def _machine_token(self, challenge: Challenge | None) -> str | None:
        async with self._lock:
            tokens = self._tokens
            if tokens is None or _is_stale(tokens):
                if challenge is None and self.upstream.auth.token_url is None:
                    # The server says with its first answer where tokens come from.
                    return None
                tokens = await self._get_machine_token(challenge or Challenge())
                self.scrubber.learn(tokens.access_token)
                self._tokens = tokens
            return tokens.access_token

    async def _get_machine_token(self, challenge: Challenge) -> GrantedTokens:
        if self.upstream.auth.grant == "client_credentials":
            return await machine_token(self.upstream, challenge)
        own = self._caller_token()
        if own is None:
            raise CredentialFailed(
                "the caller has no token that could be exchanged; call with a token of the OpenID "
                "issuer"
            )
        self.scrubber.learn(own)
        return await exchanged_token(self.upstream, challenge, own)

    async def _load(self) -> KeptCredential | None:
        kept = await self._store.load(self.upstream.name, self.principal)
        is_ours = kept is not None and kept.url == self.upstream.url
        return kept if is_ours else None

    async def _load_quietly(self) -> KeptCredential | None:
        try:
            return await self._load()
        except CredentialFailed:
            return None

    async def _drop(self) -> None:
        await self._store.drop(self.upstream.name, self.principal)
        self._kept = None
        logger.info("a credential for the MCP server %r was dropped", self.upstream.name)
        self._ask_to_sign_in(self.challenge)

    def _ask_to_sign_in(self, challenge: Challenge | None) -> None:
        is_step_up = challenge is not None and challenge.is_step_up
        what = "sign in again to allow more" if is_step_up else "sign in to use it"
        self._note(f"{what}: {self._how_to_sign_in()}")

    def _note(self, trouble: str) -> None:
        self._trouble, self._noted_at = self.scrubber.scrub(trouble), time.monotonic()


def endpoint_of(upstream: Upstream, kept: KeptCredential) -> TokenEndpoint:
    """The token endpoint of a credential."""
    return TokenEndpoint(upstream.web, kept.token_endpoint, kept.issuer, kept.client, upstream.auth)


def _is_stale(tokens: GrantedTokens) -> bool:
    if tokens.expires_at is None:
        return False
    return time.time() >= tokens.expires_at - min(10.0, (tokens.lifetime or 0.0) / 10)


def _auth(credential: Credential) -> httpx2.Auth:
    import httpx2

    class _BearerAuth(httpx2.Auth):
        async def async_auth_flow(
            self, request: httpx2.Request
        ) -> AsyncGenerator[httpx2.Request, Any]:
            sent = await credential.bearer()
            _set(request, sent)
            challenge = challenge_of((yield request))
            if challenge is None:
                return
            token = await credential.rejected(sent, challenge)
            if token is None:
                return
            _set(request, token)
            challenge = challenge_of((yield request))
            if challenge is not None:
                credential.refused_again(challenge)

    return _BearerAuth()


def _set(request: httpx2.Request, token: str | None) -> None:
    if token is None:
        request.headers.pop("authorization", None)
    else:
        request.headers["authorization"] = f"Bearer {token}"
