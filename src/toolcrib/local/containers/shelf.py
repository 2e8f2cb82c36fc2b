"""All containers of a provider: their folders, files and warm interpreters."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolcrib.local.containers.container import (
    MEMORY,
    Container,
    ContainerTerms,
    FileInContainer,
)
from toolcrib.local.containers.interpreter import WORK_AT, Interpreter
from toolcrib.local.faults import ApiFault, invalid, missing
from toolcrib.local.files.shelf import safe_name
from toolcrib.local.ids import new_id
from toolcrib.sandbox.choosing import find_sandbox
from toolcrib.sandbox.command import MEBIBYTE, Limits
from toolcrib.sandbox.work import WorkDirectory

if TYPE_CHECKING:
    from toolcrib.local.database import Database
    from toolcrib.local.files.shelf import FileShelf
    from toolcrib.sandbox.sandbox import Sandbox
    from toolcrib.store.store import Clock

LIBRARIES: Final = ("matplotlib", "pandas")
MOST_WARM: Final = 8
"""Interpreters that are kept; the one that was not used for longest makes room."""

MOST_LOGS: Final = MEBIBYTE
MOST_FILE_BYTES: Final = 128 * MEBIBYTE
_HIDDEN: Final = ".figures/"


class ContainerShelf:
    """Makes containers and lets code work in them."""

    def __init__(
        self,
        database: Database,
        folder: Path,
        files: FileShelf,
        clock: Clock,
        *,
        allow_network: bool = False,
        allow_unconfined: bool = False,
    ) -> None:
        self._database = database
        self._folder = folder
        self._files = files
        self._clock = clock
        self.allow_network = allow_network
        self._allow_unconfined = allow_unconfined
        self._warm: OrderedDict[str, Interpreter] = OrderedDict()
        self._locks: dict[str, asyncio.Lock] = {}

    async def create(self, terms: ContainerTerms) -> Container:
        """A new container with its files. Raises `ApiFault`."""
        contents = [
            (await self._files.get(each), await self._files.read(each)) for each in terms.file_ids
        ]
        now = int(self._clock())
        container = Container(
            id=new_id("cntr"),
            name=terms.name,
            status="running",
            created_at=now,
            last_active_at=now,
            expires_minutes=terms.minutes,
            memory_limit=terms.memory_limit,
            has_network=terms.has_network,
        )
        await self._database.ask(lambda connection: _insert(connection, container))
        for stored, data in contents:
            await self.put(container, f"{stored.id}-{stored.filename}", data)
        return container

    async def get(self, container_id: str) -> Container:
        """A container, expired or not. Raises `ApiFault`."""
        row = await self._database.ask(
            lambda connection: connection.execute(
                "select * from containers where id = ?", (container_id,)
            ).fetchone()
        )
        if row is None:
            raise missing("Container", container_id)
        return Container.of(row)

    async def use(self, container_id: str) -> Container:
        """A container to work in, whose time begins anew. Raises `ApiFault`."""
        container, now = await self.get(container_id), self._clock()
        if container.is_expired(now):
            await self._empty(container)
            raise invalid("Container is expired.")

        def touch(connection: sqlite3.Connection) -> None:
            connection.execute(
                "update containers set last_active_at = ? where id = ?", (int(now), container_id)
            )

        await self._database.ask(touch)
        return replace(container, last_active_at=int(now))

    async def list(self) -> list[Container]:
        """All containers, the oldest first."""
        rows = await self._database.ask(
            lambda connection: connection.execute(
                "select * from containers order by created_at, rowid"
            ).fetchall()
        )
        return [Container.of(row) for row in rows]

    async def delete(self, container_id: str) -> None:
        """Let go of a container and its files. Raises `ApiFault`."""
        await self._empty(await self.get(container_id))

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("delete from containers where id = ?", (container_id,))

        await self._database.ask(write)

    async def sweep(self) -> None:
        """Remove what is left of containers that are over their time."""
        now = self._clock()
        for container in await self.list():
            if container.is_expired(now):
                await self._empty(container)

    async def close(self) -> None:
        """End every interpreter."""
        while self._warm:
            _, interpreter = self._warm.popitem()
            await interpreter.close()

    def work(self, container: Container) -> WorkDirectory:
        """The folder of a container."""
        return WorkDirectory.at(self._folder / container.id)

    def lock(self, container: Container) -> asyncio.Lock:
        """Held while something runs in it: code of one container runs one after the other."""
        return self._locks.setdefault(container.id, asyncio.Lock())

    async def sandbox(self) -> Sandbox:
        """What confines. Raises `SandboxUnavailable`."""
        return await find_sandbox(allow_unconfined=self._allow_unconfined)

    def limits(self, container: Container, seconds: float | None) -> Limits:
        """What code in a container may use."""
        return Limits(
            seconds=seconds,
            cpu_seconds=3600,
            memory_bytes=MEMORY[container.memory_limit],
            # Its answers are JSON, in which a byte may take six.
            output_bytes=8 * MOST_LOGS,
        )

    async def interpreter(self, container: Container) -> Interpreter:
        """The warm Python of a container. Raises `SandboxUnavailable`."""
        known = self._warm.pop(container.id, None)
        if known is None:
            while len(self._warm) >= MOST_WARM:
                _, oldest = self._warm.popitem(last=False)
                await oldest.close()
            known = Interpreter(
                await self.sandbox(),
                self.work(container),
                libraries=installed(LIBRARIES),
                limits=self.limits(container, None),
                network=container.has_network,
                most_logs=MOST_LOGS,
            )
        self._warm[container.id] = known
        return known

    async def put(
        self, container: Container, filename: str, data: bytes, source: str = "user"
    ) -> FileInContainer:
        """Put a file into a container."""
        name = safe_name(filename)
        await asyncio.to_thread(self.work(container).write, name, data)
        digest = hashlib.sha256(data).hexdigest()
        return await self._note(container, name, len(data), digest, source)

    async def files(self, container: Container) -> list[FileInContainer]:
        """The known files of a container, the oldest first."""
        rows = await self._database.ask(
            lambda connection: connection.execute(
                "select * from container_files where container_id = ? order by created_at, rowid",
                (container.id,),
            ).fetchall()
        )
        return [FileInContainer(**dict(row)) for row in rows]

    async def file(self, container: Container, file_id: str) -> FileInContainer:
        """One file of a container. Raises `ApiFault`."""
        for each in await self.files(container):
            if each.id == file_id:
                return each
        raise missing("Container file", file_id)

    async def read(self, container: Container, file: FileInContainer) -> bytes:
        """The bytes of a file. Raises `ApiFault` when the code has taken it away meanwhile."""
        name = file.path.removeprefix(f"{WORK_AT}/")
        try:
            return await asyncio.to_thread(self.work(container).read, name, MOST_FILE_BYTES)
        except OSError:
            raise missing("Container file", file.id) from None

    async def remove(self, container: Container, file: FileInContainer) -> None:
        """Remove a file from a container."""
        name = file.path.removeprefix(f"{WORK_AT}/")
        try:
            await asyncio.to_thread(self.work(container).delete, name)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise ApiFault(409, f"The file cannot be removed: {error.strerror}.") from None

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("delete from container_files where id = ?", (file.id,))

        await self._database.ask(write)

    async def changed(self, container: Container) -> list[FileInContainer]:
        """Look at the folder after code has run; returns the files that it made or changed."""
        known = {file.path: file.digest for file in await self.files(container)}
        found = await asyncio.to_thread(_digests, self.work(container))
        changed: list[FileInContainer] = []
        for name, (size, digest) in found.items():
            if not name.startswith(_HIDDEN) and known.get(f"{WORK_AT}/{name}") != digest:
                changed.append(await self._note(container, name, size, digest, "assistant"))
        gone = set(known) - {f"{WORK_AT}/{name}" for name in found}

        def write(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "delete from container_files where container_id = ? and path = ?",
                [(container.id, path) for path in gone],
            )

        await self._database.ask(write)
        return changed

    async def keep_figure(self, container: Container, figure: str) -> tuple[FileInContainer, bytes]:
        """A figure that code drew, as a file of its own, and its bytes."""
        work = self.work(container)
        data = await asyncio.to_thread(work.read, figure, MOST_FILE_BYTES)
        await asyncio.to_thread(work.delete, figure)
        name = f"{new_id('figure')[:19]}.png"
        return await self.put(container, name, data, "assistant"), data

    async def _note(
        self, container: Container, name: str, size: int, digest: str, source: str
    ) -> FileInContainer:
        """A file that changed has a new id, so that what was cited stays what it was called."""
        noted = FileInContainer(
            id=new_id("cfile"),
            container_id=container.id,
            path=f"{WORK_AT}/{name}",
            bytes=size,
            source=source,
            digest=digest,
            created_at=int(self._clock()),
        )
        await self._database.ask(lambda connection: _insert_file(connection, noted))
        return noted

    async def _empty(self, container: Container) -> None:
        interpreter = self._warm.pop(container.id, None)
        if interpreter is not None:
            await interpreter.close()
        self._locks.pop(container.id, None)
        await asyncio.to_thread(self.work(container).remove)

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(
                "delete from container_files where container_id = ?", (container.id,)
            )

        await self._database.ask(write)


def installed(libraries: tuple[str, ...]) -> tuple[str, ...]:
    """Those libraries that are installed here."""
    from importlib.metadata import PackageNotFoundError, distribution

    found: list[str] = []
    for name in libraries:
        try:
            distribution(name)
        except PackageNotFoundError:
            continue
        found.append(name)
    return tuple(found)


def _digests(work: WorkDirectory) -> dict[str, tuple[int, str]]:
    found: dict[str, tuple[int, str]] = {}
    for file in work.files():
        try:
            data = work.read(file.name, MOST_FILE_BYTES)
        except OSError:
            continue
        found[file.name] = (len(data), hashlib.sha256(data).hexdigest())
    return found


def _insert(connection: sqlite3.Connection, container: Container) -> None:
    network: dict[str, Any] = {"type": "allowlist" if container.has_network else "disabled"}
    connection.execute(
        "insert into containers values (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            container.id,
            container.name,
            container.status,
            container.created_at,
            container.last_active_at,
            container.expires_minutes,
            container.memory_limit,
            json.dumps(network),
        ),
    )


def _insert_file(connection: sqlite3.Connection, file: FileInContainer) -> None:
    connection.execute(
        "insert or replace into container_files values (?, ?, ?, ?, ?, ?, ?)",
        (
            file.id,
            file.container_id,
            file.path,
            file.bytes,
            file.source,
            file.digest,
            file.created_at,
        ),
    )
