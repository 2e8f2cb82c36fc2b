"""The suite over the pipes of a real process."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.transports.stdio_host import StdioHost, hosted
from tests.transports.suite import SESSION, AskingDriver, Driver, Json, column


class OverStdio(AskingDriver):
    """Asks a process."""

    def __init__(self, host: StdioHost) -> None:
        self._host = host

    async def ask(self, method: str, params: Json) -> Json:
        return await self._host.ask(method, params)

    async def events(self) -> AsyncGenerator[Json]:
        await self._host.ask("events.subscribe", {"session_id": SESSION})
        try:
            while True:
                yield await self._host.events(SESSION).get()
        finally:
            await self._host.ask("events.unsubscribe", {"session_id": SESSION})


@asynccontextmanager
async def opened(has_model: bool) -> AsyncGenerator[Driver]:
    async with hosted(*(["--model"] if has_model else [])) as host:
        driver = OverStdio(host)
        await driver.ask("session.create", {"session_id": SESSION})
        yield driver


column("stdio", opened)
