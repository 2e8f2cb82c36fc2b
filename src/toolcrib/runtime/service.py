"""The service behind every transport: each operation, typed in and typed out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from toolcrib._version import __version__
from toolcrib.errors import Refused
from toolcrib.features.declaration import FEATURE_TOOLS
from toolcrib.ledger.event_kinds import ALL_EVENTS, PASSING
from toolcrib.ledger.prompt_events import PromptStarted
from toolcrib.runtime import (
    audit_operations,
    call_operations,
)
from toolcrib.runtime.approval_service import ApprovalService
from toolcrib.runtime.audit_messages import Calls, ListCalls, ListRecords, Records, SumCalls, Sums
from toolcrib.runtime.event_reader import GAP, EventReader, event_page
from toolcrib.runtime.features import Features
from toolcrib.runtime.idempotency import about_key, with_keyed_call_id, with_keyed_session_id
from toolcrib.runtime.inbox_watch import InboxWatch
from toolcrib.runtime.messages import (
    ArtifactPage,
    CallResult,
    CallTool,
    Cancelled,
    Capabilities,
    CreateSession,
    Events,
    ForkSession,
    ListEvents,
    ListSessions,
    ListTools,
    NewCall,
    Nothing,
    OneArtifact,
    OneCall,
    OneSession,
    OneTool,
    PromptResult,
    ResumePrompt,
    ResumeSession,
    SendPrompt,
    SessionFacts,
    Sessions,
    ToolFacts,
    Tools,
)
from toolcrib.runtime.ownership import check_new_id
from toolcrib.runtime.principal import OWNER
from toolcrib.runtime.prompt_operations import (
    NO_AGENT,
    PromptRunner,
    PromptStart,
    agent_facts,
    answered_prompt,
    cancel_prompt,
    last_prompts,
    prompt_outcome,
    prompt_without_answer,
    was_begun,
)
from toolcrib.store.shared_store import is_shared
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from toolcrib.mcp_client.config import McpServerConfig
    from toolcrib.runtime.attached_clients import ClientLink, ForwardedCall
    from toolcrib.runtime.catalog import ToolCatalog
    from toolcrib.runtime.config import RuntimeConfig, WhenBusy
    from toolcrib.runtime.event_reader import SessionReader
    from toolcrib.runtime.idempotency import IdempotencyKeys
    from toolcrib.runtime.live_session import LiveSession
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.queued_turns import QueuedTurns
    from toolcrib.runtime.quotas import Quotas
    from toolcrib.runtime.sessions import LiveSessions
    from toolcrib.runtime.shared_reader import SharedEvents
    from toolcrib.store.store import KeyClaim, Store

PROTOCOL: Final = 1
_EVENTS: Final = sorted([GAP, *(event.kind for event in (*ALL_EVENTS, *PASSING))])


class Service(ApprovalService):
    """Every operation. The role of the principal is checked before; an operation that cannot be
    done raises `Refused`.
    """

    def __init__(
        self,
        config: RuntimeConfig,
        store: Store,
        sessions: LiveSessions,
        keys: IdempotencyKeys,
        quotas: Quotas,
        operations: Iterable[str],
        catalog: ToolCatalog,
    ) -> None:
        self.catalog = catalog
        """The tools of the runtime, for the operations about them."""
        self._config = config
        self.features = Features(
            catalog.registry.features, sessions.servers, lambda: self._config.policy
        )
        """The resources and prompts of the runtime."""
        self._store = store
        self._sessions = sessions
        self._keys = keys
        self._quotas = quotas
        self._operations = sorted(operations)
        self.inbox = InboxWatch(store, sessions)
        self.shared_events: SharedEvents | None = None
        """The events of a shared store's sessions, wherever they are open."""
        if is_shared(store):
            from toolcrib.runtime.shared_reader import SharedEvents

            self.shared_events = SharedEvents(store, sessions, config.event_backlog)
        self.queued_turns: QueuedTurns | None = None
        """The prompts of a store that replicas share."""

    @property
    def config(self) -> RuntimeConfig:
        """The configuration of operations that begin now."""
        return self._config

    async def capabilities(self, params: Nothing, who: Principal) -> Capabilities:
        """The protocol, the operations and the limits of this runtime."""
        return Capabilities(
            name="toolcrib",
            version=__version__,
            protocol=PROTOCOL,
            operations=list(self._operations),
            events=list(_EVENTS),
            has_model=self._config.adapter is not None,
            agent=agent_facts(self._config.adapter),
            max_payload_bytes=self._config.max_payload_bytes,
            max_sessions=self._config.max_sessions,
            event_backlog=self._config.event_backlog,
        )

    async def create_session(self, params: CreateSession, who: Principal) -> SessionFacts:
        """Open a new session, with its tools."""
        check_new_id(params.session_id, who)
        keyed = with_keyed_session_id(params, who.name)

        async def create() -> SessionFacts:
            live = await self._sessions.create(keyed, who)
            return await self._sessions.facts_of(live.session.session_id, who)

        async def open_again(_: KeyClaim) -> SessionFacts:
            return await self._sessions.created(keyed, who) or await create()

        scope = who.name, "session.create", params.idempotency_key
        session_id = keyed.session_id or ""
        return await self._keys.run(scope, params, create, open_again, session_id=session_id)

    async def get_session(self, params: OneSession, who: Principal) -> SessionFacts:
        """A session as it is now."""
        return await self._sessions.facts_of(params.session_id, who)

    async def list_sessions(self, params: ListSessions, who: Principal) -> Sessions:
        """The sessions of the principal; auditors and admins see all."""
        return await self._sessions.facts(params, who)

    async def resume_session(self, params: ResumeSession, who: Principal) -> SessionFacts:
        """Open a session of the store again."""
        await self._sessions.resume(params, who)
        return await self._sessions.facts_of(params.session_id, who)

    async def fork_session(self, params: ForkSession, who: Principal) -> SessionFacts:
        """Create a session that begins with the history of another one."""
        live = await self._sessions.fork(params.session_id, params.new_session_id, who)
        return await self._sessions.facts_of(live.session.session_id, who)

    async def close_session(self, params: OneSession, who: Principal) -> Nothing:
        """Close a session; it stays in the store."""
        await self._sessions.close(params.session_id, who)
        return Nothing()

    async def delete_session(self, params: OneSession, who: Principal) -> Nothing:
        """Delete a session and everything it holds."""
        await self._sessions.delete(params.session_id, who)
        return Nothing()

    async def list_tools(self, params: ListTools, who: Principal) -> Tools:
        """The tools of a session."""
        live = await self._sessions.wake(params.session_id, who, to_change=False)
        return call_operations.tools_of(live, params.category, who.caller())

    async def tool_info(self, params: OneTool, who: Principal) -> ToolFacts:
        """One tool of a session."""
        live = await self._sessions.wake(params.session_id, who, to_change=False)
        return call_operations.tool_of(live, params.name, who.caller())

    async def call_tool(self, params: CallTool, who: Principal) -> CallResult:
        """Call a tool without a model."""
        live, quota = await self._sessions.wake(params.session_id, who), self._quotas.of(who)
        if params.name in FEATURE_TOOLS:
            live.serve(self.features)
        if quota is not None:
            quota.begin_call()
        try:
            if params.idempotency_key is None:
                return await _called(live, params, params.arguments or None, who)
            return await self._call_keyed(live, params, params.idempotency_key, who)
        finally:
            if quota is not None:
                quota.end_call()

    async def _call_keyed(
        self, live: LiveSession, params: CallTool, key: str, who: Principal
    ) -> CallResult:
        keyed = with_keyed_call_id(params, who.name)
        # A key is for the arguments that it was first used with, also when those are none.
        arguments = params.arguments if params.call_id is None else params.arguments or None

        async def call(_: object = None) -> CallResult:
            try:
                return await _called(live, keyed, arguments, who)
            except Refused as refused:
                raise about_key(refused, key) from None

        scope = who.name, f"tools.call {params.session_id}", key
        if params.call_id is None:
            # The key is the id of the call: the ledger has it, and what came of the call.
            return await self._keys.share(*scope, keyed, call)
        return await self._keys.run(scope, params, call, call, session_id=params.session_id)

    async def cancel_call(self, params: OneCall, who: Principal) -> Cancelled:
        """Cancel a running call, or withdraw a waiting one."""
        live = await self._sessions.wake(params.session_id, who)
        return Cancelled(was_running=await call_operations.cancel_call(live, params.call_id))

    async def send_prompt(self, params: SendPrompt, who: Principal) -> PromptResult:
        """Send a prompt to the model."""
        if self.queued_turns is not None:
            with self._quotas.call(who):
                return await self.queued_turns.send(params, who, self._config)
        runner = await self._prompt_runner(params.session_id, who)
        when_busy = params.when_busy or self._config.when_busy

        async def send() -> PromptResult:
            return await _in_turn(
                runner.live, lambda: runner.send(params.text, waits=params.waits), when_busy
            )

        return await self._keyed_prompt("prompt.send", params, who, runner, send)

    async def resume_prompt(self, params: ResumePrompt, who: Principal) -> PromptResult:
        """Resume a prompt that waits or was interrupted."""
        if self.queued_turns is not None:
            with self._quotas.call(who):
                return await self.queued_turns.resume(params, who, self._config)
        runner = await self._prompt_runner(params.session_id, who)
        return await self._keyed_prompt(
            "prompt.resume", params, who, runner, lambda: _resumed(runner, params)
        )

    async def _keyed_prompt(
        self,
        operation: str,
        params: SendPrompt | ResumePrompt,
        who: Principal,
        runner: PromptRunner,
        work: Callable[[], Awaitable[PromptResult]],
    ) -> PromptResult:
        async def repeat(claim: KeyClaim) -> PromptResult:
            return await answered_prompt(runner.live, claim) or await (
                _resumed(runner, params) if await was_begun(runner.live, claim) else work()
            )

        # A prompt that is resumed has begun before its key is claimed.
        after_turn = runner.live.session.last_turn if operation == "prompt.send" else 0
        with self._quotas.call(who):
            return await self._keys.run(
                (who.name, f"{operation} {params.session_id}", params.idempotency_key),
                params,
                work,
                repeat,
                session_id=params.session_id,
                after_turn=after_turn,
                outcome=prompt_outcome,
            )

    async def cancel_prompt(self, params: OneSession, who: Principal) -> Cancelled:
        """Cancel the running prompt, or abandon the waiting one."""
        if self.queued_turns is not None:
            return Cancelled(was_running=await self.queued_turns.cancel(params.session_id, who))
        live = await self._sessions.wake(params.session_id, who)
        return Cancelled(was_running=await cancel_prompt(live, by=who.name))

    async def _prompt_runner(self, session_id: str, who: Principal) -> PromptRunner:
        adapter, live = self._config.adapter, await self._sessions.wake(session_id, who)
        if adapter is None:
            raise Refused("unavailable", NO_AGENT)
        caller = who.caller(is_model=True)
        config = self._config
        return PromptRunner(live, adapter, config.instructions, caller, config.budget)

    async def list_calls(self, params: ListCalls, who: Principal) -> Calls:
        """Calls over all sessions of the principal; auditors and admins see those of everybody."""
        return await audit_operations.list_calls(self._store, params, who)

    async def sum_calls(self, params: SumCalls, who: Principal) -> Sums:
        """What those calls took together: times, tokens, cost."""
        return await audit_operations.sum_calls(self._store, params, who)

    async def list_records(self, params: ListRecords, who: Principal) -> Records:
        """The stored records of a session with their hashes, so that a reader can check them."""
        config, sessions = self._config, self._sessions
        return await audit_operations.list_records(self._store, sessions, params, who, config)

    async def list_events(self, params: ListEvents, who: Principal) -> Events:
        """The recorded events between two sequence numbers: fewer than `limit` when they are
        large.
        """
        await self._sessions.seen(params.session_id, who)
        live = self._sessions.find(params.session_id)
        session = None if live is None else live.session
        most_bytes = self._config.max_payload_bytes
        return await ask_store(self._store, event_page, self._store, session, params, most_bytes)

    async def get_artifact(self, params: OneArtifact, who: Principal) -> ArtifactPage:
        """A whole result that was too long for the model, page by page when it is large."""
        await self._sessions.seen(params.session_id, who)
        return await ask_store(
            self._store,
            call_operations.artifact_page,
            self._store,
            params,
            self._config.max_payload_bytes,
        )

    def follow(self, session_id: str, after: int = 0, who: Principal = OWNER) -> EventReader:
        """A reader of the events of a session that is open here. The caller closes it."""
        who.check(("caller", "auditor"), "following a session")
        live = self._sessions.get(session_id, who, to_change=False)
        return live.follow(after, self._config.event_backlog)

    async def open_reader(self, session_id: str, after: int, who: Principal) -> SessionReader:
        """A reader of the events of a session, which is opened again if it was let go; on a shared
        store, of any session, wherever it is open. The caller closes it. Raises `Refused`.
        """
        who.check(("caller", "auditor"), "following a session")
        if self.shared_events is None:
            await self.wake(session_id, who)
            return self.follow(session_id, after, who)
        await self._sessions.seen(session_id, who)
        return self.shared_events.follow(session_id, after)

    async def last_prompts(
        self, session_id: str, who: Principal, most: int = 1
    ) -> list[PromptStart]:
        """Where the last prompts of a session of the store start, in order. Raises `Refused`."""
        who.check(("caller", "auditor"), "reading a session")
        await self._sessions.seen(session_id, who)
        live = self._sessions.find(session_id)

        def read() -> list[PromptStart]:
            kinds = (PromptStarted.kind,)
            if live is not None:
                return last_prompts(live.session.records(kinds=kinds, newest_first=True), most)
            records = self._store.records(session_id, kinds=kinds, newest_first=True)
            return last_prompts(records, most)

        return await ask_store(self._store, read)

    def has_changing_tools(self, session_id: str) -> bool:
        """Whether tools of a live session come and go by themselves, so that a list of them is
        true only for the moment. Those of a session that is open at another replica may.
        """
        live = self._sessions.find(session_id)
        if live is None:
            return is_shared(self._store)
        tools = live.executor.tools.values()
        return any(prepared.tool.available_when is not None for prepared in tools)

    def share(self, session_id: str) -> None:
        """Let every caller use one session. Only the host may ask for this."""
        self._sessions.share(session_id)

    async def wake(self, session_id: str, who: Principal) -> None:
        """Open a session again that was let go while it was idle, so that it can be followed or
        attached to. Raises `Refused`, as these do.
        """
        await self._sessions.wake(session_id, who, to_change=False)

    async def attach(
        self,
        session_id: str,
        link: ClientLink,
        who: Principal = OWNER,
        *,
        takes_over: bool = False,
    ) -> Callable[[], None]:
        """Let a client run the client tools of a session, in place of any other; returns the
        function that detaches it. One that `takes_over` is asked to run the calls of the one
        before it that have not ended; otherwise they fail. On a shared store the session may be
        open at another replica.

        Raises `Refused` (not_found) for a session of another principal, unless `who` is an admin.
        """
        who.check(("caller",), "running a session's client tools")
        return await self._sessions.attach(session_id, link, who, takes_over=takes_over)

    async def has_front_end(self, session_id: str) -> bool:
        """Whether the client that was attached to a session last is one that takes over, wherever
        it is connected.
        """
        client = await self._sessions.clients.find(session_id)
        return client is not None and client.place.takes_over

    async def is_attached(self, session_id: str, link: ClientLink) -> bool:
        """Whether this client was attached to a session last, here or at any replica."""
        return await self._sessions.clients.is_last(session_id, link)

    async def run_client_call(self, call: ForwardedCall) -> bytes:
        """The answer of a client that is connected here, for the replica that runs the call."""
        return await self._sessions.clients.run_here(call)

    def reconfigure(self, config: RuntimeConfig) -> None:
        """Use another configuration for the operations that begin from now on."""
        self._config = config

    async def remount_servers(self, servers: Sequence[McpServerConfig]) -> None:
        """Replace the MCP servers that are mounted in every session. Only the host may ask for
        this, as for `mount_servers`: it starts programs.
        """
        await self._sessions.servers.remount(servers)

    async def mount_servers(
        self, session_id: str, servers: Sequence[McpServerConfig], who: Principal
    ) -> None:
        """Mount the MCP servers of a client in its session, for as long as that is open. Only an
        admin may name addresses that the egress policy of the runtime does not allow.
        """
        await self._sessions.mount_servers(session_id, servers, who)


async def _resumed(runner: PromptRunner, params: SendPrompt | ResumePrompt) -> PromptResult:
    return await _in_turn(runner.live, lambda: runner.resume(waits=params.waits), "reject")


async def _called(
    live: LiveSession, params: CallTool, arguments: Mapping[str, Any] | None, who: Principal
) -> CallResult:
    """Make a call. None for `arguments` stands for those of the waiting call that it takes up."""
    outcome = await live.call(
        params.name,
        arguments,
        params.call_id,
        who.caller(),
        is_new_id=isinstance(params, NewCall),
    )
    return call_operations.call_result(outcome)


async def _in_turn(
    live: LiveSession, work: Callable[[], Awaitable[PromptResult]], when_busy: WhenBusy
) -> PromptResult:
    return await live.slot.run(work, when_busy) or await prompt_without_answer(live, "cancelled")


def as_json(result: object) -> Any:
    """A result as plain JSON."""
    return json.loads(to_json(result, inf_nan_mode="strings"))
