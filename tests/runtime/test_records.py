"""The stored records over the wire: all that is needed to check a ledger elsewhere."""

from __future__ import annotations

import sqlite3
from base64 import b64decode
from pathlib import Path

import pytest
from pydantic_core import from_json, to_json

from tests.runtime.host_runtime import host_tool, serving
from toolcrib.errors import LedgerBroken, Refused
from toolcrib.ledger.record import Record, verify
from toolcrib.runtime.audit_messages import AnchorFacts, Records, StoredRecord
from toolcrib.runtime.principal import Principal
from toolcrib.runtime.runtime import Runtime
from toolcrib.store import SqliteStore
from toolcrib.store.anchors import AnchorFile, AnchorKey, AnchorOptions

ALICE = Principal("alice", frozenset({"caller"}))
BOB = Principal("bob", frozenset({"caller"}))
AUDITOR = Principal("ann", frozenset({"auditor"}))


async def play(runtime: Runtime, calls: int = 3) -> None:
    operations = runtime.as_principal(ALICE)
    await operations.create_session("alice:1")
    for number in range(calls):
        await operations.call_tool("alice:1", "add", {"a": number, "b": 1})


async def every_page(runtime: Runtime, limit: int) -> list[Records]:
    auditor = runtime.as_principal(AUDITOR)
    pages = [await auditor.list_records("alice:1", limit=limit)]
    while pages[-1].records:
        pages.append(await auditor.list_records("alice:1", after=pages[-1].last_seq, limit=limit))
    return pages


def as_record(stored: StoredRecord) -> Record:
    """A record as a reader on the other side of a wire makes it."""
    facts = from_json(to_json(stored))
    encoding, payload = facts.pop("payload_encoding"), facts.pop("payload")
    if payload is not None:
        payload = b64decode(payload) if encoding == "base64" else payload.encode()
    return Record(**facts, payload=payload)


@pytest.mark.parametrize("limit", [1, 3, 500])
async def test_a_reader_computes_every_hash_itself(tmp_path: Path, limit: int) -> None:
    """The pages hold each record once, as it is hashed, and end at the head that they name."""
    with SqliteStore(tmp_path / "crib.sqlite3") as store:
        async with serving(host_tool("add"), store=store) as runtime:
            await play(runtime)
            pages = await every_page(runtime, limit)

    records = [as_record(each) for page in pages for each in page.records]
    head = verify(records)
    assert head is not None
    assert len(records) >= 4
    assert pages[-1].head is not None
    assert (pages[-1].head.seq, pages[-1].head.hash) == (head.seq, head.hash)


async def test_a_change_in_the_store_comes_over_the_wire_as_it_is(tmp_path: Path) -> None:
    """The operation mends and checks nothing: a reader finds what somebody changed."""
    path = tmp_path / "crib.sqlite3"
    with SqliteStore(path) as store:
        async with serving(host_tool("add"), store=store) as runtime:
            await play(runtime)
            with sqlite3.connect(path) as database:
                database.execute(
                    "UPDATE payloads SET payload = X'ff00'"
                    " WHERE id = (SELECT id FROM records WHERE seq = 2)"
                )
            database.close()
            pages = await every_page(runtime, 500)

    records = [as_record(each) for page in pages for each in page.records]
    assert records[1].payload == b"\xff\x00"
    with pytest.raises(LedgerBroken, match="payload of record 2"):
        verify(records)


async def test_deleted_payloads_are_none(tmp_path: Path) -> None:
    """Their digests stay, so that the chain still holds."""
    with SqliteStore(tmp_path / "crib.sqlite3") as store:
        async with serving(host_tool("add"), store=store) as runtime:
            await play(runtime)
            live = runtime.service._sessions.find("alice:1")  # pyright: ignore[reportPrivateUsage]
            assert live is not None
            await live.session.delete_payloads("ann")
            pages = await every_page(runtime, 500)

    records = [as_record(each) for page in pages for each in page.records]
    assert records[0].payload is None
    assert verify(records) is not None


async def test_only_readers_of_the_session_get_its_records() -> None:
    """A foreign session does not exist for a caller."""
    async with serving(host_tool("add")) as runtime:
        await play(runtime, 1)

        assert (await runtime.as_principal(ALICE).list_records("alice:1")).records
        with pytest.raises(Refused) as refused:
            await runtime.as_principal(BOB).list_records("alice:1")
        assert refused.value.kind == "not_found"


async def test_a_reader_learns_which_key_signs_anchors(tmp_path: Path) -> None:
    """The fingerprint, to compare with the key at hand; nothing of where anchors go."""
    key = AnchorKey.create(tmp_path / "anchor.key")
    options = AnchorOptions(targets=[AnchorFile(tmp_path / "anchors")], key=key, every_seconds=30)
    async with serving(host_tool("add"), anchors=options) as runtime:
        await play(runtime, 1)
        page = await runtime.as_principal(ALICE).list_records("alice:1")
    assert page.anchors == AnchorFacts(key=key.fingerprint, every_seconds=30)
    async with serving(host_tool("add")) as runtime:
        await play(runtime, 1)
        assert (await runtime.as_principal(ALICE).list_records("alice:1")).anchors is None
