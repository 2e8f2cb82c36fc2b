"""`tasks/get`, `tasks/update`, `tasks/cancel`: calls that go on after their request was answered.

A call of a client that has declared the extension becomes a task when it waits for an approval,
asks a question, or runs longer than the server's limit. The call is what the ledger has of it; only
what a handler answered for the client alone is kept here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    CallToolRequestParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from toolcrib.errors import Refused
from toolcrib.ledger.events import ToolInvoked
from toolcrib.runtime.messages import CallResult
from toolcrib.store.store import OpenCall
from toolcrib.transports.mcp.elicitation import ShownApproval
from toolcrib.transports.mcp.questions import HeldCall
from toolcrib.transports.mcp.request import McpRequest
from toolcrib.transports.mcp.task import (
    CAPABILITY,
    Task,
    TaskId,
    declares_tasks,
    needs_tasks,
    read_task_id,
)
from toolcrib.transports.mcp.task_calls import TaskCalls, TaskRun, TaskWait
from toolcrib.transports.mcp.task_states import TaskStates, TaskViewer, result_of
from toolcrib.transports.question_form import form_for

if TYPE_CHECKING:
    from mcp.server.context import HandlerResult, ServerRequestContext

    from toolcrib.runtime.approval_messages import ApprovalFacts
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.mcp.client_sessions import ClientSession, ClientSessions
    from toolcrib.transports.mcp.elicitation import ElicitedApprovals
    from toolcrib.transports.mcp.options import McpOptions
    from toolcrib.transports.mcp.task import OneTaskParams, UpdateTaskParams
    from toolcrib.transports.mcp.tool_list import ToolList, ToolListHandler

    AnswerOf = Callable[[CallResult, McpRequest, ToolList], HandlerResult]

_ACKNOWLEDGED: Final[dict[str, Any]] = {"resultType": "complete"}
_MOST_WAITING: Final = 10_000
_MOST_REPLIES: Final = 256
_LATE_INPUT: Final = MCPError(
    INTERNAL_ERROR,
    "The tool answered with an InputRequiredResult after it had become a task; use ctx.ask there",
)


class Tasks:
    """The tasks of a server's clients."""

    def __init__(
        self,
        runtime: Runtime,
        clients: ClientSessions,
        tool_lists: ToolListHandler,
        approvals: ElicitedApprovals,
        options: McpOptions,
    ) -> None:
        self._runtime = runtime
        self._clients = clients
        self._tool_lists = tool_lists
        self._approvals = approvals
        self._after_seconds = options.task_after_seconds
        self.states = TaskStates(runtime, approvals, options.task_ttl_seconds)
        self.answer_of: AnswerOf | None = None
        """Makes the result of `tools/call`."""
        self.calls = TaskCalls(runtime, self.states)
        self._left: set[tuple[TaskId, str]] = set()
        """The forms that the person at the client has declined to fill in."""

    async def advance(self, held: HeldCall, request: McpRequest) -> CallResult | TaskId:
        """Wait until the call ends, waits for a person, or has become a task. Its id is given once
        the store has the call.
        """
        assert held.result is not None, "the call was begun"
        task_id = TaskId(held.client.session_id, held.call_id)
        while True:
            result = await held.ended_within(self._after_seconds)
            if result is not None:
                return result
            if await self._is_durable(task_id, held.client.who):
                self.calls.keep(task_id, held, held.result, request)
                return task_id

    async def created(
        self, ctx: ServerRequestContext[Any, Any], client: ClientSession, task_id: TaskId
    ) -> HandlerResult:
        """The result of `tools/call` for a call that has become a task."""
        match await self._known(task_id, client.who):
            case ToolInvoked() as call:
                task = self.states.ended(task_id, call)
            case TaskRun() as call:
                task = self.states.begun(task_id, call.created_at)
            case call:
                task = self.states.begun(task_id, call.created_at)
                if call.state != "started":
                    self.calls.wait(task_id, TaskWait(client, call.tool.name, ctx))
        # The first state is the plain one: what goes with another is for `tasks/get`.
        return replace(task, status="working").created()

    async def get(
        self, ctx: ServerRequestContext[Any, Any], params: OneTaskParams
    ) -> HandlerResult:
        """Answer `tasks/get`."""
        task = await self.look(await self._viewer(ctx, params.task_id), params.task_id)
        return {**_ACKNOWLEDGED, **task.detailed()}

    async def update(
        self, ctx: ServerRequestContext[Any, Any], params: UpdateTaskParams
    ) -> HandlerResult:
        """Answer `tasks/update`. Answers to what was not asked are ignored."""
        viewer = await self._viewer(ctx, params.task_id)
        task_id = read_task_id(params.task_id)
        call = await self._known(task_id, viewer.who)
        answers = _answers(params.input_responses)
        if isinstance(call, ToolInvoked):
            return _ACKNOWLEDGED
        if isinstance(call, TaskRun) or call.state == "started":
            self._answer_forwarded(task_id, params.input_responses)
            await self._answer_questions(task_id, viewer, answers)
        elif viewer.may_decide and (approval := await self._approval(call, viewer)) is not None:
            shown = ShownApproval(call.call_id, approval.approval_id, approval.digest)
            answer = answers.get(shown.to_key())
            if answer is not None and await self._approvals.decide(viewer.client, shown, answer):
                await self.look(viewer, params.task_id)
            elif answer is not None:
                self._left.add((task_id, shown.to_key()))
        return _ACKNOWLEDGED

    async def cancel(
        self, ctx: ServerRequestContext[Any, Any], params: OneTaskParams
    ) -> HandlerResult:
        """Answer `tasks/cancel`. A task that is over stays as it is."""
        viewer = await self._viewer(ctx, params.task_id)
        task_id = read_task_id(params.task_id)
        if not isinstance(await self._known(task_id, viewer.who), ToolInvoked):
            body = {"session_id": task_id.session_id, "call_id": task_id.call_id}
            await self.calls.ask_open("tools.cancel", body, viewer.client)
        return _ACKNOWLEDGED

    async def look(self, viewer: TaskViewer, text: str) -> Task:
        """The task of an id as it is now. A call whose decision was made goes on."""
        task_id = read_task_id(text)
        call = await self._known(task_id, viewer.who)
        if isinstance(call, OpenCall) and not self.calls.is_running(task_id):
            call = await self._taken_up(task_id, call, viewer)
        if isinstance(call, ToolInvoked):
            return await self._ended(task_id, call, viewer)
        task = self.states.begun(task_id, call.created_at)
        if isinstance(call, TaskRun) or call.state == "started":
            run = self.calls.running(task_id)
            forwarded = {} if run is None else run.held.forwarded
            return await self.states.asking(task, viewer, forwarded)
        approval = await self._approval(call, viewer)
        if approval is None:
            return task
        key = ShownApproval(call.call_id, approval.approval_id, approval.digest).to_key()
        was_left = (task_id, key) in self._left
        return await self.states.waiting(task, approval, viewer, was_left=was_left)

    async def viewer(self, ctx: ServerRequestContext[Any, Any]) -> TaskViewer:
        """The client of a request, as one that looks at tasks. Raises the error of the protocol for
        a client without the extension.
        """
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)
        if not declares_tasks(ctx):
            raise needs_tasks(ctx.method)
        client = await self._clients.of(ctx)
        client.who.check(("caller",), ctx.method)
        return TaskViewer(client, ctx, self._approvals.may_ask(ctx, client))

    def check_needed(self, ctx: ServerRequestContext[Any, Any], tool: str) -> None:
        """Raise the error of the protocol for a tool that only clients with the extension get, and
        a client without it.
        """
        definition = self._runtime.registry.get(tool)
        if definition is None or CAPABILITY not in definition.requires or declares_tasks(ctx):
            return
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            raise needs_tasks(f"`{tool}`")

    async def _known(self, task_id: TaskId, who: Principal) -> OpenCall | ToolInvoked | TaskRun:
        """The call of a task. A ledger in memory has a call only once it waits or has ended."""
        try:
            return await self.states.known(task_id, who)
        except MCPError:
            running = self.calls.running(task_id)
            if running is None or running.client.who.name != who.name:
                raise
            return running

    async def _is_durable(self, task_id: TaskId, who: Principal) -> bool:
        """Whether a request about the task would find it."""
        if not self._runtime.store.is_durable:
            return True
        with suppress(MCPError):
            await self.states.known(task_id, who)
            return True
        return False

    async def _viewer(self, ctx: ServerRequestContext[Any, Any], text: str) -> TaskViewer:
        viewer = await self.viewer(ctx)
        name = None if ctx.request is None else ctx.request.headers.get(MCP_NAME_HEADER)
        if name is not None and decode_header_value(name) != text:
            raise MCPError(HEADER_MISMATCH, f"{MCP_NAME_HEADER} is not the taskId of the request")
        return viewer

    async def _taken_up(
        self, task_id: TaskId, call: OpenCall, viewer: TaskViewer
    ) -> OpenCall | ToolInvoked | TaskRun:
        """Go on with a call that was decided, or that a process which is gone has left."""
        wait = TaskWait(viewer.client, call.tool.name, viewer.context)
        if call.state == "started":
            # Whoever opens the session finds the calls that nobody runs any more.
            session = {"session_id": task_id.session_id}
            with suppress(Refused):
                await self.calls.ask_open("tools.list", session, viewer.client)
        elif not await self.calls.is_pending(call):
            self.calls.go_on(task_id, wait)
            await asyncio.sleep(0)
        else:
            self.calls.wait(task_id, wait)
        return await self._known(task_id, viewer.who)

    async def _approval(self, call: OpenCall, viewer: TaskViewer) -> ApprovalFacts | None:
        if call.approval_id is None or not await self.calls.is_pending(call):
            return None
        return await self._approvals.facts(viewer.client, call.approval_id)

    def _answer_forwarded(self, task_id: TaskId, responses: dict[str, Any]) -> None:
        """Give the call what the client answers to a mounted server. The replica that runs the call
        takes it.
        """
        run = self.calls.running(task_id)
        if run is None:
            return
        for key in run.held.forwarded.keys() & responses.keys():
            with suppress(ValidationError):
                run.held.take_forwarded(key, responses[key])

    async def _answer_questions(
        self, task_id: TaskId, viewer: TaskViewer, answers: dict[str, ElicitResult]
    ) -> None:
        for question in await self.states.questions(task_id, viewer):
            answer = answers.get(question.question_id)
            if answer is None:
                continue
            body: dict[str, Any] = {"question_id": question.question_id, "action": "answer"}
            if answer.action == "accept":
                form = form_for(question.text, question.schema)
                body["value"] = form.value_of(answer.content)
            else:
                body["action"] = answer.action
            with _closed_is_fine():
                await self._runtime.ask("questions.answer", body, viewer.who)

    async def _ended(self, task_id: TaskId, call: ToolInvoked, viewer: TaskViewer) -> Task:
        running = self.calls.running(task_id)
        if running is not None:
            # Its end is in the ledger a moment before what its handler answered is kept.
            await asyncio.wait([running.result])
        task = self.states.ended(task_id, call)
        if task.status == "cancelled":
            return replace(task, message=call.message)
        assert self.answer_of is not None, "the server has set it"
        try:
            request = self.calls.request_of(task_id)
            if request is None:
                request = McpRequest(viewer.context, CallToolRequestParams(name=call.name))
            if isinstance(request.reply, InputRequiredResult):
                raise _LATE_INPUT
            tool_list = await self._tool_lists.of(viewer.client)
            answer = self.answer_of(result_of(call), request, tool_list)
            return replace(task, result=_plain(answer))
        except MCPError as error:
            failed = error.error.model_dump(by_alias=True, mode="json", exclude_none=True)
            return replace(task, status="failed", message=error.error.message, error=failed)


@contextmanager
def _closed_is_fine() -> Generator[None]:
    """Ignore that a question was answered before; an answer that does not fit is refused."""
    try:
        yield
    except Refused as refused:
        if refused.kind == "invalid":
            raise


def _answers(responses: dict[str, Any]) -> dict[str, ElicitResult]:
    """The forms among input responses."""
    answers: dict[str, ElicitResult] = {}
    for key, response in responses.items():
        with suppress(ValidationError):
            answers[key] = ElicitResult.model_validate(response)
    return answers


def _plain(result: HandlerResult) -> dict[str, Any]:
    if isinstance(result, BaseModel):
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return dict(result or {})
