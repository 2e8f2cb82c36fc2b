"""The calls of tasks: those that run here, and those that wait here for a decision."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams

from toolcrib.errors import Refused
from toolcrib.ledger.events import ToolInvoked
from toolcrib.runtime.principal import OWNER
from toolcrib.session.questions import answered_by
from toolcrib.store.store import ask_store
from toolcrib.transports.mcp.questions import NO_FORMS, HeldCall, can_show_forms
from toolcrib.transports.mcp.request import HERE, McpRequest

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from toolcrib.runtime.messages import CallResult
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.store.store import OpenCall
    from toolcrib.transports.mcp.client_sessions import ClientSession
    from toolcrib.transports.mcp.task import TaskId
    from toolcrib.transports.mcp.task_states import TaskStates

_MOST_WAITING: Final = 10_000
_MOST_REPLIES: Final = 256


@dataclass(frozen=True, slots=True)
class TaskWait:
    """A call that waits for a decision, and the client that takes its task, in a request of it."""

    client: ClientSession
    tool: str
    context: ServerRequestContext[Any, Any]


@dataclass(frozen=True, slots=True)
class TaskRun:
    """A call that this process runs for a task."""

    held: HeldCall
    result: asyncio.Future[CallResult]
    created_at: float

    @property
    def client(self) -> ClientSession:
        """The client that takes the task."""
        return self.held.client


class TaskCalls:
    """Runs the calls of tasks on, once they were decided, whether or not a client asks."""

    def __init__(self, runtime: Runtime, states: TaskStates) -> None:
        self._runtime = runtime
        self._states = states
        self._running: dict[TaskId, TaskRun] = {}
        self._waits: OrderedDict[TaskId, TaskWait] = OrderedDict()
        self._answered: OrderedDict[TaskId, McpRequest] = OrderedDict()
        self._watching: asyncio.Task[None] | None = None
        self._servings = 0

    @contextmanager
    def serving(self) -> Generator[None]:
        """Go on with calls that were decided, while any client is served."""
        self._servings += 1
        self._watch()
        try:
            yield
        finally:
            self._servings -= 1
            if self._servings == 0 and self._watching is not None:
                self._watching.cancel()

    def is_running(self, task_id: TaskId) -> bool:
        """Whether this process runs the call."""
        return task_id in self._running

    def running(self, task_id: TaskId) -> TaskRun | None:
        """The call, if this process runs it."""
        return self._running.get(task_id)

    def request_of(self, task_id: TaskId) -> McpRequest | None:
        """The request in which the handler answered for the client alone, as long as it is kept."""
        return self._answered.get(task_id)

    async def is_pending(self, call: OpenCall) -> bool:
        """Whether an open call still waits for a decision."""
        if call.approval_id is None:
            return False
        store = self._runtime.store
        filed = await ask_store(store, store.approval, call.approval_id)
        return filed is not None and filed.state == "pending"

    def keep(
        self,
        task_id: TaskId,
        held: HeldCall,
        running: asyncio.Future[CallResult],
        request: McpRequest,
    ) -> None:
        """Remember that a call runs here, and then what its handler answered for the client."""
        now = self._runtime.store.clock()
        self._running[task_id] = TaskRun(held, running, now)

        def ended(done: asyncio.Future[CallResult]) -> None:
            self._running.pop(task_id, None)
            if not done.cancelled():
                # The ledger has what came of it.
                done.exception()
            if request.reply is not None:
                self._answered[task_id] = request
                while len(self._answered) > _MOST_REPLIES:
                    self._answered.popitem(last=False)

        running.add_done_callback(ended)

    def go_on(self, task_id: TaskId, wait: TaskWait) -> None:
        """Run a call that was decided, or end it."""
        self._waits.pop(task_id, None)
        if task_id in self._running:
            return
        body = {
            "session_id": task_id.session_id,
            "name": wait.tool,
            "call_id": task_id.call_id,
        }
        request = McpRequest(wait.context, CallToolRequestParams(name=wait.tool))
        request.returning = held = HeldCall(wait.client, task_id.call_id, "", request)
        request.is_over = True
        here = HERE.set(request)
        try:
            with answered_by(held if can_show_forms(wait.context) else NO_FORMS):
                running = asyncio.ensure_future(self.ask_open("tools.call", body, wait.client))
        finally:
            HERE.reset(here)
        self.keep(task_id, held, running, request)

    async def ask_open(self, operation: str, body: dict[str, Any], client: ClientSession) -> Any:
        """Run an operation on a session, which is opened again if it is not open."""
        try:
            return await self._runtime.ask(operation, body, client.who)
        except Refused as refused:
            if refused.kind != "not_found":
                raise
        again = {"session_id": body["session_id"], "capabilities": list(client.capabilities)}
        await self._runtime.ask("session.resume", again, client.who)
        return await self._runtime.ask(operation, body, client.who)

    def wait(self, task_id: TaskId, wait: TaskWait) -> None:
        """Go on with a call as soon as it was decided."""
        self._waits[task_id] = wait
        if len(self._waits) > _MOST_WAITING:
            # It goes on when its client asks about it.
            self._waits.popitem(last=False)
        self._watch()

    def _watch(self) -> None:
        if self._watching is None and self._waits and self._servings:
            self._watching = asyncio.ensure_future(self._go_on_when_decided())

    async def _go_on_when_decided(self) -> None:
        feed = self._runtime.service.inbox.follow(OWNER)
        try:
            async for _ in feed:
                for task_id, wait in tuple(self._waits.items()):
                    await self._look_at(task_id, wait)
                if not self._waits:
                    return
        finally:
            feed.close()
            self._watching = None
            self._watch()

    async def _look_at(self, task_id: TaskId, wait: TaskWait) -> None:
        try:
            call = await self._states.known(task_id, wait.client.who)
        except MCPError:
            self._waits.pop(task_id, None)
            return
        if isinstance(call, ToolInvoked) or call.state == "started":
            self._waits.pop(task_id, None)
        elif not await self.is_pending(call):
            self.go_on(task_id, wait)
