"""Which authorization server gives tokens for a server, and what it can: RFC 9728, RFC 8414 and
OpenID Connect Discovery.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from toolcrib.errors import CredentialFailed

if TYPE_CHECKING:
    from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata

    from toolcrib.mcp_client.oauth.challenge import Challenge
    from toolcrib.mcp_client.oauth.web import OAuthWeb


@dataclass(frozen=True, slots=True)
class AuthorizationServer:
    """The authorization server of a server. Without `metadata` it is one of the protocol revision
    2025-03-26, at the origin of the server.
    """

    issuer: str
    metadata: OAuthMetadata | None
    resource_metadata: ProtectedResourceMetadata | None
    resource: str
    """What tokens are asked for (RFC 8707)."""

    @property
    def authorization_endpoint(self) -> str:
        """Where a person signs in."""
        own = self.metadata and self.metadata.authorization_endpoint
        return str(own) if own else urljoin(self.issuer, "/authorize")

    @property
    def token_endpoint(self) -> str:
        """Where tokens are given."""
        own = self.metadata and self.metadata.token_endpoint
        return str(own) if own else urljoin(self.issuer, "/token")

    @property
    def revocation_endpoint(self) -> str | None:
        """Where tokens are revoked, if that is offered."""
        own = self.metadata and self.metadata.revocation_endpoint
        return str(own) if own else None

    @property
    def auth_methods(self) -> list[str] | None:
        """How clients prove themselves; None when the server does not say."""
        return self.metadata and self.metadata.token_endpoint_auth_methods_supported

    def check_pkce(self) -> None:
        """Raises `CredentialFailed` when the server does not say that it takes PKCE with S256."""
        methods = self.metadata and self.metadata.code_challenge_methods_supported
        if self.metadata is not None and "S256" not in (methods or ()):
            raise CredentialFailed(
                f"the authorization server {self.issuer} does not offer PKCE with S256, which the "
                "protocol requires"
            )


async def discover(
    web: OAuthWeb, server_url: str, challenge: Challenge, issuer: str | None
) -> AuthorizationServer:
    """The authorization server for a server. `issuer` is the only one that may be used, if it is
    given. Raises `CredentialFailed`.
    """
    from mcp.shared.auth_utils import resource_url_from_server_url

    resource = resource_url_from_server_url(server_url)
    about = await _resource_metadata(web, server_url, challenge)
    if about is not None:
        from mcp.shared.auth_utils import check_resource_allowed

        named = str(about.resource)
        if not check_resource_allowed(requested_resource=resource, configured_resource=named):
            raise CredentialFailed("the metadata of the server are those of another resource")
        resource = named
    chosen = _chosen(about, issuer)
    metadata = await _metadata(web, chosen, server_url)
    return AuthorizationServer(chosen or _origin(server_url), metadata, about, resource)


async def _resource_metadata(
    web: OAuthWeb, server_url: str, challenge: Challenge
) -> ProtectedResourceMetadata | None:
    from mcp.client.auth.utils import (
        build_protected_resource_metadata_discovery_urls,
        create_oauth_metadata_request,
        handle_protected_resource_response,
    )

    named = challenge.resource_metadata
    failed: int | None = None
    for url in build_protected_resource_metadata_discovery_urls(named, server_url):
        response = await web.send(create_oauth_metadata_request(url))
        if response.status_code >= 500 or response.status_code == 429:
            failed = response.status_code
        about = await handle_protected_resource_response(response)
        if about is not None:
            return about
    if failed is not None:
        # It says nothing about whether there are metadata, so nothing else is tried.
        raise CredentialFailed(f"the server's metadata cannot be read (HTTP {failed})")
    return None


def _chosen(about: ProtectedResourceMetadata | None, issuer: str | None) -> str | None:
    from mcp.client.auth.utils import issuers_match

    if about is None:
        return issuer
    offered = [str(url) for url in about.authorization_servers]
    if issuer is None:
        return offered[0]
    match = next((each for each in offered if issuers_match(each, issuer)), None)
    if match is None:
        raise CredentialFailed(
            f"the server does not take tokens of {issuer}, which auth.issuer names"
        )
    return match


async def _metadata(web: OAuthWeb, issuer: str | None, server_url: str) -> OAuthMetadata | None:
    from mcp.client.auth.utils import (
        build_oauth_authorization_server_metadata_discovery_urls,
        create_oauth_metadata_request,
        handle_auth_metadata_response,
        issuers_match,
    )

    expected = issuer or _origin(server_url)
    for url in build_oauth_authorization_server_metadata_discovery_urls(issuer, server_url):
        response = await web.send(create_oauth_metadata_request(url))
        goes_on, metadata = await handle_auth_metadata_response(response)
        if metadata is not None:
            # RFC 8414, 3.3: another issuer's document could lead to another token endpoint.
            named = str(metadata.issuer)
            is_same = named == expected or (issuer is None and issuers_match(named, expected))
            if not is_same:
                raise CredentialFailed(f"the metadata of {expected} name another issuer")
            return metadata
        if not goes_on:
            break
    if issuer is not None:
        raise CredentialFailed(f"the authorization server {issuer} has no metadata")
    return None


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
