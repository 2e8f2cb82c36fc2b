"""The prompt that is being evaluated here, what it has spent, and what it is part of."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from toolcrib.adapters.options import Usage
from toolcrib.session.turns import call_here

if TYPE_CHECKING:
    from toolcrib.adapters.options import Budget
    from toolcrib.adapters.turn_tools import Governance
    from toolcrib.prices.cost import Cost
    from toolcrib.session.session import Session


@dataclass(slots=True, eq=False)
class PromptScope:
    """A prompt that is being evaluated, and what it has spent, with the prompts within it."""

    session: Session
    prompt_name: str
    budget: Budget
    governance: Governance
    outer: PromptScope | None = None
    tokens: int = 0
    nanos: int = 0
    unpriced: str | None = None
    """Something whose price nobody knows."""

    def spend(self, usage: Usage, cost: Cost | None) -> None:
        """Count what one request or provider-run call took, here and in every prompt around."""
        scope: PromptScope | None = self
        while scope is not None:
            scope.tokens += usage.total_tokens
            scope.nanos += 0 if cost is None else cost.nanos or 0
            if cost is None:
                scope.unpriced = "a request to the model"
            elif cost.unpriced:
                scope.unpriced = f"a call of {cost.unpriced[0].what}"
            scope = scope.outer

    def check(self, steps: int) -> None:
        """Raise, before another request is made, once a limit of this prompt is reached, or one
        around it has no tokens left. Steps are each prompt's own.
        """
        used = Usage(input_tokens=self.tokens)
        self.budget.check(self.prompt_name, steps=steps, usage=used, nanos=self.nanos)
        if self.unpriced is not None:
            self.budget.check_price(self.prompt_name, None, self.unpriced)
        if self.outer is not None:
            self.outer.check(0)


_here: Final[ContextVar[PromptScope | None]] = ContextVar("toolcrib_evaluating", default=None)


def around(session: Session) -> PromptScope | None:
    """The evaluation whose call, in this session, the running code is part of."""
    scope = _here.get()
    is_around = scope is not None and scope.session is session and call_here(session) is not None
    return scope if is_around else None


@contextmanager
def evaluating(evaluation: PromptScope) -> Generator[None]:
    """Let what is evaluated by the code within be part of this evaluation."""
    before = _here.get()
    _here.set(evaluation)
    try:
        yield
    finally:
        if _here.get() is evaluation:
            _here.set(before)


def deadline_here(session: Session, seconds: float | None) -> float | None:
    """When a prompt that starts now must be answered, in the running loop's time: when its own
    time is over, or that of the call that it is part of.
    """
    call = call_here(session)
    ends = [call.ends_at] if call is not None and call.ends_at is not None else []
    if seconds is not None:
        ends.append(asyncio.get_running_loop().time() + seconds)
    return min(ends, default=None)
