"""Anchors: signed heads that show what a chain alone cannot."""

from __future__ import annotations

import logging
import sqlite3
import stat
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.runtime.host_runtime import call, host_tool, new_session, serving
from tests.store.facts import FakeClock, write
from toolcrib import SqliteStore
from toolcrib.errors import LedgerBroken, UsageError
from toolcrib.ledger.events import ToolOutput
from toolcrib.ledger.record import GENESIS, Head, Record, seal
from toolcrib.store.anchors import (
    FIRST,
    Anchor,
    AnchorFile,
    AnchorHook,
    AnchorKey,
    AnchorOptions,
    Anchors,
    PublicKey,
    read_anchors,
)
from toolcrib.store.store import Commit
from toolcrib.store.verification import verify_session


@pytest.fixture
def key(tmp_path: Path) -> AnchorKey:
    return AnchorKey.create(tmp_path / "key")


@pytest.fixture
def public(tmp_path: Path, key: AnchorKey) -> PublicKey:
    return PublicKey(tmp_path / "key.pub")


class TestKeys:
    def test_a_key_is_for_its_owner_only(self, tmp_path: Path, key: AnchorKey) -> None:
        """It is made so, read back, and refused when others can read it."""
        path = tmp_path / "key"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert AnchorKey.load(path).fingerprint == key.fingerprint

        path.chmod(0o640)
        with pytest.raises(UsageError, match=r"others .* can read .*\(mode 640\); run: chmod 600"):
            AnchorKey.load(path)

    def test_a_key_is_not_overwritten(self, tmp_path: Path, key: AnchorKey) -> None:
        """Who loses a key can sign nothing more that others believe."""
        with pytest.raises(UsageError, match="is there already"):
            AnchorKey.create(tmp_path / "key")

    def test_what_is_no_key_is_refused(self, tmp_path: Path) -> None:
        """With what to do."""
        path = tmp_path / "text"
        path.write_text("hello")
        path.chmod(0o600)
        with pytest.raises(UsageError, match="audit keygen"):
            AnchorKey.load(path)
        with pytest.raises(UsageError, match=r"give the \.pub file"):
            PublicKey(path)

    def test_a_key_that_is_not_there_is_told_with_the_way_to_make_it(self, tmp_path: Path) -> None:
        """A path of the project file that leads nowhere is no riddle of the system's."""
        with pytest.raises(UsageError, match=r"there is no signing key .*: toolcrib audit keygen"):
            AnchorKey.load(tmp_path / "none")


def anchored(key: AnchorKey | None, count: int = 3) -> list[str]:
    lines: list[str] = []
    previous = FIRST
    for number in range(1, count + 1):
        anchor = Anchor(number, 1.5, previous, (Head("s", number, "a" * 64),))
        anchor = anchor if key is None else anchor.signed(key)
        previous = anchor.digest
        lines.append(anchor.line())
    return lines


class TestReading:
    def test_anchors_come_back_as_they_were(self, key: AnchorKey, public: PublicKey) -> None:
        """Number, time, heads and signature."""
        anchors = read_anchors(anchored(key), public)

        assert [anchor.number for anchor in anchors] == [1, 2, 3]
        assert anchors[2].heads == (Head("s", 3, "a" * 64),)
        assert anchors[0].key == public.fingerprint

    @pytest.mark.parametrize("part", ["number", "at", "heads", "previous", "key", "signature"])
    def test_a_changed_anchor_is_found(self, key: AnchorKey, public: PublicKey, part: str) -> None:
        """Whatever was changed in it."""
        lines = anchored(key)
        changes = {
            "number": ('"number":2', '"number":3'),
            "at": ("1.5", "2.5"),
            "heads": ("s 2 a", "s 1 a"),
            "previous": ('"previous":"', '"previous":"0'),
            "key": ("ed25519:", "ed25519:0"),
            "signature": ('"signature":"', '"signature":"A'),
        }
        lines[1] = lines[1].replace(*changes[part])

        with pytest.raises(LedgerBroken, match="anchor"):
            read_anchors(lines, public)

    @pytest.mark.parametrize("left", [[0, 2], [1, 2], [1, 0, 2]])
    def test_a_missing_anchor_is_found(
        self, key: AnchorKey, public: PublicKey, left: list[int]
    ) -> None:
        """All but the last one, which the ledger itself may show."""
        lines = anchored(key)
        with pytest.raises(LedgerBroken, match="does not follow anchor"):
            read_anchors([lines[place] for place in left], public)

    def test_another_key_or_none_is_found(self, tmp_path: Path, public: PublicKey) -> None:
        """Who can write the file can make no anchor."""
        other = AnchorKey.create(tmp_path / "other")
        with pytest.raises(LedgerBroken, match="signed with another key"):
            read_anchors(anchored(other), public)
        with pytest.raises(LedgerBroken, match="is not signed"):
            read_anchors(anchored(None), public)
        with pytest.raises(LedgerBroken, match="not an anchor"):
            read_anchors(["s 1 hash"], public)


class TestAttacks:
    """What a chain alone does not show is found against an anchor."""

    @pytest.fixture
    def heads(self, sqlite_path: Path, tmp_path: Path, key: AnchorKey) -> list[Head]:
        """Of a store with the sessions `s` and `t`, of five records each."""
        with SqliteStore(sqlite_path) as store:
            for session_id in ("s", "t"):
                lease = store.acquire(session_id)
                write(store, lease, 5)
                store.release(lease)
            file = AnchorFile(tmp_path / "anchors")
            assert Anchors(store, file, key, FakeClock()).send_changes() is not None
        lines = (tmp_path / "anchors").read_text().splitlines()
        anchors = read_anchors(lines, PublicKey(tmp_path / "key.pub"))
        return [head for anchor in anchors for head in anchor.heads]

    def test_a_rewritten_ledger_is_found(self, sqlite_path: Path, heads: list[Head]) -> None:
        """Though its own chain is whole and of the same length."""
        with SqliteStore(sqlite_path) as store:
            store.delete_session("s")
            store.commit(store.acquire("s"), Commit(forged(5), ()))

            assert verify_session(store, "s").records == 5
            with pytest.raises(LedgerBroken, match="the ledger was rewritten"):
                verify_session(store, "s", [head for head in heads if head.session_id == "s"])

    def test_a_cut_end_is_found(self, sqlite_path: Path, heads: list[Head]) -> None:
        """Though the session's row was made to fit."""
        with closing(sqlite3.connect(sqlite_path)) as connection, connection:
            connection.execute("DELETE FROM payloads WHERE id = 5")
            connection.execute("DELETE FROM records WHERE session_id = 's' AND seq = 5")
            connection.execute(
                "UPDATE sessions SET head_seq = 4, head_hash ="
                " (SELECT hash FROM records WHERE session_id = 's' AND seq = 4)"
                " WHERE session_id = 's'"
            )
        with SqliteStore(sqlite_path) as store:
            assert verify_session(store, "s").records == 4
            with pytest.raises(LedgerBroken, match="its tail was cut off"):
                verify_session(store, "s", [head for head in heads if head.session_id == "s"])

    def test_every_session_is_anchored(self, heads: list[Head]) -> None:
        """So that a dropped one is missed."""
        assert {head.session_id for head in heads} == {"s", "t"}


def forged(count: int) -> list[Record]:
    """A chain that is whole and says something else."""
    records: list[Record] = []
    for seq in range(1, count + 1):
        said = ToolOutput(session_id="s", at=1.0, call_id="c", tool="t", chunk=f"forged {seq}")
        records.append(seal(said, seq, records[-1].hash if records else GENESIS))
    return records


class TestChanges:
    def test_only_what_changed_is_sent(self, sqlite_path: Path, tmp_path: Path) -> None:
        """The first anchor has all heads, later ones those that moved; none is sent for nothing."""
        file = AnchorFile(tmp_path / "anchors")
        with SqliteStore(sqlite_path) as store:
            one, two = store.acquire("one"), store.acquire("two")
            write(store, one)
            write(store, two)
            anchors = Anchors(store, file, None, FakeClock())
            first = anchors.send_changes()
            nothing = anchors.send_changes()
            write(store, two)
            second = anchors.send_changes()
            again = Anchors(store, file, None, FakeClock()).send_changes()

        assert first is not None
        assert second is not None
        assert again is not None
        assert [len(anchor.heads) for anchor in (first, second, again)] == [2, 1, 2]
        assert nothing is None
        assert [anchor.number for anchor in read_lines(file.path)] == [1, 2, 3]
        assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


def read_lines(path: Path) -> list[Anchor]:
    return read_anchors(path.read_text().splitlines(), None)


class Broken:
    """A target that cannot be reached until it is mended."""

    def __init__(self) -> None:
        self.tries = 0
        self.is_mended = False
        self.got: list[Anchor] = []

    def last(self) -> Anchor | None:
        return None

    def send(self, anchor: Anchor) -> None:
        self.tries += 1
        if not self.is_mended:
            raise OSError("https://token@audit.example is down")
        self.got.append(anchor)


async def test_a_runtime_sends_anchors_and_no_call_waits(
    sqlite_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What cannot be sent is logged without the address and tried again; calls go on."""
    caplog.set_level(logging.WARNING)
    target = Broken()
    options = AnchorOptions(targets=[target], every_seconds=3600)
    with SqliteStore(sqlite_path) as store:
        async with serving(host_tool("add"), store=store, anchors=options) as runtime:
            session_id = await new_session(runtime)
            result = await call(runtime, session_id, "add", a=1, b=2)
            target.is_mended = True
        head = store.head(session_id)

    assert result.value == 3
    assert [anchor.heads for anchor in target.got] == [(head,)]
    assert "audit.example" not in caplog.text
    if target.tries > 1:
        assert "an anchor was not sent (OSError)" in caplog.text


@contextmanager
def listening(status: int) -> Generator[tuple[str, list[bytes]]]:
    """A server that takes what is posted and answers with a status."""
    got: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", got
        finally:
            server.shutdown()
            thread.join()


def test_an_anchor_is_posted(key: AnchorKey, public: PublicKey) -> None:
    """As one line of JSON, which the other side can keep."""
    with listening(204) as (url, got):
        AnchorHook(url).send(Anchor.parse(anchored(key, 1)[0]))

    assert read_anchors([got[0].decode()], public)[0].number == 1


@pytest.mark.parametrize("status", [302, 307, 500])
def test_an_anchor_that_was_not_taken_was_not_sent(status: int) -> None:
    """Only a success is one; another address is not asked."""
    with listening(status) as (url, got), pytest.raises(OSError, match=str(status)):
        AnchorHook(url).send(Anchor(1, 1.0, FIRST, ()))
    assert len(got) == 1
