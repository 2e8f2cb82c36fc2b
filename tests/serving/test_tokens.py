"""Tokens, and the file that they are stored in."""

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
    read_or_create_tokens,
    read_tokens,
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
        tokens = read_or_create_tokens(path)
    finally:
        os.umask(before)
    secret = owner_token(path)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert len(secret) >= 43
    assert tokens.principal_of(secret.encode()) is OWNER
    assert read_or_create_tokens(path).principal_of(secret.encode()) is OWNER
    assert os.listdir(path.parent) == ["token"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_token_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    """A secret that others may have read is none; the error says what to do, without it."""
    path = _file(tmp_path / "token", ALICE, mode)

    with pytest.raises(UsageError, match="chmod 600") as error:
        read_tokens(path)

    assert ALICE not in str(error.value)


def test_a_token_file_is_not_a_link(tmp_path: Path) -> None:
    """A link could lead to a file that somebody else chose."""
    real = _file(tmp_path / "real", ALICE)
    link = tmp_path / "token"
    link.symlink_to(real)

    with pytest.raises(UsageError, match="cannot be read"):
        read_tokens(link)


def test_a_token_file_names_principals_with_roles_and_groups(tmp_path: Path) -> None:
    """A token alone is the owner's; one with a name has the roles and groups beside it."""
    path = _file(
        tmp_path / "token", f"# who\n{'o' * 20}\n\n{ALICE} alice caller,approver ops,dev\n"
    )
    tokens = read_tokens(path)
    alice = tokens.principal_of(ALICE.encode())

    assert tokens.principal_of(b"o" * 20) is OWNER
    assert alice is not None
    assert (alice.name, alice.roles) == ("alice", {"caller", "approver"})
    assert alice.groups == {"ops", "dev"}
    assert tokens.principal_of(b"alice") is None
    assert owner_token(path) == "o" * 20
    with pytest.raises(UsageError, match="no token of the owner"):
        owner_token(_file(tmp_path / "others", f"{ALICE} alice caller\n"))
    assert tokens.principal_of(b"") is None


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (f"{ALICE} alice", "expected TOKEN"),
        (f"{ALICE} alice caller,everything", "no role 'everything'"),
        ("short", "at least 16"),
        ("", "no token"),
        (f"{ALICE}\n{ALICE} alice caller", "duplicate token"),
    ],
)
def test_a_wrong_token_file_is_refused_without_its_secrets(
    tmp_path: Path, line: str, fault: str
) -> None:
    """Nothing is half read, and no error shows a token."""
    with pytest.raises(UsageError, match=fault) as error:
        read_tokens(_file(tmp_path / "token", line))

    assert ALICE not in str(error.value)


def test_a_token_does_not_show() -> None:
    """Neither printing nor logging a token gives it away, and no two are alike."""
    assert ALICE not in repr(Token(ALICE))
    with pytest.raises(UsageError, match="not contain spaces"):
        Token(f"{ALICE} {ALICE}")
    assert new_token() != new_token()
    with pytest.raises(UsageError, match="no token"):
        Tokens([])
