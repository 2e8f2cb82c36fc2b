"""A process of its own that evaluates or resumes a prompt on a real model, and may die of it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from tests.adapters.pydantic_ai.provider_dialects import SPEECHES, certificates
from tests.adapters.pydantic_ai.scripted_adapter import QUICK, ask
from toolcrib import Prompt, Secret, Session, SqliteStore, tool
from toolcrib.adapters.pydantic_ai import PydanticAIAdapter
from toolcrib.ledger.events import Event
from toolcrib.tools.web_search import web_search_tool

SESSION = "ses_1"


@dataclass(frozen=True, slots=True)
class Life:
    """What a process is to do, and at which event it is to die, if at all: the first of its kind,
    or a later one.
    """

    url: str
    folder: str
    provider: str = "anthropic"
    resumes: bool = False
    dies_at: str | None = None
    at_number: int = 1
    stream: bool = False
    searches: bool = False

    @property
    def store(self) -> Path:
        return Path(self.folder) / "toolcrib.sqlite3"

    @property
    def result(self) -> Path:
        return Path(self.folder) / "found.json"


def prompt(folder: str, *, searches: bool) -> Prompt[Any]:
    """A prompt with tools that leave a line in `ran.txt` each time they run."""

    def leave(line: str) -> str:
        with (Path(folder) / "ran.txt").open("a") as file:
            file.write(line + "\n")
        return line

    @tool(is_read_only=True)
    def look() -> str:
        """Look around."""
        return leave("looked")

    @tool(requires_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        return leave(f"paid {amount}")

    @tool
    def login(password: Annotated[str, Secret()]) -> str:
        """Log in."""
        return leave(f"logged in with {len(password)} characters")

    return ask(look, pay, login, hosted=[web_search_tool()] if searches else [])


def ran(folder: Path) -> list[str]:
    """What tools did, over all processes."""
    path = folder / "ran.txt"
    return path.read_text().splitlines() if path.exists() else []


async def live(life: Life) -> dict[str, Any]:
    """Evaluate or resume; what came of it, as JSON."""
    adapter = PydanticAIAdapter(SPEECHES[life.provider].model(life.url), retry=QUICK)
    store = SqliteStore(life.store)
    async with await Session.open(store, SESSION) as session:
        if life.dies_at is not None:
            session.bus.subscribe(Event, Death(life.dies_at, life.at_number).hear)
        work = adapter.resume_async if life.resumes else adapter.evaluate_async
        found = await work(
            prompt(life.folder, searches=life.searches), session=session, stream=life.stream
        )
    store.close()
    return {
        "status": found.status,
        "text": found.text,
        "pending": [request.call_id for request in found.pending],
        "invocations": [[ran.item_id, ran.success] for _, ran in found.invocations],
        "outputs": sorted(found.hosted_outputs),
        "requests": found.usage.requests,
    }


class Death:
    """Kills the process when it hears of an event."""

    def __init__(self, kind: str, number: int) -> None:
        self._kind = kind
        self._left = number

    def hear(self, event: Event) -> None:
        """Subscribers hear of an event when it is durable, and before anything follows from it."""
        self._left -= event.kind == self._kind
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class Elsewhere:
    """Runs one process at a time."""

    def __init__(self, server: subprocess.Popen[str]) -> None:
        self._server = server

    def run(self, life: Life) -> dict[str, Any]:
        """Let another process live; what it came to, also when it killed itself."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(asdict(life)) + "\n")
        self._server.stdin.flush()
        status = int(self._server.stdout.readline())
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            return {"status": "killed"}
        assert status == 0, "the process failed; see its traceback above"
        return json.loads(life.result.read_text())


@contextmanager
def elsewhere() -> Generator[Elsewhere]:
    """A server that forks a process for each life, so that the imports are paid for once."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.adapters.pydantic_ai.evaluation_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    with server:
        try:
            yield Elsewhere(server)
        finally:
            server.kill()


def _serve() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _be(Life(**json.loads(line)))
        print(os.waitpid(pid, 0)[1], flush=True)


def _be(life: Life) -> None:
    """Be one life, and never return into the server's loop."""
    try:
        life.result.write_text(json.dumps(asyncio.run(live(life))))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    certificates()
    _serve()
