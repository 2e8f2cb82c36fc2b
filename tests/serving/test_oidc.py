"""JWTs: which are accepted, and what they are worth. The keys come from a set that a test fills."""

from __future__ import annotations

import base64
import hmac
import json
import time
from contextlib import suppress
from typing import Any, cast

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from tests.node.identity import Key, claims_of
from toolcrib.errors import UsageError
from toolcrib.serving.login import Authenticator, LoginFailed
from toolcrib.serving.oidc import OidcIssuer, OidcLogins, ProtectedResource, checked_public_url
from toolcrib.serving.signing_keys import KeysUnavailable

ISSUER = "https://login.example.com"
AUDIENCE = "https://crib.example.com/mcp"
KEY = Key("k1")


def issuer(**more: Any) -> OidcIssuer:
    fields: dict[str, Any] = {
        "url": ISSUER,
        "roles": {"engineers": ["caller"], "leads": ["approver"], "ops": ["admin"]},
        "label": "acme",
        **more,
    }
    return OidcIssuer(**fields)


class Directory:
    """What an issuer publishes, without a network."""

    def __init__(self, *keys: dict[str, Any]) -> None:
        self.keys = list(keys or (KEY.public_jwk,))
        self.fetched: list[str] = []

    async def fetch(self, url: str) -> Any:
        self.fetched.append(url)
        if url == f"{ISSUER}/.well-known/openid-configuration":
            return {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/jwks"}
        return {"keys": self.keys}


def logins(directory: Directory | None = None, **more: Any) -> OidcLogins:
    fetch = (directory or Directory()).fetch
    return OidcLogins([issuer(**more)], audiences=[AUDIENCE], fetch=fetch)


async def fault(token: str, own: OidcLogins | None = None) -> str | None:
    try:
        await (own or logins()).login(token.encode())
    except LoginFailed as failure:
        return "leaked" if token in str(failure) else failure.fault
    return None


def token(**claims: Any) -> str:
    return KEY.sign(claims_of(ISSUER, AUDIENCE, **claims))


async def test_a_valid_token_names_its_principal_roles_and_groups() -> None:
    """The name is unique by the issuer's label; groups become roles."""
    login = await logins().login(token(groups=["engineers", "leads", "x"]).encode())

    assert login.principal.name == "acme:ada"
    assert login.principal.roles == {"caller", "approver"}
    assert login.principal.groups == {"engineers", "leads", "x"}
    assert not login.principal.may_approve_own


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({}, None),
        ({"aud": "https://other.example.com"}, "invalid"),
        ({"aud": ["https://other.example.com", AUDIENCE]}, None),
        ({"aud": None}, "invalid"),
        ({"iss": "https://evil.example.com"}, "unknown"),
        ({"iss": None}, "unknown"),
        ({"iss": f"{ISSUER}/"}, "unknown"),
        ({"exp": None}, "invalid"),
        ({"sub": None}, "invalid"),
        ({"sub": ""}, "invalid"),
        ({"sub": "a\nb"}, "invalid"),
        ({"sub": " alice"}, "invalid"),
        ({"groups": []}, "no_role"),
        ({"groups": None}, "no_role"),
        ({"groups": {"engineers": True}}, "no_role"),
        ({"groups": [["engineers"], 7, None]}, "no_role"),
        ({"groups": "engineers"}, None),
    ],
)
async def test_claims_decide(claims: dict[str, Any], expected: str | None) -> None:
    """Issuer, audience, expiry, subject and groups: each has to be right."""
    assert await fault(token(**claims)) == expected


@pytest.mark.parametrize(
    ("claim", "seconds", "expected"),
    [
        ("exp", -50, None),
        ("exp", -70, "expired"),
        ("nbf", 50, None),
        ("nbf", 70, "invalid"),
        ("iat", 50, None),
        ("iat", 70, "invalid"),
    ],
)
async def test_clocks_may_differ_by_a_minute(
    claim: str, seconds: int, expected: str | None
) -> None:
    """And by no more; a login ends with the token."""
    assert await fault(token(**{claim: int(time.time()) + seconds})) == expected


async def test_a_login_ends_when_the_token_expires() -> None:
    """With the skew; its open streams end then."""
    now = [time.time()]
    authenticator = Authenticator(oidc=logins(), clock=lambda: now[0])
    login = await authenticator.login(token(exp=int(now[0]) + 10).encode())
    assert authenticator.is_valid(login)
    now[0] += 71

    assert not authenticator.is_valid(login)


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _unsigned(header: Any, claims: Any) -> str:
    return f"{_base64(json.dumps(header).encode())}.{_base64(json.dumps(claims).encode())}."


async def test_algorithms_are_allowed_by_name() -> None:
    """No unsigned token, none signed with the public key as a shared secret, and none whose header
    names another algorithm than its key has.
    """
    claims = claims_of(ISSUER, AUDIENCE)
    names: list[Any] = ["none", "None", "NONE", "", "HS256", None, ["RS256"], {"alg": "RS256"}]
    for name in names:
        assert await fault(_unsigned({"alg": name, "typ": "JWT", "kid": "k1"}, claims)) == "invalid"
    shared = _unsigned({"alg": "HS256", "typ": "JWT", "kid": "k1"}, claims).rstrip(".")
    public = KEY.private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    signature = hmac.digest(public, shared.encode(), "sha256")
    assert await fault(f"{shared}.{_base64(signature)}") == "invalid"
    assert await fault(jwt.encode(claims, KEY.private, "PS256", {"kid": "k1"})) == "invalid"
    assert await fault(jwt.encode(claims, KEY.private, "RS512", {"kid": "k1"})) == "invalid"
    with pytest.raises(UsageError, match="not allowed"):
        issuer(algorithms=["HS256"])
    with pytest.raises(UsageError, match="not allowed"):
        issuer(algorithms=["none"])


async def test_an_elliptic_key_signs_too() -> None:
    """ES256, by the type of the published key."""
    private = ec.generate_private_key(ec.SECP256R1())
    public = ECAlgorithm.to_jwk(private.public_key(), as_dict=True)
    own = logins(Directory({**public, "kid": "e1"}))
    signed = jwt.encode(claims_of(ISSUER, AUDIENCE), private, "ES256", {"kid": "e1"})

    assert await fault(signed, own) is None
    assert await fault(token(), own) == "invalid"


@pytest.mark.parametrize(
    "header",
    [
        {"typ": "logout+jwt"},
        {"typ": "dpop+jwt"},
        {"crit": ["exp"]},
        {"kid": "other"},
    ],
)
async def test_other_tokens_of_the_issuer_are_no_access_tokens(header: dict[str, Any]) -> None:
    """By type, critical headers and key."""
    assert await fault(KEY.sign(claims_of(ISSUER, AUDIENCE), **header)) == "invalid"


async def test_without_a_key_id_the_key_must_be_the_only_one() -> None:
    """Nothing is tried out."""
    signed = jwt.encode(claims_of(ISSUER, AUDIENCE), KEY.private, "RS256")

    assert await fault(signed) is None
    two = logins(Directory(KEY.public_jwk, Key("k2").public_jwk))
    assert await fault(signed, two) == "invalid"


async def test_a_forged_or_cut_token_is_refused() -> None:
    """Another key under the same id, a changed claim, and nonsense."""
    signed = token()
    head, claims, signature = signed.split(".")
    other = base64.urlsafe_b64encode(b'{"iss":"https://login.example.com"}').decode().rstrip("=")

    assert await fault(Key("k1").sign(claims_of(ISSUER, AUDIENCE))) == "invalid"
    for forged in (f"{head}.{other}.{signature}", f"{head}.{claims}.", f"{head}.{claims}", "eyJ"):
        assert await fault(forged) == "invalid"


async def test_weak_and_encryption_keys_do_not_sign() -> None:
    """An RSA key of 1024 bits, and a key that is published for encryption."""
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    fields = RSAAlgorithm.to_jwk(weak.public_key(), as_dict=True)
    directory = Directory(
        KEY.public_jwk,
        {**fields, "kid": "weak"},
        {**Key("enc").public_jwk, "use": "enc"},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "oct"},
        {"kty": "RSA", "kid": "broken"},
    )
    own = logins(directory)
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        signed = jwt.encode(claims_of(ISSUER, AUDIENCE), weak, "RS256", {"kid": "weak"})

    assert await fault(token(), own) is None
    assert await fault(signed, own) == "invalid"


async def test_groups_may_be_nested_or_named_by_an_address() -> None:
    """As in Keycloak and Auth0."""
    nested = logins(groups_claim="realm_access.roles")
    named = logins(groups_claim="https://acme.example/groups")

    assert await fault(token(groups=None, realm_access={"roles": ["ops"]}), nested) is None
    assert await fault(token(groups=None, realm_access=["ops"]), nested) == "no_role"
    assert await fault(token(**{"https://acme.example/groups": ["ops"]}), named) is None


async def test_scopes_and_clients_may_be_required() -> None:
    """Without the scope it is a matter of asking for more; another client's token is refused."""
    scoped = logins(required_scopes=["mcp", "tools"])
    parties = logins(authorized_parties=["editor"])

    assert await fault(token(scope="tools x mcp"), scoped) is None
    assert await fault(token(scp=["mcp", "tools"]), scoped) is None
    assert await fault(token(scope="mcp"), scoped) == "insufficient_scope"
    assert await fault(token(azp="editor"), parties) is None
    assert await fault(token(client_id="editor"), parties) is None
    assert await fault(token(azp="other", client_id="editor"), parties) == "invalid"
    assert await fault(token(), parties) == "invalid"


async def test_default_roles_are_everybodys() -> None:
    """Who is in no group has them too."""
    own = logins(default_roles=["auditor"])
    login = await own.login(token(groups=[]).encode())

    assert login.principal.roles == {"auditor"}


async def test_a_token_is_checked_once_while_the_keys_stay() -> None:
    """Remembering costs no safety: it ends with the token and with the keys."""
    own = logins()
    signed = token().encode()

    assert await own.login(signed) is await own.login(signed)


async def test_an_outage_is_told_as_one() -> None:
    """Nobody gets in, and the answer says that the keys are not available."""

    async def away(url: str) -> Any:
        raise KeysUnavailable(f"{url} cannot be reached")

    own = OidcLogins([issuer()], audiences=[AUDIENCE], fetch=away)
    with pytest.raises(LoginFailed, match="cannot be checked now") as failure:
        await own.login(token().encode())

    assert failure.value.refused.kind == "unavailable"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"url": "http://login.example.com"}, "https"),
        ({"url": "login.example.com"}, "https"),
        ({"url": f"{ISSUER}?x=1"}, "https"),
        ({"label": "a:b"}, "label"),
        ({"roles": {}}, "nobody"),
        ({"roles": {"x": ["root"]}}, "no role 'root'"),
        ({"clock_skew_seconds": 3_600}, "skew"),
    ],
)
def test_a_wrong_configuration_is_refused_at_once(fields: dict[str, Any], message: str) -> None:
    """Plain http is for this machine only."""
    with pytest.raises(UsageError, match=message):
        issuer(**fields)

    assert issuer(url="http://127.0.0.1:9000", label="").label == "127.0.0.1-9000"


def test_a_server_has_an_audience_and_issuers_have_labels_of_their_own() -> None:
    """Otherwise tokens for other servers would log in, or two people share a name."""
    with pytest.raises(UsageError, match="any other server"):
        OidcLogins([issuer()])
    with pytest.raises(UsageError, match="one label"):
        OidcLogins([issuer(), issuer(url="https://b.example")], audiences=["x"])


RESOURCE = ProtectedResource("https://crib.example.com", (issuer(required_scopes=["mcp"]),))
ROOT = "/.well-known/oauth-protected-resource"


def test_the_metadata_names_resource_and_issuer() -> None:
    """RFC 9728, for the server and for its MCP endpoint, as the MCP SDK's own model reads it."""
    from mcp.shared.auth import ProtectedResourceMetadata

    whole = ProtectedResourceMetadata.model_validate(RESOURCE.metadata(ROOT))
    mcp = ProtectedResourceMetadata.model_validate(RESOURCE.metadata(f"{ROOT}/mcp"))

    assert str(mcp.resource) == "https://crib.example.com/mcp"
    assert str(whole.resource).rstrip("/") == "https://crib.example.com"
    assert [str(each).rstrip("/") for each in mcp.authorization_servers] == [ISSUER]
    assert mcp.scopes_supported == ["mcp"]
    assert RESOURCE.metadata(f"{ROOT}/other") is None
    assert ProtectedResource("https://crib.example.com").metadata(ROOT) is None


def test_a_challenge_says_where_to_sign_in_and_what_for() -> None:
    """RFC 6750 and 9728: nothing is said against a request without a token; quotes of a message do
    not end the parameter.
    """
    failure = LoginFailed("invalid", 'a "quoted"\r\nmessage')
    scope = LoginFailed("insufficient_scope", "more")
    where = f'resource_metadata="https://crib.example.com{ROOT}/mcp"'

    assert RESOURCE.challenge("/mcp", None).decode() == f'Bearer scope="mcp", {where}'
    assert RESOURCE.challenge("/mcp", failure).decode() == (
        f'Bearer error="invalid_token", error_description="a quotedmessage", scope="mcp", {where}'
    )
    assert 'error="insufficient_scope"' in RESOURCE.challenge("/mcp", scope).decode()
    assert f'{ROOT}"' in RESOURCE.challenge("/v1/sessions", None).decode()
    assert ProtectedResource().challenge("/mcp", None) == b"Bearer"


def test_a_public_url_may_have_a_path() -> None:
    """The well-known part comes before it (RFC 9728, 3.1)."""
    resource = ProtectedResource(checked_public_url("https://a.example/crib/"), (issuer(),))

    assert resource.metadata(f"{ROOT}/crib/mcp") == resource.metadata(f"{ROOT}/mcp")
    assert f"https://a.example{ROOT}/crib/mcp" in resource.challenge("/mcp", None).decode()
    for url in ("http://a.example", "a.example", "https://a.example/?x", ""):
        with pytest.raises(UsageError, match="public URL"):
            checked_public_url(url)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
_HEADER = st.fixed_dictionaries(
    {}, optional={name: _JSON | st.just("RS256") for name in ("alg", "kid", "typ", "crit", "b64")}
)
_CLAIMS = st.fixed_dictionaries(
    {"iss": st.just(ISSUER) | _JSON},
    optional={
        name: _JSON for name in ("aud", "sub", "exp", "nbf", "iat", "groups", "azp", "scope", "jti")
    },
)


@given(header=_HEADER | _JSON, claims=_CLAIMS | _JSON, is_signed=st.booleans())
async def test_no_token_is_an_unexpected_error(header: Any, claims: Any, is_signed: bool) -> None:
    """Whatever a stranger sends as a JWT, and whatever an issuer signs, is a login or a failed one,
    never an exception that the server would answer with 500.
    """
    if is_signed and isinstance(claims, dict):
        try:
            sent = KEY.sign(cast("dict[str, Any]", claims))
        except (TypeError, ValueError, jwt.PyJWTError):
            return
    else:
        sent = _unsigned(header, claims) + "c2ln"
    with suppress(LoginFailed):
        await LOGINS.login(sent.encode())


LOGINS = logins(default_roles=["caller"])


@pytest.mark.parametrize("exp", [10**400, 1e308, True, "12", [1]], ids="abcde")
async def test_an_odd_expiry_is_a_failed_login(exp: Any) -> None:
    """Also one that no clock can show."""
    assert await fault(token(exp=exp)) in ("invalid", "expired")


async def test_names_of_groups_are_plain() -> None:
    """Groups end up in records and logs: those that would steer a terminal, or are endless, are
    left out.
    """
    login = await logins().login(
        token(groups=["engineers", "a\nb", "x" * 300, "\u202eevil", ""]).encode()
    )

    assert login.principal.groups == {"engineers"}
