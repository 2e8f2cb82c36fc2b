"""Why a call, a prompt or an operation did not give a result, as data that a program can read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

if TYPE_CHECKING:
    from toolcrib.adapters.codec import Invocation
    from toolcrib.adapters.options import Usage
    from toolcrib.prices.cost import Cost
    from toolcrib.session.session import Session

FailureKind = Literal[
    "invalid_arguments",
    "not_found",
    "not_permitted",
    "denied",
    "expired",
    "timeout",
    "cancelled",
    "tool_error",
    "invalid_result",
    "provider_error",
    "hook_error",
    "unavailable",
    "recursion_limit",
    "in_doubt",
]


FAILURE_KINDS: Final[tuple[FailureKind, ...]] = get_args(FailureKind)
"""Every kind of failure that there is."""


class KeptWork:
    """What a prompt that was not answered came to, and was paid for: the `text` that the model said
    last, the `invocations` that the provider ran, `usage`, `cost` and `request_ids` of the turn.

    With `can_resume`, the adapter's `resume` goes on in `session` from there, and may come to an
    answer. Before a turn began, there is nothing.
    """

    text: str = ""
    invocations: tuple[tuple[str, Invocation], ...] = ()
    """Every call with the name of its tool, and with its result: files and pictures too."""
    usage: Usage | None = None
    cost: Cost | None = None
    request_ids: tuple[str, ...] = ()
    session: Session | None = None
    session_id: str | None = None
    turn: int | None = None
    can_resume: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with the arguments: where (a JSON pointer) and what."""

    pointer: str
    message: str


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed call. `message` is the sentence the model sees; it holds no secret."""

    kind: FailureKind
    message: str
    faults: tuple[Fault, ...] = ()
    error_type: str | None = None
    still_running: bool = False
    """True when a handler outlived its time limit and could not be stopped."""


EvaluationPhase = Literal["render", "request", "response", "parse", "tool", "budget"]
EvaluationReason = Literal[
    "max_steps", "max_tokens", "max_calls", "max_cost", "incomplete", "refused", "failed", "empty"
]
"""A limit of the budget that is spent, or what came of the model's last response."""


RefusalKind = Literal[
    "unauthorized",
    "forbidden",
    "invalid",
    "not_found",
    "conflict",
    "busy",
    "too_many_requests",
    "too_large",
    "unavailable",
    "closing",
    "internal",
]
"""Why an operation of a runtime was not done."""
