"""One connection that comes back by itself, for work that must not wait behind other work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from toolcrib.store.postgres.database import PostgresDatabase, close_connection, is_connection_lost

if TYPE_CHECKING:
    from toolcrib.store.postgres.database import DatabaseConnection

T = TypeVar("T")


class SideConnection:
    """Used by one task at a time. `on_connect` runs for every new connection."""

    def __init__(
        self,
        database: PostgresDatabase,
        on_connect: Callable[[DatabaseConnection], Awaitable[None]] | None = None,
    ) -> None:
        self._database = database
        self._on_connect = on_connect
        self._connection: DatabaseConnection | None = None
        self._lock = asyncio.Lock()

    async def use(self, work: Callable[[DatabaseConnection], Awaitable[T]], seconds: float) -> T:
        """Do some work, or give up after some seconds. Raises what the driver raises."""
        async with self._lock:
            try:
                async with asyncio.timeout(seconds):
                    return await work(await self._ready())
            except BaseException as error:
                if is_connection_lost(error) or isinstance(error, asyncio.CancelledError):
                    self._hang_up()
                raise

    async def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await close_connection(connection)

    async def _ready(self) -> DatabaseConnection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._prepared()
        return self._connection

    async def _prepared(self) -> DatabaseConnection:
        connection = await self._database.connect()
        try:
            if self._on_connect is not None:
                await self._on_connect(connection)
        except BaseException:
            # Not kept: nobody would prepare it later.
            connection.terminate()
            raise
        return connection

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
