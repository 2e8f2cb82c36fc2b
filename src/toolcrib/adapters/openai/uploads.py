"""Uploads of host files: all of them, or none that stays."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from io import BufferedReader
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from toolcrib.adapters.codec import Item
from toolcrib.adapters.items import plain, text_of
from toolcrib.adapters.openai.said import is_container_gone, said
from toolcrib.errors import ContainerGone, PromptEvaluationError, UsageError
from toolcrib.vfs.staged import StagedFile

if TYPE_CHECKING:
    from toolcrib.vfs.files import HostFile

PURPOSE: Final = "user_data"
KEPT_SECONDS: Final = 30 * 24 * 3600
"""How long the provider keeps an upload: long enough to go on later, but not for ever."""
_AT_ONCE: Final = 4


@dataclass(slots=True)
class Uploads:
    """The uploads of one evaluation. With a `container_id`, the files are copied into it."""

    client: Any
    container_id: str | None
    prompt_name: str
    made: list[str] = field(default_factory=list[str])
    """The ids of everything uploaded so far."""

    async def run(
        self, files: Sequence[tuple[str, HostFile]], seconds: float | None
    ) -> list[StagedFile]:
        """Upload named files within so many seconds. Raises `PromptEvaluationError`."""
        try:
            async with asyncio.timeout(seconds):
                return await self._all(files)
        except TimeoutError as error:
            await self._undo()
            raise self._failed(
                "the time ran out while files were uploaded; allow more seconds in the prompt's "
                "Budget, or mount less",
                error,
            ) from error
        except PromptEvaluationError:
            await self._undo()
            raise

    async def again(self, files: Sequence[StagedFile]) -> list[StagedFile]:
        """Bring files that are uploaded already into this container."""
        staged: list[StagedFile] = []
        for file in files:
            try:
                path = await self._place(file.file_id, PurePosixPath(file.name).name)
            except Exception as error:
                raise self._refused(file.name, error) from error
            staged.append(replace(file, path=path))
        return staged

    async def _all(self, files: Sequence[tuple[str, HostFile]]) -> list[StagedFile]:
        waiting = iter(enumerate(files))
        staged: dict[int, StagedFile] = {}
        errors: list[PromptEvaluationError] = []

        async def lane() -> None:
            for at, (name, file) in waiting:
                if errors:
                    return
                try:
                    staged[at] = await self._one(name, file)
                except PromptEvaluationError as error:
                    errors.append(error)

        # What is on its way is not cut off when another fails: its id is needed to delete it.
        await asyncio.gather(*(lane() for _ in range(_AT_ONCE)))
        if errors:
            raise errors[0]
        found = [staged[at] for at in range(len(files))]
        self._refuse_collisions(found)
        return found

    async def _one(self, name: str, file: HostFile) -> StagedFile:
        try:
            with file.open() as opened:
                found = await asyncio.to_thread(hashlib.file_digest, opened, "sha256")
                file_id, path = await self._send(PurePosixPath(name).name, opened)
                if not file.is_unchanged(opened):
                    raise UsageError("it was changed meanwhile; try again")
        except Exception as error:
            raise self._refused(name, error) from error
        return StagedFile(name, path, file_id, file.size, found.hexdigest())

    async def _send(self, name: str, opened: BufferedReader) -> tuple[str, str]:
        """The id that a file got, and where it will lie."""
        made = plain(
            await self.client.files.create(
                file=(name, opened),
                purpose=PURPOSE,
                expires_after={"anchor": "created_at", "seconds": KEPT_SECONDS},
            )
        )
        file_id = _told(made, "id")
        self.made.append(file_id)
        return file_id, await self._place(file_id, text_of(made, "filename") or name)

    async def _place(self, file_id: str, name: str) -> str:
        if self.container_id is None:
            # Nothing tells the place before the container is made, but this is how it is chosen.
            return f"/mnt/data/{file_id}-{name}"
        copied = await self.client.containers.files.create(self.container_id, file_id=file_id)
        return _told(plain(copied), "path")

    def _refuse_collisions(self, staged: Sequence[StagedFile]) -> None:
        taken: dict[str, str] = {}
        for file in staged:
            twin = taken.setdefault(file.path, file.name)
            if twin != file.name:
                raise self._failed(
                    f"the provider put {twin!r} and {file.name!r} in one place, {file.path}; "
                    "rename one of them"
                )

    async def _undo(self) -> None:
        for file_id in self.made:
            # What cannot be deleted now is deleted by the provider in time.
            with suppress(Exception):
                await self.client.files.delete(file_id)

    def _refused(self, name: str, error: Exception) -> PromptEvaluationError:
        reason = str(error) if isinstance(error, UsageError) else said(error, self.client)
        return self._failed(f"{name!r} could not be uploaded: {reason}", error)

    def _failed(self, message: str, error: Exception | None = None) -> PromptEvaluationError:
        is_gone = error is not None and is_container_gone(error)
        kind = ContainerGone if is_gone else PromptEvaluationError
        return kind(
            message,
            prompt_name=self.prompt_name,
            phase="budget" if isinstance(error, TimeoutError) else "request",
            request_id=getattr(error, "request_id", None),
        )


def _told(made: Item, key: str) -> str:
    found = text_of(made, key)
    if not found:
        raise UsageError(f"the provider's reply has no {key}")
    return found
