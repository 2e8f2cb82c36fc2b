"""`toolcrib store`: an operator backs up, restores, upgrades and prunes a store."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.store.facts import open_call, write
from tests.store.test_migrations import make_version_2
from toolcrib.cli.app import app
from toolcrib.ledger.events import PayloadsDeleted
from toolcrib.store import SqliteStore
from toolcrib.store.cipher import Cipher
from toolcrib.store.sqlite_schema import SCHEMA_VERSION
from toolcrib.store.store import CallOpened


@pytest.fixture
def crib(sqlite_path: Path) -> Iterator[Path]:
    """A store that a server has open: `done` is over, `calling` has an open call, `open` is held.
    Their records are of 1970.
    """
    with SqliteStore(sqlite_path, clock=lambda: 1.0) as store:
        for session_id in ("done", "calling", "open"):
            effects = [CallOpened(open_call())] if session_id == "calling" else []
            lease = store.acquire(session_id)
            write(store, lease, 3, effects)
            store.release(lease)
    with SqliteStore(sqlite_path) as server:
        server.acquire("open", create=False)
        yield sqlite_path


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_backup_and_restore_while_a_server_writes(crib: Path) -> None:
    """Newcomers C, no backup command: one file, checked, and a store again."""
    backup, restored = crib.with_name("b"), crib.with_name("r.sqlite3")

    done = invoke("store", "backup", backup, "--store", crib)
    assert "3 sessions, 9 records" in done.stdout
    assert json.loads(invoke("store", "restore", backup, "--store", restored, "--json").stdout) == {
        "path": str(restored),
        "schema": SCHEMA_VERSION,
        "sessions": 3,
        "records": 9,
        "open_calls": 1,
        "size": backup.stat().st_size,
    }
    assert invoke("audit", "verify", "--store", restored).exit_code == 0


def test_nothing_is_overwritten(crib: Path) -> None:
    """A second backup to the same file is refused, and so is a restore over a store."""
    backup = crib.with_name("b")
    invoke("store", "backup", backup, "--store", crib)

    for arguments in (["backup", backup], ["restore", backup]):
        done = invoke("store", *arguments, "--store", crib)
        assert (done.exit_code, "is there already" in done.stderr) == (1, True)


def test_info_in_numbers(crib: Path) -> None:
    """For people and for programs."""
    facts = json.loads(invoke("store", "info", "--store", crib, "--json").stdout)
    assert (facts["sessions"], facts["records"], facts["open_calls"]) == (3, 9, 1)
    assert (
        f"schema:     {SCHEMA_VERSION} of {SCHEMA_VERSION}"
        in invoke("store", "info", "--store", crib).stdout
    )


def test_an_upgrade_is_announced_and_done(sqlite_path: Path) -> None:
    """Newcomers C, no word on migrations: --check changes nothing, without it the file is new."""
    make_version_2(sqlite_path)

    checked = invoke("store", "migrate", "--check", "--store", sqlite_path)
    assert (checked.exit_code, "has schema 2" in checked.stdout) == (1, True)
    assert "back it up first" in checked.stderr
    done = invoke("store", "migrate", "--store", sqlite_path)
    assert f"upgraded from schema 2 to {SCHEMA_VERSION}" in done.stdout
    assert invoke("store", "migrate", "--check", "--store", sqlite_path).exit_code == 0


def test_prune_says_what_it_left(crib: Path) -> None:
    """Newcomers C, no retention: what is old goes, what is open or waits is named."""
    planned = invoke("store", "prune", "--older-than", "90d", "--dry-run", "--store", crib)
    assert planned.stdout.split() == ["done"]
    assert "would delete payloads of 1 sessions, 3 records" in planned.stderr

    done = invoke("store", "prune", "--older-than", "90d", "--by", "ada", "--store", crib)

    assert done.stdout.split() == ["done"]
    assert "because open: open" in done.stderr
    assert "because waiting: calling" in done.stderr
    with SqliteStore(crib) as store:
        *_, last = store.records("done")
        assert isinstance(last.event, PayloadsDeleted)
        assert last.event.actor.name == "ada"
    assert invoke("audit", "verify", "--store", crib, "--session", "done").exit_code == 0


def test_prune_of_whole_sessions(crib: Path) -> None:
    """As JSON, for a job that runs by itself."""
    done = invoke("store", "prune", "--older-than", "90d", "--sessions", "--store", crib, "--json")

    assert json.loads(done.stdout) == {
        "sessions": ["done"],
        "records": 3,
        "open": ["open"],
        "waiting": ["calling"],
        "dry_run": False,
    }


def test_a_wrong_age_is_refused(crib: Path) -> None:
    """Nothing is deleted by a typing error."""
    done = invoke("store", "prune", "--older-than", "soon", "--store", crib)

    assert done.exit_code == 2
    assert "is not a duration" in done.stderr


def test_a_new_key_is_printed_for_a_shared_store() -> None:
    """One key, which a store takes; each time another."""
    first, second = (invoke("store", "key").stdout for _ in range(2))
    assert first != second
    assert Cipher(first).has_key
