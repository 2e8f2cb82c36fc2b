"""A session that a runtime holds open: its tools, who runs them, and its one turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from toolcrib.adapters.withholding import Governance
from toolcrib.calls.executor import Executor
from toolcrib.runtime.client_calls import ClientCalls
from toolcrib.runtime.turn_slot import TurnSlot

if TYPE_CHECKING:
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.messages import CreateSession
    from toolcrib.session.session import Session


class HeldSession:
    """A session with an executor of all its tools. `unavailable` are tools that it does not have,
    with the reason.
    """

    def __init__(
        self,
        session: Session,
        tools: Iterable[Any],
        config: RuntimeConfig,
        asked: CreateSession,
        unavailable: Mapping[str, str],
    ) -> None:
        self.session = session
        self.capabilities = tuple(asked.capabilities)
        self.is_wanted = wanted_by(asked)
        self.client = ClientCalls()
        self.slot = TurnSlot()
        self.unavailable = dict(unavailable)
        self.governance = Governance(
            policy=config.policy,
            approver=config.approver,
            hooks=config.hooks,
            limits=config.limits,
            runners={"client": self.client},
        )
        self.executor = Executor(
            session,
            tools,
            hooks=config.hooks,
            policy=config.policy,
            approver=config.approver,
            limits=config.limits,
            runners={"client": self.client},
        )
        self.calls: set[asyncio.Future[Any]] = set()
        self._decision = asyncio.Event()

    def decision_made(self) -> None:
        """Wake whoever waits for a decision."""
        self._decision.set()
        self._decision = asyncio.Event()

    async def wait_for_decision(self, seconds: float) -> None:
        """Wait until a decision is made here, or so long that one may have been made elsewhere."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._decision.wait()

    async def close(self) -> None:
        """Cancel what runs and let another process write the session."""
        await self.slot.cancel()
        for task in tuple(self.calls):
            task.cancel()
        await asyncio.gather(*self.calls, return_exceptions=True)
        await self.session.close()


def wanted_by(asked: CreateSession) -> Callable[[str], bool]:
    """Whether whoever asked for a session wants a tool of a name in it."""
    allowed, denied = asked.allowed_tools, frozenset(asked.denied_tools)
    return lambda name: (allowed is None or name in allowed) and name not in denied
