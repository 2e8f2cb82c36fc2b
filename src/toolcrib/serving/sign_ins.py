"""Sign-ins of browsers: a cookie that stands for a credential, and one-time links to get one.

Both are kept in a file as digests, so that they survive a restart. A sign-in ends with the
credential that it stands on, with its own expiry, or when nobody has used it for long.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as validated_dataclass

from toolcrib.clock import SYSTEM_CLOCK, Clock
from toolcrib.errors import StoreError, UsageError
from toolcrib.runtime.principal import OWNER_NAME, Principal, Role
from toolcrib.serving.login import Login, LoginFailed
from toolcrib.serving.private_file import locked, private_text, replace_json, stamp_of
from toolcrib.serving.tokens import new_id

if TYPE_CHECKING:
    from toolcrib.serving.login import Authenticator

_log = logging.getLogger(__name__)

T = TypeVar("T")

LINK_SECONDS: Final = 600.0
"""How long a one-time link can be used."""
SIGN_IN_SECONDS: Final = 7 * 86_400.0
"""The longest life of a sign-in by a token."""
OIDC_SIGN_IN_SECONDS: Final = 12 * 3_600.0
"""The longest life of a sign-in by an issuer, who does not say when somebody has left."""
IDLE_SECONDS: Final = 12 * 3_600.0
"""A sign-in that nobody has used for so long ends."""
SEEN_SECONDS: Final = 60.0
"""How exactly it is kept when a sign-in was used last."""
_MOST_LINKS: Final = 20
_MOST_SIGN_INS: Final = 100
"""Of one principal; the oldest go."""
SIGN_INS_NAME: Final = "sign-ins.json"
"""What the file of sign-ins is called, beside the file of tokens."""
_VERSION: Final = 1
_CODE: Final = "sc_"
_SECRET: Final = "ss_"
_LONGEST_SECRET: Final = 100
_DIGEST: Final = Field(pattern=r"^[0-9a-f]{64}$")
_STRICT: Final = ConfigDict(extra="forbid")

SignedInBy = Literal["owner", "token", "oidc"]
"""What somebody has signed in with: the owner's token, another one, or an OpenID issuer."""


@validated_dataclass(frozen=True, slots=True, config=_STRICT)
class SignInBasis:
    """The credential that a sign-in stands on, and whose it is."""

    by: SignedInBy
    name: Annotated[str, Field(min_length=1, max_length=400)]
    roles: Annotated[tuple[Role, ...], Field(min_length=1)]
    groups: tuple[str, ...] = ()
    may_approve_own: bool = False
    source: str = ""
    """The id of a token of the file, the fingerprint of one that the host sets, or an issuer."""
    is_of_file: bool = False
    expires_at: float | None = None
    """When the credential itself expires."""

    @property
    def principal(self) -> Principal:
        """Who has signed in."""
        return Principal(
            self.name,
            frozenset(self.roles),
            groups=frozenset(self.groups),
            may_approve_own=self.may_approve_own,
        )


@validated_dataclass(frozen=True, slots=True, config=_STRICT)
class SignInRecord:
    """What is kept of a sign-in: whose it is, and the digest of its cookie."""

    id: Annotated[str, Field(pattern=r"^[a-z2-7]{12}$")]
    sha256: Annotated[str, _DIGEST]
    basis: SignInBasis
    created_at: float
    seen_at: float
    expires_at: float
    address: str = ""
    browser: str = ""

    def is_over(self, now: float) -> bool:
        """Whether it has expired, or nobody has used it for too long."""
        return now >= self.expires_at or now >= self.seen_at + IDLE_SECONDS


@validated_dataclass(frozen=True, slots=True, config=_STRICT)
class _Link:
    sha256: Annotated[str, _DIGEST]
    basis: SignInBasis
    expires_at: float


@validated_dataclass(frozen=True, slots=True, config=_STRICT)
class _Kept:
    version: Literal[1] = 1
    sign_ins: tuple[SignInRecord, ...] = ()
    links: tuple[_Link, ...] = ()


_KEPT: Final = TypeAdapter(_Kept)


@dataclass(slots=True)
class SignInEntries:
    """What is kept, while it is changed."""

    sign_ins: list[SignInRecord]
    links: list[_Link]


@dataclass(frozen=True, slots=True)
class BrowserClient:
    """Where a sign-in comes from, for those who look at the list of them."""

    address: str = ""
    browser: str = ""


@dataclass(frozen=True, slots=True)
class NewSignIn:
    """A sign-in that was just made. The secret goes into the cookie; its digest is kept."""

    record: SignInRecord
    secret: str


class SignInFile:
    """Reads and changes the file of sign-ins and links; without a path they are kept in memory.
    Several servers may share one: each changes only its own entries, and those that are over.
    """

    def __init__(self, path: Path | None, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.path = path
        self._clock = clock
        self._kept = _Kept()
        self._by_digest: dict[str, SignInRecord] = {}
        self._stamp: tuple[int, ...] | None = None

    def records(self) -> tuple[SignInRecord, ...]:
        """The sign-ins, those that are over too."""
        self._look()
        return self._kept.sign_ins

    def record_of(self, digest: str) -> SignInRecord | None:
        """The sign-in whose cookie has this digest."""
        self._look()
        return self._by_digest.get(digest)

    @property
    def is_stale(self) -> bool:
        """Whether it cannot be known here who has signed in."""
        return False

    def edit(self, edit: Callable[[SignInEntries], T], *, is_lasting: bool = True) -> T:
        """Change what is kept; entries that are over go. Raises `UsageError` for a file that cannot
        be read, and `OSError` for one that cannot be written.
        """
        if self.path is None:
            draft = self._draft(self._kept)
            result = edit(draft)
            self._keep(_kept_of(draft))
            return result
        with locked(self.path):
            draft = self._draft(_read(self.path))
            result = edit(draft)
            kept = _kept_of(draft)
            replace_json(self.path, asdict(kept), is_lasting=is_lasting)
            self._stamp = stamp_of(self.path)
        self._keep(kept)
        return result

    def note(self, edit: Callable[[], object]) -> None:
        """Change something that nobody waits for."""
        edit()

    def _draft(self, kept: _Kept) -> SignInEntries:
        now = self._clock()
        return SignInEntries(
            [each for each in kept.sign_ins if not each.is_over(now)],
            [each for each in kept.links if now < each.expires_at],
        )

    def _keep(self, kept: _Kept) -> None:
        self._kept = kept
        self._by_digest = {record.sha256: record for record in kept.sign_ins}

    def _look(self) -> None:
        if self.path is None:
            return
        stamp = stamp_of(self.path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._keep(_Kept() if stamp is None else _read(self.path))
        except UsageError as error:
            # Nobody is signed in by a file that cannot be judged.
            self._keep(_Kept())
            _log.error("the sign-ins were not loaded, so everybody signs in again: %s", error)


def _read(path: Path) -> _Kept:
    if stamp_of(path) is None:
        return _Kept()
    return sign_ins_of(private_text(path, "file of sign-ins"), str(path))


def sign_ins_of(text: str | bytes, place: str) -> _Kept:
    """What a JSON document keeps; nothing when it is empty. Raises `UsageError`."""
    try:
        return _KEPT.validate_json(text) if text else _Kept()
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"]) or "the file"
        raise UsageError(
            f"{place} is not a file of sign-ins: {where}: {fault['msg']}; remove it, and everybody "
            "signs in again"
        ) from None


def sign_ins_json(entries: SignInEntries) -> bytes:
    """The JSON document with these entries."""
    return json.dumps(asdict(_kept_of(entries))).encode()


def _kept_of(entries: SignInEntries) -> _Kept:
    return _Kept(_VERSION, tuple(entries.sign_ins), tuple(entries.links))


class SignIns:
    """The sign-ins of one server."""

    def __init__(
        self, file: SignInFile, authenticator: Authenticator, *, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._file = file
        self._authenticator = authenticator
        self._clock = clock

    def make_link(self, basis: SignInBasis) -> str:
        """A code that signs in once, within ten minutes."""
        code = f"{_CODE}{secrets.token_urlsafe(32)}"
        link = _Link(_digest(code), basis, self._clock() + LINK_SECONDS)

        def add(kept: SignInEntries) -> None:
            kept.links.append(link)
            _drop_oldest(kept.links, basis.name, _MOST_LINKS)

        self._file.edit(add)
        return code

    def exchange(self, code: str, client: BrowserClient) -> NewSignIn:
        """Sign in with the code of a link, which is used up then. Raises `LoginFailed`."""
        digest = _digest(code[:_LONGEST_SECRET])

        def use(kept: SignInEntries) -> NewSignIn:
            # Whoever comes second, here or in another process, waits for the lock and finds none.
            link = next((each for each in kept.links if each.sha256 == digest), None)
            if link is None or not self._authenticator.stands(link.basis):
                text = "this link was used already or is too old; ask for a new one"
                raise LoginFailed("unknown", text, "a sign-in link")
            kept.links.remove(link)
            return self._add(kept, link.basis, client)

        return self._file.edit(use)

    def open(self, basis: SignInBasis, client: BrowserClient) -> NewSignIn:
        """Sign in whoever has shown this credential."""
        return self._file.edit(lambda kept: self._add(kept, basis, client))

    def login(self, secret: bytes) -> Login:
        """The login of a cookie. Raises `LoginFailed`."""
        if self._file.is_stale:
            raise LoginFailed("unavailable", "who has signed in is not known here now", "a cookie")
        record = None
        if len(secret) <= _LONGEST_SECRET:
            record = self._file.record_of(sha256(secret).hexdigest())
        now = self._clock()
        if record is None or record.is_over(now) or not self._authenticator.stands(record.basis):
            name = "a cookie" if record is None else f"sign-in {record.id} of {record.basis.name}"
            raise LoginFailed("expired", "this sign-in has ended; sign in again", name)
        if now - record.seen_at >= SEEN_SECONDS:
            self._file.note(lambda: self._note_seen(record, now))
        return _login_of(record.id, record.basis, record.expires_at)

    def is_valid(self, login: Login) -> bool:
        """Whether a login still holds, by whichever credential."""
        if login.sign_in is None:
            return self._authenticator.is_valid(login)
        return any(record.id == login.sign_in for record in self.records())

    def records(self) -> list[SignInRecord]:
        """The sign-ins that hold."""
        now, stands = self._clock(), self._authenticator.stands
        return [
            each for each in self._file.records() if not each.is_over(now) and stands(each.basis)
        ]

    def end(self, sign_in_id: str) -> SignInRecord | None:
        """End a sign-in; None when there is none of this id."""

        def remove(kept: SignInEntries) -> SignInRecord | None:
            record = next((each for each in kept.sign_ins if each.id == sign_in_id), None)
            if record is not None:
                kept.sign_ins.remove(record)
            return record

        return self._file.edit(remove)

    def _add(self, kept: SignInEntries, basis: SignInBasis, client: BrowserClient) -> NewSignIn:
        secret, now = f"{_SECRET}{secrets.token_urlsafe(32)}", self._clock()
        longest = OIDC_SIGN_IN_SECONDS if basis.by == "oidc" else SIGN_IN_SECONDS
        expires_at = min(now + longest, basis.expires_at or float("inf"))
        record = SignInRecord(
            new_id(), _digest(secret), basis, now, now, expires_at, client.address, client.browser
        )
        kept.sign_ins.append(record)
        _drop_oldest(kept.sign_ins, basis.name, _MOST_SIGN_INS)
        _log.info(
            "%s has signed in from %s with %s: sign-in %s",
            basis.name,
            client.address or "here",
            {"owner": "the owner's token", "token": "a token", "oidc": "an issuer"}[basis.by],
            record.id,
        )
        return NewSignIn(record, secret)

    def _note_seen(self, record: SignInRecord, now: float) -> None:
        def note(kept: SignInEntries) -> None:
            if record in kept.sign_ins:
                kept.sign_ins[kept.sign_ins.index(record)] = replace(record, seen_at=now)

        try:
            self._file.edit(note, is_lasting=False)
        except (OSError, UsageError, StoreError) as error:
            _log.error("when sign-in %s was used was not kept: %s", record.id, error)


def _drop_oldest(kept: list[Any], name: str, most: int) -> None:
    own = [each for each in kept if each.basis.name == name]
    for each in own[: max(0, len(own) - most)]:
        kept.remove(each)


def _digest(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


@lru_cache(maxsize=1_024)
def _login_of(sign_in_id: str, basis: SignInBasis, expires_at: float) -> Login:
    name = f"sign-in {sign_in_id} of {basis.name}"
    return Login(basis.principal, name, expires_at, sign_in=sign_in_id, signed_in_by=basis.by)


def basis_of(login: Login, authenticator: Authenticator) -> SignInBasis:
    """What a sign-in by the credential of this login stands on."""
    who, source = login.principal, ""
    by: SignedInBy = "owner" if who.name == OWNER_NAME else "token"
    if login.issuer is not None:
        by, source = "oidc", login.issuer
    elif login.record is not None:
        source = login.record.id
    else:
        source = authenticator.fingerprint(who) or ""
    return SignInBasis(
        by,
        who.name,
        _sorted(who.roles),
        _sorted(who.groups),
        who.may_approve_own,
        source,
        login.record is not None,
        login.expires_at,
    )


def _sorted(names: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(sorted(names))
