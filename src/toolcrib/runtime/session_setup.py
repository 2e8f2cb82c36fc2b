"""What is stored with a session of a runtime, what is told of it, and what a fork begins with."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter

from toolcrib.approval.globs import name_matches
from toolcrib.errors import LeaseHeld, Refused, SessionElsewhere, UsageError
from toolcrib.ledger.events import (
    Event,
    PayloadsDeleted,
    SessionOpened,
    SessionRestored,
    SessionToolsChanged,
    SettingsSaved,
    ToolChange,
    ToolInvoked,
)
from toolcrib.ledger.record import Record, deletion_end, events
from toolcrib.runtime.messages import CreateSession, ResumeSession, SessionFacts, SessionState
from toolcrib.session.session import Session
from toolcrib.store.ledger_writer import entry_of
from toolcrib.store.store import Artifact, ArtifactKept, Effect, ask_store
from toolcrib.tools.identity import ToolRef

if TYPE_CHECKING:
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.live_session import LiveSession
    from toolcrib.store.session_query import SessionSummary
    from toolcrib.store.store import Lease, SessionInfo, Store
    from toolcrib.tools.prepared_tool import PreparedTool

OPEN_PROMPT: Final = "prompt"
"""The host setting that holds the text of a prompt which has not ended."""

TURN_BEGUN: Final = "queued_turn"
"""The host setting that names the last turn of a shared store that was begun, as `TurnMark`."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SessionSetup:
    """The part of `session.create` that is stored with a session. The environment is left out: it
    may hold secrets.
    """

    cwd: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    allowed_tools: list[str] | None = None
    denied_tools: list[str] = field(default_factory=list[str])


def setup_of(settings: Mapping[str, Any]) -> SessionSetup:
    """The setup in the stored settings of a session."""
    return _adapter().validate_python(settings.get("host", {}).get("setup", {}))


def setup_json(params: CreateSession, cwd: str) -> dict[str, Any]:
    """The setup of a new session, as JSON."""
    return _adapter().dump_python(
        SessionSetup(cwd, dict(params.metadata), params.allowed_tools, params.denied_tools),
        mode="json",
    )


_TOOLS: Final = "tools"


def note_tools(session: Session, tools: Mapping[str, PreparedTool]) -> None:
    """Keep which tools a session has, to say which are others when it is opened again. Those of its
    client are left out: a client declares them each time.
    """
    refs = [tool.ref for tool in tools.values() if tool.ref.place != "client"]
    session.set_host_setting(_TOOLS, [list(astuple(ref)) for ref in refs])


def tool_changes(session: Session, tools: Mapping[str, PreparedTool]) -> SessionToolsChanged | None:
    """What became of the tools that a session had when it was last open; None when nothing did."""
    before = [ToolRef(*facts) for facts in session.host_setting(_TOOLS) or ()]
    gone = tuple(ref for ref in before if ref.name not in tools)
    changed = tuple(
        ToolChange(ref, tools[ref.name].ref)
        for ref in before
        if ref.name in tools and tools[ref.name].ref != ref
    )
    if not gone and not changed:
        return None
    return SessionToolsChanged(
        session_id=session.session_id, at=session.clock(), gone=gone, changed=changed
    )


async def report_tool_changes(live: LiveSession) -> None:
    """Say which tools of a session that is opened again are gone or are not what they were."""
    session, tools = live.session, live.executor.tools
    changes = tool_changes(session, tools)
    if changes is not None:
        names = [ref.name for ref in changes.gone] + [each.new.name for each in changes.changed]
        logger.warning(
            "session %s was opened again; its tools gone or changed: %s",
            session.session_id,
            ", ".join(names),
        )
        await session.record(changes)
    note_tools(session, tools)


def reopen_params(setup: SessionSetup, params: ResumeSession) -> CreateSession:
    """The parameters that open a session with this setup again."""
    return CreateSession(
        session_id=params.session_id,
        cwd=setup.cwd,
        environment=params.environment,
        metadata=setup.metadata,
        allowed_tools=setup.allowed_tools,
        denied_tools=setup.denied_tools,
        capabilities=params.capabilities,
        client_tools=params.client_tools,
    )


def resume_params(session_id: str, params: CreateSession) -> ResumeSession:
    """The parameters that open the session again which these have made."""
    return ResumeSession(
        session_id=session_id,
        environment=params.environment,
        capabilities=params.capabilities,
        client_tools=params.client_tools,
    )


def fork_params(
    source: SessionInfo, new_id: str | None, environment: dict[str, str]
) -> CreateSession:
    """The parameters that make a fork of a session."""
    setup = setup_of(source.settings)
    return CreateSession(
        session_id=new_id,
        cwd=setup.cwd,
        environment=environment,
        metadata={**setup.metadata, "forked_from": source.session_id},
        allowed_tools=setup.allowed_tools,
        denied_tools=setup.denied_tools,
        # They were checked when the first session was made; tools may have gone since.
        expected_tools=["*"],
    )


def tool_filter(params: CreateSession) -> Callable[[str], bool]:
    """The test whether a session may have a tool, by its allowed and denied names and globs."""
    allowed, denied = params.allowed_tools, params.denied_tools
    return lambda name: (allowed is None or _fits(allowed, name)) and not _fits(denied, name)


def _fits(globs: Sequence[str], name: str) -> bool:
    return any(name_matches(glob, name) for glob in globs)


@cache
def _adapter() -> TypeAdapter[SessionSetup]:
    return TypeAdapter(SessionSetup)


_OF_ONE_SESSION = (SessionOpened, SessionRestored, SettingsSaved, PayloadsDeleted)
"""Events about a session itself, which are not true of its forks."""


async def copy_history(
    session: Session, source_id: str, records: Sequence[Record], turn: int
) -> None:
    """Copy the events of the session `source_id` into another session, which continues after
    `turn`. Pending approvals are not copied: each is decided once.
    """
    for event in events(records, lambda: deletion_end(records)):
        if not isinstance(event, _OF_ONE_SESSION):
            copy = replace(event, session_id=session.session_id)
            session.append_soon(entry_of(copy), _artifacts(session.store, source_id, event))
    session.number_turns_after(turn)
    session.number_calls_after(record.call_id for record in records)
    await session.ledger.flush()
    await ask_store(session.store, session.save_settings)


def _artifacts(store: Store, source_id: str, event: Event) -> tuple[Effect, ...]:
    """The full result of a call whose event holds only a part of it."""
    if not isinstance(event, ToolInvoked) or event.artifact_id is None:
        return ()
    text = store.artifact(source_id, event.artifact_id)
    if text is None:
        return ()
    return (ArtifactKept(Artifact(event.artifact_id, event.call_id, text)),)


def session_facts(
    store: Store,
    info: SessionInfo,
    live: LiveSession | None,
    summary: SessionSummary,
    state: SessionState,
) -> SessionFacts:
    """A session of the store as it is now. May read from disk."""
    setup = setup_of(info.settings)
    head = live.session.head() if live else info.head
    newest = list(store.records(info.session_id, limit=1, newest_first=True))
    return SessionFacts(
        session_id=info.session_id,
        state=state,
        last_seq=head.seq if head else 0,
        turn=live.session.last_turn if live else int(info.settings.get("turn", 0)),
        is_busy=live.slot.is_busy if live else False,
        has_open_prompt=_has_open_prompt(info, live),
        pending_approvals=summary.waiting,
        cwd=live.session.cwd if live else setup.cwd,
        metadata=dict(live.session.metadata) if live else setup.metadata,
        unavailable_tools=live.unavailable_to(None) if live else {},
        owner=info.owner,
        created_at=info.created_at,
        last_event_at=newest[0].at if newest else None,
        title=summary.title,
        title_source=summary.title_source,
        prompts=summary.prompts,
        calls=summary.calls,
        failures=summary.failures,
        cost=summary.cost,
    )


def _has_open_prompt(info: SessionInfo, live: LiveSession | None) -> bool:
    if live is not None:
        return live.session.host_setting(OPEN_PROMPT) is not None
    return OPEN_PROMPT in info.settings.get("host", {})


async def open_session(
    store: Store, params: CreateSession, config: RuntimeConfig, owner: str, lease: Lease | None
) -> Session:
    """Open a session of the store, new or old, under a lease that this process has already, if any.
    Raises `Refused`.
    """
    try:
        return await Session.open(
            store,
            params.session_id,
            cwd=params.cwd or config.cwd,
            environment={**config.environment, **params.environment},
            metadata=params.metadata,
            approve_own_calls=config.approve_own_calls,
            owner=owner,
            lease=lease,
        )
    except LeaseHeld as error:
        raise SessionElsewhere(f"another process has the session open: {error}") from None
    except UsageError as error:
        raise Refused("invalid", str(error)) from None
