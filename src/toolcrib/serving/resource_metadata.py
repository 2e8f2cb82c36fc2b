"""The server as a protected resource of OAuth (RFC 9728): its metadata, and the challenges from
which MCP clients learn where to sign in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from toolcrib.errors import UsageError
from toolcrib.serving.signing_keys import is_safe_url

if TYPE_CHECKING:
    from toolcrib.serving.login import LoginFailed
    from toolcrib.serving.oidc import OidcIssuer

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
MCP_PATH: Final = "/mcp"


def checked_public_url(url: str) -> str:
    """The address under which clients reach the server, without a slash at its end. Raises
    `UsageError` unless it is https, or of this machine.
    """
    parts = urlsplit(url)
    if not parts.netloc or parts.query or parts.fragment or not is_safe_url(url):
        raise UsageError(
            f"the public URL {url[:200]!r} must be an https address without a query, such as "
            "https://tools.example.com"
        )
    return url.rstrip("/")


def public_host(public_url: str) -> str:
    """The `Host` that requests to the public URL have, without its port."""
    name = urlsplit(public_url).hostname or ""
    return f"[{name}]" if ":" in name else name


def resource_urls(public_url: str) -> tuple[str, str]:
    """The resource identifiers of a server (RFC 8707): all of it, and its MCP endpoint. They are
    the audiences of tokens that were issued for it.
    """
    return public_url, f"{public_url}{MCP_PATH}"


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """A server behind authorization servers. Without issuers it only asks for a bearer token."""

    public_url: str | None = None
    issuers: Sequence[OidcIssuer] = ()
    _documents: dict[str, dict[str, Any]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        documents: dict[str, dict[str, Any]] = {}
        if self.public_url is not None and self.issuers:
            prefix = urlsplit(self.public_url).path
            for suffix in ("", MCP_PATH):
                document = self._document(f"{self.public_url}{suffix}")
                # A proxy may strip the prefix of the public URL, or not.
                documents[f"{WELL_KNOWN}{suffix}"] = document
                documents[f"{WELL_KNOWN}{prefix}{suffix}"] = document
        object.__setattr__(self, "_documents", documents)

    def metadata(self, path: str) -> dict[str, Any] | None:
        """The metadata document at a path; None when there is none."""
        return self._documents.get(path)

    def challenge(self, path: str, failure: LoginFailed | None) -> bytes:
        """The value of `WWW-Authenticate` for a request without a valid token."""
        fields: dict[str, str] = {}
        if failure is not None:
            is_scope = failure.fault == "insufficient_scope"
            fields["error"] = "insufficient_scope" if is_scope else "invalid_token"
            fields["error_description"] = failure.message
        if self._documents:
            if scopes := self._scopes():
                fields["scope"] = " ".join(scopes)
            fields["resource_metadata"] = self._metadata_url(path)
        text = ", ".join(f'{name}="{_quotable(value)}"' for name, value in fields.items())
        return f"Bearer {text}".rstrip().encode("ascii")

    def _document(self, resource: str) -> dict[str, Any]:
        document: dict[str, Any] = {
            "resource": resource,
            "authorization_servers": [issuer.url for issuer in self.issuers],
            "bearer_methods_supported": ["header"],
            "resource_name": "Toolcrib",
        }
        if scopes := self._scopes():
            document["scopes_supported"] = scopes
        return document

    def _scopes(self) -> list[str]:
        return sorted({scope for issuer in self.issuers for scope in issuer.required_scopes})

    def _metadata_url(self, path: str) -> str:
        assert self.public_url is not None, "metadata is served under the public URL"
        parts = urlsplit(self.public_url)
        suffix = MCP_PATH if path == MCP_PATH or path.startswith(f"{MCP_PATH}/") else ""
        return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path}{suffix}"


def _quotable(text: str) -> str:
    """Text that is valid in a quoted parameter of a challenge (RFC 6750, 3)."""
    return "".join(char for char in text if " " <= char <= "~" and char not in '"\\')
