"""Bearer tokens, their principals, and the file that they are stored in."""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Final, cast

from toolcrib.errors import UsageError
from toolcrib.runtime.principal import OWNER, ROLES, Principal, Role

SHORTEST_TOKEN: Final = 16
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


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
    """The valid tokens of a server."""

    def __init__(self, tokens: Iterable[Token]) -> None:
        self._tokens = tuple(tokens)
        self._known = tuple(
            (_digest(token.secret.encode()), token.principal) for token in self._tokens
        )
        if not self._known:
            raise UsageError("no token is set, so no client could connect; set at least one")
        if len({digest for digest, _ in self._known}) < len(self._known):
            raise UsageError("duplicate token; each principal needs its own")

    def over(self, transport: str) -> Tokens:
        """The same tokens with the name of a transport in their principals, for the audit."""
        return Tokens(
            replace(token, principal=replace(token.principal, transport=transport))
            for token in self._tokens
        )

    def principal_of(self, secret: bytes) -> Principal | None:
        """The principal of a token; None when it is unknown."""
        digest_sent, match = _digest(secret), None
        # Every token is compared, so that the time does not reveal which one was close.
        for digest, principal in self._known:
            if hmac.compare_digest(digest, digest_sent):
                match = principal
        return match


def _digest(secret: bytes) -> bytes:
    return sha256(secret).digest()


def default_token_file() -> Path:
    """The default path of the token file."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "toolcrib" / "token"


def new_token() -> str:
    """A new random token."""
    return secrets.token_urlsafe(32)


def read_or_create_tokens(path: Path) -> Tokens:
    """The tokens of a file, which is created with a token for the owner if it is missing."""
    if not path.exists():
        _make(path)
    return read_tokens(path)


def read_tokens(path: Path) -> Tokens:
    """The tokens of a file, one per line: a token alone is the owner's, otherwise
    `TOKEN NAME ROLE[,ROLE...] [GROUP[,GROUP...]]`. Raises `UsageError` when other users may read
    the file.
    """
    lines = enumerate(_private_text(path).splitlines(), start=1)
    return Tokens(_token(line, f"{path}:{number}") for number, line in lines if _counts(line))


def owner_token(path: Path) -> str:
    """The owner's token in a token file, for a client on the same machine."""
    for line in _private_text(path).splitlines():
        if _counts(line) and len(line.split()) == 1:
            return line.strip()
    raise UsageError(f"{path} has no token of the owner; add a line with a token alone")


def _counts(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _token(line: str, where: str) -> Token:
    match line.split():
        case [secret]:
            principal = OWNER
        case [secret, name, roles]:
            principal = Principal(name, _roles(roles.split(","), where))
        case [secret, name, roles, groups]:
            principal = Principal(
                name, _roles(roles.split(","), where), frozenset(groups.split(","))
            )
        case _:
            raise UsageError(f"{where}: expected TOKEN, or TOKEN NAME ROLE[,ROLE...] [GROUP,...]")
    try:
        return Token(secret, principal)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def _roles(named: list[str], where: str) -> frozenset[Role]:
    for role in named:
        if role not in ROLES:
            raise UsageError(f"{where}: no role {role[:20]!r}; use {', '.join(ROLES)}")
    return frozenset(cast("list[Role]", named))


def _private_text(path: Path) -> str:
    try:
        # A symbolic link could lead to a file that another user chose.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        raise UsageError(f"the token file {path} cannot be read: {error.strerror}") from None
    with os.fdopen(handle, encoding="ascii", errors="replace") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid():
            raise UsageError(f"the token file {path} must be a regular file of the current user")
        if facts.st_mode & _OTHERS:
            raise UsageError(f"other users may read the token file {path}; run: chmod 600 {path}")
        return file.read()


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
