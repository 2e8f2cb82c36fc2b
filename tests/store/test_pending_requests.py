"""The quick list of pending requests tells what the store tells, or leaves it to the store."""

import asyncio
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.store.facts import PERSON, request, write
from toolcrib.approval.caller import Caller
from toolcrib.approval.decision import ApprovalRequest, Approve, Ballot, Vote
from toolcrib.approval.quorum import Quorum
from toolcrib.runtime.config import RuntimeConfig
from toolcrib.runtime.runtime import create_runtime
from toolcrib.runtime.service import as_json
from toolcrib.store import SqliteStore
from toolcrib.store.pending_requests import pending_requests
from toolcrib.store.store import ApprovalFiled

NOW = 1_000_000.0
FULL = replace(
    request("a2"),
    deadline=9e9,
    parameters={"type": "object", "properties": {"path": {"type": "string"}}},
    metadata={"cost": 3},
    changes=("version: 1 -> 2",),
    supersedes="a1",
    caller=Caller("ann", "http", is_model=True, groups=frozenset({"ops", "desk"})),
    approvers=(Quorum(2, ("ops",)),),
)


def store_with(path: Path, *requests: ApprovalRequest) -> Path:
    with SqliteStore(path) as store:
        write(store, store.acquire("s"), 1, [ApprovalFiled(each) for each in requests])
    return path


def listed_by_the_service(path: Path) -> list[dict[str, Any]]:
    async def listed() -> Any:
        with SqliteStore(path) as store:
            async with create_runtime(RuntimeConfig(store=store)) as runtime:
                return as_json(await runtime.ask("approvals.list", {}))

    return asyncio.run(listed())["approvals"]


def test_both_tell_the_same(sqlite_path: Path) -> None:
    """Every fact of a bare request and of one that has everything is told alike."""
    path = store_with(sqlite_path, request("a1"), FULL)

    assert pending_requests(path, None, NOW) == listed_by_the_service(path)


def test_one_session_can_be_listed(sqlite_path: Path) -> None:
    """The requests of other sessions are left out."""
    path = store_with(sqlite_path, request("a1"))

    assert [each["approval_id"] for each in pending_requests(path, "s", NOW) or ()] == ["a1"]
    assert pending_requests(path, "t", NOW) == []


def test_an_overdue_request_is_left_to_the_store(sqlite_path: Path) -> None:
    """The store records it as expired; a list of the file alone would show it as pending."""
    path = store_with(sqlite_path, replace(request("a1"), deadline=NOW - 1))

    assert pending_requests(path, None, NOW) is None


def test_votes_are_left_to_the_store(sqlite_path: Path) -> None:
    """The arguments that votes are for are in the vault, which only the store opens."""
    path = store_with(sqlite_path, FULL)
    with SqliteStore(path) as store:
        ballot = Ballot(Approve({"path": "b"}), (Vote(PERSON, 2.0),))
        assert store.vote("a2", FULL.digest, ballot, after=None)

    assert pending_requests(path, None, NOW) is None


@pytest.mark.parametrize(
    "change",
    ["PRAGMA user_version=1", "PRAGMA user_version=99", "UPDATE approvals SET request = '{}'"],
)
def test_another_layout_and_damage_are_left_to_the_store(sqlite_path: Path, change: str) -> None:
    """The store migrates the file, or says what is wrong with it."""
    path = store_with(sqlite_path, request("a1"))
    connection = sqlite3.connect(path)
    connection.execute(change)
    connection.commit()
    connection.close()

    assert pending_requests(path, None, NOW) is None


def test_a_missing_file_is_not_made(tmp_path: Path) -> None:
    """Whoever mistypes a path gets an error from the store, and no empty file."""
    path = tmp_path / "none.sqlite3"

    assert pending_requests(path, None, NOW) is None
    assert not path.exists()
