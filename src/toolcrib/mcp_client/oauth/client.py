"""What we are at an authorization server: configured, by a client metadata document, or registered
on the spot (RFC 7591).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from urllib.parse import urlsplit

from toolcrib.errors import CredentialFailed

if TYPE_CHECKING:
    from toolcrib.mcp_client.oauth.discovery import AuthorizationServer
    from toolcrib.mcp_client.oauth.web import OAuthWeb
    from toolcrib.mcp_client.server_auth import OAuthConfig

ClientAuth = Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]

_BY_PREFERENCE: Final = ("client_secret_basic", "client_secret_post", "none")
CLIENT_NAME: Final = "Toolcrib"


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """A client of an authorization server. Its secret is not in the repr."""

    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    auth: ClientAuth = "none"


def configured_client(config: OAuthConfig, server: AuthorizationServer) -> OAuthClient | None:
    """The client of the configuration; None when it has none."""
    if config.client_id is None:
        return None
    if config.private_key is not None:
        return OAuthClient(config.client_id, None, "private_key_jwt")
    if config.client_secret is None:
        return OAuthClient(config.client_id)
    auth = config.client_auth
    if auth is None:
        offered = server.auth_methods
        # The default of RFC 8414, where the document says nothing.
        takes_basic = offered is None or "client_secret_basic" in offered
        auth = "client_secret_basic" if takes_basic else "client_secret_post"
    return OAuthClient(config.client_id, config.client_secret, auth)


def client_document(url: str, redirect_uri: str) -> dict[str, Any]:
    """The client metadata document at `url`, whose address is the client id."""
    return {
        "client_id": url,
        "client_name": CLIENT_NAME,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "web",
    }


async def find_client(
    web: OAuthWeb,
    config: OAuthConfig,
    server: AuthorizationServer,
    redirect_uri: str,
    scope: str | None,
    metadata_url: str | None = None,
) -> OAuthClient:
    """The client to sign in with, registered now if it has to be. Raises `CredentialFailed`."""
    client = configured_client(config, server)
    if client is not None:
        return client
    metadata = server.metadata
    document = config.client_metadata_url or metadata_url
    if document is not None and metadata and metadata.client_id_metadata_document_supported:
        return OAuthClient(document)
    return await _registered(web, server, redirect_uri, scope)


async def _registered(
    web: OAuthWeb, server: AuthorizationServer, redirect_uri: str, scope: str | None
) -> OAuthClient:
    from mcp.client.auth import OAuthRegistrationError
    from mcp.client.auth.utils import (
        create_client_registration_request,
        handle_registration_response,
    )
    from mcp.shared.auth import OAuthClientMetadata
    from pydantic import AnyUrl

    if server.metadata is not None and server.metadata.registration_endpoint is None:
        raise CredentialFailed(
            f"the authorization server {server.issuer} registers no clients by itself; register "
            f"one there with the redirect address {redirect_uri}, and set auth.client_id"
        )
    offered = server.auth_methods
    asked = next((each for each in _BY_PREFERENCE if offered and each in offered), None)
    is_native = urlsplit(redirect_uri).scheme == "http"
    request = create_client_registration_request(
        server.metadata,
        OAuthClientMetadata(
            client_name=CLIENT_NAME,
            redirect_uris=[AnyUrl(redirect_uri)],
            token_endpoint_auth_method=cast("Any", asked),
            application_type="native" if is_native else "web",
            scope=scope,
        ),
        server.issuer,
    )
    try:
        record = await handle_registration_response(await web.send(request))
    except OAuthRegistrationError:
        # The message of the library quotes the answer.
        raise CredentialFailed(
            f"the authorization server {server.issuer} did not register a client; register one "
            "there and set auth.client_id"
        ) from None
    secret = record.client_secret
    auth = record.token_endpoint_auth_method or ("client_secret_basic" if secret else "none")
    if auth not in _BY_PREFERENCE or (auth != "none" and secret is None):
        raise CredentialFailed(
            f"the authorization server {server.issuer} registered a client that cannot be used "
            f"({str(auth)[:40]})"
        )
    return OAuthClient(record.client_id, secret, cast("ClientAuth", auth))
