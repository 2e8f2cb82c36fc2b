"""Requests to a token endpoint: by a code, a refresh token, our own credential, or a token of the
caller (RFC 8693); and revocation (RFC 7009).
"""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote

from pydantic_core import from_json

from toolcrib.errors import CredentialFailed

if TYPE_CHECKING:
    import httpx2

    from toolcrib.mcp_client.oauth.client import OAuthClient
    from toolcrib.mcp_client.oauth.web import OAuthWeb
    from toolcrib.mcp_client.server_auth import OAuthConfig

EXCHANGE_GRANT: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN_TYPE: Final = "urn:ietf:params:oauth:token-type:access_token"
_ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_FINAL: Final = frozenset({"invalid_grant", "invalid_client", "unauthorized_client"})
"""Answers after which the same request is of no use."""
_LONGEST_TOKEN: Final = 65_536


@dataclass(frozen=True, slots=True)
class GrantedTokens:
    """What a token endpoint gave. The tokens are not in the repr."""

    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires_at: float | None = None
    lifetime: float | None = None
    scope: str | None = None


class TokenEndpoint:
    """The token endpoint of an authorization server, asked as one client."""

    def __init__(
        self, web: OAuthWeb, url: str, issuer: str, client: OAuthClient, config: OAuthConfig
    ) -> None:
        self._web = web
        self._url = url
        self._issuer = issuer
        self._client = client
        self._config = config

    async def ask(self, form: dict[str, str]) -> GrantedTokens:
        """Tokens for a grant. Raises `CredentialFailed`, refused when the grant is void."""
        response = await self._post(self._url, form)
        body = _json_object(response)
        if response.status_code not in (200, 201):
            error = body.get("error")
            code = error if isinstance(error, str) and error.isidentifier() else "no reason"
            raise CredentialFailed(
                f"the authorization server refused a token with HTTP {response.status_code} "
                f"({code[:40]})",
                is_refused=code in _FINAL,
            )
        return _tokens(body)

    async def revoke(self, url: str, token: str, hint: str) -> None:
        """Have a token revoked. Raises `CredentialFailed`."""
        response = await self._post(url, {"token": token, "token_type_hint": hint})
        if response.status_code >= 400:
            raise CredentialFailed(f"the token was not revoked (HTTP {response.status_code})")

    async def _post(self, url: str, form: dict[str, str]) -> httpx2.Response:
        import httpx2

        client, headers = self._client, {"accept": "application/json"}
        form = {**form, "client_id": client.client_id}
        match client.auth:
            case "client_secret_basic" if client.client_secret is not None:
                pair = f"{quote(client.client_id, '')}:{quote(client.client_secret, '')}"
                headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
            case "client_secret_post" if client.client_secret is not None:
                form["client_secret"] = client.client_secret
            case "private_key_jwt":
                form["client_assertion_type"] = _ASSERTION_TYPE
                form["client_assertion"] = await self._assertion()
            case _:
                pass
        return await self._web.send(httpx2.Request("POST", url, data=form, headers=headers))

    async def _assertion(self) -> str:
        """A signed statement of who we are (RFC 7523)."""
        from mcp.client.auth.extensions.client_credentials import SignedJWTParameters

        config, client_id = self._config, self._client.client_id
        signed = SignedJWTParameters(
            issuer=client_id,
            subject=client_id,
            signing_key=config.private_key or "",
            signing_algorithm=config.signing_algorithm,
        )
        try:
            return await signed.create_assertion_provider()(self._issuer)
        except Exception:
            # The library's message may quote the key.
            raise CredentialFailed(
                f"auth.private_key cannot sign with {config.signing_algorithm}; give a key in PEM"
            ) from None


def _tokens(body: dict[str, Any]) -> GrantedTokens:
    access: Any = body.get("access_token")
    refresh: Any = body.get("refresh_token")
    if not _is_token(access) or not (refresh is None or _is_token(refresh)):
        raise CredentialFailed("the authorization server sent no token that can be used")
    kind = body.get("token_type", "Bearer")
    if not isinstance(kind, str) or kind.lower() not in ("bearer", "n_a"):
        raise CredentialFailed("the authorization server sent a token that is no bearer token")
    lifetime = _seconds(body.get("expires_in"))
    scope = body.get("scope")
    return GrantedTokens(
        access,
        refresh,
        None if lifetime is None else time.time() + lifetime,
        lifetime,
        scope if isinstance(scope, str) else None,
    )


def _is_token(value: Any) -> bool:
    is_text = isinstance(value, str) and 0 < len(value) <= _LONGEST_TOKEN
    # It goes into a header.
    return is_text and value.isascii() and value.isprintable() and " " not in value


def _seconds(value: Any) -> float | None:
    try:
        return None if value is None else max(0.0, float(value))
    except (TypeError, ValueError):
        return None


def _json_object(response: httpx2.Response) -> dict[str, Any]:
    try:
        body = from_json(response.content)
    except ValueError:
        return {}
    return cast("dict[str, Any]", body) if isinstance(body, dict) else {}
