"""Why a call, a prompt or an operation did not give a result, as data that a program can read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

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
