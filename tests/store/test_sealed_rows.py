"""The key of a store on PostgreSQL replaced by another one."""

import asyncio

from tests.store.facts import PERSON, FakeClock, open_call, request, write
from toolcrib.approval.decision import Approve, Decided
from toolcrib.store import PostgresStore
from toolcrib.store.cipher import Cipher, new_key
from toolcrib.store.postgres.database import PostgresDatabase, Timeouts
from toolcrib.store.postgres.facts import database_health
from toolcrib.store.postgres.upkeep import Upkeep
from toolcrib.store.shared_store import SharedValue
from toolcrib.store.store import ApprovalFiled, CallOpened

LOST, OLD, NEW = new_key(), new_key(), new_key()


def test_the_upkeep_seals_what_lies_under_an_older_key_anew(
    postgres_url: str, clock: FakeClock
) -> None:
    """Then the old key can be taken away: open calls, edited arguments and shared values open
    without it. What was sealed with a key that nobody has stays, and stops nothing.
    """
    arguments = b'{"password":"hush"}'
    with PostgresStore(postgres_url, clock=clock, key=LOST) as store:
        store.put_value(SharedValue("lost", b"x", is_secret=True), after=None)
    with PostgresStore(postgres_url, clock=clock, key=OLD) as store:
        effects = [
            *(CallOpened(open_call(f"c{n}", arguments, has_secrets=True)) for n in range(3)),
            ApprovalFiled(request()),
        ]
        write(store, store.acquire("s"), 1, effects)
        store.decide(Decided("a1", "d1", Approve({"path": "b"}), PERSON, 2.0))
        store.put_value(SharedValue("kept", b"hush", is_secret=True), after=None)
    with PostgresStore(postgres_url, clock=clock, key=NEW) as store:
        store.put_value(SharedValue("new", b"new", is_secret=True), after=None)

    cipher = Cipher(f"{NEW},{OLD}")
    _, old = cipher.key_names
    assert database_health(postgres_url, f"{NEW},{OLD}").old_keys == (old,)
    database = PostgresDatabase(postgres_url, Timeouts(), 1)
    asyncio.run(Upkeep(database, clock, cipher).run())

    health = database_health(postgres_url, f"{NEW},{OLD}")
    assert (health.old_keys, health.unknown_keys) == ((), Cipher(LOST).key_names)
    with PostgresStore(postgres_url, clock=clock, key=NEW) as store:
        assert [call.arguments for call in store.open_calls("s")] == [arguments] * 3
        filed = store.approval("a1")
        assert filed is not None
        assert filed.decided is not None
        assert filed.decided.decision == Approve({"path": "b"})
        values = [store.value(name) for name in ("kept", "new")]
        assert [value and value.body for value in values] == [b"hush", b"new"]
