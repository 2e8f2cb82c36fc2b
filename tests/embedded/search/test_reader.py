"""Documents are read in confined processes: no document holds up or fills the program."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import tracemalloc
import zlib
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.embedded.principals import shared_provider
from toolcrib.embedded import BackendText
from toolcrib.embedded.search.documents import MAX_CHARACTERS, read_document
from toolcrib.embedded.search.reader import DocumentReader, ReaderLimits
from toolcrib.errors import UnreadableDocument
from toolcrib.sandbox import detection
from toolcrib.sandbox.process_tree import descendants

MEBIBYTE = 1024 * 1024
BACKENDS = ("bubblewrap", "sandlock", "rlimits")


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every backend in turn, as if the stronger ones did not work here."""
    stronger = BACKENDS[: BACKENDS.index(request.param)]
    monkeypatch.setattr(detection, "_results", {name: "switched off" for name in stronger})
    return request.param


def written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def csv_bomb() -> bytes:
    """One megabyte whose rows repeat a megabyte of names each: 600 MB if all were written."""
    header = ",".join("n" * 100_000 for _ in range(10))
    return header.encode() + b"\n" + b"0,1,2,3,4,5,6,7,8,9\n" * 600


def pdf_bomb(pages: int = 25, operators: int = 60_000) -> bytes:
    """A few kilobytes: many pages that share one compressed stream of text operators."""
    packer = zlib.compressobj(9)
    packed = [packer.compress(b"BT /F1 9 Tf ")]
    packed += [packer.compress(b"1 0 0 1 5 5 Tm (x) Tj\n" * 1000) for _ in range(operators // 1000)]
    stream = b"".join([*packed, packer.compress(b"ET"), packer.flush()])
    kids = " ".join(f"{number} 0 R" for number in range(10, 10 + pages))
    objects = {
        1: b"<</Type/Catalog/Pages 2 0 R>>",
        2: f"<</Type/Pages/Count {pages}/Kids[{kids}]>>".encode(),
        3: b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        4: f"<</Length {len(stream)}/Filter/FlateDecode>>stream\n".encode()
        + stream
        + b"\nendstream",
    }
    page = b"<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<</Font<</F1 3 0 R>>>>>>"
    objects.update({number: page for number in range(10, 10 + pages)})
    data, places = bytearray(b"%PDF-1.4\n"), dict[int, int]()
    for number, content in objects.items():
        places[number] = len(data)
        data += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = len(data)
    data += b"xref\n"
    for number, place in places.items():
        data += b"%d 1\n%010d 00000 n \n" % (number, place)
    data += b"trailer<</Root 1 0 R/Size %d>>\nstartxref\n%d\n%%%%EOF" % (10 + pages, table)
    return bytes(data)


def own_peak() -> int:
    """The most memory that this program has used so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_a_table_is_cut_while_it_is_built() -> None:
    """Finding 13: a megabyte of CSV is not blown up before it is cut."""
    bomb = csv_bomb()
    tracemalloc.start()
    try:
        document = read_document("bomb.csv", bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(document.text) == MAX_CHARACTERS
    assert peak < 200 * MEBIBYTE


async def test_documents_are_read_on_every_backend(backend: str, tmp_path: Path) -> None:
    """With namespaces, with Landlock or with limits alone: the same text and title."""
    reader = DocumentReader()
    page = written(tmp_path, "a.html", "<title>T é</title><p>one<p>two".encode())
    table = written(tmp_path, "a.csv", b"a,b\n1,2\n")
    document = await reader.read("a.html", page, "alice")
    assert (document.title, document.text) == ("T é", "one\ntwo")
    async with reader.series() as series:
        assert (await series.read("a.csv", table)).text == "a: 1; b: 2"
        assert (await series.read("b.html", page)).text == "one\ntwo"
        with pytest.raises(UnreadableDocument, match="not supported"):
            await series.read("a.png", page)


async def test_it_is_said_when_nothing_confines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a sandbox the limits stay, and the log has a warning."""
    monkeypatch.setattr(detection, "_results", {"bubblewrap": "no", "sandlock": "no"})
    await DocumentReader().read("a.txt", written(tmp_path, "a.txt", b"text"), "alice")
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


async def test_a_table_bomb_fills_neither_process(backend: str, tmp_path: Path) -> None:
    """Finding 13: 400 MB are enough for the process that reads it, and this program takes no more
    than the text that is kept.
    """
    limits = ReaderLimits(memory_bytes=400 * MEBIBYTE)
    path = written(tmp_path, "bomb.csv", csv_bomb())
    before = own_peak()
    document = await DocumentReader(limits).read("bomb.csv", path, "mallory")
    assert len(document.text) == MAX_CHARACTERS
    assert own_peak() - before < 200 * MEBIBYTE


async def test_a_pdf_bomb_ends_at_its_limit(backend: str, tmp_path: Path) -> None:
    """Finding 14: a few kilobytes of PDF get so much of the processor and no more."""
    path = written(tmp_path, "bomb.pdf", pdf_bomb())
    assert path.stat().st_size < 10_000
    reader = DocumentReader(ReaderLimits(cpu_seconds=2, seconds=60))
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with pytest.raises(UnreadableDocument, match="2 seconds of the processor"):
        await reader.read("bomb.pdf", path, "mallory")
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 5
    with pytest.raises(UnreadableDocument, match=r"more than 0\.5 seconds"):
        await DocumentReader(ReaderLimits(seconds=0.5)).read("bomb.pdf", path, "mallory")


async def test_a_document_that_needs_too_much_memory_fails(backend: str, tmp_path: Path) -> None:
    """The reason names the limit; the program and the other documents go on."""
    path = written(tmp_path, "bomb.html", b"<p>ab" * 4_000_000)
    limits = ReaderLimits(memory_bytes=96 * MEBIBYTE)
    with pytest.raises(UnreadableDocument, match=r"96 MiB of memory|without an answer"):
        await DocumentReader(limits).read("bomb.html", path, "mallory")


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("deep.html", b"<div>" * 1_000_000, "nested more than 1000 deep"),
        ("flate.pdf", pdf_bomb(1, 30_000_000), "."),
    ],
    ids=["nested", "packed"],
)
async def test_nested_and_packed_documents_fail(
    tmp_path: Path, name: str, data: bytes, reason: str
) -> None:
    """A page nested without end, and a stream that unpacks to more than a gigabyte."""
    with pytest.raises(UnreadableDocument, match=reason):
        await DocumentReader().read(name, written(tmp_path, name, data), "mallory")


async def test_others_do_not_wait_for_a_flood_of_bombs(tmp_path: Path) -> None:
    """Finding 14: eight bombs of one owner are read one after another; the document of another
    owner is done before the second of them, and the event loop is free all the time.
    """
    bomb = written(tmp_path, "bomb.pdf", pdf_bomb())
    note = written(tmp_path, "note.txt", b"read me")
    reader = DocumentReader(ReaderLimits(cpu_seconds=2))
    before = set(descendants(os.getpid()))
    ended: list[str] = []

    async def read(name: str, path: Path, owner: str) -> None:
        with suppress(UnreadableDocument):
            await reader.read(name, path, owner)
        ended.append(owner)

    bombs = [asyncio.create_task(read("bomb.pdf", bomb, "mallory")) for _ in range(8)]
    loop, longest = asyncio.get_running_loop(), 0.0
    done = asyncio.create_task(read("note.txt", note, "alice"))
    while not done.done():
        began = loop.time()
        await asyncio.sleep(0)
        longest = max(longest, loop.time() - began)
    assert ended.count("mallory") <= 1
    assert longest < 1.0
    for task in bombs:
        task.cancel()
    await asyncio.wait(bombs)
    assert set(descendants(os.getpid())) <= before


async def test_a_bomb_ends_its_own_turn_of_a_series(tmp_path: Path) -> None:
    """The pages of a folder after a bomb are read by the next process."""
    bomb = written(tmp_path, "bomb.pdf", pdf_bomb())
    note = written(tmp_path, "note.txt", b"read me")
    async with DocumentReader(ReaderLimits(cpu_seconds=2)).series() as series:
        for name, path, is_read in (
            ("note.txt", note, True),
            ("bomb.pdf", bomb, False),
            ("note.txt", note, True),
        ):
            try:
                assert (await series.read(name, path)).text == "read me"
            except UnreadableDocument:
                assert not is_read
            else:
                assert is_read


@pytest.mark.parametrize(
    "program",
    [
        'print(\'{"title": "x", "bytes": 1000000000000000}\')',
        "print('{\"bytes\": -1}')",
        "print('no json')",
        "print('[' * 100000)",
        "import sys\nwhile True: sys.stdout.write('x' * 65536)",
        'print(\'{"title": null, "bytes": 100}\')',
        "raise SystemExit(3)",
    ],
)
async def test_a_document_that_took_its_reader_over_gains_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    """Whatever the process answers, the document is unreadable and this program takes little."""
    monkeypatch.setattr("toolcrib.embedded.search.reader._PROGRAM", program)
    before = own_peak()
    with pytest.raises(UnreadableDocument):
        await DocumentReader(ReaderLimits(seconds=5)).read(
            "a.txt", written(tmp_path, "a.txt", b"text"), "mallory"
        )
    assert own_peak() - before < 50 * MEBIBYTE


async def test_what_a_taken_reader_says_is_made_printable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reason and a title of its own choice are one short line."""
    program = "import json; print(json.dumps({'error': 'x\\x1b[2J\\n' + 'y' * 9999}))"
    monkeypatch.setattr("toolcrib.embedded.search.reader._PROGRAM", program)
    with pytest.raises(UnreadableDocument) as failed:
        await DocumentReader().read("a.txt", written(tmp_path, "a.txt", b"text"), "mallory")
    assert str(failed.value).isprintable()
    assert len(str(failed.value)) <= 300


def hello(request: object) -> Sequence[BackendText]:
    return [BackendText("hello")]


async def test_the_api_says_why_a_file_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over HTTP with the official client: the bomb is `failed` with its reason, the file beside it
    `completed`, and its content is answered with 400.
    """
    reader = partial(DocumentReader, ReaderLimits(cpu_seconds=2))
    monkeypatch.setattr("toolcrib.embedded.provider.DocumentReader", reader)
    async with shared_provider(hello) as shared, shared.client("alice") as alice:
        store = await alice.vector_stores.create(name="s")
        states: dict[str, tuple[str, str | None]] = {}
        for name, data in (("bomb.pdf", pdf_bomb()), ("note.txt", b"read me")):
            added = await alice.vector_stores.files.upload_and_poll(
                vector_store_id=store.id, file=(name, data), poll_interval_ms=50
            )
            error = added.last_error
            states[name] = added.status, None if error is None else error.message
        [bomb] = [f for f in (await alice.files.list()).data if f.filename == "bomb.pdf"]
        path = f"/vector_stores/{store.id}/files/{bomb.id}/content"
        content = await shared.send("alice", "GET", path)
    assert states["note.txt"] == ("completed", None)
    assert states["bomb.pdf"][0] == "failed"
    assert "2 seconds of the processor" in (states["bomb.pdf"][1] or "")
    assert content.status_code == 400
