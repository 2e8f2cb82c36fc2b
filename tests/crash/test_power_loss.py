"""Power loss: what is on the disk when a handler runs, as the system calls of a process tell.

The process runs under strace. Its handler copies the files as they are. Of the log, only what was
written before the last `fdatasync` of it is sure to survive, so the copy is cut there.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib import Session, SqliteStore

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace"),
]

PROGRAM = """
import asyncio, shutil, sys
from pathlib import Path
from toolcrib import Executor, Session, SqliteStore, tool

path, kept, synchronous = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
options = {sys.argv[4]: True} if sys.argv[4:] else {}

def pay() -> str:
    "Pay somebody."
    open(kept / "handler-began", "w").close()
    for name in (path.name, path.name + "-wal"):
        shutil.copyfile(path.parent / name, kept / name)
    return "paid"

async def main():
    with SqliteStore(path, synchronous=synchronous) as store:
        async with await Session.open(store, "s") as session:
            outcome = await Executor(session, [tool(**options)(pay)]).call("pay", call_id="c1")
            assert outcome.ok, outcome

asyncio.run(main())
"""

_CALL = re.compile(r"^(?:\[pid +)?\d+\]? +(\w+)\((\d+)<([^>]*)>(.*)$")
_WRITE = re.compile(r", (\d+), (\d+)\) += \d+$")


def synced_log(trace: Path) -> int:
    """How much of the write-ahead log was on the disk when the handler began."""
    written = synced = 0
    for line in trace.read_text().splitlines():
        if "handler-began" in line:
            return synced
        call = _CALL.match(line)
        if call is None or not call[3].endswith("-wal"):
            continue
        if call[1] == "pwrite64" and (place := _WRITE.search(line)):
            if int(place[2]) == 0:
                # A new log begins: what the old one held is in the database.
                written = synced = 0
            written = max(written, int(place[1]) + int(place[2]))
        elif call[1] in ("fdatasync", "fsync"):
            synced = written
    raise AssertionError("the handler did not begin")


def cut_power(tmp_path: Path, synchronous: str, *options: str) -> Path:
    """The store as it is after a power cut while the handler ran."""
    work, kept, trace = tmp_path / "work", tmp_path / "kept", tmp_path / "trace"
    work.mkdir()
    kept.mkdir()
    path = work / "crib.sqlite3"
    calls = "trace=pwrite64,fdatasync,fsync,openat"
    strace = ["strace", "-f", "-y", "-s", "0", "-e", calls, "-o", str(trace)]
    arguments = [str(path), str(kept), synchronous, *options]
    subprocess.run([*strace, sys.executable, "-c", PROGRAM, *arguments], check=True)
    log = kept / "crib.sqlite3-wal"
    log.write_bytes(log.read_bytes()[: synced_log(trace)])
    return kept / "crib.sqlite3"


async def calls_in_doubt(path: Path) -> list[str]:
    with SqliteStore(path) as store:
        async with await Session.open(store, "s") as session:
            session.verify()
            return [call.call_id for call in session.in_doubt()]


@pytest.mark.parametrize("synchronous", ["starts", "full"])
async def test_a_call_that_may_have_taken_effect_is_in_doubt(
    tmp_path: Path, synchronous: str
) -> None:
    """By default: its start is on the disk before its handler runs."""
    assert await calls_in_doubt(cut_power(tmp_path, synchronous)) == ["c1"]


@pytest.mark.parametrize("option", ["is_idempotent", "is_read_only"])
async def test_a_call_without_effects_does_not_wait_for_the_disk(
    tmp_path: Path, option: str
) -> None:
    """To run it again does no harm, so nobody need know that it ran."""
    assert await calls_in_doubt(cut_power(tmp_path, "starts", option)) == []


async def test_without_the_wait_the_call_is_forgotten(tmp_path: Path) -> None:
    """What `normal` saves, and that the cut is a real one."""
    assert await calls_in_doubt(cut_power(tmp_path, "normal")) == []
