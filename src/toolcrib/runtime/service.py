"""The one service behind every transport."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from toolcrib._version import __version__
from toolcrib.calls.call import Caller
from toolcrib.errors import Refused
from toolcrib.ledger.events import ALL_EVENTS, PASSING
from toolcrib.runtime import approval_operations, call_operations
from toolcrib.runtime.event_reader import GAP, EventReader, envelope_of
from toolcrib.runtime.idempotency import named
from toolcrib.runtime.messages import (
    ApprovalFacts,
    CallResult,
    CallTool,
    Cancelled,
    Capabilities,
    CreateSession,
    Decide,
    Events,
    ForkSession,
    Grants,
    Inbox,
    ListApprovals,
    ListEvents,
    ListTools,
    Nothing,
    OneApproval,
    OneCall,
    OneGrant,
    OneSession,
    OneTool,
    PromptResult,
    ResumePrompt,
    ResumeSession,
    Revoked,
    SendPrompt,
    SessionFacts,
    Sessions,
    ToolFacts,
    Tools,
)
from toolcrib.runtime.principal import OWNER
from toolcrib.runtime.prompt_operations import PromptRunner, abandon_prompt, prompt_without_answer
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from toolcrib.mcp_client.config import McpServerConfig
    from toolcrib.runtime.client_tools import ClientLink
    from toolcrib.runtime.config import RuntimeConfig, WhenBusy
    from toolcrib.runtime.idempotency import Once
    from toolcrib.runtime.live_session import LiveSession
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.sessions import LiveSessions
    from toolcrib.store.store import Store

PROTOCOL: Final = 1
_EVENTS: Final = sorted([GAP, *(event.kind for event in (*ALL_EVENTS, *PASSING))])


# Most calls of a server are of few callers.
_caller: Final = lru_cache(maxsize=256)(Caller)


class Service:
    """Every operation, typed in and typed out. Who may ask is checked before it gets here; what
    cannot be done is `Refused`.
    """

    def __init__(
        self,
        config: RuntimeConfig,
        store: Store,
        sessions: LiveSessions,
        once: Once,
        operations: Iterable[str],
    ) -> None:
        self._config = config
        self._store = store
        self._sessions = sessions
        self._once = once
        self._operations = sorted(operations)

    async def capabilities(self, asked: Nothing, who: Principal) -> Capabilities:
        """What this runtime speaks."""
        return Capabilities(
            name="toolcrib",
            version=__version__,
            protocol=PROTOCOL,
            operations=list(self._operations),
            events=list(_EVENTS),
            has_model=self._config.adapter is not None,
            max_payload_bytes=self._config.max_payload_bytes,
            max_sessions=self._config.max_sessions,
            event_backlog=self._config.event_backlog,
        )

    async def create_session(self, asked: CreateSession, who: Principal) -> SessionFacts:
        """Open a new session, with its tools."""

        async def create() -> SessionFacts:
            held = await self._sessions.create(asked, who)
            return await self._sessions.facts_of(held.session.session_id)

        return await self._once.do(who.name, "session.create", asked.idempotency_key, asked, create)

    async def get_session(self, asked: OneSession, who: Principal) -> SessionFacts:
        """A session as it is now."""
        return await self._sessions.facts_of(asked.session_id)

    async def list_sessions(self, asked: Nothing, who: Principal) -> Sessions:
        """Every session of the store."""
        return Sessions(sessions=await self._sessions.facts())

    async def resume_session(self, asked: ResumeSession, who: Principal) -> SessionFacts:
        """Open a session of the store again."""
        await self._sessions.resume(asked, who)
        return await self._sessions.facts_of(asked.session_id)

    async def fork_session(self, asked: ForkSession, who: Principal) -> SessionFacts:
        """A new session that begins with what another one holds."""
        held = await self._sessions.fork(asked.session_id, asked.new_session_id, who)
        return await self._sessions.facts_of(held.session.session_id)

    async def close_session(self, asked: OneSession, who: Principal) -> Nothing:
        """Let go of a session."""
        await self._sessions.close(asked.session_id)
        return Nothing()

    async def delete_session(self, asked: OneSession, who: Principal) -> Nothing:
        """Delete a session and everything it holds."""
        await self._sessions.delete(asked.session_id)
        return Nothing()

    async def list_tools(self, asked: ListTools, who: Principal) -> Tools:
        """The tools of a session."""
        return call_operations.tools_of(self._sessions.get(asked.session_id), asked.category)

    async def tool_info(self, asked: OneTool, who: Principal) -> ToolFacts:
        """One tool of a session."""
        return call_operations.tool_of(self._sessions.get(asked.session_id), asked.name)

    async def call_tool(self, asked: CallTool, who: Principal) -> CallResult:
        """Call a tool without a model."""
        held = self._sessions.get(asked.session_id)
        caller = _caller(who.name, who.transport)
        if asked.idempotency_key is None:
            return await call_operations.call_tool(held, asked, caller)
        if asked.call_id is None:
            asked = named(asked, who.name)
            if earlier := await held.keyed_calls.answer(asked):
                return earlier
        return await self._once.do(
            who.name,
            f"tools.call {asked.session_id}",
            asked.idempotency_key,
            asked,
            lambda: call_operations.call_tool(held, asked, caller),
        )

    async def cancel_call(self, asked: OneCall, who: Principal) -> Cancelled:
        """Stop a call that runs, or withdraw one that waits."""
        held = self._sessions.get(asked.session_id)
        return Cancelled(was_running=await call_operations.cancel_call(held, asked.call_id))

    async def send_prompt(self, asked: SendPrompt, who: Principal) -> PromptResult:
        """Have the model answer."""
        prompting = self._prompting(asked.session_id, who)
        when_busy = asked.when_busy or self._config.when_busy
        return await self._once.do(
            who.name,
            f"prompt.send {asked.session_id}",
            asked.idempotency_key,
            asked,
            lambda: _in_turn(
                prompting.held, lambda: prompting.answer(asked.text, waits=asked.waits), when_busy
            ),
        )

    async def resume_prompt(self, asked: ResumePrompt, who: Principal) -> PromptResult:
        """Go on with a prompt that waits, or was cut off."""
        prompting = self._prompting(asked.session_id, who)
        return await self._once.do(
            who.name,
            f"prompt.resume {asked.session_id}",
            asked.idempotency_key,
            asked,
            lambda: _in_turn(prompting.held, lambda: prompting.go_on(waits=asked.waits), "reject"),
        )

    async def cancel_prompt(self, asked: OneSession, who: Principal) -> Cancelled:
        """Stop the prompt that is being answered, or give up the one that waits."""
        held = self._sessions.get(asked.session_id)
        return Cancelled(was_running=await held.slot.cancel() or await abandon_prompt(held))

    def _prompting(self, session_id: str, who: Principal) -> PromptRunner:
        adapter, held = self._config.adapter, self._sessions.get(session_id)
        if adapter is None:
            told = "this runtime has no model; give it an adapter (--adapter)"
            raise Refused("unavailable", told)
        caller = Caller(who.name, who.transport, is_model=True)
        return PromptRunner(held, adapter, self._config.instructions, caller)

    async def list_approvals(self, asked: ListApprovals, who: Principal) -> Inbox:
        """What waits for a decision."""
        return await approval_operations.inbox(self._store, asked)

    async def get_approval(self, asked: OneApproval, who: Principal) -> ApprovalFacts:
        """One request for approval."""
        return approval_operations.approval_facts(
            await approval_operations.find(self._store, asked.approval_id)
        )

    async def decide(self, asked: Decide, who: Principal) -> ApprovalFacts:
        """Decide a request for approval."""

        async def decide() -> ApprovalFacts:
            filed = await approval_operations.find(self._store, asked.approval_id)
            session_id = filed.request.session_id
            held = self._sessions.find(session_id)
            if held is None and not approval_operations.gives_grant(asked):
                return await approval_operations.decide_elsewhere(self._store, asked, who.name)
            # A grant is written into the ledger of its session.
            async with self._sessions.writing(session_id) as session:
                decided = await approval_operations.decide(session, asked, who.name)
            if held is not None:
                held.decision_made()
            return decided

        return await self._once.do(
            who.name, "approvals.decide", asked.idempotency_key, asked, decide
        )

    async def list_grants(self, asked: Nothing, who: Principal) -> Grants:
        """Standing grants."""
        return await approval_operations.grants(self._store)

    async def revoke_grant(self, asked: OneGrant, who: Principal) -> Revoked:
        """Take a grant back."""
        grant = await approval_operations.find_grant(self._store, asked.grant_id)
        was_standing = await approval_operations.revoke(
            self._store, self._sessions, grant, by=who.name
        )
        return Revoked(was_standing=was_standing)

    async def list_events(self, asked: ListEvents, who: Principal) -> Events:
        """Kept events after a place."""
        records = await ask_store(
            self._store, self._sessions.records, asked.session_id, asked.after, asked.limit
        )
        told = [asdict(envelope_of(record)) for record in records]
        return Events(events=told, last_seq=told[-1]["seq"] if told else asked.after)

    def follow(self, session_id: str, after: int = 0, who: Principal = OWNER) -> EventReader:
        """A reader of a session that is open here. Close it when nobody reads any more."""
        who.check("read", "following a session")
        return self._sessions.get(session_id).follow(after, self._config.event_backlog)

    def attach(
        self, session_id: str, link: ClientLink, who: Principal = OWNER
    ) -> Callable[[], None]:
        """Let a client run the tools that it brought; returns what ends it. Raises `Refused`
        (forbidden) when another principal brought them, unless `who` is an admin.
        """
        who.check("call", "running a session's client tools")
        return self._sessions.get(session_id).client.attach(link, who)

    async def remount_servers(self, servers: Sequence[McpServerConfig]) -> None:
        """Have the tools of these MCP servers in all sessions, in the place of those that the
        runtime mounted before. For the host alone, like `mount_servers`.
        """
        await self._sessions.remount_servers(servers)

    async def mount_servers(self, session_id: str, servers: Sequence[McpServerConfig]) -> None:
        """Give a session the tools of MCP servers that its client brings, for as long as it is
        open. A transport asks for this, and no remote client: it starts programs.
        """
        await self._sessions.mount_servers(session_id, servers)


async def _in_turn(
    held: LiveSession, work: Callable[[], Awaitable[PromptResult]], when_busy: WhenBusy
) -> PromptResult:
    return await held.slot.run(work, when_busy) or await prompt_without_answer(held, "cancelled")


def as_json(result: object) -> Any:
    """An answer as plain JSON."""
    return json.loads(to_json(result, inf_nan_mode="strings"))
