"""The file of hashed tokens: what it keeps, and how a running server follows it."""

from __future__ import annotations

import json
import logging
import os
import stat
import threading
from pathlib import Path

import pytest

from toolcrib.errors import UsageError
from toolcrib.serving.login import Authenticator, LoginFailed
from toolcrib.serving.tokens import TokenFile, WatchedTokens

DAY = 86_400.0


class Time:
    """A wall clock and a stopwatch that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Office:
    """A file of tokens, and a server that watches it."""

    def __init__(self, path: Path) -> None:
        self.time = Time()
        self.file = TokenFile(path, clock=self.time)
        self.watched = WatchedTokens(self.file)
        self.authenticator = Authenticator(token_file=self.watched, clock=self.time)

    async def fault(self, token: str) -> str | None:
        try:
            await self.authenticator.login(token.encode())
        except LoginFailed as failure:
            return failure.fault
        return None


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path / "state" / "tokens.json")


async def test_a_token_is_kept_as_a_hash_only(office: Office) -> None:
    """Who steals the file has no token: neither the token nor its secret part is in it, and the
    hash that is in it does not log in.
    """
    issued = office.file.create("alice", ["caller", "approver"], groups=["eng"])
    text = office.file.path.read_text()

    assert issued.token not in text
    assert issued.token.rpartition("_")[2] not in text
    assert issued.record.sha256 in text
    assert await office.fault(issued.record.sha256) == "unknown"
    assert await office.fault(f"tc_{issued.record.id}_{issued.record.sha256[:43]}") == "unknown"
    login = await office.authenticator.login(issued.token.encode())
    assert login.principal.name == "alice"
    assert login.principal.roles == {"caller", "approver"}
    assert login.principal.groups == {"eng"}
    assert not login.principal.may_approve_own


def test_the_file_is_private_and_replaced_whole(office: Office) -> None:
    """Mode 0600 whatever the umask, no draft left, and each change is another file."""
    before = os.umask(0)
    try:
        office.file.create("alice", ["caller"])
        first = office.file.path.stat().st_ino
        office.file.create("bob", ["caller"])
    finally:
        os.umask(before)

    assert stat.S_IMODE(office.file.path.stat().st_mode) == 0o600
    assert office.file.path.stat().st_ino != first
    assert sorted(os.listdir(office.file.path.parent)) == ["tokens.json", "tokens.json.lock"]


def test_two_commands_at_once_lose_nothing(office: Office) -> None:
    """Writers take turns: every token that was printed is in the file."""
    ids: list[str] = []

    def create(number: int) -> None:
        file = TokenFile(office.file.path)
        for turn in range(5):
            ids.append(file.create(f"p{number}.{turn}", ["caller"]).record.id)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(ids) == sorted(record.id for record in office.file.records())
    assert len(ids) == 20


async def test_a_new_and_a_revoked_token_take_effect_without_a_restart(office: Office) -> None:
    """Newcomers 6: a new token is let in at once, a revoked one is refused at once, and what it had
    open no longer holds.
    """
    issued = office.file.create("alice", ["caller"])
    assert await office.fault(issued.token) is None
    login = await office.authenticator.login(issued.token.encode())
    assert office.authenticator.is_valid(login)

    office.file.revoke("alice")

    assert await office.fault(issued.token) == "unknown"
    assert not office.authenticator.is_valid(login)


async def test_a_token_expires(office: Office) -> None:
    """At its time it is refused as expired, and its streams no longer hold."""
    issued = office.file.create("alice", ["caller"], lifetime_seconds=90 * DAY)
    login = await office.authenticator.login(issued.token.encode())
    office.time.now += 90 * DAY - 1
    assert await office.fault(issued.token) is None
    assert office.authenticator.is_valid(login)

    office.time.now += 1

    assert await office.fault(issued.token) == "expired"
    assert not office.authenticator.is_valid(login)


async def test_rotation_replaces_the_secret_and_keeps_the_rights(office: Office) -> None:
    """The new token has the same rights and lifetime; the old one lives for the grace time."""
    old = office.file.create("ci", ["caller"], groups=["bots"], lifetime_seconds=10 * DAY)
    login = await office.authenticator.login(old.token.encode())
    office.time.now += DAY
    new = office.file.rotate("ci", grace_seconds=3_600)
    office.time.now += 2

    assert await office.fault(old.token) is None
    assert office.authenticator.is_valid(login)
    assert (await office.authenticator.login(new.token.encode())).principal == login.principal
    assert new.record.expires_at == office.time.now - 2 + 10 * DAY
    office.time.now += 3_600
    assert await office.fault(old.token) == "expired"
    assert not office.authenticator.is_valid(login)
    assert await office.fault(new.token) is None

    newest = office.file.rotate(new.record.id)
    office.time.now += 1
    assert await office.fault(new.token) == "unknown"
    assert await office.fault(newest.token) is None


async def test_a_change_of_rights_ends_what_the_token_has_open(office: Office) -> None:
    """A login was made with certain roles; with others it has to be made again."""
    issued = office.file.create("alice", ["admin"])
    login = await office.authenticator.login(issued.token.encode())
    content = json.loads(office.file.path.read_text())
    content["tokens"][0]["roles"] = ["caller"]
    office.file.path.write_text(json.dumps(content))
    office.time.now += 1

    assert not office.authenticator.is_valid(login)
    assert (await office.authenticator.login(issued.token.encode())).principal.roles == {"caller"}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"version": 2, "tokens": []}',
        '{"version": 1, "tokens": [{"id": "x"}]}',
        '{"version": 1, "tokens": [], "more": 1}',
    ],
)
async def test_a_broken_file_changes_nothing_and_is_logged(
    office: Office, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The last tokens stay, the log says why, and once is enough."""
    issued = office.file.create("alice", ["caller"])
    assert await office.fault(issued.token) is None
    office.file.path.write_text(text)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            office.time.now += 1
            assert await office.fault(issued.token) is None

    assert [record.getMessage() for record in caplog.records] == [
        next(message for message in caplog.messages if "the last ones stay" in message)
    ]
    with pytest.raises(UsageError, match="not a file of tokens"):
        office.file.create("bob", ["caller"])


def test_a_file_that_names_the_owner_or_an_id_twice_is_refused(office: Office) -> None:
    """Whoever edits it cannot make a token that shares the owner's sessions."""
    office.file.create("alice", ["caller"])
    content = json.loads(office.file.path.read_text())
    content["tokens"][0]["name"] = "owner"
    office.file.path.write_text(json.dumps(content))
    with pytest.raises(UsageError, match="the server's owner"):
        office.file.records()
    content["tokens"][0]["name"] = "alice"
    content["tokens"] *= 2
    office.file.path.write_text(json.dumps(content))
    with pytest.raises(UsageError, match="one token id twice"):
        office.file.records()


async def test_a_file_that_is_gone_or_open_to_others_changes_nothing(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither lets anybody in or out."""
    issued = office.file.create("alice", ["caller"])
    assert await office.fault(issued.token) is None
    office.file.path.chmod(0o644)
    office.time.now += 1
    assert await office.fault(issued.token) is None
    assert "chmod 600" in caplog.text
    office.file.path.unlink()
    office.time.now += 1
    assert await office.fault(issued.token) is None
    assert "is gone" in caplog.text


@pytest.mark.parametrize(
    ("name", "roles", "groups"),
    [
        ("", ["caller"], []),
        ("issuer:alice", ["caller"], []),
        ("owner", ["caller"], []),
        ("local", ["caller"], []),
        ("a b", ["caller"], []),
        ("alice", [], []),
        ("alice", ["root"], []),
        ("alice", ["caller"], ["a b"]),
    ],
)
def test_a_malformed_principal_is_refused(
    office: Office, name: str, roles: list[str], groups: list[str]
) -> None:
    """Nothing is written; a colon is for principals of issuers, so that no name is shared."""
    with pytest.raises(UsageError):
        office.file.create(name, roles, groups=groups)  # pyright: ignore[reportArgumentType]

    assert office.file.records() == ()


def test_what_is_not_there_cannot_be_revoked(office: Office) -> None:
    """And one name with two tokens is not rotated by guessing."""
    first = office.file.create("alice", ["caller"])
    office.file.create("alice", ["caller"])
    with pytest.raises(UsageError, match="no such token"):
        office.file.revoke("bob")
    with pytest.raises(UsageError, match="several tokens"):
        office.file.rotate("alice")

    assert office.file.revoke(first.token) == (first.record,)
    assert len(office.file.revoke("alice")) == 1
    assert office.file.records() == ()
