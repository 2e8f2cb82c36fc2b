"""Logins with JWTs of OpenID issuers, and the server as a protected resource of OAuth (RFC 9728):
its metadata, and the challenges from which MCP clients learn where to sign in.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from toolcrib.clock import SYSTEM_CLOCK, Clock
from toolcrib.errors import UsageError
from toolcrib.extras import install_command
from toolcrib.runtime.principal import ROLES, Principal, Role
from toolcrib.serving.login import Login, LoginFailed
from toolcrib.serving.signing_keys import Fetch, KeysUnavailable, SigningKeys, is_safe_url

if TYPE_CHECKING:
    from toolcrib.serving.sign_ins import SignInBasis
    from toolcrib.serving.signing_keys import SigningKey

ALGORITHMS: Final = frozenset(
    ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
)
"""The algorithms that may be allowed: signatures with a public key, and nothing else."""
_DEFAULT_ALGORITHMS: Final = frozenset(("RS256", "PS256", "ES256", "ES384", "EdDSA"))
_TOKEN_TYPES: Final = frozenset(("jwt", "at+jwt", "application/at+jwt"))
_LABEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,62}")
_MAX_NAME: Final = 200
_LAST_EXPIRY: Final = 253_402_300_800  # the year 10000, which no clock shows
_MAX_GROUPS: Final = 1_000
_MAX_REMEMBERED: Final = 4_096
WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
MCP_PATH: Final = "/mcp"


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcIssuer:
    """An OpenID issuer whose JWTs log in, and what they are worth here.

    `roles` maps values of the groups claim to roles; `default_roles` are everybody's. A principal
    is called `LABEL:` and its subject (or another claim), so that no two issuers share a name.
    """

    url: str
    audiences: Collection[str] = ()
    """The `aud` of tokens for this server; its public URLs are added to them."""
    label: str = ""
    """The name of the issuer in the names of principals; without one, its host."""
    roles: Mapping[str, Collection[Role]] = field(default_factory=dict[str, Collection[Role]])
    default_roles: Collection[Role] = ()
    groups_claim: str = "groups"
    """The claim with the groups; dots lead into objects, as in `realm_access.roles`."""
    name_claim: str = "sub"
    required_scopes: Collection[str] = ()
    """Scopes that a token must have; MCP clients are told to ask for them."""
    authorized_parties: Collection[str] = ()
    """The clients (`azp` or `client_id`) whose tokens are accepted; none accepts all."""
    algorithms: Collection[str] = _DEFAULT_ALGORITHMS
    clock_skew_seconds: float = 60.0
    client_id: str | None = None
    """What the issuer calls this server; with it, people sign in there with their browsers."""
    client_secret: str | None = field(default=None, repr=False)
    sign_in_scopes: Collection[str] = ("openid",)
    """The scopes that a browser's sign-in asks for."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if not parts.netloc or parts.query or parts.fragment or not is_safe_url(self.url):
            raise UsageError(f"the OpenID issuer {self.url[:200]!r} must be an https address")
        object.__setattr__(self, "label", self.label or parts.netloc.replace(":", "-").lower())
        if not _LABEL.fullmatch(self.label):
            raise UsageError(f"the label {self.label[:80]!r} may have letters, digits, '.' and '-'")
        for algorithm in self.algorithms:
            if algorithm not in ALGORITHMS:
                allowed = ", ".join(sorted(ALGORITHMS))
                raise UsageError(f"algorithm {algorithm[:20]!r} is not allowed; use {allowed}")
        for role in (*self.default_roles, *(r for each in self.roles.values() for r in each)):
            if role not in ROLES:
                raise UsageError(f"there is no role {role[:20]!r}; use {', '.join(ROLES)}")
        if not self.roles and not self.default_roles:
            raise UsageError(
                f"nobody of {self.url} would have a role; map groups to roles, or set default roles"
            )
        if not 0 <= self.clock_skew_seconds <= 600:
            raise UsageError("the clock skew must be between 0 and 600 seconds")

    def has_groups(self, claims: Mapping[str, Any]) -> bool:
        """Whether claims say something about groups."""
        return bool(_groups(claims, self.groups_claim))

    def roles_of(self, groups: Iterable[str]) -> frozenset[Role]:
        """The roles of somebody in these groups."""
        return frozenset(self.default_roles).union(*(self.roles.get(group, ()) for group in groups))


@dataclass(frozen=True, slots=True)
class _Remembered:
    login: Login
    issuer_url: str
    generation: int


class OidcLogins:
    """Checks JWTs of the configured issuers. A token that was checked is remembered until it
    expires or the issuer's keys change.
    """

    def __init__(
        self,
        issuers: Sequence[OidcIssuer],
        *,
        audiences: Collection[str] = (),
        fetch: Fetch | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if find_spec("jwt") is None or find_spec("httpx2") is None:
            raise UsageError(f"OpenID needs PyJWT and httpx2; run: {install_command('oidc')}")
        self.issuers = tuple(issuers)
        self._audiences = frozenset(audiences)
        self._clock = clock
        self._by_url = {issuer.url: issuer for issuer in self.issuers}
        if len({issuer.label for issuer in self.issuers}) < len(self.issuers):
            raise UsageError("two OpenID issuers have one label; principals would share names")
        for issuer in self.issuers:
            if not issuer.audiences and not self._audiences and issuer.client_id is None:
                raise UsageError(
                    f"tokens of {issuer.url} for any other server would be accepted; set an "
                    "audience or the public URL of this server"
                )
        self._keys = {issuer.url: SigningKeys(issuer.url, fetch=fetch) for issuer in self.issuers}
        self._remembered: dict[bytes, _Remembered] = {}
        self.on_login: Callable[[Login, bytes], None] | None = None
        """Hears of each token that was checked, for whom tokens are exchanged."""

    async def start(self) -> None:
        """Begin to fetch the keys of every issuer."""
        for keys in self._keys.values():
            keys.prefetch()

    async def close(self) -> None:
        """Stop fetching keys."""
        for keys in self._keys.values():
            await keys.close()

    async def login(self, token: bytes) -> Login:
        """The login of a JWT. Raises `LoginFailed`."""
        digest = sha256(token).digest()
        if (remembered := self._remembered.get(digest)) is not None:
            if self._is_current(remembered):
                return remembered.login
            del self._remembered[digest]
        issuer, header = self._issuer_of(token)
        key = await self._key(issuer, header)
        audiences = (*issuer.audiences, *self._audiences)
        claims = self._verify(issuer, token, key, cast("str", header["alg"]), audiences)
        login = _login(issuer, claims)
        if len(self._remembered) >= _MAX_REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        generation = self._keys[issuer.url].generation
        self._remembered[digest] = _Remembered(login, issuer.url, generation)
        if self.on_login is not None:
            self.on_login(login, token)
        return login

    async def claims_of(self, issuer: OidcIssuer, id_token: bytes, nonce: str) -> dict[str, Any]:
        """The claims of an ID token for this server's own client. Raises `LoginFailed`."""
        assert issuer.client_id is not None, "who signs in with a browser does it for a client"
        named, header = self._issuer_of(id_token)
        credential = f"an ID token of {issuer.label}"
        if named is not issuer:
            raise LoginFailed("invalid", "the ID token is of another issuer", credential)
        key = await self._key(issuer, header)
        audience = (issuer.client_id,)
        claims = self._verify(issuer, id_token, key, cast("str", header["alg"]), audience)
        party, sent = claims.get("azp"), claims.get("nonce")
        if party not in (None, issuer.client_id) or claims["aud"] not in (
            issuer.client_id,
            [issuer.client_id],
        ):
            raise LoginFailed("invalid", "the ID token is for another client", credential)
        if not isinstance(sent, str) or not hmac.compare_digest(sent.encode(), nonce.encode()):
            raise LoginFailed("invalid", "the ID token is of another sign-in", credential)
        return claims

    def login_of(self, issuer: OidcIssuer, claims: Mapping[str, Any]) -> Login:
        """The login of somebody whose ID token has these claims. Raises `LoginFailed`."""
        # Scopes and parties are those of access tokens.
        return _login(replace(issuer, required_scopes=(), authorized_parties=()), claims)

    def issuer_of(self, url: str) -> OidcIssuer:
        """The issuer at this address."""
        return self._by_url[url]

    def grants(self, basis: SignInBasis) -> bool:
        """Whether the issuer of a sign-in is still accepted, and its groups have the same roles."""
        issuer = self._by_url.get(basis.source)
        return issuer is not None and issuer.roles_of(basis.groups) == frozenset(basis.roles)

    def _is_current(self, remembered: _Remembered) -> bool:
        expires_at = remembered.login.expires_at
        is_same = self._keys[remembered.issuer_url].generation == remembered.generation
        return is_same and expires_at is not None and self._clock() < expires_at

    def _issuer_of(self, token: bytes) -> tuple[OidcIssuer, dict[str, Any]]:
        """The issuer that a token names, unchecked, and its header."""
        import jwt

        try:
            header: dict[str, Any] = jwt.get_unverified_header(token)
            claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise LoginFailed("invalid", "the token is not a JWT") from None
        named = claims.get("iss")
        issuer = self._by_url.get(named) if isinstance(named, str) else None
        if issuer is None:
            raise LoginFailed("unknown", "the token is of an issuer that is not accepted here")
        return issuer, header

    async def _key(self, issuer: OidcIssuer, header: Mapping[str, Any]) -> SigningKey:
        credential = f"a JWT of {issuer.label}"
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in issuer.algorithms:
            raise LoginFailed(
                "invalid", "the token is signed in a way not allowed here", credential
            )
        if str(header.get("typ", "JWT")).lower() not in _TOKEN_TYPES or "crit" in header:
            raise LoginFailed("invalid", "the token is no access token", credential)
        if key_id is not None and not isinstance(key_id, str):
            raise LoginFailed("invalid", "the token's key id is malformed", credential)
        try:
            key = await self._keys[issuer.url].key(key_id, algorithm)
        except KeysUnavailable as error:
            raise LoginFailed(
                "unavailable",
                f"logins of {issuer.label} cannot be checked now, the keys are not available: "
                f"{error}; try again later",
                credential,
            ) from None
        if key is None:
            raise LoginFailed("invalid", "the token is signed with an unknown key", credential)
        return key

    def _verify(
        self,
        issuer: OidcIssuer,
        token: bytes,
        key: SigningKey,
        algorithm: str,
        audiences: Iterable[str],
    ) -> dict[str, Any]:
        import jwt

        credential = f"a JWT of {issuer.label}"
        try:
            return jwt.decode(
                token,
                jwt.PyJWK.from_dict(key.jwk, algorithm=algorithm),
                algorithms=[algorithm],
                audience=[*audiences],
                issuer=issuer.url,
                leeway=issuer.clock_skew_seconds,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.ExpiredSignatureError:
            raise LoginFailed(
                "expired", "the token has expired; sign in again", credential
            ) from None
        except jwt.InvalidAudienceError:
            text = "the token is for another server; ask for one with this server as its resource"
            raise LoginFailed("invalid", text, credential) from None
        except jwt.ImmatureSignatureError:
            text = "the token is not valid yet; check the clocks of this server and the issuer"
            raise LoginFailed("invalid", text, credential) from None
        except (jwt.PyJWTError, ArithmeticError, ValueError, TypeError, RecursionError) as error:
            text = f"the token is not valid ({type(error).__name__})"
            raise LoginFailed("invalid", text, credential) from None


def _login(issuer: OidcIssuer, claims: Mapping[str, Any]) -> Login:
    name = claims.get(issuer.name_claim)
    # Spaces around a name would make another principal that looks the same.
    is_text = isinstance(name, str) and name.isprintable() and name == name.strip()
    if not is_text or not 0 < len(cast("str", name)) <= _MAX_NAME:
        text = f"the token has no claim {issuer.name_claim!r} that names anybody"
        raise LoginFailed("invalid", text, f"a JWT of {issuer.label}")
    full_name = f"{issuer.label}:{name}"
    expires_at: Any = claims["exp"]
    if type(expires_at) not in (int, float) or not 0 < expires_at < _LAST_EXPIRY:
        raise LoginFailed("invalid", "the token's expiry is no time", full_name)
    party = claims.get("azp", claims.get("client_id"))
    if issuer.authorized_parties and party not in tuple(issuer.authorized_parties):
        raise LoginFailed(
            "invalid", "the token was issued to a client not accepted here", full_name
        )
    missing = sorted(set(issuer.required_scopes) - _scopes(claims))
    if missing:
        text = f"the token lacks the scope {' '.join(missing)}"
        raise LoginFailed("insufficient_scope", text, full_name)
    groups = _groups(claims, issuer.groups_claim)
    roles = issuer.roles_of(groups)
    if not roles:
        text = f"{full_name} has no role here; an admin can map one of its groups to a role"
        raise LoginFailed("no_role", text, full_name)
    return Login(
        Principal(full_name, roles, groups=groups),
        f"a JWT of {full_name}",
        float(expires_at) + issuer.clock_skew_seconds,
        issuer=issuer.url,
    )


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    for claim in ("scope", "scp"):
        value = claims.get(claim)
        if isinstance(value, str):
            return frozenset(value.split())
        if isinstance(value, list):
            return frozenset(s for s in cast("list[Any]", value) if isinstance(s, str))
    return frozenset()


def _groups(claims: Mapping[str, Any], path: str) -> frozenset[str]:
    """The groups of a token. Some issuers name claims by URLs, so the whole path comes first."""
    value: Any = claims.get(path)
    if value is None:
        value = claims
        for part in path.split("."):
            value = cast("dict[str, Any]", value).get(part) if isinstance(value, Mapping) else None
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        return frozenset()
    # Groups end up in records and logs, so what would steer a terminal is left out.
    groups = [
        group
        for group in cast("list[Any]", value)
        if isinstance(group, str) and group.isprintable() and 0 < len(group) <= _MAX_NAME
    ]
    return frozenset(groups[:_MAX_GROUPS])


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


def public_origin(public_url: str) -> str:
    """The `Origin` of pages at the public URL."""
    parts = urlsplit(public_url)
    return f"{parts.scheme}://{parts.netloc}".lower()


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
