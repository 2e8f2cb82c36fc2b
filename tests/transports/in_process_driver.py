"""The suite without any transport."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.transports.shop import shop
from tests.transports.suite import SESSION, AskingDriver, Driver, Json, column
from toolcrib.runtime.runtime import Runtime
from toolcrib.runtime.service import as_json


class InProcess(AskingDriver):
    """Asks the runtime itself."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def ask(self, method: str, params: Json) -> Json:
        return as_json(await self._runtime.ask(method, params))

    async def events(self) -> AsyncGenerator[Json]:
        reader = self._runtime.service.follow(SESSION, 0)
        try:
            async for envelope in reader:
                yield as_json(envelope)
        finally:
            reader.close()


@asynccontextmanager
async def opened(has_model: bool) -> AsyncGenerator[Driver]:
    async with shop(has_model=has_model) as runtime:
        driver = InProcess(runtime)
        await driver.ask("session.create", {"session_id": SESSION})
        yield driver


column("in-process", opened)
