"""A tool that gives its secrets away in every way it can, and a search of every file for them."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from tests.calls.payments import kind_of
from toolcrib.approval.decision import Decision
from toolcrib.approval.policy import Policy
from toolcrib.calls.executor import Executor
from toolcrib.errors import ApprovalRequired, ModelRetry
from toolcrib.session.session import Session
from toolcrib.store import SqliteStore
from toolcrib.tools.context import ToolContext
from toolcrib.tools.decorator import tool
from toolcrib.tools.result import ToolResult
from toolcrib.tools.secrets import Secret

TOKEN = 'tök"en\\with\nall-7f3a9c'
PIN = 918273645
KEYS = ["first-key-51ab", "second-key-77cd"]
ARGUMENTS: dict[str, Any] = {
    "user": "ada",
    "token": TOKEN,
    "pin": PIN,
    "vault": {"name": "main", "keys": KEYS},
}
SECRETS = [TOKEN, str(PIN), *KEYS]


@dataclass(frozen=True, slots=True)
class KeyRing:
    name: str
    keys: Annotated[list[str], Secret()] = field(default_factory=list[str])


def forms(secret: str) -> set[bytes]:
    """How the bytes of a secret may look in a file."""
    escaped = json.dumps(secret)[1:-1]
    unescaped = json.dumps(secret, ensure_ascii=False)[1:-1]
    return {secret.encode(), escaped.encode(), unescaped.encode()}


def files_with_secrets(folder: Path) -> set[str]:
    """The files in which any secret can be found."""
    needles = [form for secret in SECRETS for form in forms(secret)]
    found: set[str] = set()
    for path in folder.rglob("*"):
        if path.is_file() and any(needle in path.read_bytes() for needle in needles):
            found.add(str(path.relative_to(folder)))
    return found


def assert_only_in_vault(folder: Path) -> None:
    """While a call is open, its secrets lie in owner-only files beside the database."""
    found = files_with_secrets(folder)
    assert found, "an open call must be able to go on"
    for name in found:
        assert name.startswith("crib.sqlite3-open/"), found
        assert (folder / name).stat().st_mode & 0o777 == 0o600


@dataclass
class Bench:
    """A session on disk with a tool that gives its secrets away in every way it can."""

    folder: Path
    session: Session
    is_running: asyncio.Event
    may_end: asyncio.Event
    policy: Policy | None = None

    def executor(self) -> Executor:
        bench = self

        @tool(max_result_chars=200)
        async def login(
            ctx: ToolContext,
            user: str,
            token: Annotated[str, Secret()],
            pin: Annotated[int, Secret()],
            vault: KeyRing,
            how: str = "value",
        ) -> Any:
            """Log in."""
            said = f"{user} {token} {pin} {vault.keys}"
            ctx.progress(1, 2, said)
            ctx.output(said)
            ctx.emit("tool.login.step", {"said": [said, pin, {token: vault.keys}]})
            bench.is_running.set()
            await bench.may_end.wait()
            return WAYS[how](ctx, said, ARGUMENTS)

        return Executor(self.session, [login], policy=self.policy)

    async def call(self, **more: Any) -> str:
        return kind_of(await self.executor().call("login", {**ARGUMENTS, **more}, call_id="c1"))

    async def decide(self, decision: Decision) -> list[str]:
        await self.session.approvals.decide("c1", decision, by="jo")
        return [kind_of(each) for each in await self.executor().resume()]


def fail(error: Exception) -> Any:
    raise error


def ask(ctx: ToolContext, said: str) -> Any:
    if not ctx.tool_call_approved:
        raise ApprovalRequired({"preview": said})
    return said


WAYS: dict[str, Callable[[ToolContext, str, Any], Any]] = {
    "value": lambda ctx, said, arguments: {"said": said, "arguments": arguments},
    "text": lambda ctx, said, arguments: said,
    "json text": lambda ctx, said, arguments: json.dumps(arguments),
    "artifact": lambda ctx, said, arguments: said * 100,
    "exception": lambda ctx, said, arguments: fail(PermissionError(said)),
    "failed result": lambda ctx, said, arguments: ToolResult(
        value=arguments, message=said, success=False
    ),
    "ask": lambda ctx, said, arguments: ask(ctx, said),
    "retry": lambda ctx, said, arguments: fail(ModelRetry(said)),
}


async def open_bench(folder: Path, policy: Policy | None = None) -> Bench:
    session = await Session.open(SqliteStore(folder / "crib.sqlite3"), "s")
    may_end = asyncio.Event()
    may_end.set()
    return Bench(folder, session, asyncio.Event(), may_end, policy)


async def close(bench: Bench) -> None:
    """Close the session and its file; nothing is left in any file."""
    assert files_with_secrets(bench.folder) == set()
    await bench.session.close()
    bench.session.store.close()
    assert files_with_secrets(bench.folder) == set()


async def live(folder: Path) -> None:
    """Start a call, say so, and wait to be killed."""
    bench = await open_bench(folder)
    bench.may_end.clear()
    async with asyncio.TaskGroup() as group:
        group.create_task(bench.call())
        await bench.is_running.wait()
        await bench.session.ledger.flush()
        print("ready", flush=True)
