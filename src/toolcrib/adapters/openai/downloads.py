"""Files that model-written code made, fetched from their container into one folder.

A name in a container was chosen by a model. It decides nothing here but what a file is called.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.adapters.openai.request_errors import error_text
from toolcrib.adapters.openai.sdk_clients import check_blocking, is_blocking
from toolcrib.errors import DownloadFailed, UsageError
from toolcrib.tools.code_interpreter import GeneratedFile
from toolcrib.vfs.names import numbered, safe_name

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

MOST_BYTES: Final = 100_000_000
_CHUNK: Final = 64 * 1024
_MOST_TWINS: Final = 1000

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Exclusive: an existing file, or a link of that name, is never written to.
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


async def download_files(
    client: AsyncOpenAI | OpenAI,
    files: Sequence[GeneratedFile],
    folder: str | os.PathLike[str],
    *,
    max_bytes: int = MOST_BYTES,
) -> list[Path]:
    """Fetch files into a folder, which is made if need be, and return where they are.

    Nothing is overwritten: a second `plot.png` becomes `plot-1.png`. All files together have at
    most `max_bytes`. Raises `DownloadFailed`; no part of a file is left then.
    """
    if is_blocking(client):
        blocking = cast("OpenAI", client)
        return await asyncio.to_thread(
            download_files_blocking, blocking, files, folder, max_bytes=max_bytes
        )
    client = cast("AsyncOpenAI", client)
    with _Download(client, folder, max_bytes) as download:
        content = client.containers.files.content.with_streaming_response
        for file in files:
            with download.saving(file) as write:
                async with content.retrieve(
                    file.file_id, container_id=file.container_id
                ) as response:
                    async for chunk in response.iter_bytes(_CHUNK):
                        write(chunk)
    return download.saved


def download_files_blocking(
    client: OpenAI,
    files: Sequence[GeneratedFile],
    folder: str | os.PathLike[str],
    *,
    max_bytes: int = MOST_BYTES,
) -> list[Path]:
    """`download_files` for code without an event loop."""
    check_blocking(client, "download_files")
    with _Download(client, folder, max_bytes) as download:
        content = client.containers.files.content.with_streaming_response
        for file in files:
            with (
                download.saving(file) as write,
                content.retrieve(file.file_id, container_id=file.container_id) as response,
            ):
                for chunk in response.iter_bytes(_CHUNK):
                    write(chunk)
    return download.saved


class _Download:
    """One folder, and how much may still be written to it."""

    def __init__(self, client: Any, folder: str | os.PathLike[str], max_bytes: int) -> None:
        if max_bytes < 1:
            raise UsageError(f"max_bytes must be a whole number above 0, not {max_bytes!r}")
        self.saved: list[Path] = []
        self._client = client
        self._folder = Path(folder).absolute()
        self._limit = self._left = max_bytes
        self._here = -1

    def __enter__(self) -> _Download:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            # Held open, so that every file goes into this folder, whatever becomes of its name.
            self._here = os.open(self._folder, _FOLDER)
        except OSError as error:
            raise UsageError(f"cannot save files in {self._folder}: {error.strerror}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        os.close(self._here)

    @contextmanager
    def saving(self, file: GeneratedFile) -> Generator[Callable[[bytes], None]]:
        """Write a new file; it is gone again when that fails."""
        try:
            name, descriptor = self._create(safe_name(file.filename, file.file_id))
            try:
                with os.fdopen(descriptor, "wb") as opened:
                    yield lambda chunk: self._write(opened.write, chunk)
            except BaseException:
                os.unlink(name, dir_fd=self._here)
                raise
        except Exception as error:
            reason = (
                str(error) if isinstance(error, UsageError) else error_text(error, self._client)
            )
            raise DownloadFailed(
                f"{file.filename!r} of container {file.container_id} was not saved: {reason}",
                file=file,
                saved=self.saved,
            ) from error
        self.saved.append(self._folder / name)

    def _create(self, wanted: str) -> tuple[str, int]:
        for number in range(_MOST_TWINS):
            name = numbered(wanted, number)
            try:
                return name, os.open(name, _NEW, 0o666, dir_fd=self._here)
            except FileExistsError:
                continue
        raise UsageError(f"the folder has {_MOST_TWINS} files of that name")

    def _write(self, write: Callable[[bytes], int], chunk: bytes) -> None:
        self._left -= len(chunk)
        if self._left < 0:
            raise UsageError(f"the files have more than {self._limit} bytes; allow more max_bytes")
        write(chunk)
