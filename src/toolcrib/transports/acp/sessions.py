"""The sessions that a client has editor_session.

One session of a client, followed: what happens in it is told, and what waits is asked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolcrib.errors import ClientGone, Refused
from toolcrib.runtime.event_reader import GAP
from toolcrib.transports.acp.client_tools import EditorLink, tools_of
from toolcrib.transports.acp.permissions import Permissions
from toolcrib.transports.acp.tool_calls import kind_by_name, kind_of
from toolcrib.transports.acp.updates import Transcript, object_in, text_in

if TYPE_CHECKING:
    from acp.schema import ToolKind

    from toolcrib.runtime.event_reader import Envelope
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.acp.editor import Editor


_log = logging.getLogger(__name__)


class SessionUpdates:
    """Tells a client the events of a session after `after`. Those up to `replay_until` happened
    before it came: they are told as history, and nothing is asked about them.
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
        self._seen = after
        self._replay_until = replay_until
        self._kinds: dict[str, ToolKind] = {}
        self._moved = asyncio.Event()
        self.transcript = Transcript(self.kind_of)
        self._task = asyncio.ensure_future(self._run())
        self._task.add_done_callback(lambda _: self._moved.set())

    def kind_of(self, tool: str) -> ToolKind:
        """What sort of work a tool of the session does."""
        return self._kinds.get(tool) or kind_by_name(tool)

    def close(self) -> None:
        """Tell no more."""
        self._task.cancel()

    async def told(self, seq: int) -> None:
        """Wait until everything up to this place in the ledger was told, or nothing more is."""
        while self._seen < seq and not self._task.done():
            self._moved.clear()
            await self._moved.wait()

    async def _run(self) -> None:
        try:
            await self._look_at_tools()
            while await self._follow():
                # Too far behind: from the ledger again, which has lost nothing.
                _log.info("session %s is told from its ledger after a gap", self._session_id)
        except (ClientGone, Refused):
            return
        except Exception:
            _log.exception("following the session %s failed", self._session_id)

    async def _follow(self) -> bool:
        """Tell what comes; whether to begin again where that ended."""
        reader = self._runtime.service.follow(self._session_id, self._seen, self._who)
        try:
            async for event in reader:
                if event.kind == GAP:
                    return True
                await self._tell(event)
                self._seen = event.seq
                self._moved.set()
        finally:
            reader.close()
        return False

    async def _tell(self, event: Envelope) -> None:
        is_replay = event.seq <= self._replay_until
        try:
            updates = list(self.transcript.tell(event, is_replay=is_replay))
        except Exception:
            # One event that cannot be shown must not hide those that follow.
            _log.exception("event %s of %s was not shown", event.seq, self._session_id)
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
            case "tool.invoked":
                self._permissions.ended(self._session_id, text_in(event.data, "call_id"))
            case "tools.changed":
                await self._look_at_tools()
            case _:
                return

    async def _look_at_tools(self) -> None:
        asked = {"session_id": self._session_id}
        found = await self._runtime.ask("tools.list", asked, self._who)
        self._kinds = {each.name: kind_of(each) for each in found.tools}


@dataclass(slots=True)
class EditorSession:
    """A session that is followed for the client, and the prompts of it that are being answered."""

    updates: SessionUpdates
    detach: Callable[[], None]
    turns: set[asyncio.Future[Any]] = field(default_factory=set[asyncio.Future[Any]])


class EditorSessions:
    """Follows sessions for one client, and has it run their client-run tools, until it leaves."""

    def __init__(self, runtime: Runtime, who: Principal, editor: Editor) -> None:
        self._runtime = runtime
        self._who = who
        self._editor = editor
        self.permissions = Permissions(runtime, who, editor)
        self._sessions: dict[str, EditorSession] = {}

    def join(
        self, session_id: str, capabilities: list[str], *, after: int, replay_until: int = 0
    ) -> EditorSession:
        """Tell the client what happens in a session after a place. Who joins again may still have
        prompts there.
        """
        earlier = self.find(session_id)
        self.leave(session_id)
        detach = _nothing
        if tools_of(capabilities):
            link = EditorLink(session_id, self._editor)
            detach = self._runtime.service.attach(session_id, link, self._who)
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
        """Raises `Refused` (not_found) for a session that this client has not editor_session."""
        editor_session = self.find(session_id)
        if editor_session is None:
            raise Refused(
                "not_found",
                f"the session {session_id[:128]!r} is not open on this connection; "
                "use session/new, session/load or session/resume",
            )
        return editor_session

    def find(self, session_id: str) -> EditorSession | None:
        """The session, if this client has editor_session it."""
        return self._sessions.get(session_id)

    def leave(self, session_id: str) -> None:
        """Tell no more of a session. What runs in it goes on."""
        editor_session = self._sessions.pop(session_id, None)
        if editor_session is not None:
            editor_session.detach()
            editor_session.updates.close()

    def close(self) -> None:
        """The client is gone."""
        self.permissions.close()
        for session_id in list(self._sessions):
            self.leave(session_id)


def _nothing() -> None:
    return None
