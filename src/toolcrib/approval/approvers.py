"""Approvers: who decides while the program runs. An unclear reply never approves."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, cast

from toolcrib.approval.decision import (
    HOST,
    Actor,
    Answer,
    ApprovalRequest,
    Approve,
    Authority,
    Decision,
    Deny,
)
from toolcrib.approval.grant import NewGrant
from toolcrib.errors import InvalidDecision

__all__ = ["Approver", "CallbackApprover", "NewGrant", "Reply", "read_reply"]


@dataclass(frozen=True, slots=True)
class Reply:
    """A decision and its actor; with `grant`, also a grant for calls like this one."""

    decision: Decision
    actor: Actor
    grant: NewGrant | None = None
    authority: Authority = HOST
    """What the actor may decide. An approver that asks many people says so for each of them."""

    def __post_init__(self) -> None:
        if self.grant is not None and not isinstance(self.decision, Approve):
            raise InvalidDecision("only an approval can carry a grant; leave the grant out")


class Approver(Protocol):
    """Decides about requests while the program runs. `None` means no answer: the request stays
    open.
    """

    async def ask(self, request: ApprovalRequest) -> Reply | None:
        """Decide about `request`, or return `None`."""
        ...


Callback = Callable[[ApprovalRequest], object]
"""Takes the request; returns a `Decision`, a `Reply`, `None`, or an awaitable of one of these."""


class CallbackApprover:
    """Calls a function. A plain function runs in a worker thread, so it may block.

    Only a `Decision` or a `Reply` counts. `True` is unclear: it could mean "approve" or "handled".
    A bare `Decision` is recorded as made by a rule called `name`; return a `Reply` to name a
    person.
    """

    def __init__(self, fn: Callback, name: str = "callback") -> None:
        self._fn = fn
        self._name = name

    async def ask(self, request: ApprovalRequest) -> Reply | None:
        """Call the function. Its exceptions propagate."""
        return read_reply(await self._call(request), Actor("rule", self._name))

    async def _call(self, request: ApprovalRequest) -> object:
        if _is_async(self._fn):
            answer = self._fn(request)
        else:
            import anyio.to_thread

            answer = await anyio.to_thread.run_sync(self._fn, request, abandon_on_cancel=True)
        return await cast("Awaitable[object]", answer) if inspect.isawaitable(answer) else answer


def read_reply(answer: object, actor: Actor) -> Reply | None:
    """Return the reply in `answer`, where a bare decision is attributed to `actor`, or `None` when
    it is unclear. Only the clock decides that a request expired, so `Expire` is unclear too.
    """
    reply = Reply(answer, actor) if isinstance(answer, Approve | Deny | Answer) else answer
    if not isinstance(reply, Reply) or not isinstance(reply.decision, Approve | Deny | Answer):
        return None
    return reply


def _is_async(fn: Callback) -> bool:
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__)
