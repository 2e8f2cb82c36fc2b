"""The oldest PostgreSQL that a store works on, and what is said about an older one."""

from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from asyncpg.types import ServerVersion

from tests.servers.postgres import remove_postgres, temporary_postgres
from tests.store.facts import delete_payloads, grant, open_call, request, write
from toolcrib.errors import StoreError
from toolcrib.store import PostgresStore
from toolcrib.store.call_query import CallQuery
from toolcrib.store.cipher import new_key
from toolcrib.store.postgres.database import OLDEST_SERVER
from toolcrib.store.store import ApprovalFiled, CallOpened

PROGRAMS = Path(f"/usr/lib/postgresql/{OLDEST_SERVER}/bin")


@pytest.fixture
def oldest_url() -> Iterator[str]:
    """An empty database of the oldest server, as Debian has it."""
    if not PROGRAMS.is_dir():
        pytest.skip(f"there is no PostgreSQL {OLDEST_SERVER} here")
    server = temporary_postgres(programs=PROGRAMS)
    try:
        yield server.database()
    finally:
        remove_postgres(server)


def test_a_store_works_on_the_oldest_server(oldest_url: str) -> None:
    """Its schema, commits, the inbox, the index, turns, deletion and the weeks."""
    with PostgresStore(oldest_url, key=new_key()) as store:
        lease = store.acquire("s")
        effects = [ApprovalFiled(request()), CallOpened(open_call())]
        write(store, lease, 3, effects)
        store.add_grant(grant(uses_left=1))
        assert store.use_grant("g1", 2.0)
        assert [filed.request.approval_id for filed in store.approvals().items] == ["a1"]
        assert store.calls(CallQuery()).items
        assert store.claim_turns(10) == []
        delete_payloads(store, lease)
        assert store.reindex() >= 0
        store.release(lease)
        store.delete_session("s")
        assert store.sessions().items == ()
        assert store.drop_empty_weeks() == 0


def test_an_older_server_is_refused(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the store opens, in words that say what it needs."""
    old = ServerVersion(OLDEST_SERVER - 1, 9, 0, "final", 0)

    def version(_: object) -> ServerVersion:
        return old

    monkeypatch.setattr(asyncpg.Connection, "get_server_version", version)

    with pytest.raises(StoreError, match=f"is PostgreSQL 14; a store needs {OLDEST_SERVER}"):
        PostgresStore(postgres_url)
