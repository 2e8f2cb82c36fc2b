"""Tokens, and the file with the owner's."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from toolcrib.errors import UsageError
from toolcrib.runtime.principal import OWNER
from toolcrib.serving.tokens import (
    Token,
    Tokens,
    new_token,
    owner_token,
    read_or_create_owner_token,
    token_parts,
)

ALICE = "alice-token-0123456789"


def _file(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_token_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    """The file has mode 0600 whatever the umask, and a token that is kept from then on."""
    path = tmp_path / "state" / "token"
    before = os.umask(0)
    try:
        tokens = read_or_create_owner_token(path)
    finally:
        os.umask(before)
    secret = owner_token(path)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert len(secret) >= 43
    assert tokens.principal_of(secret.encode()) is OWNER
    assert read_or_create_owner_token(path).principal_of(secret.encode()) is OWNER
    assert os.listdir(path.parent) == ["token"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_token_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    """A secret that others may have read is none; the error says what to do, without it."""
    path = _file(tmp_path / "token", ALICE, mode)

    with pytest.raises(UsageError, match="chmod 600") as error:
        owner_token(path)

    assert ALICE not in str(error.value)


def test_a_token_file_is_not_a_link(tmp_path: Path) -> None:
    """A link could lead to a file that somebody else chose."""
    real = _file(tmp_path / "real", ALICE)
    link = tmp_path / "token"
    link.symlink_to(real)

    with pytest.raises(UsageError, match="cannot be read"):
        owner_token(link)


def test_a_token_file_has_one_token(tmp_path: Path) -> None:
    """Comments and empty lines aside; it is the credential of one client."""
    path = _file(tmp_path / "token", f"# mine\n\n  {ALICE}\n")

    assert owner_token(path) == ALICE
    assert read_or_create_owner_token(path).principal_of(ALICE.encode()) is OWNER
    assert read_or_create_owner_token(path).principal_of(b"") is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (f"{ALICE} alice caller", "toolcrib tokens create"),
        (f"{ALICE}\n{ALICE[::-1]}", "one token and nothing else"),
        ("short", "at least 16"),
        ("", "one token"),
    ],
)
def test_a_wrong_token_file_is_refused_without_its_secrets(
    tmp_path: Path, text: str, fault: str
) -> None:
    """Nothing is half read, and no error shows a token."""
    with pytest.raises(UsageError, match=fault) as error:
        owner_token(_file(tmp_path / "token", text))

    assert ALICE not in str(error.value)


def test_a_token_does_not_show() -> None:
    """Neither printing nor logging a token gives it away, and a set of them keeps digests only."""
    assert ALICE not in repr(Token(ALICE))
    assert ALICE not in repr(vars(Tokens([Token(ALICE)])))
    with pytest.raises(UsageError, match="not contain spaces"):
        Token(f"{ALICE} {ALICE}")
    with pytest.raises(UsageError, match="no token"):
        Tokens([])
    with pytest.raises(UsageError, match="duplicate token"):
        Tokens([Token(ALICE), Token(ALICE)])


def test_a_generated_token_is_recognisable_and_names_itself() -> None:
    """It begins with `tc_`, has an id that is no secret, and 256 random bits."""
    token = new_token()
    parts = token_parts(token)

    assert new_token() != token
    assert parts is not None
    assert token == f"tc_{parts.token_id}_{parts.secret}"
    assert len(parts.secret) == 43
    for other in (ALICE, token[:-1], f"{token}x", token.upper(), "tc__", ""):
        assert token_parts(other) is None
