"""A person signs in at the authorization server of a mounted server: the authorization code flow
with PKCE (S256), state, `resource` (RFC 8707) and the check of `iss` (RFC 9207).

Between the two steps everything is in the store, so that any process that shares it can go on.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from toolcrib.errors import CredentialFailed, InvalidTool
from toolcrib.mcp_client.oauth.challenge import Challenge, challenge_of
from toolcrib.mcp_client.oauth.client import configured_client, find_client
from toolcrib.mcp_client.oauth.credential_store import KeptCredential, Visit
from toolcrib.mcp_client.oauth.discovery import discover
from toolcrib.mcp_client.oauth.token_request import TokenEndpoint
from toolcrib.tools.mcp.credentials import check_url

if TYPE_CHECKING:
    from toolcrib.mcp_client.oauth.client import OAuthClient
    from toolcrib.mcp_client.oauth.credential_store import CredentialStore
    from toolcrib.mcp_client.oauth.discovery import AuthorizationServer
    from toolcrib.mcp_client.oauth.upstream import Upstream


@dataclass(frozen=True, slots=True)
class Departure:
    """Where a person goes to sign in. Both fields are for that person alone."""

    url: str = field(repr=False)
    state: str = field(repr=False)


async def begin_sign_in(
    upstream: Upstream,
    principal: str,
    redirect_uri: str,
    store: CredentialStore,
    *,
    challenge: Challenge | None = None,
    metadata_url: str | None = None,
    browser: str | None = None,
) -> Departure:
    """Begin: find the authorization server, be its client, and keep what the second step needs.
    `browser` is a secret of the browser that must come back. Raises `CredentialFailed`.
    """
    challenge = challenge or await _probe(upstream)
    auth = upstream.auth
    server = await discover(upstream.web, upstream.url, challenge, auth.issuer)
    server.check_pkce()
    try:
        # A browser is sent there.
        check_url("the address to sign in at", server.authorization_endpoint)
    except InvalidTool as error:
        raise CredentialFailed(str(error)) from None
    held = await store.load(upstream.name, principal)
    scope = wanted_scope(upstream, server, challenge, held)
    client = await _client(upstream, server, redirect_uri, scope, store, metadata_url)
    verifier, state = secrets.token_urlsafe(64), secrets.token_urlsafe(32)
    metadata = server.metadata
    visit = Visit(
        server=upstream.name,
        principal=principal,
        url=upstream.url,
        issuer=str(metadata.issuer) if metadata is not None else server.issuer,
        checks_iss=bool(metadata and metadata.authorization_response_iss_parameter_supported),
        token_endpoint=server.token_endpoint,
        revocation_endpoint=server.revocation_endpoint,
        resource=server.resource,
        client=client,
        redirect_uri=redirect_uri,
        verifier=verifier,
        scope=scope,
        browser=None if browser is None else _digest(browser),
    )
    await store.save_visit(state, visit)
    return Departure(_authorization_url(server, visit, state), state)


async def finish_sign_in(
    upstream: Upstream,
    answer: Mapping[str, str],
    store: CredentialStore,
    *,
    browser: str | None = None,
) -> KeptCredential:
    """Take the answer of the authorization server, and keep the tokens that it leads to. Raises
    `CredentialFailed`.
    """
    visit = await visit_of(answer, store)
    if visit.server != upstream.name or visit.url != upstream.url:
        raise CredentialFailed("the server has another address now; sign in again")
    if visit.browser is not None and not hmac.compare_digest(visit.browser, _digest(browser or "")):
        # Somebody else began: their principal must not get the account of whoever is here.
        raise CredentialFailed("this browser did not begin the sign-in; open the link again")
    await store.end_visit(answer["state"])
    issuer = answer.get("iss")
    if (issuer is None and visit.checks_iss) or (issuer is not None and issuer != visit.issuer):
        raise CredentialFailed("another authorization server has answered (RFC 9207)")
    code = answer.get("code")
    if "error" in answer or not code:
        if answer.get("error") in ("invalid_client", "unauthorized_client"):
            await store.drop_client(visit.server, visit.issuer, visit.redirect_uri)
        raise CredentialFailed("the authorization server did not let the person sign in")
    endpoint = TokenEndpoint(
        upstream.web, visit.token_endpoint, visit.issuer, visit.client, upstream.auth
    )
    tokens = await endpoint.ask(
        {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": visit.redirect_uri,
            "code_verifier": visit.verifier,
            "resource": visit.resource,
        }
    )
    credential = KeptCredential(
        server=visit.server,
        principal=visit.principal,
        url=visit.url,
        issuer=visit.issuer,
        token_endpoint=visit.token_endpoint,
        revocation_endpoint=visit.revocation_endpoint,
        resource=visit.resource,
        client=visit.client,
        access_token=tokens.access_token,
        refresh_token=tokens.refresh_token,
        expires_at=tokens.expires_at,
        lifetime=tokens.lifetime,
        scope=tokens.scope or visit.scope,
        signed_in_at=time.time(),
    )
    await store.save(credential)
    return credential


async def visit_of(answer: Mapping[str, str], store: CredentialStore) -> Visit:
    """The visit that an answer belongs to. Raises `CredentialFailed`."""
    visit = await store.visit(answer.get("state", ""))
    if visit is None:
        raise CredentialFailed("there is no such sign-in, or it took too long; begin again")
    return visit


def wanted_scope(
    upstream: Upstream,
    server: AuthorizationServer,
    challenge: Challenge,
    held: KeptCredential | None,
) -> str | None:
    """The scopes to ask for: those of the challenge, else those of the server's metadata; those of
    the configuration; and with a step-up those that were granted before.
    """
    from mcp.client.auth.utils import get_client_metadata_scopes, union_scopes

    about = server.resource_metadata
    base = get_client_metadata_scopes(challenge.scope, about, None, None)
    base = union_scopes(base, " ".join(upstream.auth.scopes) or None)
    if held is not None and (challenge.is_step_up or held.wanted_scope is not None):
        base = union_scopes(union_scopes(held.scope, held.wanted_scope), base)
    offered = (server.metadata and server.metadata.scopes_supported) or []
    if base is not None and "offline_access" in offered and upstream.auth.is_interactive:
        base = union_scopes(base, "offline_access")
    return base


async def _probe(upstream: Upstream) -> Challenge:
    """What the server asks for, from a request without a token."""
    import httpx2

    headers = {"accept": "application/json, text/event-stream"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    response = await upstream.web.send(
        httpx2.Request("POST", upstream.url, json=body, headers=headers)
    )
    return challenge_of(response) or Challenge()


async def _client(
    upstream: Upstream,
    server: AuthorizationServer,
    redirect_uri: str,
    scope: str | None,
    store: CredentialStore,
    metadata_url: str | None,
) -> OAuthClient:
    issuer = server.issuer
    if configured_client(upstream.auth, server) is None:
        known = await store.client(upstream.name, issuer, redirect_uri)
        if known is not None:
            return known
    client = await find_client(
        upstream.web, upstream.auth, server, redirect_uri, scope, metadata_url
    )
    if upstream.auth.client_id is None:
        await store.save_client(upstream.name, issuer, redirect_uri, client)
    return client


def _authorization_url(server: AuthorizationServer, visit: Visit, state: str) -> str:
    from base64 import urlsafe_b64encode

    challenge = urlsafe_b64encode(sha256(visit.verifier.encode()).digest()).rstrip(b"=")
    query = {
        "response_type": "code",
        "client_id": visit.client.client_id,
        "redirect_uri": visit.redirect_uri,
        "state": state,
        "code_challenge": challenge.decode("ascii"),
        "code_challenge_method": "S256",
        "resource": visit.resource,
    }
    if visit.scope:
        query["scope"] = visit.scope
        if "offline_access" in visit.scope.split():
            # OpenID Connect Core, 11: without it no refresh token is given.
            query["prompt"] = "consent"
    separator = "&" if "?" in server.authorization_endpoint else "?"
    return f"{server.authorization_endpoint}{separator}{urlencode(query)}"


def _digest(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
