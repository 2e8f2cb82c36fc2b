"""Who a bearer token stands for, and the file that tokens are kept in."""

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
from toolcrib.runtime.principal import OWNER, SCOPES, Principal, Scope

SHORTEST_TOKEN: Final = 16
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class Token:
    """A secret and who holds it. The secret shows nowhere."""

    secret: str = field(repr=False)
    principal: Principal = OWNER

    def __post_init__(self) -> None:
        if len(self.secret) < SHORTEST_TOKEN or not self.secret.isascii():
            raise UsageError(f"a token has at least {SHORTEST_TOKEN} ASCII characters")
        if any(each.isspace() for each in self.secret):
            raise UsageError("a token has no spaces")


class Tokens:
    """The tokens that are let in."""

    def __init__(self, tokens: Iterable[Token]) -> None:
        self._given = tuple(tokens)
        self._known = tuple((_digest(each.secret.encode()), each.principal) for each in self._given)
        if not self._known:
            raise UsageError("no token is given, so nobody could come in; give at least one")
        if len({digest for digest, _ in self._known}) < len(self._known):
            raise UsageError("a token is given twice; each principal needs its own")

    def over(self, transport: str) -> Tokens:
        """The same tokens, for those who come in this way: the audit says so."""
        return Tokens(
            replace(each, principal=replace(each.principal, transport=transport))
            for each in self._given
        )

    def principal_of(self, secret: bytes) -> Principal | None:
        """Who holds this token; None when nobody does."""
        shown, found = _digest(secret), None
        # Every token is compared, so that the time tells nothing of which one was near.
        for digest, principal in self._known:
            if hmac.compare_digest(digest, shown):
                found = principal
        return found


def _digest(secret: bytes) -> bytes:
    return sha256(secret).digest()


def default_token_file() -> Path:
    """Where the owner's token is kept unless said otherwise."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "toolcrib" / "token"


def new_token() -> str:
    """A token that cannot be guessed."""
    return secrets.token_urlsafe(32)


def read_or_create_tokens(path: Path) -> Tokens:
    """The tokens of a file, which is made with one for the owner when it is not there."""
    if not path.exists():
        _make(path)
    return read_tokens(path)


def read_tokens(path: Path) -> Tokens:
    """The tokens of a file: one a line, either a token alone, which is the owner's, or
    `TOKEN NAME SCOPE[,SCOPE...]`. Raises `UsageError` when others than its owner may read it.
    """
    lines = enumerate(_private_text(path).splitlines(), start=1)
    return Tokens(_token(line, f"{path}:{number}") for number, line in lines if _counts(line))


def owner_token(path: Path) -> str:
    """The secret of the owner in a file of tokens, for a client on the same machine."""
    for line in _private_text(path).splitlines():
        if _counts(line) and len(line.split()) == 1:
            return line.strip()
    raise UsageError(f"{path} has no token of the owner: a line with a token alone")


def _counts(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _token(line: str, where: str) -> Token:
    match line.split():
        case [secret]:
            principal = OWNER
        case [secret, name, scopes]:
            principal = Principal(name, _scopes(scopes.split(","), where))
        case _:
            raise UsageError(f"{where}: expected TOKEN, or TOKEN NAME SCOPE[,SCOPE...]")
    try:
        return Token(secret, principal)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def _scopes(named: list[str], where: str) -> frozenset[Scope]:
    for each in named:
        if each not in SCOPES:
            raise UsageError(f"{where}: no scope {each[:20]!r}; there are {', '.join(SCOPES)}")
    return frozenset(cast("list[Scope]", named))


def _private_text(path: Path) -> str:
    try:
        # A link could lead to a file that somebody else chose.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        raise UsageError(f"the token file {path} cannot be read: {error.strerror}") from None
    with os.fdopen(handle, encoding="ascii", errors="replace") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid():
            raise UsageError(f"the token file {path} must be a file of the user who serves")
        if facts.st_mode & _OTHERS:
            raise UsageError(f"others may read the token file {path}; run: chmod 600 {path}")
        return file.read()


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(new_token() + "\n")
        # The file appears whole or not at all; who comes second takes the first one's token.
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
