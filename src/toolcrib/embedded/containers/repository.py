"""The containers of a provider."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shlex
import sqlite3
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from toolcrib.egress import EgressPolicy
from toolcrib.embedded.containers.container import MEMORY, Container, ContainerOptions
from toolcrib.embedded.containers.files import ContainerFiles
from toolcrib.embedded.containers.interpreter import WORK_AT, Interpreter
from toolcrib.embedded.containers.interpreter_pool import (
    LIBRARIES,
    MAX_INTERPRETERS,
    InterpreterPool,
    installed,
)
from toolcrib.embedded.containers.proxies import ContainerProxies
from toolcrib.embedded.database import SweepInterval
from toolcrib.embedded.faults import invalid, missing
from toolcrib.errors import SandboxUnavailable
from toolcrib.sandbox.command import MEBIBYTE, Command, SandboxLimits
from toolcrib.sandbox.detection import find_sandbox

if TYPE_CHECKING:
    from toolcrib.clock import Clock
    from toolcrib.embedded.access import ResourceAccess
    from toolcrib.embedded.containers.container import ContainerFile
    from toolcrib.embedded.database import Database
    from toolcrib.embedded.file_repository import FileRepository
    from toolcrib.sandbox.command import CommandResult
    from toolcrib.sandbox.sandbox import Sandbox

logger = logging.getLogger(__name__)

MAX_LOGS: Final = MEBIBYTE
_SWEEP_SECONDS: Final = 60.0
_CPU_SECONDS: Final = 3600
MAX_TURNS_OF_OWNER: Final = 4
"""Containers of one principal in which code runs at once."""


class ContainerRepository:
    """Creates containers and runs their interpreters.

    `files` are the files in the containers. `seconds` limits one execution or command. A container
    that the principal of a request may not see counts as missing.
    """

    def __init__(
        self,
        database: Database,
        folder: Path,
        uploads: FileRepository,
        clock: Clock,
        *,
        egress: EgressPolicy | None = None,
        allow_network: bool = False,
        allow_unconfined: bool = False,
        seconds: float = 60.0,
    ) -> None:
        self._database = database
        self._uploads = uploads
        self._clock = clock
        self.files = ContainerFiles(database, folder, clock)
        self.allow_network = allow_network
        self.seconds = seconds
        self._allow_unconfined = allow_unconfined
        self._interpreters = InterpreterPool()
        self._proxies = ContainerProxies(egress or EgressPolicy())
        self._locks: dict[str, asyncio.Lock] = {}
        self._turns = asyncio.Semaphore(MAX_INTERPRETERS)
        self._turns_of_owners: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._sweeps = SweepInterval(clock, _SWEEP_SECONDS)
        self._named: str | None = None

    async def create(self, options: ContainerOptions, access: ResourceAccess) -> Container:
        """Create a container for the principal, with the files that its options name. Raises
        `ApiFault`.
        """
        await self.check_network(options)
        if self._sweeps.has_elapsed():
            await self.sweep()
        contents = [
            (
                await self._uploads.get(file_id, access, "file_ids"),
                await self._uploads.read(file_id, "file_ids"),
            )
            for file_id in options.file_ids
        ]
        now = int(self._clock())
        container = Container(
            id=self._database.new_id("cntr"),
            name=options.name,
            status="running",
            created_at=now,
            last_active_at=now,
            expires_minutes=options.minutes,
            memory_limit=options.memory_limit,
            owner=access.owner,
            has_network=options.has_network,
            domains=options.domains,
        )
        await self._database.ask(lambda connection: _insert(connection, container))
        try:
            for stored, data in contents:
                await self.files.put(container, f"{stored.id}-{stored.filename}", data)
        except BaseException:
            await self.delete(container)
            raise
        return container

    async def check_network(self, options: ContainerOptions) -> None:
        """Raises `ApiFault` when nothing here can hold a container to its list of domains."""
        if options.domains is None:
            return
        try:
            backend = (await self.sandbox()).backend
        except SandboxUnavailable as error:
            raise invalid(f"A list of domains cannot be enforced here: {error}.") from None
        if backend != "bubblewrap":
            raise invalid(
                "A list of domains cannot be enforced here: it needs a network namespace, which "
                f"bubblewrap makes, and code is confined by {backend}."
            )

    async def get(self, container_id: str, access: ResourceAccess) -> Container:
        """A container, expired or not. Raises `ApiFault`."""
        row = await self._database.ask(
            lambda connection: connection.execute(
                "select * from containers where id = ?", (container_id,)
            ).fetchone()
        )
        if row is None:
            raise missing("Container", container_id, here=self._database.place)
        container = Container.of(row)
        access.check(container.owner, missing("Container", container_id, here=self._database.place))
        return container

    async def use(self, container_id: str, access: ResourceAccess) -> Container:
        """A container to run code in; its idle time starts anew. Raises `ApiFault`."""
        container, now = await self.get(container_id, access), self._clock()
        if container.is_expired(now):
            await self._empty(container)
            raise invalid("Container is expired.")

        def touch(connection: sqlite3.Connection) -> None:
            connection.execute(
                "update containers set last_active_at = ? where id = ?", (int(now), container_id)
            )

        await self._database.ask(touch)
        return replace(container, last_active_at=int(now))

    async def add_files(
        self, container: Container, file_ids: Sequence[str], access: ResourceAccess
    ) -> None:
        """Put uploaded files into a container under their names, unless they are there. Raises
        `ApiFault`.
        """
        names = {file.name for file in await self.files.list(container)}
        for file_id in file_ids:
            stored = await self._uploads.get(file_id, access)
            if stored.filename not in names:
                data = await self._uploads.read(file_id)
                await self.files.put(container, stored.filename, data)

    async def file(
        self, file_id: str, access: ResourceAccess
    ) -> tuple[Container, ContainerFile] | None:
        """A file in one of the principal's containers, by its id. Raises `ApiFault`."""
        row = await self._database.ask(
            lambda connection: connection.execute(
                "select container_id from container_files where id = ?", (file_id,)
            ).fetchone()
        )
        if row is None:
            return None
        container = await self.get(row["container_id"], access)
        return container, await self.files.get(container, file_id)

    async def list(self, owner: str | None) -> list[Container]:
        """The containers of an owner, or without one all of them; the oldest first."""
        rows = await self._database.ask(
            lambda connection: connection.execute(
                "select * from containers where ? is null or owner = ? order by created_at, rowid",
                (owner, owner),
            ).fetchall()
        )
        return [Container.of(row) for row in rows]

    async def resource(self, container: Container) -> dict[str, Any]:
        """The container as the API returns it, with the name of its sandbox backend."""
        return {**container.resource(self._clock()), "toolcrib_sandbox": await self._backend()}

    async def delete(self, container: Container) -> None:
        """Delete a container and its files."""
        await self._empty(container)

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("delete from containers where id = ?", (container.id,))

        await self._database.ask(write)

    async def sweep(self) -> None:
        """Remove the files and interpreters of expired containers; their records stay."""
        now = self._clock()
        for container in await self.list(None):
            if container.is_expired(now) and self.files.has_any(container):
                await self._empty(container)

    async def close(self) -> None:
        """End every interpreter and every proxy."""
        await self._interpreters.close()
        await self._proxies.close()

    @asynccontextmanager
    async def turn(self, container: Container) -> AsyncGenerator[None]:
        """Wait until code of the container may run: one piece at a time, and of all containers of
        a principal, and of all together, only so many that the machine stays usable.
        """
        lock = self._locks.setdefault(container.id, asyncio.Lock())
        of_owner = asyncio.Semaphore(MAX_TURNS_OF_OWNER)
        of_owner = self._turns_of_owners.setdefault(container.owner, of_owner)
        async with lock, of_owner, self._turns:
            yield

    async def sandbox(self) -> Sandbox:
        """The strongest sandbox that works on this machine. Raises `SandboxUnavailable`."""
        sandbox = await find_sandbox(allow_unconfined=self._allow_unconfined)
        if self._named != sandbox.backend:
            self._named = sandbox.backend
            logger.info("code of containers is confined by %s", sandbox.backend)
        return sandbox

    def limits(self, container: Container, seconds: float | None) -> SandboxLimits:
        """The limits of code in a container."""
        return SandboxLimits(
            seconds=seconds,
            cpu_seconds=_CPU_SECONDS,
            # The caller names the limit, and must not name away the memory of the machine.
            memory_bytes=min(MEMORY[container.memory_limit], _machine_memory() // 4),
            # The interpreter answers in JSON, where one byte may take six.
            output_bytes=8 * MAX_LOGS,
        )

    async def interpreter(self, container: Container) -> Interpreter:
        """The running interpreter of a container. Raises `SandboxUnavailable`."""
        sandbox, proxy = await self.sandbox(), await self._proxies.socket(container)
        return await self._interpreters.get(
            container.id,
            lambda: Interpreter(
                sandbox,
                self.files.work(container),
                libraries=installed(LIBRARIES),
                fonts=self._interpreters.fonts(sandbox),
                limits=self.limits(container, None),
                network=container.has_network,
                proxy=proxy,
                most_logs=MAX_LOGS,
            ),
        )

    async def run(self, container: Container, text: str, seconds: float) -> CommandResult:
        """Run a shell command in a container. Raises `SandboxUnavailable`, `SandboxFailed`."""
        sandbox, work = await self.sandbox(), self.files.work(container)
        if sandbox.backend != "bubblewrap":
            # Only bubblewrap can mount the folder at another path.
            text = text.replace(str(WORK_AT), shlex.quote(str(work.path)))
        command = Command(
            argv=("/bin/sh", "-c", text),
            env={"HOME": "/tmp", "LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin"},
            network=container.has_network,
            proxy=await self._proxies.socket(container),
            limits=self.limits(container, seconds),
            work_at=WORK_AT,
        )
        return await sandbox.run(command, work=work)

    async def _backend(self) -> str | None:
        try:
            return (await self.sandbox()).backend
        except SandboxUnavailable:
            return None

    async def _empty(self, container: Container) -> None:
        await self._interpreters.drop(container.id)
        await self._proxies.drop(container.id)
        self._locks.pop(container.id, None)
        await self.files.remove_all(container)


def _machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _insert(connection: sqlite3.Connection, container: Container) -> None:
    connection.execute(
        "insert into containers values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            container.id,
            container.name,
            container.status,
            container.created_at,
            container.last_active_at,
            container.expires_minutes,
            container.memory_limit,
            json.dumps(container.network_policy),
            container.owner,
        ),
    )
