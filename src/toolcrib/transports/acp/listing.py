"""Sessions as an editor lists them, a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from acp.schema import ListSessionsRequest, ListSessionsResponse, SessionInfo

from toolcrib.errors import Refused

if TYPE_CHECKING:
    from toolcrib.runtime.messages import SessionFacts

PAGE: Final = 100


def listed(
    sessions: Sequence[SessionFacts], asked: ListSessionsRequest, default_cwd: str
) -> ListSessionsResponse:
    """One page of the sessions, the newest first; of one directory, if the client names one."""
    found = [_info(each, default_cwd) for each in reversed(sessions)]
    wanted = [each for each in found if asked.cwd in (None, each.cwd)]
    begin = _after(wanted, asked.cursor) if asked.cursor is not None else 0
    page = wanted[begin : begin + PAGE]
    is_last = begin + PAGE >= len(wanted)
    return ListSessionsResponse(sessions=page, next_cursor=None if is_last else page[-1].session_id)


def _after(sessions: Sequence[SessionInfo], cursor: str) -> int:
    for place, each in enumerate(sessions):
        if each.session_id == cursor:
            return place + 1
    raise Refused("invalid", "session/list: the cursor is not one of ours, or its session is gone")


def _info(facts: SessionFacts, default_cwd: str) -> SessionInfo:
    title = facts.metadata.get("title")
    return SessionInfo(
        session_id=facts.session_id,
        cwd=facts.cwd or default_cwd,
        title=title if isinstance(title, str) else None,
    )
