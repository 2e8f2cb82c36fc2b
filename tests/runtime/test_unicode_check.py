"""Text that is no Unicode text, and ids that no row can have: refused alike on every store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.host_runtime import host_tool, model, refusal, serving
from toolcrib import MemoryStore, SqliteStore
from toolcrib.runtime.messages import OneSession
from toolcrib.runtime.unicode_check import place_of_surrogate
from toolcrib.store import PostgresStore, Store
from toolcrib.store.cipher import new_key
from toolcrib.testing import says

HALF = "a\ud800b"
NUL = "a\0b"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, sqlite_path: Path) -> Iterator[Store]:
    """Every store that ships, in turn."""
    store: Store
    match request.param:
        case "memory":
            store = MemoryStore()
        case "sqlite":
            store = SqliteStore(sqlite_path)
        case _:
            store = PostgresStore(request.getfixturevalue("postgres_url"), key=new_key())
    yield store
    store.close()


async def test_half_of_a_surrogate_pair_is_invalid(store: Store) -> None:
    """In a prompt, in arguments and in an id: the refusal names the place, and nothing
    is written.
    """
    async with serving(host_tool("add"), store=store, adapter=model([says("5")])) as runtime:
        session_id = (await runtime.ask("session.create", {})).session_id
        count = len(list(store.records(session_id)))
        call = {"session_id": session_id, "name": "add"}
        asked: list[tuple[str, dict[str, Any], str]] = [
            ("prompt.send", {"session_id": session_id, "text": HALF}, "/text"),
            ("tools.call", {**call, "arguments": {"a": [1, HALF]}}, "/arguments/a/1"),
            ("tools.call", {**call, "arguments": {HALF: 1}}, "/arguments"),
            ("tools.call", {**call, "call_id": HALF}, "/call_id"),
            ("session.create", {"metadata": {"who": HALF}}, "/metadata/who"),
            ("session.get", {"session_id": HALF}, "/session_id"),
            ("approvals.get", {"approval_id": HALF}, "/approval_id"),
        ]
        for operation, params, place in asked:
            refused = await refusal(runtime, operation, params)
            assert refused.kind == "invalid"
            assert f"{operation}: {place}: the text has half" in str(refused)
        assert len(list(store.records(session_id))) == count


async def test_an_id_with_the_character_0_is_not_found(store: Store) -> None:
    """No row has it. A new id that has it is refused."""
    async with serving(host_tool("add"), store=store, adapter=model([says("5")])) as runtime:
        session_id = (await runtime.ask("session.create", {})).session_id
        decision = {"approval_id": NUL, "digest": "d", "decision": "approve"}
        lookups: list[tuple[str, dict[str, Any]]] = [
            *(
                (operation, {"session_id": NUL})
                for operation in ("session.get", "session.resume", "session.fork", "session.close")
            ),
            *(
                (operation, {"session_id": NUL})
                for operation in ("session.delete", "events.list", "records.list", "prompt.cancel")
            ),
            ("prompt.send", {"session_id": NUL, "text": "how many?"}),
            ("tools.call", {"session_id": NUL, "name": "add", "arguments": {}}),
            ("approvals.get", {"approval_id": NUL}),
            ("approvals.decide", decision),
            ("grants.get", {"grant_id": NUL}),
            ("grants.revoke", {"grant_id": NUL}),
        ]
        for operation, params in lookups:
            assert (await refusal(runtime, operation, params)).kind == "not_found", operation
        for owner in (NUL, "nobody"):
            assert (await runtime.ask("session.list", {"owner": owner})).sessions == []
        call = {"session_id": session_id, "name": "add", "arguments": {"a": 1, "b": 2}}
        created = await refusal(runtime, "session.create", {"session_id": NUL})
        called = await refusal(runtime, "tools.call", {**call, "call_id": NUL})
        assert (created.kind, called.kind) == ("invalid", "conflict")
        # In a text it is a character like any other.
        text = {"session_id": session_id, "text": NUL}
        assert (await runtime.ask("prompt.send", text)).status == "completed"


def test_the_place_of_a_text_is_its_json_pointer() -> None:
    """However deep, and in parameters that were typed already."""
    deep: Any = HALF
    for _ in range(5_000):
        deep = [deep]
    assert place_of_surrogate({"a": deep}) == "/a" + "/0" * 5_000
    assert place_of_surrogate(OneSession(session_id=HALF)) == "/session_id"
    assert place_of_surrogate({"a": ["\U0001f600", "\0", 1, None]}) is None
