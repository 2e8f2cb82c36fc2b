"""An editor of the SDK's: what it is told and asked, and what its person answers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acp import schema
from acp.client.connection import ClientSideConnection
from acp.exceptions import RequestError
from acp.stdio import spawn_agent_process

from tests.helpers.child_process import PYTHON_PATH
from tests.helpers.patience import PATIENCE
from tests.transports.stdio_host import ROOT

SHOP = (sys.executable, "-m", "tests.transports.acp.shop_agent")
ALL = schema.ClientCapabilities(
    fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True), terminal=True
)


@dataclass(frozen=True, slots=True)
class Question:
    """A request for permission that the person has yet to answer."""

    session_id: str
    call: schema.ToolCallUpdate
    options: list[schema.PermissionOption]
    answer: asyncio.Future[schema.RequestPermissionResponse]

    def choose(self, option_id: str) -> None:
        outcome = schema.AllowedOutcome(outcome="selected", option_id=option_id)
        self.answer.set_result(schema.RequestPermissionResponse(outcome=outcome))

    def dismiss(self) -> None:
        outcome = schema.DeniedOutcome(outcome="cancelled")
        self.answer.set_result(schema.RequestPermissionResponse(outcome=outcome))

    def fail(self) -> None:
        self.answer.set_exception(RequestError.internal_error({"details": "no screen"}))


@dataclass(slots=True)
class TheEditor:
    """Keeps every update; files are in `files`, and commands print what they are."""

    updates: list[Any] = field(default_factory=list[Any])
    questions: asyncio.Queue[Question] = field(default_factory=asyncio.Queue[Question])
    forms: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    filled: list[Any] = field(default_factory=list[Any])
    """What the person makes of each form."""
    events: asyncio.Queue[Any] = field(default_factory=asyncio.Queue[Any])
    files: dict[str, str] = field(default_factory=dict[str, str])
    released: list[str] = field(default_factory=list[str])
    killed: list[str] = field(default_factory=list[str])
    may_exit: asyncio.Event = field(default_factory=asyncio.Event)
    began: asyncio.Event = field(default_factory=asyncio.Event)

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **_: Any
    ) -> schema.RequestPermissionResponse:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.questions.put_nowait(Question(session_id, tool_call, options, answer))
        return await answer

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> Any:
        self.forms.append((message, mode))
        return self.filled.pop(0)

    async def read_text_file(self, path: str, **_: Any) -> schema.ReadTextFileResponse:
        if path not in self.files:
            raise RequestError(-32002, f"{path} is not open here")
        return schema.ReadTextFileResponse(content=self.files[path])

    async def write_text_file(self, path: str, content: str, **_: Any) -> None:
        self.files[path] = content

    async def create_terminal(self, command: str, **_: Any) -> schema.CreateTerminalResponse:
        return schema.CreateTerminalResponse(terminal_id=f"terminal of {command}")

    async def wait_for_terminal_exit(self, **_: Any) -> schema.WaitForTerminalExitResponse:
        self.began.set()
        await self.may_exit.wait()
        return schema.WaitForTerminalExitResponse(exit_code=3)

    async def terminal_output(self, terminal_id: str, **_: Any) -> schema.TerminalOutputResponse:
        return schema.TerminalOutputResponse(output=f"out of the {terminal_id}", truncated=False)

    async def release_terminal(self, terminal_id: str, **_: Any) -> None:
        self.released.append(terminal_id)

    async def kill_terminal(self, terminal_id: str, **_: Any) -> None:
        self.killed.append(terminal_id)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        self.events.put_nowait((method, params))

    def told(self, kind: str) -> list[Any]:
        """The updates of a kind so far."""
        return [each for each in self.updates if each.session_update == kind]

    def text(self, kind: str = "agent_message_chunk") -> str:
        """What was said so far, by the agent or by the person."""
        return "".join(each.content.text for each in self.told(kind))

    def statuses(self, call_id: str) -> list[str]:
        """What became of a call, update by update."""
        found = [*self.told("tool_call"), *self.told("tool_call_update")]
        mine = [each for each in self.updates if each in found and each.tool_call_id == call_id]
        return [each.status for each in mine if each.status]


def why(refused: RequestError) -> str:
    """The kind of a refusal."""
    data: dict[str, Any] | None = refused.data
    assert data is not None
    return data["kind"]


@dataclass(frozen=True, slots=True)
class Desk:
    """An editor and the way to its agent."""

    editor: TheEditor
    agent: ClientSideConnection

    async def ask(self, operation: str, **params: Any) -> Any:
        """An operation of the runtime, by the extension."""
        return await self.agent.ext_method(f"toolcrib/{operation}", params)

    async def open(self, cwd: str = "/") -> str:
        return (await self.agent.new_session(cwd=cwd)).session_id

    async def prompt(self, session_id: str, text: str) -> schema.PromptResponse:
        block = schema.TextContentBlock(type="text", text=text)
        return await self.agent.prompt(session_id=session_id, prompt=[block])

    async def question(self) -> Question:
        async with asyncio.timeout(PATIENCE):
            return await self.editor.questions.get()


@asynccontextmanager
async def desk(
    *flags: str,
    command: tuple[str, ...] = SHOP,
    capabilities: schema.ClientCapabilities | None = None,
    cwd: str | Path = ROOT,
) -> AsyncGenerator[tuple[Desk, asyncio.subprocess.Process]]:
    """An agent in a process of its own, initialized."""
    editor = TheEditor()
    options = {"stderr": None, "limit": 50_000_000, "shutdown_timeout": PATIENCE}
    env = {"PYTHONPATH": PYTHON_PATH}
    spawned = spawn_agent_process(
        editor,  # pyright: ignore[reportArgumentType]
        *command,
        *flags,
        env=env,
        cwd=cwd,
        transport_kwargs=options,
    )
    async with spawned as (agent, process):
        await agent.initialize(protocol_version=1, client_capabilities=capabilities)
        yield Desk(editor, agent), process
