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
from toolcrib.serving.replica_address import replica_host
from toolcrib.serving.shared_document import SharedDocument
from toolcrib.serving.sign_ins import SIGN_INS_NAME, SignInFile, SignIns
from toolcrib.serving.stored_identity import SIGN_INS_NAME as STORED_SIGN_INS
from toolcrib.serving.stored_identity import TOKENS_NAME, StoredSignIns, StoredTokens
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
    from toolcrib.store.shared_store import SharedStore


class AccessOptions(TypedDict, total=False):
    """Who may use a server.

    Without `tokens`, the owner's token is that of `token_file`, which is created if it is missing
    and the server listens on loopback. `tokens_file` has the hashed tokens of everybody else, as
    `toolcrib tokens` makes them. `issuers` are OpenID issuers, and `public_url` is the address that
    clients use. Only `trusted_proxies` (networks) are believed what they say in `X-Forwarded-*`.
    Sign-ins of browsers are kept in `sign_ins_file`, by default beside the file of tokens, and in
    memory where the host sets its tokens in code. Servers on one PostgreSQL for which neither file
    is named keep tokens and sign-ins there.
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
    documents: Sequence[SharedDocument] = ()
    """What this server has in common with others on its store."""

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
        """Fetch the keys of the issuers, without waiting for them, and follow what is shared."""
        for document in self.documents:
            document.start()
        if self.oidc is not None:
            await self.oidc.start()

    async def close(self) -> None:
        """Stop fetching keys, and following."""
        for document in self.documents:
            await document.close()
        if self.oidc is not None:
            await self.oidc.close()


def create_access(
    host: str | None,
    options: AccessOptions,
    *,
    replica_url: str | None = None,
    store: SharedStore | None = None,
) -> Access:
    """The access to a server that listens on `host`; None when somebody else listens for it.
    Raises `UsageError` when nobody could connect, or other machines could reach a server for which
    nobody chose how to log in.

    With a `store` that several servers share, and no files named for them, tokens and sign-ins are
    kept there.
    """
    redact_logs()
    stored = _stored_identity(options, store)
    public_url = options.get("public_url")
    if public_url is not None:
        public_url = checked_public_url(public_url)
    tokens = _tokens(host, options, stored)
    token_file = _token_file(options) if stored is None else WatchedTokens(stored.tokens)
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
    if replica_url:
        hosts = (*(hosts or own_hosts("")), replica_host(replica_url))
    authenticator = Authenticator(tokens=tokens, token_file=token_file, oidc=oidc)
    return Access(
        authenticator,
        AllowedOrigins.of(hosts, options.get("allowed_origins"), own_origin),
        TrustedProxies.of(options.get("trusted_proxies", ())),
        ProtectedResource(public_url, issuers),
        SignIns(
            SignInFile(_sign_ins_path(options)) if stored is None else stored.sign_ins,
            authenticator,
        ),
        BrowserRequests(public_url),
        oidc,
        None if oidc is None else IssuerSignIns(oidc),
        () if stored is None else stored.documents,
    )


@dataclass(frozen=True, slots=True)
class _StoredIdentity:
    tokens: StoredTokens
    sign_ins: StoredSignIns
    documents: tuple[SharedDocument, ...]


def _stored_identity(options: AccessOptions, store: SharedStore | None) -> _StoredIdentity | None:
    """What the store has; None where files are named. May wait for the database."""
    if store is None or options.get("tokens_file") or options.get("sign_ins_file"):
        return None
    tokens, sign_ins = (SharedDocument(store, name) for name in (TOKENS_NAME, STORED_SIGN_INS))
    for document in (tokens, sign_ins):
        document.load()
    return _StoredIdentity(StoredTokens(tokens), StoredSignIns(sign_ins), (tokens, sign_ins))


def _tokens(
    host: str | None, options: AccessOptions, stored: _StoredIdentity | None
) -> Tokens | None:
    """The tokens set in code, or the owner's."""
    tokens, path = options.get("tokens"), options.get("token_file")
    if tokens is not None:
        return tokens
    if host is not None and is_loopback(host):
        return read_or_create_owner_token(path or default_token_file())
    if path is not None and path.exists():
        return Tokens([Token(owner_token(path))])
    if path is not None or not _has_chosen_login(options, stored):
        where = "this server" if host is None else f"a server on {host}"
        missing = "" if path is None else f", and there is no {path}"
        raise UsageError(
            f"{where} may be reachable from other machines, so a token must be set explicitly"
            f"{missing}; set TOOLCRIB_OWNER_TOKEN, make tokens with `toolcrib tokens create`, or "
            "listen on 127.0.0.1"
        )
    return None


def _has_chosen_login(options: AccessOptions, stored: _StoredIdentity | None) -> bool:
    if options.get("issuers"):
        return True
    if stored is not None:
        return bool(stored.tokens.records())
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
