"""The parameters and results of operations about who uses a server, and how they prove it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, Le
from pydantic import Field

from toolcrib.runtime.messages import OperationParams
from toolcrib.runtime.principal import Role
from toolcrib.serving.sign_ins import SignedInBy

Secret = Annotated[str, Field(min_length=1, max_length=16_384)]
Name = Annotated[str, Field(min_length=1, max_length=400)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Me:
    """Who sends a request, what they may do, and how they have proved it."""

    principal: str
    roles: list[Role]
    groups: list[str]
    credential: Literal["token", "sign_in"]
    signed_in_by: SignedInBy | None = None
    """What a browser has signed in with."""
    expires_at: float | None = None
    csrf: str | None = None
    """What a browser sends in the header `Toolcrib-CSRF` of every request but a GET."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn(OperationParams):
    """Sign in with the code of a one-time link, or with a token: one of the two."""

    code: Secret | None = field(default=None, repr=False)
    token: Secret | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """An OpenID issuer to sign in with."""

    label: str
    url: str
    """Where a browser goes to sign in, on this server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInOptions:
    """The ways to sign in besides a one-time link and a token."""

    issuers: list[Issuer]


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInLink:
    """A link that signs in its principal once. What signs in is in the fragment: no log has it."""

    url: str
    expires_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFacts:
    """A token, without its secret."""

    id: str
    name: str
    roles: list[Role]
    groups: list[str]
    created_at: float
    expires_at: float | None
    may_approve_own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenList:
    """The tokens of the server's file. Those of its owner and of the host are not in it."""

    tokens: list[TokenFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateToken(OperationParams):
    """A new token for a principal."""

    name: Name
    roles: Annotated[list[Role], Field(min_length=1)]
    groups: list[str] = field(default_factory=list[str])
    lifetime_seconds: Annotated[float, Ge(60), Le(315_360_000)] | None = 7_776_000.0
    """90 days by default; null never expires."""
    may_approve_own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RotateToken(OperationParams):
    """Replace a token by a new one with the same rights."""

    token_id: Name
    keep_old_seconds: Annotated[float, Ge(0), Le(2_592_000)] = 0.0
    """How long the old one works on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneToken(OperationParams):
    """A token."""

    token_id: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTokenFacts:
    """A new token. Its secret is shown here and never again."""

    token: str = field(repr=False)
    facts: TokenFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInFacts:
    """A browser that has signed in."""

    id: str
    principal: str
    roles: list[Role]
    signed_in_by: SignedInBy
    created_at: float
    seen_at: float
    expires_at: float
    address: str
    browser: str
    is_own: bool
    """Whether it is the one that asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInList:
    """The sign-ins that hold, the newest first."""

    sign_ins: list[SignInFacts]


@dataclass(frozen=True, slots=True, kw_only=True)
class OneSignIn(OperationParams):
    """A sign-in."""

    sign_in_id: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A principal that has a token, has signed in, or has left a session or a call."""

    name: str
    roles: list[Role]
    """What its tokens and sign-ins give it now."""
    groups: list[str]
    tokens: list[TokenFacts]
    sign_ins: list[SignInFacts]
    is_owner: bool
    sessions: int
    calls: int
    last_seen_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPeople(OperationParams):
    """A page of the people whose name has this text in it."""

    search: Annotated[str, Field(max_length=200)] | None = None
    cursor: Annotated[str, Field(max_length=512)] | None = None
    limit: Annotated[int, Ge(1), Le(500)] = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """People by name; `cursor` asks for the next page, None is the end."""

    people: list[Person]
    total: int
    cursor: str | None = None
