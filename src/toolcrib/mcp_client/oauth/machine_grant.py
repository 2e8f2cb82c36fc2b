"""Tokens without a person: our own credential at the authorization server, or the caller's token
exchanged for one of the server (RFC 8693). They stay in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib.errors import CredentialFailed
from toolcrib.mcp_client.oauth.client import OAuthClient, configured_client
from toolcrib.mcp_client.oauth.discovery import discover
from toolcrib.mcp_client.oauth.sign_in import wanted_scope
from toolcrib.mcp_client.oauth.token_request import (
    ACCESS_TOKEN_TYPE,
    EXCHANGE_GRANT,
    GrantedTokens,
    TokenEndpoint,
)

if TYPE_CHECKING:
    from toolcrib.mcp_client.oauth.challenge import Challenge
    from toolcrib.mcp_client.oauth.upstream import Upstream


async def machine_token(upstream: Upstream, challenge: Challenge) -> GrantedTokens:
    """A token by client credentials. Raises `CredentialFailed`."""
    endpoint, form = await _request(upstream, challenge)
    return await endpoint.ask({"grant_type": "client_credentials", **form})


async def exchanged_token(upstream: Upstream, challenge: Challenge, own: str) -> GrantedTokens:
    """A token for the caller's own one. Raises `CredentialFailed`."""
    endpoint, form = await _request(upstream, challenge)
    if upstream.auth.audience is not None:
        form["audience"] = upstream.auth.audience
    return await endpoint.ask(
        {
            "grant_type": EXCHANGE_GRANT,
            "subject_token": own,
            "subject_token_type": ACCESS_TOKEN_TYPE,
            "requested_token_type": ACCESS_TOKEN_TYPE,
            **form,
        }
    )


async def _request(
    upstream: Upstream, challenge: Challenge
) -> tuple[TokenEndpoint, dict[str, str]]:
    auth = upstream.auth
    if auth.token_url is not None:
        from mcp.shared.auth_utils import resource_url_from_server_url

        client = _plain_client(upstream)
        issuer = auth.issuer or auth.token_url
        form = {"resource": resource_url_from_server_url(upstream.url)}
        if scope := challenge.scope or " ".join(auth.scopes):
            form["scope"] = scope
        return TokenEndpoint(upstream.web, auth.token_url, issuer, client, auth), form
    server = await discover(upstream.web, upstream.url, challenge, auth.issuer)
    client = configured_client(auth, server)
    if client is None:
        raise CredentialFailed("auth.client_id is missing")
    form = {"resource": server.resource}
    if scope := wanted_scope(upstream, server, challenge, None):
        form["scope"] = scope
    issuer = str(server.metadata.issuer) if server.metadata is not None else server.issuer
    return TokenEndpoint(upstream.web, server.token_endpoint, issuer, client, auth), form


def _plain_client(upstream: Upstream) -> OAuthClient:
    auth = upstream.auth
    assert auth.client_id is not None, "the configuration was checked"
    if auth.private_key is not None:
        return OAuthClient(auth.client_id, None, "private_key_jwt")
    if auth.client_secret is None:
        return OAuthClient(auth.client_id)
    return OAuthClient(
        auth.client_id, auth.client_secret, auth.client_auth or "client_secret_basic"
    )
