"""The front ends of `frontend_client.mjs`, driven from a test."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.node.peers import MODULES, command, environment

_PROGRAM = Path(__file__).with_name("frontend_client.mjs")

Json = dict[str, Any]


class FrontendClient:
    """A Node process with chats and agents in it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    async def ask(self, op: str, name: str, **fields: Any) -> Any:
        """Run one command. A fault of the script itself fails the test."""
        given = {key: value for key, value in fields.items() if value is not None}
        reply = await asyncio.to_thread(self._exchange, {"op": op, "name": name, **given})
        assert "fault" not in reply, reply
        return reply["value"]

    def _exchange(self, sent: Json) -> Json:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(sent) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@contextmanager
def frontend_client() -> Generator[FrontendClient]:
    """The process, for as long as the block lasts."""
    with subprocess.Popen(
        [command("node"), str(_PROGRAM), str(MODULES)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        try:
            yield FrontendClient(process)
        finally:
            process.kill()
