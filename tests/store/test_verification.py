"""What `verify_session` finds: changes of records, and of what lies beside them."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from toolcrib import Executor, Session, SqliteStore, tool
from toolcrib.errors import InvalidState, LedgerBroken
from toolcrib.store.verification import VerifiedSession, verify_session


@tool(max_result_chars=10)
async def long_story() -> str:
    """Tell a long story."""
    return "once upon a time, " * 20


async def tell(session: Session) -> None:
    outcome = await Executor(session, [long_story]).call("long_story")
    assert outcome.artifact_id is not None


@pytest.fixture
async def path(sqlite_path: Path) -> Path:
    """A store with one closed session, `s`, that has an artifact and a tool to ask about."""
    with SqliteStore(sqlite_path) as store:
        async with await Session.open(store, "s", need_user_approve_tools=["wipe"]) as session:
            await tell(session)
    return sqlite_path


def edit(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(statement).rowcount > 0


def check(path: Path) -> VerifiedSession:
    with SqliteStore(path) as store:
        return verify_session(store, "s")


def test_a_whole_session_is_counted(path: Path) -> None:
    """What was checked is said: records and artifacts."""
    checked = check(path)

    assert checked.head is not None
    assert (checked.records, checked.artifacts) == (checked.head.seq, 1)
    assert checked.deleted_payloads == 0


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("UPDATE artifacts SET text = replace(text, 'once', 'never')", "was changed"),
        ("DELETE FROM artifacts", "is missing"),
        ("UPDATE artifacts SET session_id = 'other'", "is missing"),
    ],
)
def test_an_artifact_that_was_touched_is_found(path: Path, statement: str, fault: str) -> None:
    """Security, found afterwards: bytes of an artifact edited or deleted in the database."""
    edit(path, statement)

    with pytest.raises(LedgerBroken, match=f"'artifact_.*', which record 3 names, {fault}"):
        check(path)


def test_another_owner_is_found(path: Path) -> None:
    """Who owns a session cannot be changed in the database unnoticed."""
    edit(path, "UPDATE sessions SET owner = 'mallory'")

    with pytest.raises(LedgerBroken, match="settings of the session or its owner"):
        check(path)


@pytest.mark.parametrize("settings", ['{"need_user_approve_tools": []}', "{}"])
def test_settings_that_were_changed_are_found(path: Path, settings: str) -> None:
    """A tool taken off the approval list in the database is found by its digest in the ledger."""
    edit(path, f"UPDATE sessions SET settings = CAST('{settings}' AS BLOB)")

    with pytest.raises(LedgerBroken, match="settings of the session or its owner"):
        check(path)


async def test_changed_settings_are_found_after_the_session_went_on(path: Path) -> None:
    """The next writer cannot launder them: it records what it found, and that does not follow."""
    edit(path, "UPDATE sessions SET settings = CAST('{}' AS BLOB)")
    with SqliteStore(path) as store:
        async with await Session.open(store, "s", need_user_approve_tools=["wipe"]):
            pass

    with pytest.raises(LedgerBroken, match="settings of the session or its owner"):
        check(path)


async def test_settings_may_change_on_record(path: Path) -> None:
    """What the session itself saves verifies, turns and all."""
    with SqliteStore(path) as store:
        async with await Session.open(store, "s") as session:
            session.need_user_approve_tools.append("drop")
            session.set_host_setting("prompt", "hello")
            with Executor(session, []).turn():
                session.verify()
        assert verify_session(store, "s").head == store.head("s")


async def test_deleted_artifacts_need_a_deletion_on_record(path: Path) -> None:
    """After `delete_payloads` neither payloads nor artifacts are missed; later ones are."""
    with SqliteStore(path) as store:
        async with await Session.open(store, "s") as session:
            await session.delete_payloads("ann")
            await tell(session)
        checked = verify_session(store, "s")
        assert (checked.deleted_payloads > 0, checked.artifacts) == (True, 1)
    edit(path, "DELETE FROM artifacts")

    with pytest.raises(LedgerBroken, match="is missing"):
        check(path)


async def test_readers_do_not_leave_out_what_was_taken_away(path: Path) -> None:
    """Security 8: a transcript, the events and a reducer fail rather than skip a record."""
    edit(path, "DELETE FROM payloads WHERE id = 3")

    with SqliteStore(path) as store:
        async with await Session.open(store, "s") as session:
            with pytest.raises(LedgerBroken, match="payload of record 3 of session 's' is missing"):
                session.transcript()
            with pytest.raises(LedgerBroken, match="payload of record 3"):
                list(session.events())


async def test_a_state_with_another_artifact_is_refused() -> None:
    """A state that somebody edited does not go on."""
    from dataclasses import replace

    session = Session("s")
    await tell(session)
    state = session.export_state()
    (artifact,) = state.artifacts

    for artifacts in ((), (replace(artifact, text="never"),)):
        with pytest.raises(InvalidState, match="not what its record names"):
            Session().with_state(replace(state, artifacts=artifacts))
    Session().with_state(state).verify()
