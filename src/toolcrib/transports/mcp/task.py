"""A task in the form of MCP: the extension `io.modelcontextprotocol/tasks` (SEP-2663)."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY, RequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

EXTENSION: Final = "io.modelcontextprotocol/tasks"
CAPABILITY: Final = "tasks"
"""What a tool names in `requires` when only a client with the extension may call it."""
TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]
_PREFIX: Final = "task_"
_MAX_ID_CHARS: Final = 1_024


class OneTaskParams(RequestParams):
    """The parameters of `tasks/get` and `tasks/cancel`."""

    task_id: str


class UpdateTaskParams(OneTaskParams):
    """The parameters of `tasks/update`."""

    input_responses: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TaskId:
    """The call that a task is. Any replica finds it in the store, also after a restart. The id of
    the call is random, and the principal that asked for the call is in its record.
    """

    session_id: str
    call_id: str

    def __str__(self) -> str:
        words = f"{self.session_id}\n{self.call_id}".encode()
        return _PREFIX + base64.urlsafe_b64encode(words).decode().rstrip("=")


def read_task_id(text: str) -> TaskId:
    """The call of a task id. Raises the error of the protocol for a text that is none."""
    encoded = text.removeprefix(_PREFIX)
    try:
        words = base64.b64decode(encoded + "=" * (-len(encoded) % 4), b"-_", validate=True)
        session_id, call_id = words.decode().split("\n")
    except (binascii.Error, ValueError):
        raise no_task() from None
    task_id = TaskId(session_id, call_id)
    if len(text) > _MAX_ID_CHARS or str(task_id) != text:
        raise no_task()
    return task_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a task is at one moment. `result`, `error` and `input_requests` go with its status."""

    task_id: TaskId
    status: TaskStatus
    created_at: float
    updated_at: float
    poll_ms: int
    ttl_ms: int | None = None
    message: str | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    input_requests: dict[str, Any] | None = None

    @property
    def is_over(self) -> bool:
        """Whether its status is final."""
        return self.status in ("completed", "failed", "cancelled")

    def created(self) -> dict[str, Any]:
        """The result of `tools/call` that hands out the task."""
        return {"resultType": "task", **self._facts()}

    def detailed(self) -> dict[str, Any]:
        """The task with what its status comes with: the parameters of its notification, and with a
        result type the result of `tasks/get`.
        """
        details = {
            "result": self.result,
            "error": self.error,
            "inputRequests": self.input_requests,
        }
        return self._facts() | {key: value for key, value in details.items() if value is not None}

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "taskId": str(self.task_id),
            "status": self.status,
            "createdAt": _time(self.created_at),
            "lastUpdatedAt": _time(self.updated_at),
            "ttlMs": self.ttl_ms,
            "pollIntervalMs": self.poll_ms,
        }
        if self.message is not None:
            facts["statusMessage"] = self.message
        return facts


def _time(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def declares_tasks(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client of a request takes tasks. Only the stateless protocol has extensions."""
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return False
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and EXTENSION in (capabilities.extensions or {})


def may_be_task(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether the call of a request may become a task: the protocol knows tasks of tools alone."""
    return ctx.method == "tools/call" and declares_tasks(ctx)


def no_task(reason: str = "not found") -> MCPError:
    """The error for a task that is not there, is somebody else's, or is kept no longer."""
    return MCPError(INVALID_PARAMS, f"Task {reason}")


def needs_tasks(what: str) -> MCPError:
    """The error for a client that has not declared the extension."""
    message = f"{what} needs the extension {EXTENSION}, which the client has not declared"
    data: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
    return MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, message, data)
