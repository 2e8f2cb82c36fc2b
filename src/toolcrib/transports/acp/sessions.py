"""The sessions of a connected editor: it gets their updates, and requests for permission."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolcrib.errors import ClientGone, Refused
from toolcrib.runtime.event_reader import GAP
from toolcrib.transports.acp.call_updates import object_in, text_in
from toolcrib.transports.acp.client_tools import EditorLink, tools_of
from toolcrib.transports.acp.permissions import Permissions
from toolcrib.transports.acp.tool_calls import kind_by_name, kind_of
from toolcrib.transports.acp.updates import Transcript

if TYPE_CHECKING:
    from acp.schema import ToolKind

    from toolcrib.runtime.event_reader import Envelope
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.acp.editor import Editor


_log = logging.getLogger(__name__)


class SessionUpdates:
    """Sends the events of a session after `after` to the editor as updates. Events up to
    `replay_until` are history: they are replayed, and no permission is requested for them.
    """

    def __init__(
        self,
        session_id: str,
        runtime: Runtime,
        who: Principal,
        editor: Editor,
        permissions: Permissions,
        *,
        after: int,
        replay_until: int,
    ) -> None:
        self._session_id = session_id
        self._runtime = runtime
        self._who = who
        self._editor = editor
        self._permissions = permissions
        self._last_seq = after
        self._replay_until = replay_until
        self._kinds: dict[str, ToolKind] = {}
        self._progressed = asyncio.Event()
        self.transcript = Transcript(self.kind_of)
        self._task = asyncio.ensure_future(self._run())
        self._task.add_done_callback(lambda _: self._progressed.set())

    def kind_of(self, tool: str) -> ToolKind:
        """The ACP kind of a tool of the session."""
        return self._kinds.get(tool) or kind_by_name(tool)

    def close(self) -> None:
        """Stop sending."""
        self._task.cancel()

    async def sent(self, seq: int) -> None:
        """Wait until the events up to a sequence number are sent, or none is sent any more."""
        while self._last_seq < seq and not self._task.done():
            self._progressed.clear()
            await self._progressed.wait()

    async def _run(self) -> None:
        try:
            await self._read_tool_kinds()
            while await self._send_events():
                # The reader fell too far behind: read the ledger again, which has every event.
                _log.info("session %s is read from its ledger again after a gap", self._session_id)
        except (ClientGone, Refused):
            return
        except Exception:
            _log.exception("sending the updates of session %s failed", self._session_id)

    async def _send_events(self) -> bool:
        """Send events; True when the reader fell behind and has to start again."""
        service = self._runtime.service
        reader = await service.open_reader(self._session_id, self._last_seq, self._who)
        try:
            async for event in reader:
                if event.kind == GAP:
                    return True
                await self._send(event)
                self._last_seq = event.seq
                self._progressed.set()
        finally:
            reader.close()
        return False

    async def _send(self, event: Envelope) -> None:
        is_replay = event.seq <= self._replay_until
        try:
            updates = list(self.transcript.updates_for(event, is_replay=is_replay))
        except Exception:
            # An event that cannot be shown must not hide the following ones.
            _log.exception("event %s of session %s was not shown", event.seq, self._session_id)
            updates = []
        for update in updates:
            await self._editor.update(self._session_id, update)
        if not is_replay:
            await self._act_on(event)

    async def _act_on(self, event: Envelope) -> None:
        match event.kind:
            case "approval.requested":
                request = object_in(event.data, "request")
                kind = self.kind_of(text_in(object_in(request, "tool"), "name"))
                self._permissions.ask(text_in(request, "approval_id"), kind)
            case "approval.decided":
                decided = object_in(event.data, "decided")
                self._permissions.settled(text_in(decided, "approval_id"))
            case "approval.superseded":
                self._permissions.settled(text_in(event.data, "approval_id"))
            case "tool.invoked":
                self._permissions.ended(self._session_id, text_in(event.data, "call_id"))
            case "tools.changed":
                await self._read_tool_kinds()
            case _:
                return

    async def _read_tool_kinds(self) -> None:
        params = {"session_id": self._session_id}
        listed = await self._runtime.ask("tools.list", params, self._who)
        self._kinds = {facts.name: kind_of(facts) for facts in listed.tools}


@dataclass(slots=True)
class EditorSession:
    """A session that is open on a connection, and its running prompts."""

    updates: SessionUpdates
    detach: Callable[[], None]
    turns: set[asyncio.Future[Any]] = field(default_factory=set[asyncio.Future[Any]])


class EditorSessions:
    """The open sessions of one editor: it gets their updates and runs their client tools."""

    def __init__(self, runtime: Runtime, who: Principal, editor: Editor) -> None:
        self._runtime = runtime
        self._who = who
        self._editor = editor
        self.permissions = Permissions(runtime, who, editor)
        self._sessions: dict[str, EditorSession] = {}

    async def open(
        self, session_id: str, capabilities: list[str], *, after: int, replay_until: int = 0
    ) -> EditorSession:
        """Send the events of a session after a sequence number. A session that is open already
        keeps its running prompts.
        """
        detach = _nothing
        if tools_of(capabilities):
            link = EditorLink(session_id, self._editor)
            detach = await self._runtime.service.attach(session_id, link, self._who)
        earlier = self.find(session_id)
        self.close_session(session_id)
        updates = SessionUpdates(
            session_id,
            self._runtime,
            self._who,
            self._editor,
            self.permissions,
            after=after,
            replay_until=replay_until,
        )
        editor_session = EditorSession(updates, detach)
        if earlier is not None:
            editor_session.turns = earlier.turns
        self._sessions[session_id] = editor_session
        return editor_session

    def get(self, session_id: str) -> EditorSession:
        """An open session. Raises `Refused` (not_found)."""
        editor_session = self.find(session_id)
        if editor_session is None:
            raise Refused(
                "not_found",
                f"the session {session_id[:128]!r} is not open on this connection; "
                "use session/new, session/load or session/resume",
            )
        return editor_session

    def find(self, session_id: str) -> EditorSession | None:
        """An open session, or None."""
        return self._sessions.get(session_id)

    def close_session(self, session_id: str) -> None:
        """Stop sending the updates of a session. Its prompts and calls continue."""
        editor_session = self._sessions.pop(session_id, None)
        if editor_session is not None:
            editor_session.detach()
            editor_session.updates.close()

    def close(self) -> None:
        """Close every session: the editor has disconnected."""
        self.permissions.close()
        for session_id in list(self._sessions):
            self.close_session(session_id)


def _nothing() -> None:
    return None
