"""The operations by which admins see and change who uses a server."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toolcrib.errors import Refused
from toolcrib.runtime.messages import Nothing
from toolcrib.runtime.principal import OWNER_NAME
from toolcrib.serving.auth import login_of, principal_of
from toolcrib.store.call_query import PrincipalUse
from toolcrib.store.store import ask_store
from toolcrib.transports.http.accounts.accounts import AccountAnswer, Accounts
from toolcrib.transports.http.accounts.messages import (
    CreateToken,
    ListPeople,
    NewTokenFacts,
    OneSignIn,
    OneToken,
    People,
    Person,
    RotateToken,
    SignInFacts,
    SignInList,
    TokenFacts,
    TokenList,
)

if TYPE_CHECKING:
    from starlette.types import Scope

    from toolcrib.runtime.principal import Principal, Role
    from toolcrib.serving.sign_ins import SignInRecord
    from toolcrib.serving.tokens import IssuedToken, TokenRecord, TokenRecords

_log = logging.getLogger(__name__)


async def list_tokens(accounts: Accounts, params: Nothing, scope: Scope) -> AccountAnswer:
    """The tokens of the server's file, without their secrets."""
    return AccountAnswer(TokenList(tokens=[_token_facts(each) for each in _tokens(accounts)]))


async def create_token(accounts: Accounts, params: CreateToken, scope: Scope) -> AccountAnswer:
    """Make a token for a principal; the answer shows it once."""
    file = _file(accounts)
    issued = await accounts.settled(
        lambda: file.create(
            params.name,
            params.roles,
            groups=params.groups,
            lifetime_seconds=params.lifetime_seconds,
            may_approve_own=params.may_approve_own,
        )
    )
    _note(scope, "made the token %s of %s", issued.record)
    return AccountAnswer(_new_token(issued))


async def rotate_token(accounts: Accounts, params: RotateToken, scope: Scope) -> AccountAnswer:
    """Replace a token by a new one with the same rights; the answer shows it once."""
    _check_there(accounts, params.token_id)
    file, grace_seconds = _file(accounts), params.keep_old_seconds
    issued = await accounts.settled(
        lambda: file.rotate(params.token_id, grace_seconds=grace_seconds)
    )
    _note(scope, "replaced a token by %s of %s", issued.record)
    return AccountAnswer(_new_token(issued))


async def revoke_token(accounts: Accounts, params: OneToken, scope: Scope) -> AccountAnswer:
    """End a token, the sign-ins by it, and the streams that they have open."""
    _check_there(accounts, params.token_id)
    file = _file(accounts)
    (record,) = await accounts.settled(lambda: file.revoke(params.token_id))
    _note(scope, "revoked the token %s of %s", record)
    return AccountAnswer(_token_facts(record))


async def list_sign_ins(accounts: Accounts, params: Nothing, scope: Scope) -> AccountAnswer:
    """The browsers that have signed in."""
    own = login_of(scope).sign_in
    records = sorted(accounts.access.sign_ins.records(), key=lambda each: -each.created_at)
    return AccountAnswer(SignInList(sign_ins=[_sign_in_facts(each, own) for each in records]))


async def revoke_sign_in(accounts: Accounts, params: OneSignIn, scope: Scope) -> AccountAnswer:
    """End a sign-in, and the streams that it has open."""
    record = await accounts.settled(lambda: accounts.access.sign_ins.end(params.sign_in_id))
    if record is None:
        raise Refused("not_found", "there is no such sign-in; it may have ended meanwhile")
    _log.info(
        "%s has ended sign-in %s of %s", principal_of(scope).name, record.id, record.basis.name
    )
    return AccountAnswer(_sign_in_facts(record, login_of(scope).sign_in))


async def list_people(accounts: Accounts, params: ListPeople, scope: Scope) -> AccountAnswer:
    """A page of the people who use this server: their tokens and sign-ins, and what they did."""
    uses = await ask_store(accounts.store, accounts.store.principals)
    drafts = _drafts(accounts, uses, login_of(scope).sign_in)
    search = (params.search or "").casefold().strip()
    names = sorted(name for name in drafts if search in name.casefold())
    rest = [name for name in names if params.cursor is None or name > params.cursor]
    page = rest[: params.limit]
    people = People(
        people=[drafts[name].person() for name in page],
        total=len(names),
        cursor=page[-1] if len(rest) > len(page) else None,
    )
    return AccountAnswer(people)


@dataclass(slots=True)
class _PersonDraft:
    name: str
    roles: set[Role] = field(default_factory=set["Role"])
    groups: set[str] = field(default_factory=set[str])
    tokens: list[TokenFacts] = field(default_factory=list[TokenFacts])
    sign_ins: list[SignInFacts] = field(default_factory=list[SignInFacts])
    use: PrincipalUse | None = None

    def person(self) -> Person:
        use = self.use or PrincipalUse(self.name)
        times = [use.last_at or 0.0, *(each.seen_at for each in self.sign_ins)]
        return Person(
            name=self.name,
            roles=sorted(self.roles),
            groups=sorted(self.groups),
            tokens=self.tokens,
            sign_ins=self.sign_ins,
            is_owner=self.name == OWNER_NAME,
            sessions=use.sessions,
            calls=use.calls,
            last_seen_at=max(times) or None,
        )

    def add_rights(self, who: Principal) -> None:
        self.roles |= who.roles
        self.groups |= who.groups


def _drafts(
    accounts: Accounts, uses: Iterable[PrincipalUse], own: str | None
) -> dict[str, _PersonDraft]:
    drafts: dict[str, _PersonDraft] = {}

    def of(name: str) -> _PersonDraft:
        return drafts.setdefault(name, _PersonDraft(name))

    for use in uses:
        of(use.name).use = use
    for who in accounts.access.authenticator.host_principals:
        of(who.name).add_rights(who)
    now = accounts.clock()
    for record in _tokens(accounts):
        of(record.name).tokens.append(_token_facts(record))
        if record.expires_at is None or now < record.expires_at:
            of(record.name).add_rights(record.principal)
    for sign_in in accounts.access.sign_ins.records():
        of(sign_in.basis.name).sign_ins.append(_sign_in_facts(sign_in, own))
        of(sign_in.basis.name).add_rights(sign_in.basis.principal)
    return drafts


def _file(accounts: Accounts) -> TokenRecords:
    file = accounts.access.authenticator.token_file
    if file is None:
        raise Refused(
            "conflict",
            "the tokens of this server are set in the program that runs it; it has no file of "
            "tokens to change",
        )
    return file


def _tokens(accounts: Accounts) -> tuple[TokenRecord, ...]:
    file = accounts.access.authenticator.token_file
    return () if file is None else file.records()


def _check_there(accounts: Accounts, token_id: str) -> None:
    # The file takes a name too, which would end several tokens at once.
    if all(record.id != token_id for record in _tokens(accounts)):
        raise Refused("not_found", "there is no token with this id; it may have been revoked")


def _new_token(issued: IssuedToken) -> NewTokenFacts:
    return NewTokenFacts(token=issued.token, facts=_token_facts(issued.record))


def _token_facts(record: TokenRecord) -> TokenFacts:
    return TokenFacts(
        id=record.id,
        name=record.name,
        roles=list(record.roles),
        groups=list(record.groups),
        created_at=record.created_at,
        expires_at=record.expires_at,
        may_approve_own=record.may_approve_own,
    )


def _sign_in_facts(record: SignInRecord, own: str | None) -> SignInFacts:
    return SignInFacts(
        id=record.id,
        principal=record.basis.name,
        roles=list(record.basis.roles),
        signed_in_by=record.basis.by,
        created_at=record.created_at,
        seen_at=record.seen_at,
        expires_at=record.expires_at,
        address=record.address,
        browser=record.browser,
        is_own=record.id == own,
    )


def _note(scope: Scope, what: str, record: TokenRecord) -> None:
    """Log what an admin has done, with ids and names and no secret."""
    _log.info(f"%s has {what}", principal_of(scope).name, record.id, record.name)
