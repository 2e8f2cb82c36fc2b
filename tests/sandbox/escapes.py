"""Programs that try to get out of a sandbox or to use up the machine, each with what must hold.

Run as a program, `python -m tests.sandbox.escapes BACKEND CASE`, so that a case can be tried as
another user, from a process that has something to lose: a secret in its environment.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import cast

from tests.sandbox.escape_programs import (
    descriptors,
    network,
    parents_environment,
    privileges,
    reading_outside,
    symlink_tricks,
    writing_outside,
)
from tests.sandbox.exhaustion_programs import (
    daemons,
    disk,
    endless_loop,
    endless_output,
    fork_bomb,
    memory_bomb,
    memory_bomb_of_many,
)
from tests.sandbox.trial import Trial
from toolcrib.sandbox import BackendName, find_sandbox

CASES: dict[str, Callable[[Trial], Awaitable[None]]] = {
    case.__name__: case
    for case in (
        fork_bomb,
        memory_bomb,
        memory_bomb_of_many,
        endless_loop,
        endless_output,
        reading_outside,
        writing_outside,
        network,
        parents_environment,
        symlink_tricks,
        daemons,
        disk,
        privileges,
        descriptors,
    )
}


async def main(backend: BackendName, case: str) -> None:
    await CASES[case](Trial(await find_sandbox(backend)))


if __name__ == "__main__":
    asyncio.run(main(cast("BackendName", sys.argv[1]), sys.argv[2]))
