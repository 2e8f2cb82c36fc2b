"""DBOS bare: a workflow whose steps, the model's and the tools', are the only log."""

import asyncio

from dbos import DBOS, DBOSConfig
from engine_turn import ANSWER, CALLS, add, model


def start(url: str) -> None:
    """Launch it on a database of its own."""
    DBOS(config=DBOSConfig(name="bench", system_database_url=url, log_level="CRITICAL"))
    DBOS.launch()


@DBOS.step()
async def _model(step: int) -> int | str:
    return model(step)


@DBOS.step()
async def _call(number: int) -> int:
    return await add(number, 2)


@DBOS.workflow()
async def _turn() -> str:
    for step in range(CALLS + 1):
        said = await _model(step)
        if isinstance(said, str):
            return said
        await _call(said)
    raise AssertionError("no answer")


async def turn() -> None:
    """One turn, started in this process and waited for."""
    handle = await DBOS.start_workflow_async(_turn)
    if await handle.get_result() != ANSWER:
        raise SystemExit("the workflow came to another end")


async def stop() -> None:
    """End it."""
    await asyncio.to_thread(DBOS.destroy)
