"""A session that begins with what happened in another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from toolcrib.session.events import Event, SessionOpened, ToolInvoked
from toolcrib.session.ledger import entry_of
from toolcrib.session.record import Record, events
from toolcrib.store.store import Artifact, ArtifactKept, Effect

if TYPE_CHECKING:
    from toolcrib.session.session import Session
    from toolcrib.store.store import Store


async def retell(session: Session, source_id: str, records: Sequence[Record], turn: int) -> None:
    """Write down what happened in the session `source_id`, up to its turn `turn`.

    What waits there waits only there: a question is asked once.
    """
    for event in events(records):
        if not isinstance(event, SessionOpened):
            retold = replace(event, session_id=session.session_id)
            session.append_soon(entry_of(retold), _artifacts(session.store, source_id, event))
    session.last_turn = turn
    await session.ledger.flush()
    await session.ask_store(session.save_settings)


def _artifacts(store: Store, source_id: str, event: Event) -> tuple[Effect, ...]:
    """The whole result of a call whose event has only a part of it."""
    if not isinstance(event, ToolInvoked) or event.artifact_id is None:
        return ()
    text = store.artifact(source_id, event.artifact_id)
    if text is None:
        return ()
    return (ArtifactKept(Artifact(event.artifact_id, event.call_id, text)),)
