"""Several calls at once, answered in the order they were asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from toolcrib.calls.call import Caller
from toolcrib.calls.validate import RawArguments
from toolcrib.errors import UsageError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A call to make."""

    name: str
    arguments: RawArguments = None
    call_id: str | None = None
    caller: Caller | None = None


async def run_all(
    works: Sequence[Callable[[], Awaitable[T]]], max_parallel: int | None = None
) -> list[T]:
    """Run everything, at most `max_parallel` at a time; results in the order given.

    When one raises (a lost lease, a cancellation), the others are cancelled and it is raised.
    """
    if max_parallel is not None and max_parallel < 1:
        raise UsageError(f"max_parallel must be 1 or more, not {max_parallel!r}")
    slots = asyncio.Semaphore(max_parallel) if max_parallel is not None else None

    async def run(work: Callable[[], Awaitable[T]]) -> T:
        if slots is None:
            return await work()
        async with slots:
            return await work()

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run(work)) for work in works]
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
    return [task.result() for task in tasks]
