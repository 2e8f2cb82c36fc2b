"""Who may use a server: the options that every server takes, and what they amount to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from toolcrib.errors import UsageError
from toolcrib.logs import redact_logs
from toolcrib.serving.auth import AuthMiddleware, PublicPage, PublicSite
from toolcrib.serving.authorization_code import IssuerSignIns
from toolcrib.serving.cookies import BrowserRequests
from toolcrib.serving.login import Authenticator, LoginFailures
from toolcrib.serving.oidc import (
    OidcLogins,
    ProtectedResource,
    checked_public_url,
    public_host,
    public_origin,
    resource_urls,
)
from toolcrib.serving.origins import AllowedOrigins, TrustedProxies, is_loopback, own_hosts
from toolcrib.serving.sign_ins import SIGN_INS_NAME, SignInFile, SignIns
from toolcrib.serving.tokens import (
    Token,
    TokenFile,
    Tokens,
    WatchedTokens,
    default_token_file,
    default_tokens_file,
    owner_token,
    read_or_create_owner_token,
)

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from toolcrib.serving.oidc import OidcIssuer


class AccessOptions(TypedDict, total=False):
    """Who may use a server.

    Without `tokens`, the owner's token is that of `token_file`, which is created if it is missing
    and the server listens on loopback. `tokens_file` has the hashed tokens of everybody else, as
    `toolcrib tokens` makes them. `issuers` are OpenID issuers, and `public_url` is the address that
    clients use. Only `trusted_proxies` (networks) are believed what they say in `X-Forwarded-*`.
    Sign-ins of browsers are kept in `sign_ins_file`, by default beside the file of tokens, and in
    memory where the host sets its tokens in code.
    """

    tokens: Tokens | None
    token_file: Path | None
    tokens_file: Path | None
    issuers: Sequence[OidcIssuer]
    public_url: str | None
    trusted_proxies: Sequence[str]
    allowed_hosts: Iterable[str] | None
    allowed_origins: Iterable[str] | None
    sign_ins_file: Path | None


@dataclass(frozen=True, slots=True)
class Access:
    """The authentication of one server."""

    authenticator: Authenticator
    allowed: AllowedOrigins
    proxies: TrustedProxies
    resource: ProtectedResource
    sign_ins: SignIns
    browsers: BrowserRequests
    oidc: OidcLogins | None = None
    issuer_sign_ins: IssuerSignIns | None = None

    def protect(
        self,
        app: ASGIApp,
        *,
        any_may_stream: bool = False,
        public_pages: Mapping[str, PublicPage] | None = None,
        public_site: PublicSite | None = None,
        open_routes: Collection[tuple[str, str]] = (),
        takes_cookies: bool = False,
        failures: LoginFailures | None = None,
    ) -> ASGIApp:
        """The application behind the authentication; `any_may_stream`, `public_pages`,
        `public_site` and `open_routes` as in `AuthMiddleware`. Browsers that have signed in are
        let in if it `takes_cookies`. `failures` slows refused logins.
        """
        return AuthMiddleware(
            app,
            authenticator=self.authenticator,
            allowed=self.allowed,
            proxies=self.proxies,
            resource=self.resource,
            failures=failures,
            any_may_stream=any_may_stream,
            public_pages=public_pages or {},
            open_routes=open_routes,
            sign_ins=self.sign_ins if takes_cookies else None,
            browsers=self.browsers,
            public_site=public_site,
        )

    async def start(self) -> None:
        """Fetch the keys of the issuers, without waiting for them."""
        if self.oidc is not None:
            await self.oidc.start()

    async def close(self) -> None:
        """Stop fetching keys."""
        if self.oidc is not None:
            await self.oidc.close()


def create_access(host: str | None, options: AccessOptions) -> Access:
    """The access to a server that listens on `host`; None when somebody else listens for it.
    Raises `UsageError` when nobody could connect, or other machines could reach a server for which
    nobody chose how to log in.
    """
    redact_logs()
    public_url = options.get("public_url")
    if public_url is not None:
        public_url = checked_public_url(public_url)
    tokens, token_file = _tokens(host, options), _token_file(options)
    oidc, issuers = None, tuple(options.get("issuers", ()))
    if issuers:
        oidc = OidcLogins(issuers, audiences=resource_urls(public_url) if public_url else ())
    hosts, own_origin = (
        options.get("allowed_hosts") or (None if host is None else own_hosts(host)),
        None,
    )
    if public_url is not None:
        hosts = (*(hosts or own_hosts("")), public_host(public_url))
        own_origin = public_origin(public_url)
    authenticator = Authenticator(tokens=tokens, token_file=token_file, oidc=oidc)
    return Access(
        authenticator,
        AllowedOrigins.of(hosts, options.get("allowed_origins"), own_origin),
        TrustedProxies.of(options.get("trusted_proxies", ())),
        ProtectedResource(public_url, issuers),
        SignIns(SignInFile(_sign_ins_path(options)), authenticator),
        BrowserRequests(public_url),
        oidc,
        None if oidc is None else IssuerSignIns(oidc),
    )


def _tokens(host: str | None, options: AccessOptions) -> Tokens | None:
    """The tokens set in code, or the owner's."""
    tokens, path = options.get("tokens"), options.get("token_file")
    if tokens is not None:
        return tokens
    if host is not None and is_loopback(host):
        return read_or_create_owner_token(path or default_token_file())
    if path is not None and path.exists():
        return Tokens([Token(owner_token(path))])
    if path is not None or not _has_chosen_login(options):
        where = "this server" if host is None else f"a server on {host}"
        missing = "" if path is None else f", and there is no {path}"
        raise UsageError(
            f"{where} may be reachable from other machines, so a token must be set explicitly"
            f"{missing}; set TOOLCRIB_OWNER_TOKEN, make tokens with `toolcrib tokens create`, or "
            "listen on 127.0.0.1"
        )
    return None


def _has_chosen_login(options: AccessOptions) -> bool:
    if options.get("issuers"):
        return True
    return bool(TokenFile(options.get("tokens_file") or default_tokens_file()).records())


def _token_file(options: AccessOptions) -> WatchedTokens | None:
    """The hashed tokens: those of the default file too, unless the host sets its tokens in code."""
    path = options.get("tokens_file")
    if path is None and options.get("tokens") is not None:
        return None
    return WatchedTokens(TokenFile(path or default_tokens_file()))


def _sign_ins_path(options: AccessOptions) -> Path | None:
    path, tokens_file = options.get("sign_ins_file"), options.get("tokens_file")
    if path is not None or (tokens_file is None and options.get("tokens") is not None):
        return path
    return (tokens_file or default_tokens_file()).with_name(SIGN_INS_NAME)
