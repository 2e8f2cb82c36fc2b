"""The tasks extension as a client of the SDK speaks it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

import mcp_types
from mcp import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp_types import CallToolResult, RequestParams, Result
from pydantic import ConfigDict

from tests.helpers.patience import PATIENCE

EXTENSION = "io.modelcontextprotocol/tasks"


class CreatedTask(Result):
    """What `tools/call` gives instead of a result."""

    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"] = "task"


class Answer(Result):
    """Any other result, as it came."""

    model_config = ConfigDict(extra="allow")


class TaskParams(RequestParams):
    task_id: str
    input_responses: dict[str, Any] | None = None


class TaskRequest(mcp_types.Request[TaskParams, str]):
    method: str
    params: TaskParams


class TaskClient:
    """The methods of the extension, over a connected client."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def ask(self, method: str, task_id: str, **more: Any) -> dict[str, Any]:
        request = TaskRequest(method=method, params=TaskParams(task_id=task_id, **more))
        answer = await self.client.session.send_request(request, Answer)
        return answer.model_dump(by_alias=True, mode="json")

    async def get(self, task_id: str) -> dict[str, Any]:
        return await self.ask("tasks/get", task_id)

    async def update(self, task_id: str, responses: dict[str, Any]) -> dict[str, Any]:
        return await self.ask("tasks/update", task_id, input_responses=responses)

    async def cancel(self, task_id: str) -> dict[str, Any]:
        return await self.ask("tasks/cancel", task_id)

    async def until(self, task_id: str, *statuses: str) -> dict[str, Any]:
        """The task once it has one of these statuses."""
        async with asyncio.timeout(PATIENCE):
            while True:
                task = await self.get(task_id)
                if task["status"] in statuses:
                    return task
                await asyncio.sleep(0.01)


class TaskExtension(ClientExtension):
    """Declares the extension. What becomes a task comes back with its id in `_meta`."""

    identifier = EXTENSION

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=CreatedTask, resolve=_as_result),)


async def _as_result(created: CreatedTask, context: ClaimContext) -> CallToolResult:
    return CallToolResult(content=[], _meta={"task": created.model_extra})


def task_of(result: CallToolResult) -> dict[str, Any]:
    """The task that a call has become."""
    assert result.meta is not None
    return result.meta["task"]
