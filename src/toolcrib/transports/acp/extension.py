"""The operations of the runtime as extension methods of the Agent Client Protocol.

Methods that begin with an underscore are free for extensions: `_toolcrib/tools.call` is the
operation `tools.call`, with the same parameters, results and errors as on every transport.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import ClientGone
from toolcrib.runtime.service import as_json
from toolcrib.transports.peer import PEER_METHODS, Subscribed, Unsubscribed

if TYPE_CHECKING:
    from toolcrib.runtime.event_reader import SessionReader
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.acp.editor import Editor
    from toolcrib.transports.acp.sessions import EditorSessions

PREFIX: Final = "_toolcrib/"
EVENT: Final = "_toolcrib/event"
"""The notification that carries one envelope."""
ENDED: Final = "_toolcrib/events.ended"

_log = logging.getLogger(__name__)


class Extension:
    """Answers the operations for one editor, and sends the events that it subscribes to."""

    def __init__(
        self, runtime: Runtime, who: Principal, editor: Editor, editor_session: EditorSessions
    ) -> None:
        self._runtime = runtime
        self._who = who
        self._editor = editor
        self._sessions = editor_session
        self._sending: dict[str, asyncio.Task[None]] = {}

    async def answer(self, name: str, params: Mapping[str, Any]) -> Any:
        """Run an operation. Raises `Refused`."""
        match name:
            case "events.subscribe" | "events.unsubscribe":
                return as_json(await self._subscription(name, params))
            case "prompt.resume":
                await self._ask_again(params)
            case _:
                pass
        return as_json(await self._runtime.ask(name, dict(params), self._who))

    def close(self) -> None:
        """End the subscriptions: the editor has disconnected."""
        for task in self._sending.values():
            task.cancel()

    async def _ask_again(self, params: Mapping[str, Any]) -> None:
        """Request permission for the approvals of an interrupted prompt again."""
        session_id = params.get("session_id")
        editor_session = self._sessions.find(session_id) if isinstance(session_id, str) else None
        if editor_session is None:
            return
        waiting = await self._runtime.ask("approvals.list", {"session_id": session_id}, self._who)
        for approval in waiting.approvals:
            self._sessions.permissions.ask(
                approval.approval_id, editor_session.updates.kind_of(approval.tool)
            )

    async def _subscription(
        self, name: str, params: Mapping[str, Any]
    ) -> Subscribed | Unsubscribed:
        subscription = PEER_METHODS[name].read(dict(params))
        session_id: str = subscription.session_id
        if name == "events.unsubscribe":
            ended = self._sending.pop(session_id, None)
            return Unsubscribed(was_subscribed=ended is not None and ended.cancel())
        service = self._runtime.service
        reader = await service.open_reader(session_id, subscription.after, self._who)
        earlier = self._sending.pop(session_id, None)
        if earlier is not None:
            earlier.cancel()
        task = asyncio.ensure_future(self._send(session_id, reader))
        task.add_done_callback(lambda _: reader.close())
        self._sending[session_id] = task
        return Subscribed(session_id=session_id, after=subscription.after)

    async def _send(self, session_id: str, reader: SessionReader) -> None:
        try:
            async for event in reader:
                await self._editor.notify(EVENT, as_json(event))
            await self._editor.notify(ENDED, {"session_id": session_id, "seq": reader.seq})
        except ClientGone:
            return
        except Exception:
            _log.exception("sending the events of session %s failed", session_id)
