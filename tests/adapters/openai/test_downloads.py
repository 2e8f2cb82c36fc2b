"""Files that model-written code made, fetched into one folder."""

from __future__ import annotations

import asyncio
import gzip
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.adapters.openai.files_server import Fault, FilesServer, Raw
from tests.adapters.openai.loopback_adapter import KEY, sdk_client
from toolcrib.adapters.openai import download_files, download_files_blocking
from toolcrib.errors import DownloadFailed, UsageError
from toolcrib.tools.code_interpreter import GeneratedFile

PICTURE = bytes(range(256)) * 1000

Download = Callable[..., Coroutine[Any, Any, list[Path]]]


async def in_a_thread(
    client: Any, files: Sequence[GeneratedFile], folder: Path, **options: Any
) -> list[Path]:
    """The blocking twin, with the blocking client, off the event loop."""
    from httpx2 import Client
    from openai import OpenAI

    def work() -> list[Path]:
        with OpenAI(
            base_url=str(client.base_url),
            api_key=KEY,
            max_retries=client.max_retries,
            http_client=Client(verify=False),
        ) as blocking:
            return download_files_blocking(blocking, files, folder, **options)

    return await asyncio.to_thread(work)


@pytest.fixture(params=[download_files, in_a_thread], ids=["async", "blocking"])
def download(request: pytest.FixtureRequest) -> Download:
    return request.param


@asynccontextmanager
async def bench(*files: tuple[str, bytes]) -> AsyncGenerator[tuple[Any, FilesServer, Any]]:
    """A client, a server, and generated files in its container."""
    with FilesServer() as server:
        container = server.container("cntr_1")
        made = [
            GeneratedFile("cntr_1", container.write(f"{number}", data), name)
            for number, (name, data) in enumerate(files)
        ]
        async with sdk_client(server.url).with_options(max_retries=0) as client:
            yield client, server, made


def names_in(folder: Path) -> list[str]:
    """Everything below a folder, by its relative name."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def content(file: GeneratedFile) -> str:
    return f"GET /v1/containers/{file.container_id}/files/{file.file_id}/content"


async def test_files_are_saved_byte_for_byte(tmp_path: Path, download: Download) -> None:
    """C34: the generated files, under their names, in the order given."""
    async with bench(("plot.png", PICTURE), ("mean.csv", b"")) as (client, _, files):
        saved = await download(client, files, tmp_path / "new" / "folder")

    assert saved == [tmp_path / "new/folder/plot.png", tmp_path / "new/folder/mean.csv"]
    assert [path.read_bytes() for path in saved] == [PICTURE, b""]


async def test_nothing_is_overwritten(tmp_path: Path, download: Download) -> None:
    """E9: what is there stays, be it a file, a folder or a link."""
    (tmp_path / "plot.png").write_text("mine")
    (tmp_path / "plot-1.png").mkdir()
    (tmp_path / "plot-2.png").symlink_to(tmp_path / "elsewhere.png")
    async with bench(("plot.png", b"1"), ("plot.png", b"2")) as (client, _, files):
        saved = await download(client, files, tmp_path)

    assert [path.name for path in saved] == ["plot-3.png", "plot-4.png"]
    assert (tmp_path / "plot.png").read_text() == "mine"
    assert not (tmp_path / "elsewhere.png").exists()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("../../escape.txt", "escape.txt"),
        ("/etc/passwd", "passwd"),
        ("..", "cfile_1"),
        ("a\nb.txt", "ab.txt"),
        ("nul", "_nul"),
    ],
)
async def test_a_name_decides_only_what_a_file_is_called(
    tmp_path: Path, download: Download, name: str, expected: str
) -> None:
    """E9, P13: names are the model's; no part of one becomes a folder."""
    folder = tmp_path / "in"
    async with bench((name, b"x")) as (client, _, files):
        saved = await download(client, files, folder)

    assert saved == [folder / expected]
    assert names_in(tmp_path) == ["in", f"in/{expected}"]


@settings(max_examples=15)
@given(st.lists(st.text(max_size=30), max_size=4))
def test_any_names_end_in_the_folder(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    """E9: as many new files as were asked for, all of them directly in the folder."""
    top = tmp_path_factory.mktemp("top")
    folder = top / "in"

    async def run() -> list[Path]:
        files = [(name, str(number).encode()) for number, name in enumerate(names)]
        async with bench(*files) as (client, _, made):
            return await download_files(client, made, folder)

    saved = asyncio.run(run())

    assert sorted(top.rglob("*")) == sorted({folder, *saved})
    assert [path.read_text() for path in saved] == [str(n) for n in range(len(names))]
    assert all(path.parent == folder for path in saved)


async def test_the_cap_holds_for_all_files_together(tmp_path: Path, download: Download) -> None:
    """E9: the file that goes over the cap is removed; those before it stay and are named."""
    async with bench(("a.txt", b"12345"), ("b.txt", b"678901")) as (client, _, files):
        with pytest.raises(DownloadFailed, match=r"'b\.txt'.*more than 10 bytes") as caught:
            await download(client, files, tmp_path, max_bytes=10)
        assert len(await download(client, files, tmp_path / "more", max_bytes=11)) == 2

    assert caught.value.saved == (tmp_path / "a.txt",)
    assert caught.value.file == files[1]
    assert names_in(tmp_path) == ["a.txt", "more", "more/a.txt", "more/b.txt"]


async def test_the_cap_counts_what_is_written(tmp_path: Path) -> None:
    """E9: a small reply that unpacks to a large file is stopped while it unpacks."""
    bomb = gzip.compress(bytes(50_000_000))
    async with bench(("bomb.bin", b"")) as (client, server, files):
        server.faults[content(files[0])] = [Raw(bomb, encoding="gzip")]
        with pytest.raises(DownloadFailed, match="more than 1000000 bytes"):
            await download_files(client, files, tmp_path, max_bytes=1_000_000)

    assert names_in(tmp_path) == []


async def test_a_broken_line_leaves_no_part(tmp_path: Path, download: Download) -> None:
    """E9: half a file is no file."""
    async with bench(("a.txt", b"")) as (client, server, files):
        server.faults[content(files[0])] = [Raw(PICTURE, is_cut=True)]
        with pytest.raises(DownloadFailed, match=r"'a\.txt' of container cntr_1 was not saved"):
            await download(client, files, tmp_path)

    assert names_in(tmp_path) == []


async def test_a_file_that_is_gone_is_told(tmp_path: Path, download: Download) -> None:
    """C26: an expired container's files cannot be fetched; the provider's words are kept."""
    async with bench(("a.txt", b"1")) as (client, server, files):
        server.containers["cntr_1"].files.clear()
        with pytest.raises(DownloadFailed, match=r"HTTP 404.*File cfile_1 not found"):
            await download(client, files, tmp_path)
        server.faults[content(files[0])] = [Fault(400, f"Container is expired. {KEY}")]
        with pytest.raises(DownloadFailed, match=r"Container is expired\. \[secret\]"):
            await download(client, files, tmp_path)

    assert names_in(tmp_path) == []


@pytest.mark.parametrize("ids", [("", "cfile_1"), ("cntr_1", ""), ("..", "cfile_1")])
async def test_ids_that_are_none_are_told(
    tmp_path: Path, download: Download, ids: tuple[str, str]
) -> None:
    """A file that the answer did not say enough about is not guessed at."""
    async with bench() as (client, server, _):
        with pytest.raises(DownloadFailed):
            await download(client, [GeneratedFile(*ids, "a.txt")], tmp_path)

        assert server.seen == []
    assert names_in(tmp_path) == []


async def test_a_folder_that_cannot_be_is_refused(tmp_path: Path, download: Download) -> None:
    """A file where the folder should be is named before anything is fetched."""
    (tmp_path / "file").write_text("")
    async with bench(("a.txt", b"1")) as (client, server, files):
        with pytest.raises(UsageError, match=r"cannot save files in .*file"):
            await download(client, files, tmp_path / "file")
        with pytest.raises(UsageError, match="max_bytes"):
            await download(client, files, tmp_path, max_bytes=0)

        assert server.seen == []


async def test_a_folder_that_is_swapped_meanwhile_keeps_its_files(tmp_path: Path) -> None:
    """E9: a link put in the folder's place does not lead a file elsewhere."""
    folder, other = tmp_path / "in", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    async with bench(("a.txt", b"1"), ("b.txt", b"2")) as (client, server, files):

        def swap(request: str) -> None:
            if request == content(files[0]):
                os.rename(folder, tmp_path / "moved")
                folder.symlink_to(other)

        server.during = swap
        await download_files(client, files, folder)

    assert names_in(other) == []
    assert names_in(tmp_path / "moved") == ["a.txt", "b.txt"]


async def test_a_folder_full_of_twins_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking for a free name ends somewhere."""
    from toolcrib.adapters.openai import downloads

    monkeypatch.setattr(downloads, "_MOST_TWINS", 2)
    for name in ("a.txt", "a-1.txt"):
        (tmp_path / name).write_text("")
    async with bench(("a.txt", b"1")) as (client, _, files):
        with pytest.raises(DownloadFailed, match="2 files of that name"):
            await download_files(client, files, tmp_path)
