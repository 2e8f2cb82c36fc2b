"""What a session saves beside its ledger: tools that need approval, the host's values, the turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import UsageError
from toolcrib.ledger.events import SettingsSaved, TurnStarted
from toolcrib.store.store import SettingsKept
from toolcrib.store.verification import settings_digest

if TYPE_CHECKING:
    from toolcrib.session.session import Session
    from toolcrib.store.store import SessionInfo, Store

_NEWEST: Final = 8
"""How many turns may begin in other threads while one does."""


def settings_of(names: Sequence[str], host: dict[str, Any], turn: int) -> dict[str, Any]:
    """Settings as they are stored."""
    settings: dict[str, Any] = {"need_user_approve_tools": list(names), "turn": turn}
    if host:
        settings["host"] = dict(host)
    return settings


def last_turn(store: Store, stored: SessionInfo) -> int:
    """The number of the last turn: that of the ledger, where a process died before it saved its
    settings.
    """
    saved = int(stored.settings.get("turn", 0))
    if stored.head is None:
        return saved
    # Here: a session in memory needs none of the prompts' events, which are slow to import.
    from toolcrib.ledger.prompt_events import PromptStarted

    kinds = (TurnStarted.kind, PromptStarted.kind)
    newest = store.records(stored.session_id, kinds=kinds, limit=_NEWEST, newest_first=True)
    events = (record.event for record in newest if record.payload is not None)
    return max(
        [saved, *(each.turn for each in events if isinstance(each, TurnStarted | PromptStarted))]
    )


async def keep_settings(session: Session, saved: dict[str, Any], now: dict[str, Any]) -> bool:
    """Write settings together with the record of them, and wait for it like for any record; False
    when nothing but the turn has changed, which the ledger has.
    """
    digest = settings_digest(now, session.owner)
    if digest == settings_digest(saved, session.owner):
        return False
    event = SettingsSaved(session_id=session.session_id, at=session.clock(), digest=digest)
    await session.record(event, (SettingsKept(now),))
    return True


def tool_names(tools: Iterable[str]) -> Iterable[str]:
    """The names as they are. Raises `UsageError` for a plain text."""
    if isinstance(tools, str):
        raise UsageError(
            "need_user_approve_tools is a list of names; a plain text would be taken letter "
            f"by letter: write [{tools!r}]"
        )
    return tools
