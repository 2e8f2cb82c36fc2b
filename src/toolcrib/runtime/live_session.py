"""A session that a runtime holds open: its tools, who runs them, and its one turn.

One turn at a time in a session.

A runtime's hooks in its sessions, whose tools come and go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar, assert_never

from toolcrib.adapters.governance import Governance
from toolcrib.calls.executor import Executor
from toolcrib.calls.hooks import Hooks, PreReply
from toolcrib.errors import CallEnded, Refused
from toolcrib.runtime.event_reader import EventReader
from toolcrib.runtime.idempotency import KeyedCalls

if TYPE_CHECKING:
    from toolcrib.calls.call import Caller
    from toolcrib.host_tools.session_tools import SessionTools
    from toolcrib.runtime.client_tools import ClientCalls
    from toolcrib.runtime.config import RuntimeConfig, WhenBusy
    from toolcrib.session.session import Session


T = TypeVar("T")

MOST_WAITING: Final = 32
"""How many turns may be enqueued behind the one that runs."""


class TurnSlot:
    """Holds the turn that is running and those that wait for their turn. What becomes of another
    one is for who asks to say: refused, enqueued, or in the place of all that are there.
    """

    def __init__(self) -> None:
        self._free = asyncio.Lock()
        self._turns: list[asyncio.Task[Any]] = []

    @property
    def is_busy(self) -> bool:
        """Whether a turn is running or waiting."""
        return bool(self._turns)

    async def run(self, work: Callable[[], Awaitable[T]], when_busy: WhenBusy) -> T | None:
        """Run a turn; None when it was cancelled. It goes on when whoever waits for it leaves."""
        if self._turns:
            self._make_way(when_busy)
        task = asyncio.ensure_future(self._in_turn(work))
        # At once, not when the task begins: of two that ask in one breath, one is refused.
        self._turns.append(task)
        task.add_done_callback(self._turns.remove)
        await asyncio.wait([task])
        return None if task.cancelled() else task.result()

    async def cancel(self) -> bool:
        """Cancel the running turn and wait for its end; False when there is none."""
        if not self._turns:
            return False
        running = self._turns[0]
        running.cancel()
        await asyncio.wait([running])
        return True

    def cancel_all(self) -> list[asyncio.Task[Any]]:
        """Cancel every turn, and give those that have yet to end."""
        turns = list(self._turns)
        for task in turns:
            task.cancel()
        return turns

    def _make_way(self, when_busy: WhenBusy) -> None:
        match when_busy:
            case "reject":
                raise Refused(
                    "busy",
                    "a prompt of this session is being answered; wait for it, cancel it, or ask to "
                    "be enqueued",
                )
            case "enqueue":
                if len(self._turns) > MOST_WAITING:
                    raise Refused("busy", f"{MOST_WAITING} prompts wait in this session already")
            case "interrupt":
                self.cancel_all()
            case _:
                assert_never(when_busy)

    async def _in_turn(self, work: Callable[[], Awaitable[T]]) -> T:
        async with self._free:
            return await work()


@dataclass(frozen=True, slots=True)
class SessionHooks(Hooks):
    """Hooks that may name tools that a session does not have, or not yet: they hold as soon as it
    has them.
    """

    def check(self, known: Mapping[str, Any]) -> None:
        """Raise `InvalidHooks` for hooks that cannot be called."""
        Hooks.check(self.only(known), known)


def session_hooks(given: Hooks | None) -> SessionHooks:
    """The same hooks, for tools that come and go."""
    given = given or Hooks()
    return SessionHooks(given.global_pre, given.global_post, given.pre, given.post, given.timeout)


def prompt_hooks(hooks: SessionHooks, executor: Executor, names: Collection[str]) -> SessionHooks:
    """The hooks for a prompt that was offered `names`: a call of one that the session's executor
    no longer has finds nothing, also in the middle of a turn.
    """
    given, offered = hooks.global_pre, frozenset(names)

    async def look_for_it(context: Any, name: str, arguments: dict[str, Any]) -> PreReply:
        if name in offered and name not in executor.tools:
            raise CallEnded("not_found", f"There is no tool named {name!r} any more.")
        return arguments if given is None else await given(context, name, arguments)

    return replace(hooks, global_pre=look_for_it)


STOP_SECONDS: Final = 5.0
"""How long closing waits for what was cancelled. What does not stop is found in doubt later."""


class LiveSession:
    """A session with an executor of all its tools: the host's, which come and go with the registry,
    and those that a client brought.
    """

    def __init__(
        self,
        session: Session,
        tools: SessionTools,
        config: RuntimeConfig,
        client: ClientCalls,
        *,
        missing: Mapping[str, str],
        own_tools: Iterable[str],
    ) -> None:
        self.session = session
        self.loop = asyncio.get_running_loop()
        self.tools = tools
        self.client = client
        self.missing = dict(missing)
        """Tools from elsewhere that the session does not have, with the reason."""
        self.own_tools = set(own_tools)
        """Tools from elsewhere that no other session has."""
        self.slot = TurnSlot()
        self.keyed_calls = KeyedCalls(session)
        self.is_closing = False
        self._config = config
        self._hooks = session_hooks(config.hooks)
        self.executor = Executor(
            session,
            tools.for_executor,
            hooks=self._hooks,
            policy=config.policy,
            approver=config.approver,
            limits=config.limits,
            runners={"client": self.client},
        )
        tools.follow(self.executor)
        self.calls: set[asyncio.Task[Any]] = set()
        """The tasks of calls that were asked for without a model."""
        self._readers: set[EventReader] = set()
        self._decision = asyncio.Event()

    @property
    def unavailable(self) -> Mapping[str, str]:
        """Tools that the session does not have, with the reason."""
        return {**self.missing, **self.tools.unavailable}

    def is_own(self, name: str) -> bool:
        """Whether no other session has this tool."""
        return self.tools.is_own(name) if self.tools.is_host(name) else name in self.own_tools

    def governance(self, names: Collection[str], caller: Caller) -> Governance:
        """How the calls of a prompt that is offered `names` are governed: like all others."""
        config = self._config
        return Governance(
            policy=config.policy,
            approver=config.approver,
            hooks=prompt_hooks(self._hooks, self.executor, names),
            limits=config.limits,
            runners={"client": self.client},
            caller=caller,
        )

    def follow(self, after: int, backlog: int) -> EventReader:
        """A reader of what happened after a place, which ends with the session."""
        reader = EventReader(self.session, after, backlog, on_close=self._readers.discard)
        self._readers.add(reader)
        return reader

    @property
    def next_decision(self) -> asyncio.Event:
        """Is set when the next decision is made here. Take it before looking for decisions."""
        return self._decision

    def decision_made(self) -> None:
        """Wake whoever waits for a decision."""
        self._decision.set()
        self._decision = asyncio.Event()

    def stop_waiting(self) -> None:
        """Let prompts that wait for people end; what they wait for stays to be decided."""
        self.is_closing = True
        self.decision_made()

    async def close(self) -> None:
        """Cancel what runs and let another process write the session."""
        self.stop_waiting()
        tasks = [*self.slot.cancel_all(), *self.calls]
        for task in self.calls:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_SECONDS)
        try:
            await self.session.close()
        finally:
            await self.tools.close()
        for reader in tuple(self._readers):
            reader.close()


async def wait_at_most(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, and no longer than this."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
