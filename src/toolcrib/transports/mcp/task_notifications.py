"""Status notifications of tasks, for clients that listen for them (`subscriptions/listen`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp.shared.exceptions import MCPError
from mcp_types import SubscriptionsAcknowledgedNotification
from pydantic import BaseModel

from toolcrib.errors import Refused
from toolcrib.ledger.events import (
    ApprovalDecided,
    ApprovalRequested,
    ApprovalSuperseded,
    CallStarted,
    ToolInvoked,
)
from toolcrib.ledger.question_events import QuestionAnswered, QuestionAsked, QuestionClosed
from toolcrib.runtime.event_reader import GAP
from toolcrib.runtime.messages import OneSession
from toolcrib.transports.mcp.task import read_task_id

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.session import ServerSession
    from mcp_types import SubscriptionsListenRequestParams, SubscriptionsListenResult

    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.mcp.task_states import TaskViewer
    from toolcrib.transports.mcp.tasks import Tasks

    Listen = Callable[
        [ServerRequestContext[Any, Any], SubscriptionsListenRequestParams],
        Awaitable[SubscriptionsListenResult],
    ]

METHOD: Final = "notifications/tasks"
_TASK_IDS: Final = "taskIds"
_MOST_TASKS: Final = 100
"""How many tasks one stream is about."""
_KINDS: Final = frozenset(
    event.kind
    for event in (
        ApprovalDecided,
        ApprovalRequested,
        ApprovalSuperseded,
        CallStarted,
        QuestionAnswered,
        QuestionAsked,
        QuestionClosed,
        ToolInvoked,
    )
)
"""The events that may change the status of a task."""


class TaskListener:
    """Answers `subscriptions/listen`. Streams without task ids are the SDK's own."""

    def __init__(self, runtime: Runtime, tasks: Tasks, others: Listen) -> None:
        self._runtime = runtime
        self._tasks = tasks
        self._others = others

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve one stream."""
        named: Any = (params.notifications.model_extra or {}).get(_TASK_IDS)
        if not isinstance(named, list) or not named:
            return await self._others(ctx, params)
        viewer = await self._tasks.viewer(ctx)
        honored: list[str] = []
        for task_id in cast("list[Any]", named)[:_MOST_TASKS]:
            with suppress(MCPError):
                await self._tasks.look(viewer, str(task_id))
                honored.append(str(task_id))
        session = _TaskStream(ctx, honored, lambda each, send: self._follow(viewer, each, send))
        try:
            return await self._others(replace(ctx, session=cast("ServerSession", session)), params)
        finally:
            session.end()

    async def _follow(
        self, viewer: TaskViewer, text: str, send: Callable[[dict[str, Any]], Awaitable[None]]
    ) -> None:
        """Send each status of a task until it is over."""
        service, task_id = self._runtime.service, read_task_id(text)
        sent: dict[str, Any] | None = None
        with suppress(MCPError, Refused):
            while True:
                facts = await service.get_session(
                    OneSession(session_id=task_id.session_id), viewer.who
                )
                reader = await service.open_reader(task_id.session_id, facts.last_seq, viewer.who)
                try:
                    task = await self._tasks.look(viewer, text)
                    if task.detailed() != sent:
                        sent = task.detailed()
                        await send(sent)
                    if task.is_over:
                        return
                    async for event in reader:
                        is_own = event.data.get("call_id") == task_id.call_id
                        if event.kind == GAP or (event.kind in _KINDS and is_own):
                            break
                    else:
                        return
                finally:
                    reader.close()


class _TaskNotification(BaseModel):
    """The notification of the extension; the SDK does not know it."""

    method: str = METHOD
    params: dict[str, Any]


class _TaskStream:
    """The session of a stream of the SDK, which acknowledges tasks too and then follows them."""

    def __init__(
        self,
        ctx: ServerRequestContext[Any, Any],
        task_ids: list[str],
        follow: Callable[[str, Callable[[dict[str, Any]], Awaitable[None]]], Awaitable[None]],
    ) -> None:
        self._session: Any = ctx.session
        self._request_id = ctx.request_id
        self._task_ids = task_ids
        self._follow = follow
        self._following: list[asyncio.Future[None]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def send_notification(self, notification: Any, related_request_id: Any = None) -> None:
        """Send a notification, and begin with the tasks once the first is out."""
        is_first = isinstance(notification, SubscriptionsAcknowledgedNotification)
        if is_first:
            filters = notification.params.notifications.model_copy(
                update={_TASK_IDS: self._task_ids}
            )
            params = notification.params.model_copy(update={"notifications": filters})
            notification = notification.model_copy(update={"params": params})
        await self._session.send_notification(notification, related_request_id)
        if is_first:
            self._following = [
                asyncio.ensure_future(self._follow(each, self._send)) for each in self._task_ids
            ]

    def end(self) -> None:
        """Follow the tasks no longer."""
        for following in self._following:
            following.cancel()

    async def _send(self, task: dict[str, Any]) -> None:
        meta = {SUBSCRIPTION_ID_META_KEY: self._request_id}
        notification = _TaskNotification(params={**task, "_meta": meta})
        await self._session.send_notification(notification, self._request_id)
