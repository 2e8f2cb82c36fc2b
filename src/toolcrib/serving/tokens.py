"""Bearer tokens of a server, and the file with the owner's token."""

from __future__ import annotations

import hmac
import os
import re
import secrets
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from toolcrib.errors import UsageError
from toolcrib.runtime.principal import OWNER, Principal

SHORTEST_TOKEN: Final = 16
TOKEN_PREFIX: Final = "tc_"
"""How every generated token begins, so that people and secret scanners recognise one."""
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_GENERATED: Final = re.compile(r"tc_([a-z2-7]{12})_([A-Za-z0-9_-]{43})")
_ID_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz234567"


class TokenParts(NamedTuple):
    """A generated token: a public id that names it, and the secret."""

    token_id: str
    secret: str


def new_token() -> str:
    """A new random token: `tc_`, its id, and 256 random bits."""
    token_id = "".join(secrets.choice(_ID_ALPHABET) for _ in range(12))
    return f"{TOKEN_PREFIX}{token_id}_{secrets.token_urlsafe(32)}"


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


def private_text(path: Path, what: str) -> str:
    """The text of a file that only this user can read. Raises `UsageError` otherwise."""
    try:
        # A symbolic link could lead to a file that another user chose.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise UsageError(f"the {what} {path} cannot be read: {error.strerror}") from None
    with os.fdopen(handle, encoding="utf-8", errors="replace") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid():
            raise UsageError(f"the {what} {path} must be a regular file of the current user")
        if facts.st_mode & _OTHERS:
            raise UsageError(f"other users may read the {what} {path}; run: chmod 600 {path}")
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
