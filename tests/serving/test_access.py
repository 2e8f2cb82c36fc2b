"""Which ways to log in a server needs before other machines may reach it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcrib.errors import UsageError
from toolcrib.serving.access import create_access
from toolcrib.serving.login import LoginFailed
from toolcrib.serving.oidc import OidcIssuer
from toolcrib.serving.tokens import Token, TokenFile, Tokens, owner_token

ISSUER = OidcIssuer(url="https://login.example.com", default_roles=["caller"], audiences=["crib"])
OTHERS = ["0.0.0.0", "::", "", "192.168.1.5", "crib.example"]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing of whoever runs the tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "toolcrib"


async def test_loopback_needs_nothing(state: Path) -> None:
    """The owner's token is made, and logs in."""
    access = create_access("127.0.0.1", {})
    login = await access.authenticator.login(owner_token(state / "token").encode())

    assert login.principal.may("admin")


@pytest.mark.parametrize("host", [*OTHERS, None])
def test_other_machines_need_a_login_that_somebody_chose(host: str | None, state: Path) -> None:
    """A server that others reach is not opened with a token nobody was told of; nothing is made."""
    with pytest.raises(UsageError, match="token must be set"):
        create_access(host, {})

    assert not state.exists()


@pytest.mark.parametrize("way", ["tokens", "token_file", "tokens_file", "issuers"])
def test_each_way_to_log_in_will_do(way: str, tmp_path: Path) -> None:
    """Tokens in code, the owner's file, the file of hashed tokens with one in it, or an issuer."""
    plain, hashed = tmp_path / "plain", TokenFile(tmp_path / "hashed.json")
    plain.write_text("chosen-token-0123456789")
    plain.chmod(0o600)
    hashed.create("alice", ["caller"])
    options: dict[str, Any] = {
        "tokens": Tokens([Token("chosen-token-0123456789")]),
        "token_file": plain,
        "tokens_file": hashed.path,
        "issuers": [ISSUER],
    }

    assert create_access("0.0.0.0", {way: options[way]})  # pyright: ignore[reportArgumentType]


async def test_tokens_in_code_are_all_there_is(state: Path) -> None:
    """A host that sets its tokens does not open its server to those of a file by accident."""
    issued = TokenFile(state / "tokens.json").create("alice", ["admin"])
    access = create_access("127.0.0.1", {"tokens": Tokens([Token("chosen-token-0123456789")])})

    with pytest.raises(LoginFailed, match="not known"):
        await access.authenticator.login(issued.token.encode())


def test_the_public_name_is_answered_to() -> None:
    """Beside the server's own; another one is refused."""
    access = create_access(
        "0.0.0.0", {"issuers": [ISSUER], "public_url": "https://Crib.Example.com:8443"}
    )

    assert {"crib.example.com", "127.0.0.1"} <= access.allowed.hosts
    assert "evil.example" not in access.allowed.hosts
