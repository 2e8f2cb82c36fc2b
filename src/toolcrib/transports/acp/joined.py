"""The sessions that a client has joined."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from toolcrib.errors import Refused
from toolcrib.transports.acp.client_tools import EditorLink, tools_of
from toolcrib.transports.acp.following import Following
from toolcrib.transports.acp.permissions import Permissions

if TYPE_CHECKING:
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.runtime import Runtime
    from toolcrib.transports.acp.editor import Editor


@dataclass(slots=True)
class Joined:
    """A session that is followed for the client, and the prompts of it that are being answered."""

    following: Following
    detach: Callable[[], None]
    turns: set[asyncio.Future[Any]] = field(default_factory=set[asyncio.Future[Any]])


class JoinedSessions:
    """Follows sessions for one client, and has it run their client-run tools, until it leaves."""

    def __init__(self, runtime: Runtime, who: Principal, editor: Editor) -> None:
        self._runtime = runtime
        self._who = who
        self._editor = editor
        self.permissions = Permissions(runtime, who, editor)
        self._joined: dict[str, Joined] = {}

    def join(
        self, session_id: str, capabilities: list[str], *, after: int, replay_until: int = 0
    ) -> Joined:
        """Tell the client what happens in a session after a place. Who joins again may still have
        prompts there.
        """
        earlier = self.find(session_id)
        self.leave(session_id)
        detach = _nothing
        if tools_of(capabilities):
            link = EditorLink(session_id, self._editor)
            detach = self._runtime.service.attach(session_id, link, self._who)
        following = Following(
            session_id,
            self._runtime,
            self._who,
            self._editor,
            self.permissions,
            after=after,
            replay_until=replay_until,
        )
        joined = Joined(following, detach)
        if earlier is not None:
            joined.turns = earlier.turns
        self._joined[session_id] = joined
        return joined

    def get(self, session_id: str) -> Joined:
        """Raises `Refused` (not_found) for a session that this client has not joined."""
        joined = self.find(session_id)
        if joined is None:
            raise Refused(
                "not_found",
                f"the session {session_id[:128]!r} is not open on this connection; "
                "use session/new, session/load or session/resume",
            )
        return joined

    def find(self, session_id: str) -> Joined | None:
        """The session, if this client has joined it."""
        return self._joined.get(session_id)

    def leave(self, session_id: str) -> None:
        """Tell no more of a session. What runs in it goes on."""
        joined = self._joined.pop(session_id, None)
        if joined is not None:
            joined.detach()
            joined.following.close()

    def close(self) -> None:
        """The client is gone."""
        self.permissions.close()
        for session_id in list(self._joined):
            self.leave(session_id)


def _nothing() -> None:
    return None
