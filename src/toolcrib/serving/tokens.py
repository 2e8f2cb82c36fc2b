"""Bearer tokens of a server, the file with the owner's, and the file with the hashes of everybody
else's: changed by commands, followed by running servers.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as validated_dataclass

from toolcrib.clock import SYSTEM_CLOCK, Clock
from toolcrib.errors import UsageError
from toolcrib.runtime.principal import OWNER, RESERVED_NAMES, Principal, Role
from toolcrib.serving.private_file import Stamp, locked, private_text, replace_json, stamp_of

_log = logging.getLogger(__name__)

T = TypeVar("T")

SHORTEST_TOKEN: Final = 16
_VERSION: Final = 1
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}"
TOKEN_PREFIX: Final = "tc_"
"""How every generated token begins, so that people and secret scanners recognise one."""
_GENERATED: Final = re.compile(r"tc_([a-z2-7]{12})_([A-Za-z0-9_-]{43})")
_FINGERPRINT_DIGITS: Final = 8
_ID_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz234567"


class TokenParts(NamedTuple):
    """A generated token: a public id that names it, and the secret."""

    token_id: str
    secret: str


def new_id() -> str:
    """A new random id, which is no secret."""
    return "".join(secrets.choice(_ID_ALPHABET) for _ in range(12))


def new_token() -> str:
    """A new random token: `tc_`, its id, and 256 random bits."""
    return f"{TOKEN_PREFIX}{new_id()}_{secrets.token_urlsafe(32)}"


def token_parts(token: str) -> TokenParts | None:
    """The parts of a generated token; None for a token of another form."""
    match = _GENERATED.fullmatch(token)
    return None if match is None else TokenParts(match[1], match[2])


def token_digest(token: bytes) -> bytes:
    """What is kept of a token.

    One round of SHA-256, and no slow password hash: a generated token has 256 random bits, so no
    dictionary shortens the search for it, and a slow hash would cost every request.
    """
    return sha256(token).digest()


@dataclass(frozen=True, slots=True)
class Token:
    """A secret and its principal. The secret is not in the repr."""

    secret: str = field(repr=False)
    principal: Principal = OWNER

    def __post_init__(self) -> None:
        if len(self.secret) < SHORTEST_TOKEN or not self.secret.isascii():
            raise UsageError(f"a token must have at least {SHORTEST_TOKEN} ASCII characters")
        if any(char.isspace() for char in self.secret):
            raise UsageError("a token must not contain spaces")


class Tokens:
    """The tokens that the host sets in code. Only their digests are kept."""

    def __init__(self, tokens: Iterable[Token]) -> None:
        self._known = tuple(
            (token_digest(token.secret.encode()), token.principal) for token in tokens
        )
        if not self._known:
            raise UsageError("no token is set, so no client could connect; set at least one")
        if len({digest for digest, _ in self._known}) < len(self._known):
            raise UsageError("duplicate token; each principal needs its own")

    def principal_of(self, secret: bytes) -> Principal | None:
        """The principal of a token; None when it is unknown."""
        digest_sent, match = token_digest(secret), None
        # Every token is compared, so that the time does not reveal which one was close.
        for digest, principal in self._known:
            if hmac.compare_digest(digest, digest_sent):
                match = principal
        return match

    @property
    def principals(self) -> tuple[Principal, ...]:
        """Whose tokens these are."""
        return tuple(dict.fromkeys(principal for _, principal in self._known))

    def fingerprint(self, principal: Principal) -> str | None:
        """What changes when the tokens of a principal do; None when it has none. Too short to be
        of use to whoever wants to guess a token.
        """
        digests = sorted(digest for digest, whose in self._known if whose == principal)
        if not digests:
            return None
        return sha256(b"sign-in" + b"".join(digests)).hexdigest()[:_FINGERPRINT_DIGITS]


def state_folder() -> Path:
    """The folder of this user's state."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "toolcrib"


def default_token_file() -> Path:
    """The default path of the file with the owner's token."""
    return state_folder() / "token"


def read_or_create_owner_token(path: Path) -> Tokens:
    """The owner's token in a file, which is created if it is missing."""
    if not path.exists():
        _make(path)
    return Tokens([Token(owner_token(path))])


def owner_token(path: Path) -> str:
    """The token in a file of one line: the credential of a client, and on a server's machine the
    owner's. Raises `UsageError` when other users may read the file.
    """
    lines = [
        line.strip()
        for line in private_text(path, "token file").splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if len(lines) != 1 or len(lines[0].split()) != 1:
        raise UsageError(
            f"{path} must contain one token and nothing else; tokens for other people are made "
            "with `toolcrib tokens create`"
        )
    try:
        return Token(lines[0]).secret
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(new_token() + "\n")
        # The file appears whole or not at all; a second process uses the token of the first.
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


@validated_dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class TokenRecord:
    """What the file keeps of a token: whose it is, and the digest of its secret."""

    id: Annotated[str, Field(pattern=r"^[a-z2-7]{12}$")]
    name: Annotated[str, Field(pattern=f"^{_NAME}$")]
    roles: Annotated[tuple[Role, ...], Field(min_length=1)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    created_at: float
    groups: tuple[Annotated[str, Field(pattern=f"^{_NAME}$")], ...] = ()
    expires_at: float | None = None
    may_approve_own: bool = False

    @property
    def principal(self) -> Principal:
        """The principal of the token."""
        return Principal(
            self.name,
            frozenset(self.roles),
            groups=frozenset(self.groups),
            may_approve_own=self.may_approve_own,
        )


@validated_dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class _Content:
    version: Literal[1]
    tokens: tuple[TokenRecord, ...]


_CONTENT: Final = TypeAdapter(_Content)


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A token that was just made. The secret is shown once; the file has its digest only."""

    record: TokenRecord
    token: str


def default_tokens_file() -> Path:
    """The default path of the file of hashed tokens."""
    return state_folder() / "tokens.json"


class TokenRecords(ABC):
    """Hashed tokens, wherever they are kept."""

    def __init__(self, place: str, clock: Clock) -> None:
        self.place = place
        """Where they are kept, for people."""
        self._clock = clock

    @property
    @abstractmethod
    def stamp(self) -> Stamp | None:
        """What changes when the tokens do; None when what they were kept in is gone."""

    @property
    def is_stale(self) -> bool:
        """Whether it cannot be known here which tokens hold."""
        return False

    @abstractmethod
    def records(self) -> tuple[TokenRecord, ...]:
        """The tokens. Raises `UsageError` when they are malformed."""

    @abstractmethod
    def _edit(self, edit: Callable[[list[TokenRecord]], T]) -> T:
        """Replace the tokens by what `edit` leaves of them, in one step."""

    def create(
        self,
        name: str,
        roles: Sequence[Role],
        *,
        groups: Sequence[str] = (),
        lifetime_seconds: float | None = None,
        may_approve_own: bool = False,
    ) -> IssuedToken:
        """Add a token for a principal. Raises `UsageError` for a malformed name, role or group, and
        for a name that stands for this machine's owner: its sessions would be shared.
        """
        if name in RESERVED_NAMES:
            raise UsageError(f"the name {name!r} is that of the owner of a server; choose another")
        now = self._clock()
        fields: dict[str, Any] = {
            "name": name,
            "roles": tuple(dict.fromkeys(roles)),
            "groups": tuple(dict.fromkeys(groups)),
            "created_at": now,
            "expires_at": None if lifetime_seconds is None else now + lifetime_seconds,
            "may_approve_own": may_approve_own,
        }

        def add(records: list[TokenRecord]) -> IssuedToken:
            issued = _issue(fields)
            records.append(issued.record)
            return issued

        return self._edit(add)

    def revoke(self, wanted: str) -> tuple[TokenRecord, ...]:
        """Remove a token by its id, or every token of a principal by its name."""

        def remove(records: list[TokenRecord]) -> tuple[TokenRecord, ...]:
            removed = _matching(records, wanted, self.place)
            records[:] = [record for record in records if record not in removed]
            return removed

        return self._edit(remove)

    def rotate(self, wanted: str, *, grace_seconds: float = 0.0) -> IssuedToken:
        """Replace a token by a new one with the same rights and the same lifetime. The old one
        stays valid for `grace_seconds`, so that its holder has time to switch.
        """
        now = self._clock()

        def replace_one(records: list[TokenRecord]) -> IssuedToken:
            matching = _matching(records, wanted, self.place)
            if len(matching) > 1:
                ids = ", ".join(record.id for record in matching)
                raise UsageError(f"{wanted!r} has several tokens; name one by its id: {ids}")
            old = next(iter(matching))
            lifetime = None if old.expires_at is None else old.expires_at - old.created_at
            issued = _issue(
                {
                    **asdict(old),
                    "created_at": now,
                    "expires_at": None if lifetime is None else now + lifetime,
                }
            )
            records.remove(old)
            if grace_seconds > 0:
                end = now + grace_seconds
                expires_at = end if old.expires_at is None else min(end, old.expires_at)
                records.append(replace(old, expires_at=expires_at))
            records.append(issued.record)
            return issued

        return self._edit(replace_one)


class TokenFile(TokenRecords):
    """Reads and changes a file of hashed tokens. A change replaces the file in one step, and two
    commands at once take turns.
    """

    def __init__(self, path: Path, *, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(str(path), clock)
        self.path = path

    @property
    def stamp(self) -> Stamp | None:
        """That of the file."""
        return stamp_of(self.path)

    def records(self) -> tuple[TokenRecord, ...]:
        """The tokens in the file; none when it does not exist. Raises `UsageError` when the file is
        malformed, or other users may read it.
        """
        if not self.path.exists() and not self.path.is_symlink():
            return ()
        return token_records_of(private_text(self.path, "file of tokens"), self.place)

    def _edit(self, edit: Callable[[list[TokenRecord]], T]) -> T:
        with locked(self.path):
            records = list(self.records())
            result = edit(records)
            # A token that was revoked must not come back with the power.
            replace_json(self.path, _content_of(records))
        return result


def token_records_of(text: str | bytes, place: str) -> tuple[TokenRecord, ...]:
    """The tokens in a JSON document. Raises `UsageError`."""
    try:
        content = _CONTENT.validate_json(text)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"]) or "the file"
        raise UsageError(f"{place} is not a file of tokens: {where}: {fault['msg']}") from None
    if len({record.id for record in content.tokens}) < len(content.tokens):
        raise UsageError(f"{place} names one token id twice; remove one of the two")
    if taken := RESERVED_NAMES.intersection(record.name for record in content.tokens):
        raise UsageError(f"{place} has a token of {min(taken)!r}, who is the server's owner")
    return content.tokens


def tokens_json(records: Iterable[TokenRecord]) -> bytes:
    """The JSON document with these tokens."""
    return json.dumps(_content_of(records)).encode()


def _content_of(records: Iterable[TokenRecord]) -> dict[str, Any]:
    return {"version": _VERSION, "tokens": [asdict(record) for record in records]}


def _issue(fields: dict[str, Any]) -> IssuedToken:
    token = new_token()
    parts = token_parts(token)
    assert parts is not None, "a generated token has its parts"
    own: dict[str, Any] = {"id": parts.token_id, "sha256": token_digest(token.encode()).hex()}
    try:
        return IssuedToken(TokenRecord(**{**fields, **own}), token)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        raise UsageError(
            f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}"
        ) from None


def _matching(records: Iterable[TokenRecord], wanted: str, place: str) -> tuple[TokenRecord, ...]:
    # Somebody may paste the whole token.
    parts = token_parts(wanted)
    token_id = parts.token_id if parts else wanted.removeprefix(TOKEN_PREFIX)
    matching = tuple(r for r in records if r.id == token_id)
    if not matching and parts is None:
        matching = tuple(r for r in records if r.name == wanted)
    if not matching:
        raise UsageError(f"{place} has no such token; `toolcrib tokens list` shows ids and names")
    return matching


class WatchedTokens:
    """The tokens of a file, as they are now: whenever one is checked, the file is looked at, which
    takes a microsecond. A file that cannot be read changes nothing. Those of a shared store are as
    new as its document here.
    """

    def __init__(self, file: TokenRecords) -> None:
        self._file = file
        self._stamp = file.stamp
        self._records = _by_id(file.records())

    def record_of(self, parts: TokenParts, token: bytes) -> TokenRecord | None:
        """The record of a token, whether or not it has expired; None when there is none."""
        self._look()
        record = self._records.get(parts.token_id)
        # Without a record the comparison takes as long: the time does not tell which ids exist.
        expected = bytes(32) if record is None else bytes.fromhex(record.sha256)
        is_equal = hmac.compare_digest(expected, token_digest(token))
        return record if is_equal else None

    def current(self, record: TokenRecord) -> TokenRecord | None:
        """The record as it is in the file now; None when the token was revoked."""
        self._look()
        current = self._records.get(record.id)
        return None if current is None or current.sha256 != record.sha256 else current

    def record_with(self, token_id: str) -> TokenRecord | None:
        """The record of this id in the file now, whether or not it has expired."""
        self._look()
        return self._records.get(token_id)

    @property
    def file(self) -> TokenRecords:
        """The file, or what the store has."""
        return self._file

    @property
    def is_stale(self) -> bool:
        """Whether it cannot be known here which tokens hold."""
        return self._file.is_stale

    def _look(self) -> None:
        stamp = self._file.stamp
        if stamp == self._stamp:
            return
        self._stamp = stamp
        if stamp is None:
            _log.error("the file of tokens %s is gone; the last tokens stay", self._file.place)
            return
        try:
            self._records = _by_id(self._file.records())
        except UsageError as error:
            _log.error("the tokens were not loaded again, the last ones stay: %s", error)
        else:
            _log.info("%s has changed: %d tokens", self._file.place, len(self._records))


def _by_id(records: Iterable[TokenRecord]) -> dict[str, TokenRecord]:
    return {record.id: record for record in records}
