"""A mounted server as OAuth sees it: its address, its configuration with variables filled in, and
the HTTP client for its authorization server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toolcrib.mcp_client.oauth.web import OAuthWeb

if TYPE_CHECKING:
    from toolcrib.egress import EgressPolicy
    from toolcrib.mcp_client.config import HttpServerConfig
    from toolcrib.mcp_client.server_auth import OAuthConfig


@dataclass(frozen=True, slots=True)
class Upstream:
    """A server that takes tokens."""

    name: str
    url: str = field(repr=False)
    auth: OAuthConfig
    web: OAuthWeb = field(repr=False)

    @property
    def secrets(self) -> list[str]:
        """The secrets of the configuration."""
        auth = self.auth
        return [each for each in (auth.client_secret, auth.private_key) if each is not None]


def upstream_of(
    config: HttpServerConfig, environ: Mapping[str, str], egress: EgressPolicy
) -> Upstream:
    """The server of a configuration with OAuth. Raises `InvalidTool` for a missing variable."""
    auth = config.filled_auth(environ)
    assert auth is not None, "a server without OAuth has no upstream"
    url = config.filled_url(environ)
    own = (url, auth.issuer, auth.token_url)
    return Upstream(config.name, url, auth, OAuthWeb(own, egress))
