"""Host files that are uploaded to a container: their selection, their types and the upload.

Everything is checked before anything is sent, and either all files are uploaded or none stays. The
list of types keeps what cannot be meant (keys, databases, programs) from leaving the host by a wide
pattern; an adapter can be given another list.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import Any, Final

from toolcrib.adapters.codec import RawItem
from toolcrib.adapters.items import plain, text_of
from toolcrib.adapters.openai.code_interpreter_tool import OpenAICodeInterpreterTool
from toolcrib.adapters.openai.request_errors import error_text, is_container_gone
from toolcrib.adapters.openai.session_containers import KnownFiles
from toolcrib.errors import ContainerGone, PromptEvaluationError, UsageError
from toolcrib.tools.code_interpreter import AutoContainer
from toolcrib.tools.code_interpreter.types import MOST_FILES
from toolcrib.vfs import HostMount, VfsPath
from toolcrib.vfs.files import HostFile, mounted_files
from toolcrib.vfs.mount import StagedFile

_CODE: Final = (
    ".c .cc .cpp .cs .css .go .h .hpp .htm .html .ipynb .java .js .jsx .kt .lua .php .pl .pyi .py"
    " .r .rb .rs .scala .sh .sql .swift .tex .ts .tsx .vue"
)
_DOCUMENTS: Final = ".doc .docx .eml .epub .md .odp .ods .odt .pdf .ppt .pptx .rst .rtf .txt"
_IMAGES: Final = ".bmp .gif .jpeg .jpg .png .svg .tif .tiff .webp"
_ARCHIVES: Final = ".7z .bz2 .gz .tar .tgz .xz .zip"
_DATA: Final = (
    ".arrow .avro .csv .feather .geojson .h5 .hdf5 .json .jsonl .log .mat .ndjson .npy .npz"
    " .parquet .pkl .sav .toml .tsv .xls .xlsm .xlsx .xml .yaml .yml"
)

SUPPORTED_TYPES: Final = frozenset(
    " ".join((_CODE, _DOCUMENTS, _IMAGES, _ARCHIVES, _DATA)).split(" ")
)
"""Extensions in lower case. Files without an extension are the empty text; `*` is any type."""

_MOST_NAMED: Final = 10


def check_types(types: Collection[str]) -> frozenset[str]:
    """The types as they are compared. Raises `UsageError` for what is no extension."""
    if isinstance(types, str):
        raise UsageError(f"upload_types must be a set of extensions, not {types!r}")
    for suffix in types:
        if not isinstance(suffix, str) or not (suffix in ("", "*") or suffix.startswith(".")):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(
                f"upload_types: {suffix!r} is not an extension like '.csv'; '' is none, '*' any"
            )
    return frozenset(suffix.lower() for suffix in types)


def refuse_other_types(names: Iterable[str], types: Collection[str], tool: str) -> None:
    """Raise `UsageError`, with all of their names, for files that are of none of the types."""
    if "*" in types:
        return
    refused = [name for name in names if PurePosixPath(name).suffix.lower() not in types]
    if not refused:
        return
    shown = ", ".join(refused[:_MOST_NAMED])
    if len(refused) > _MOST_NAMED:
        shown += f" and {len(refused) - _MOST_NAMED} more"
    raise UsageError(
        f"host_mounts of {tool!r} hold files of types that are not uploaded: {shown}. Leave them "
        "out with exclude_glob, or give the adapter upload_types that include them; allowed are "
        f"{' '.join(sorted(types))}"
    )


LARGEST_FILE: Final = 512 * 1024 * 1024
"""What the provider takes in one file."""


@dataclass(frozen=True, slots=True)
class HostFiles:
    """What of the host may be uploaded: files below `roots`, of these types."""

    roots: tuple[Path, ...] = ()
    types: frozenset[str] = SUPPORTED_TYPES


@dataclass(frozen=True, slots=True)
class Plan:
    """The files to upload, by the paths that their mounts give them, and those without a byte:
    the provider refuses to take such a file.
    """

    files: tuple[tuple[str, HostFile], ...]
    empty: tuple[str, ...] = ()


def plan_files(tool: OpenAICodeInterpreterTool, allowed: HostFiles) -> Plan:
    """Find the files of a tool's mounts. Raises `UsageError` when they cannot all be uploaded."""
    files_by_name: dict[str, HostFile] = {}
    for mount in tool.host_mounts:
        _add(files_by_name, mount, allowed.roots)
    files = tuple((name, file) for name, file in files_by_name.items() if file.size)
    refuse_other_types((name for name, _ in files), allowed.types, tool.name)
    _check_sizes(files)
    _check_count(tool, len(files))
    return Plan(files, tuple(name for name, file in files_by_name.items() if not file.size))


def _add(files_by_name: dict[str, HostFile], mount: HostMount, roots: Sequence[Path]) -> None:
    files = mounted_files(mount, roots)
    if not files:
        raise UsageError(
            f"host mount {mount.host_path!r} holds no file that include_glob and exclude_glob "
            "leave; check the patterns, or drop the mount"
        )
    for file in files:
        name = _shown(mount, file)
        twin = files_by_name.setdefault(name, file)
        if twin.place != file.place:
            raise UsageError(
                f"two host mounts have a file at {name!r}; give them different mount_paths"
            )


def _shown(mount: HostMount, file: HostFile) -> str:
    """The path that a file is known by; without a mount path it lies at the top."""
    top = mount.mount_path.segments if mount.mount_path else ()
    # It goes into a prompt, so a name must not be able to pass for more than a name.
    return str(VfsPath((*top, *file.name.split("/"))))


def _check_sizes(files: Sequence[tuple[str, HostFile]]) -> None:
    for name, file in files:
        if file.size > LARGEST_FILE:
            raise UsageError(
                f"{name!r} has {file.size} bytes; one file can have {LARGEST_FILE} at most"
            )


def _check_count(tool: OpenAICodeInterpreterTool, count: int) -> None:
    container = tool.config.container
    if not isinstance(container, AutoContainer):
        return
    id_count = len(container.file_ids)
    if id_count + count > MOST_FILES:
        raise UsageError(
            f"host_mounts of {tool.name!r} hold {count} files, and {id_count} are given by id; a "
            f"container is made with {MOST_FILES} at most. Narrow include_glob, pack the files "
            "into one archive, or copy them into an ExistingContainer"
        )


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
    known: KnownFiles = field(default_factory=KnownFiles)
    created: list[str] = field(default_factory=list[str])
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
                staged.append(await self._brought(file))
            except Exception as error:
                raise self._refused(file.name, error) from error
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
        in_order = [staged[at] for at in range(len(files))]
        self._refuse_collisions(in_order)
        return in_order

    async def _one(self, name: str, file: HostFile) -> StagedFile:
        try:
            with file.open() as opened:
                hasher = await asyncio.to_thread(hashlib.file_digest, opened, "sha256")
                digest = hasher.hexdigest()
                known = await self._known(name, digest)
                if known is not None:
                    return known
                file_id, path = await self._send(PurePosixPath(name).name, opened)
                if not file.is_unchanged(opened):
                    raise UsageError("it was changed meanwhile; try again")
        except Exception as error:
            raise self._refused(name, error) from error
        return StagedFile(name, path, file_id, file.size, digest)

    async def _known(self, name: str, digest: str) -> StagedFile | None:
        """The file as an earlier turn left it; None when it must be uploaded."""
        placed = self.known.placed.get((name, digest))
        if placed is not None:
            return placed
        uploaded = self.known.uploaded.get((name, digest))
        if uploaded is None or not await self._is_kept(uploaded.file_id):
            return None
        return await self._brought(uploaded)

    async def _brought(self, file: StagedFile) -> StagedFile:
        """A file that the provider keeps, in this container."""
        placed = self.known.placed.get((file.name, file.sha256))
        if placed is not None:
            return placed
        path = await self._place(file.file_id, PurePosixPath(file.name).name)
        return replace(file, path=path)

    async def _is_kept(self, file_id: str) -> bool:
        """Whether the provider still has an upload: it deletes them in time."""
        try:
            await self.client.files.retrieve(file_id)
        except Exception as error:
            if getattr(error, "status_code", None) == 404:
                return False
            raise
        return True

    async def _send(self, name: str, opened: BufferedReader) -> tuple[str, str]:
        """The id that a file got, and where it will lie."""
        created = plain(
            await self.client.files.create(
                file=(name, opened),
                purpose=PURPOSE,
                expires_after={"anchor": "created_at", "seconds": KEPT_SECONDS},
            )
        )
        file_id = _required_text(created, "id")
        self.created.append(file_id)
        return file_id, await self._place(file_id, text_of(created, "filename") or name)

    async def _place(self, file_id: str, name: str) -> str:
        if self.container_id is None:
            # Nothing tells the place before the container is made, but this is how it is chosen.
            return f"/mnt/data/{file_id}-{name}"
        copied = await self.client.containers.files.create(self.container_id, file_id=file_id)
        return _required_text(plain(copied), "path")

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
        for file_id in self.created:
            # What cannot be deleted now is deleted by the provider in time.
            with suppress(Exception):
                await self.client.files.delete(file_id)

    def _refused(self, name: str, error: Exception) -> PromptEvaluationError:
        reason = str(error) if isinstance(error, UsageError) else error_text(error, self.client)
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


def _required_text(reply: RawItem, key: str) -> str:
    text = text_of(reply, key)
    if not text:
        raise UsageError(f"the provider's reply has no {key}")
    return text
