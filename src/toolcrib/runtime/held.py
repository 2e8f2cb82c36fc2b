"""A session that a runtime holds open: its tools, who runs them, and its one turn."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from toolcrib.adapters.withholding import Governance
from toolcrib.calls.executor import Executor
from toolcrib.runtime.envelope import Reader
from toolcrib.runtime.keyed_calls import KeyedCalls
from toolcrib.runtime.session_hooks import prompt_hooks, session_hooks
from toolcrib.runtime.turn_slot import TurnSlot

if TYPE_CHECKING:
    from toolcrib.calls.call import Caller
    from toolcrib.host_tools.session_tools import SessionTools
    from toolcrib.runtime.client_calls import ClientCalls
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.session.session import Session

STOP_SECONDS: Final = 5.0
"""How long closing waits for what was cancelled. What does not stop is found in doubt later."""


class HeldSession:
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
        self._readers: set[Reader] = set()
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

    def follow(self, after: int, backlog: int) -> Reader:
        """A reader of what happened after a place, which ends with the session."""
        reader = Reader(self.session, after, backlog, on_close=self._readers.discard)
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
