"""Calls that a mounted server runs as tasks: created, polled until they end, cancelled.

The revision 2025-11-25 has tasks in the core: a tool may require them. Since 2026-07-28 they are
the extension `io.modelcontextprotocol/tasks`, and the server decides which call becomes one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Literal

import anyio
import mcp_types
from mcp import MCPError
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from pydantic import Field

if TYPE_CHECKING:
    from mcp.client.session import ClientSession
    from mcp.shared.dispatcher import ProgressFnT

EXTENSION: Final = "io.modelcontextprotocol/tasks"

_SHORTEST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 30.0
_PAUSE: Final = 1.0
_CANCEL_SECONDS: Final = 2.0
_KEPT_MS: Final = 3_600_000
"""For how long a server is asked to keep what came of a task."""


def needs_task(tool: mcp_types.Tool) -> bool:
    """Whether a tool of the revision 2025-11-25 runs as a task and not otherwise."""
    execution = tool.execution
    return execution is not None and execution.task_support == "required"


async def call_as_task(
    session: ClientSession,
    name: str,
    arguments: dict[str, Any],
    progress: ProgressFnT,
    meta: Any = None,
) -> mcp_types.CallToolResult:
    """Run a tool as a task of the revision 2025-11-25. Raises what the SDK's client does."""
    params = mcp_types.CallToolRequestParams(
        name=name, arguments=arguments, task=mcp_types.TaskMetadata(ttl=_KEPT_MS), _meta=meta
    )
    created = await session.send_request(
        mcp_types.CallToolRequest(params=params),
        mcp_types.CreateTaskResult,
        progress_callback=progress,
    )
    task = created.task
    request = mcp_types.CancelTaskRequest(
        params=mcp_types.CancelTaskRequestParams(task_id=task.task_id)
    )
    async with _cancelled_with(session, request):
        shown: str | None = None
        polled = 0
        while task.status == "working":
            await anyio.sleep(_pause(task.poll_interval))
            task = await session.send_request(
                mcp_types.GetTaskRequest(
                    params=mcp_types.GetTaskRequestParams(task_id=task.task_id)
                ),
                mcp_types.GetTaskResult,
            )
            polled += 1
            if task.status_message not in (None, shown):
                shown = task.status_message
                await progress(polled, None, shown)
        # What the task asks for comes while its result is waited for.
        return await session.send_request(
            mcp_types.GetTaskPayloadRequest(
                params=mcp_types.GetTaskPayloadRequestParams(task_id=task.task_id)
            ),
            mcp_types.CallToolResult,
        )


class TaskCreated(mcp_types.Result):
    """The result of `tools/call` that stands for a task of the extension."""

    result_type: Literal["task"]
    task_id: str
    status: str
    poll_interval_ms: int | None = None


class TaskState(mcp_types.Result):
    """The result of `tasks/get` of the extension."""

    status: str
    status_message: str | None = None
    poll_interval_ms: int | None = None
    # Not by their own names: the SDK checks those fields of every result by itself.
    requests: dict[str, Any] | None = Field(default=None, alias="inputRequests")
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class _OneTask(mcp_types.RequestParams):
    task_id: str


class _TaskUpdate(_OneTask):
    input_responses: dict[str, Any]


class _Get(mcp_types.Request[_OneTask, Literal["tasks/get"]]):
    name_param = "taskId"
    method: Literal["tasks/get"] = "tasks/get"
    params: _OneTask


class _Update(mcp_types.Request[_TaskUpdate, Literal["tasks/update"]]):
    name_param = "taskId"
    method: Literal["tasks/update"] = "tasks/update"
    params: _TaskUpdate


class _Cancel(mcp_types.Request[_OneTask, Literal["tasks/cancel"]]):
    name_param = "taskId"
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: _OneTask


class RemoteTasks(ClientExtension):
    """The extension as a client has it: a call that becomes a task is waited for."""

    identifier = EXTENSION

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """The result that stands for a task, and how it is finished."""
        return (ResultClaim(result_type="task", model=TaskCreated, resolve=_finish),)


async def _finish(created: TaskCreated, context: ClaimContext) -> mcp_types.CallToolResult:
    session, one = context.session, _OneTask(task_id=created.task_id)
    pause, answered = created.poll_interval_ms, set[str]()
    async with _cancelled_with(session, _Cancel(params=one)):
        while True:
            task = await session.send_request(_Get(params=one), TaskState)
            match task.status:
                case "completed":
                    return mcp_types.CallToolResult.model_validate(task.result, by_name=False)
                case "failed":
                    raise MCPError.from_error_data(mcp_types.ErrorData.model_validate(task.error))
                case "cancelled":
                    raise MCPError(mcp_types.INTERNAL_ERROR, "the server cancelled the task")
                case "input_required":
                    await _answer(session, one, task, answered)
                case _:
                    pass
            pause = task.poll_interval_ms
            await anyio.sleep(_pause(pause))


async def _answer(
    session: ClientSession, one: _OneTask, task: TaskState, answered: set[str]
) -> None:
    """Answer the new requests of a task as those of a call are answered."""
    from mcp.client.session import ClientRequestContext
    from pydantic import TypeAdapter

    requests = TypeAdapter[dict[str, mcp_types.InputRequest]](dict[str, mcp_types.InputRequest])
    open_requests = requests.validate_python(task.requests or {}, by_name=False)
    responses: dict[str, Any] = {}
    for key, request in open_requests.items():
        if key not in answered:
            context = ClientRequestContext(session=session, request_id=key)
            response = await session.dispatch_input_request(context, request)
            if isinstance(response, mcp_types.ErrorData):
                raise MCPError.from_error_data(response)
            responses[key] = response.model_dump(mode="json", by_alias=True, exclude_none=True)
            answered.add(key)
    if responses:
        update = _TaskUpdate(task_id=one.task_id, input_responses=responses)
        await session.send_request(_Update(params=update), mcp_types.EmptyResult)


@asynccontextmanager
async def _cancelled_with(session: ClientSession, cancel: Any) -> AsyncGenerator[None]:
    """Cancel a task at the server when the wait for it ends early."""
    try:
        yield
    except BaseException:
        with anyio.move_on_after(_CANCEL_SECONDS, shield=True), suppress(Exception):
            await session.send_request(cancel, mcp_types.Result)
        raise


def _pause(milliseconds: int | None) -> float:
    seconds = _PAUSE if milliseconds is None else milliseconds / 1000
    return min(max(seconds, _SHORTEST_PAUSE), _LONGEST_PAUSE)
