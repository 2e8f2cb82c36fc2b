"""A process of its own that evaluates or resumes a prompt, and may die on the way."""

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

from tests.adapters.openai.loopback_adapter import QUICK, ask, sdk_client
from toolcrib import Prompt, Secret, Session, SqliteStore, tool
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.adapters.openai.code_interpreter_tool import OpenAICodeInterpreterTool
from toolcrib.ledger.events import Event
from toolcrib.tools.code_interpreter import CodeInterpreterResult
from toolcrib.tools.context import ToolContext
from toolcrib.tools.web_search import web_search_tool

SESSION = "ses_1"


@dataclass(frozen=True, slots=True)
class Life:
    """What a process is to do, and at which event it is to die, if at all."""

    url: str
    folder: str
    history: str = "server"
    resumes: bool = False
    dies_at: str | None = None
    stream: bool = False

    @property
    def store(self) -> Path:
        return Path(self.folder) / "toolcrib.sqlite3"

    @property
    def result(self) -> Path:
        return Path(self.folder) / "found.json"


def prompt(folder: str) -> Prompt[Any]:
    """A prompt with tools that leave a line in `ran.txt` each time they run."""
    ran = Path(folder) / "ran.txt"

    def leave(line: str) -> str:
        with ran.open("a") as file:
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
    def die() -> str:
        """Die in the middle of a call."""
        leave("dying")
        os.kill(os.getpid(), signal.SIGKILL)
        return "dead"

    @tool
    def login(password: Annotated[str, Secret()]) -> str:
        """Log in."""
        return leave(f"logged in with {len(password)} characters")

    @tool(is_idempotent=True)
    async def consult(ctx: ToolContext) -> str:
        """Ask the model something else."""
        return (await ctx.adapter.evaluate_async(ask(look, text="Within."))).text

    def hook(result: CodeInterpreterResult, context: ToolContext) -> None:
        leave(f"hooked {context.call_id}")

    python = OpenAICodeInterpreterTool(name="python", handle_provider_output=hook)
    return ask(look, pay, die, login, consult, hosted=[web_search_tool(), python])


async def live(life: Life) -> dict[str, Any]:
    """Evaluate or resume; what came of it, as JSON."""
    adapter = OpenAIAdapter(
        model="test-model",
        client=sdk_client(life.url),
        retry=QUICK,
        history="client" if life.history == "client" else "server",
    )
    store = SqliteStore(life.store)
    async with await Session.open(store, SESSION) as session:
        if life.dies_at is not None:
            session.bus.subscribe(Event, lambda event: _die_at(event, life.dies_at))
        work = adapter.resume_async if life.resumes else adapter.evaluate_async
        found = await work(prompt(life.folder), session=session, stream=life.stream)
    store.close()
    return {
        "status": found.status,
        "text": found.text,
        "pending": [request.call_id for request in found.pending],
        "invocations": [ran.item_id for _, ran in found.invocations],
        "outputs": sorted(found.hosted_outputs),
        "requests": found.usage.requests,
        "request_ids": list(found.request_ids),
    }


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
        [sys.executable, "-m", "tests.adapters.openai.evaluation_process"],
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


def ran(folder: Path) -> list[str]:
    """What tools and hooks did, over all processes."""
    path = folder / "ran.txt"
    return path.read_text().splitlines() if path.exists() else []


def _die_at(event: Event, kind: str | None) -> None:
    # Subscribers hear of an event when it is durable, and before anything follows from it.
    if event.kind == kind:
        os.kill(os.getpid(), signal.SIGKILL)


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
    import openai  # noqa: F401  # pyright: ignore[reportUnusedImport]

    _serve()
