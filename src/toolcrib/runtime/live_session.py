"""A session that is open in a runtime: its executor, its one turn at a time, its event readers, and
whether somebody is there for its calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    Collection,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from toolcrib.adapters.turn_tools import Governance
from toolcrib.calls.executor import Executor
from toolcrib.calls.hooks import Hooks, PreReply
from toolcrib.calls.lifecycle import HookedSession, refusal_of, tell_hooks
from toolcrib.errors import CallEnded, Refused, UsageError
from toolcrib.features.declaration import FEATURE_TOOLS
from toolcrib.runtime.event_reader import EventReader
from toolcrib.runtime.messages import ResumeSession
from toolcrib.runtime.partial_reply import PartialReplies
from toolcrib.runtime.session_features import SessionFeatures
from toolcrib.runtime.turn_slot import TurnSlot
from toolcrib.store.store import ask_store
from toolcrib.tools.prepared_tool import is_available

if TYPE_CHECKING:
    from toolcrib.approval.caller import Caller
    from toolcrib.approval.decision import ApprovalRequest
    from toolcrib.calls.outcome import Outcome
    from toolcrib.host_tools.session_tools import SessionTools
    from toolcrib.runtime.client_tools import ClientCalls
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.features import Features
    from toolcrib.runtime.messages import CreateSession
    from toolcrib.runtime.principal import Principal
    from toolcrib.runtime.served_tools import ServedTools
    from toolcrib.session.session import Session
    from toolcrib.tools.audience import Audience


def session_hooks(hooks: Hooks | None, inner: Mapping[str, Hooks]) -> Hooks:
    """The hooks of a runtime, for sessions whose tools change, around those of its toolsets."""
    hooks = (hooks or Hooks()).lenient()
    return replace(hooks, inner={**hooks.inner, **inner})


def prompt_hooks(hooks: Hooks, executor: Executor, names: Collection[str]) -> Hooks:
    """The hooks for a prompt that declares the tools `names`. A tool that the session has lost
    since then is not found, even in the middle of a turn.
    """
    declared = frozenset(names)

    async def refuse_removed(context: Any, name: str, arguments: dict[str, Any]) -> PreReply:
        if name in declared and name not in executor.tools:
            raise CallEnded("not_found", f"There is no tool named {name!r} any more.")
        return arguments

    return Hooks(global_pre=refuse_removed, parts=(hooks,), more_tools_may_come=True)


@dataclass(frozen=True, slots=True)
class SessionOpening:
    """Who opened a session, how and when."""

    who: Principal
    params: CreateSession
    at: float


@dataclass(frozen=True, slots=True)
class MissingTool:
    """Why a session does not have a tool of a mounted server, or none of that server's, and who may
    know of it.
    """

    reason: str
    visible_to: Audience | None = None


STOP_SECONDS: Final = 5.0
"""How long closing waits for cancelled calls. One that does not stop is in doubt afterwards."""


class LiveSession:
    """A session with an executor for all its tools: those of the host's registry, of mounted MCP
    servers and of the client. Close it to let another process write the session.
    """

    def __init__(
        self,
        session: Session,
        tools: SessionTools,
        config: RuntimeConfig,
        client: ClientCalls,
        served: ServedTools,
        *,
        missing: Mapping[str, MissingTool],
        own_tools: Iterable[str],
        opening: SessionOpening,
    ) -> None:
        self.session = session
        self._loop = asyncio.get_running_loop()
        self.tools = tools
        self.client = client
        self.missing = dict(missing)
        """MCP tools that the session does not have, with the reason."""
        self.own_tools = set(own_tools)
        """Client and MCP tools that no other session has."""
        self.slot = TurnSlot()
        self.partial_replies = PartialReplies()
        self.stopped_by: str | None = None
        """Who cancels the running prompt, while it ends."""
        self.is_closing = False
        self.is_over = False
        """Whether it closes because somebody asked for it, rather than to be let go."""
        self.is_closed = asyncio.Event()
        """Set when another process may write the session."""
        self.opened_by = opening.who
        self.opened_at = self.used_at = opening.at
        """When a request last used the session, by the clock of the runtime."""
        self._opening = opening
        self._config = config
        self._served_hooks = served.hooks
        self.hosted = served.hosted
        """The tools of the provider that its prompts offer, by name."""
        self._hooks = session_hooks(config.hooks, served.hooks)
        self.executor = self._make_executor(tools.for_executor)
        self._features: SessionFeatures | None = None
        tools.follow(self.executor)
        self._calls: set[asyncio.Task[Any]] = set()
        """The tasks of calls without a model."""
        self._readers: set[EventReader] = set()
        self._decision = asyncio.Event()

    def _make_executor(self, tools: Iterable[Any]) -> Executor:
        config = self._config
        return Executor(
            self.session,
            tools,
            hooks=self._hooks,
            policy=config.policy,
            approver=config.approver,
            responder=config.responder,
            limits=config.limits,
            runners={"client": self.client},
            bind_to=config.bind_to,
            is_policy_checked=True,
        )

    def serve(self, features: Features) -> None:
        """Let calls of the tools behind resources and prompts read these."""
        if self._features is None:
            self._features = SessionFeatures(
                self.session,
                features,
                lambda tool: self._make_executor([tool]),
                lambda name: self.tools.is_wanted(name),
            )

    @property
    def is_in_use(self) -> bool:
        """Whether a call or prompt runs, a reader keeps it open, or a client is attached."""
        is_kept_open = any(reader.keeps_open for reader in self._readers)
        return bool(self._calls or is_kept_open or self.slot.is_busy or self.client.is_attached)

    @property
    def is_followed(self) -> bool:
        """Whether somebody reads the events, or a client is attached."""
        return bool(self._readers) or self.client.is_attached

    def note_declared(self, params: ResumeSession) -> None:
        """Remember what a client has declared since the session was opened."""
        opening, declared = self._opening, {tool.name: tool for tool in params.client_tools}
        kept = [tool for tool in opening.params.client_tools if tool.name not in declared]
        self._opening = replace(
            opening,
            params=replace(
                opening.params,
                client_tools=[*kept, *params.client_tools],
                capabilities=params.capabilities or opening.params.capabilities,
            ),
        )

    @property
    def is_temporary(self) -> bool:
        """Whether the session is deleted when it is closed and nothing has happened in it."""
        return self._opening.params.is_temporary

    @property
    def reopen_params(self) -> ResumeSession:
        """What opens the session again as it is: its settings are stored with it."""
        params = self._opening.params
        return ResumeSession(
            session_id=self.session.session_id,
            environment=params.environment,
            capabilities=params.capabilities,
            client_tools=params.client_tools,
        )

    @property
    def unavailable(self) -> Mapping[str, str]:
        """All tools that the session does not have now, with the reason."""
        away = {
            name: "the tool says that it is not available now"
            for name, tool in self.executor.tools.items()
            if not is_available(tool.tool)
        }
        missing = {name: tool.reason for name, tool in self.missing.items()}
        return {**missing, **self.tools.unavailable, **away}

    def unavailable_to(self, caller: Caller | None) -> dict[str, str]:
        """Those of them that somebody sees; for nobody, those that everybody sees."""
        return {
            name: reason
            for name, reason in self.unavailable.items()
            if (audience := self._audience_of(name)) is None
            or (caller is not None and audience.includes(caller.principal, caller.groups))
        }

    def _audience_of(self, name: str) -> Audience | None:
        tool = self.executor.tools.get(name)
        if tool is not None:
            return tool.tool.visible_to
        missing = self.missing.get(name)
        return self.tools.audience_of(name) if missing is None else missing.visible_to

    def is_own(self, name: str) -> bool:
        """Whether no other session has this tool."""
        return self.tools.is_own(name) if self.tools.is_host(name) else name in self.own_tools

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        call_id: str | None,
        caller: Caller,
        *,
        is_new_id: bool = False,
    ) -> Outcome:
        """Call a tool. Closing the session cancels the call. Raises `Refused` (conflict) when the
        call id is taken.
        """
        if name in self.hosted and name not in self.executor.tools:
            raise Refused(
                "invalid", f"{name} runs at the model's provider; it is offered to prompts only"
            )
        # With the loop as argument, asyncio need not look it up, which costs a system call.
        task = asyncio.current_task(self._loop)
        assert task is not None, "an operation runs in a task of the loop of its session"
        self._calls.add(task)
        executor = self.executor
        try:
            if name in FEATURE_TOOLS and self._features is not None:
                executor, arguments = await self._features.executor(
                    name, arguments, call_id, caller
                )
            return await executor.call(
                name, arguments, call_id=call_id, is_new_id=is_new_id, caller=caller
            )
        except UsageError as error:
            raise Refused("conflict", str(error)) from None
        finally:
            self._calls.discard(task)

    def reconfigure(self, config: RuntimeConfig) -> None:
        """Take the policy, the approver and the hooks of another configuration, at once."""
        hooks = session_hooks(config.hooks, self._served_hooks)
        self.executor.replace_governance(
            policy=config.policy, approver=config.approver, hooks=hooks
        )
        self.executor.responder = config.responder
        self._config, self._hooks = config, hooks
        if self._features is not None:
            self._features.reconfigure()

    def governance(self, names: Collection[str], caller: Caller) -> Governance:
        """The governance of the calls of a prompt that declares the tools `names`."""
        config = self._config
        return Governance(
            policy=config.policy,
            approver=config.approver,
            responder=config.responder,
            hooks=prompt_hooks(self._hooks, self.executor, names),
            limits=config.limits,
            runners={"client": self.client},
            caller=caller,
            bind_to=config.bind_to,
        )

    def follow(self, after: int, backlog: int, *, keeps_open: bool = True) -> EventReader:
        """A reader of the events after the record `after`; it ends when the session is closed here.
        The session stays open for it if it `keeps_open`.
        """
        reader = EventReader(
            self.session,
            after,
            backlog,
            partial_replies=self.partial_replies,
            on_close=self._readers.discard,
            keeps_open=keeps_open,
        )
        self._readers.add(reader)
        return reader

    @property
    def next_decision(self) -> asyncio.Event:
        """Set by the next decision in this process. Get it before reading the decisions."""
        return self._decision

    def decision_made(self) -> None:
        """Wake the prompts that wait for a decision."""
        self._decision.set()
        self._decision = asyncio.Event()

    def stop_waiting(self) -> None:
        """End prompts that wait for approval, whose requests stay pending, and withdraw questions:
        nobody waits for a person who may never answer.
        """
        self.is_closing = True
        self.decision_made()
        self.session.questions.withdraw_all("the session is closing")

    async def greet(self, *, is_new: bool) -> None:
        """Ask the hooks about the session that was opened. Raises `Refused` when one refuses."""
        reason = await refusal_of(self._hooks, "session_opened", self._hooked_facts(is_new))
        if reason is not None:
            raise Refused("forbidden", reason)

    def _hooked_facts(self, is_new: bool) -> HookedSession:
        session_id = self.session.session_id
        return HookedSession(session_id=session_id, principal=self.opened_by.name, is_new=is_new)

    async def close(self, *, releases: bool = True) -> None:
        """Cancel running turns and calls, and release the session for another process, unless
        whoever brought its lease does.
        """
        self.stop_waiting()
        tasks = [*self.slot.cancel_all(), *self._calls]
        for task in self._calls:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_SECONDS)
        try:
            await self.session.close(releases=releases)
        finally:
            self.is_closed.set()
            for reader in tuple(self._readers):
                reader.is_over = self.is_over
                reader.close()
            await self.tools.close()
        await tell_hooks(self._hooks, "session_closed", self._hooked_facts(False))


async def wait_at_most(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, and no longer than `seconds`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


POLL_SECONDS = 1.0
"""How often the store is read for decisions of other processes."""

_IN_PROCESS: Final = (None, "cli")
"""Transports without a connection over which anybody could answer."""

_waits: Final[ContextVar[bool]] = ContextVar("toolcrib_waits", default=True)


@contextmanager
def waiting_allowed(is_allowed: bool) -> Generator[None]:
    """Say whether calls within may wait for a decision while the call around them runs."""
    before = _waits.get()
    _waits.set(is_allowed)
    try:
        yield
    finally:
        _waits.set(before)


class LiveAttendance:
    """The people behind a live session: those at its connections, and those who read its inbox."""

    def __init__(self, live: LiveSession) -> None:
        self._live = live

    def has_responders(self, caller: Caller) -> bool:
        """Whether somebody may answer a question: the call came over a connection, or somebody
        follows the session.
        """
        return caller.transport not in _IN_PROCESS or self._live.is_followed

    def has_approvers(self, caller: Caller) -> bool:
        """Whether a call within another one may wait for a decision: an MCP client has no way to
        decide meanwhile, so that somebody has to reach the store.
        """
        is_reachable = caller.transport != "mcp" or self._live.session.store.is_durable
        return _waits.get() and is_reachable and self.has_responders(caller)

    async def decided(self, request: ApprovalRequest) -> bool:
        """Wait until the request is decided or expires; False when the session is closing."""
        return await _decided(self._live, (request,))


async def decided(live: LiveSession, pending: Sequence[ApprovalRequest]) -> bool:
    """Wait until one of the requests is decided, in any process, or expires; False when the
    session is closing.
    """
    try:
        return await _decided(live, pending)
    except asyncio.CancelledError:
        # Closing cancels the prompts of a session; one that waits for approval loses nothing.
        if not live.is_closing:
            raise
    return False


async def _decided(live: LiveSession, pending: Sequence[ApprovalRequest]) -> bool:
    while not live.is_closing:
        # Before the store is read: a decision during the read must not be slept through.
        decision = live.next_decision
        for request in pending:
            if await _is_over(live, request):
                return True
        await wait_at_most(decision, _poll_delay(live, pending))
    return False


def _poll_delay(live: LiveSession, pending: Sequence[ApprovalRequest]) -> float:
    """How long to wait before the store is read again, at most until the first deadline."""
    now = live.session.clock()
    remaining = [request.deadline - now for request in pending if request.deadline is not None]
    return max(0.0, min([POLL_SECONDS, *remaining]))


async def _is_over(live: LiveSession, request: ApprovalRequest) -> bool:
    session = live.session
    if request.deadline is not None and session.clock() >= request.deadline:
        return True
    filed = await ask_store(session.store, session.store.approval, request.approval_id)
    return filed is None or filed.state != "pending"
