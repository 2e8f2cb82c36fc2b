"""How calls to a mounted server at an address are authenticated: OAuth 2.1, or headers that differ
by principal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from toolcrib.errors import InvalidTool
from toolcrib.tools.mcp.credentials import check_url

Grant = Literal["authorization_code", "client_credentials", "token_exchange"]
"""How a token is got: a person signs in, the server's own credential, or the caller's token."""
CredentialScope = Literal["principal", "shared"]
"""Whether each principal has a token of its own, or all share one."""

PRINCIPAL: Final = "{principal}"
"""Stands for the principal in a header of the configuration, and in the name of a variable."""

SIGN_IN_PATH: Final = "/v1/servers/sign-in"
CALLBACK_PATH: Final = f"{SIGN_IN_PATH}/callback"
DOCUMENT_PATH: Final = "/v1/servers/client.json"
"""Where our client metadata document is, behind the public URL."""

_PLAIN_NAME: Final = re.compile(r"[a-z0-9_]+")
_VARIABLE_OF_PRINCIPAL: Final = re.compile(r"\$\{([A-Za-z0-9_]*)\{principal\}([A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthConfig:
    """OAuth 2.1 for a server. `client_secret` is not in the repr; it may be `${NAME}`."""

    grant: Grant = "authorization_code"
    per: CredentialScope | None = None
    """By default each principal for itself; the grant `client_credentials` is shared."""
    issuer: str | None = None
    """The authorization server, if the server may not choose it."""
    client_id: str | None = None
    """What the authorization server calls us, if we are registered there."""
    client_secret: str | None = field(default=None, repr=False)
    client_auth: Literal["client_secret_basic", "client_secret_post", "private_key_jwt"] | None = (
        None
    )
    """How the client proves itself; by default as the authorization server prefers."""
    private_key: str | None = field(default=None, repr=False)
    """The key that signs assertions (`private_key_jwt`), in PEM."""
    signing_algorithm: str = "ES256"
    client_metadata_url: str | None = None
    """Where our client metadata document is, for servers that take its address as a client id."""
    scopes: tuple[str, ...] = ()
    """Scopes to ask for besides those that the server asks for."""
    audience: str | None = None
    """For `token_exchange`: the audience of the token, besides the resource."""
    token_url: str | None = None
    """For `token_exchange`: the token endpoint, if it is not that of the authorization server that
    the server names."""

    def __post_init__(self) -> None:
        for option in ("issuer", "client_metadata_url", "token_url"):
            check_url(f"auth.{option}", getattr(self, option))
        if self.grant == "client_credentials" and self.per == "principal":
            raise InvalidTool("auth: client_credentials are shared; remove `per: principal`")
        if self.grant == "token_exchange" and self.per == "shared":
            raise InvalidTool("auth: each token is exchanged for its principal; remove `per`")
        if self.grant != "authorization_code" and self.client_id is None:
            raise InvalidTool(f"auth: {self.grant} needs a client_id")
        if self.client_auth == "private_key_jwt" and self.private_key is None:
            raise InvalidTool("auth: private_key_jwt needs a private_key")

    @property
    def is_per_principal(self) -> bool:
        """Whether each principal has a token of its own."""
        return (self.per or "principal") == "principal" and self.grant != "client_credentials"

    @property
    def is_interactive(self) -> bool:
        """Whether a person has to sign in."""
        return self.grant == "authorization_code"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadersCommand:
    """A program that prints the headers of a principal as a JSON object. The name of the principal
    is its last argument.
    """

    command: tuple[str, ...] = field(repr=False)
    ttl: float = 300.0
    """Seconds for which what it printed is used."""
    timeout: float = 10.0
    """Seconds that it may take."""


def oauth_from(entry: Mapping[str, Any]) -> OAuthConfig:
    """OAuth from its entry in a file that matches the schema. Raises `InvalidTool`."""
    options = {key: value for key, value in entry.items() if key not in ("type", "scopes")}
    return OAuthConfig(**options, scopes=tuple(entry.get("scopes", ())))


def headers_command_from(entry: Mapping[str, Any]) -> HeadersCommand | None:
    """The command of a server's entry that prints headers; None without one."""
    command = entry.get("headers_command")
    if command is None:
        return None
    options = {"ttl": "headers_ttl", "timeout": "headers_timeout"}
    return HeadersCommand(
        command=tuple(command),
        **{option: entry[key] for option, key in options.items() if key in entry},
    )


def for_principal(text: str, principal: str) -> str:
    """A header for one principal. Raises `InvalidTool` where the principal is part of the name of
    a variable and cannot be.
    """

    def variable(match: re.Match[str]) -> str:
        return f"${{{match[1]}{variable_part(principal)}{match[2]}}}"

    return _VARIABLE_OF_PRINCIPAL.sub(variable, text).replace(PRINCIPAL, principal)


def variable_part(principal: str) -> str:
    """The name of a principal, in capitals, as part of the name of a variable. No two principals
    have the same: one whose name is not of small letters, digits and underscores is refused.
    """
    if not _PLAIN_NAME.fullmatch(principal):
        raise InvalidTool(
            f"the principal {principal[:80]!r} cannot be part of a variable's name: only small "
            "letters, digits and underscores can; use headers_command"
        )
    return principal.upper()
