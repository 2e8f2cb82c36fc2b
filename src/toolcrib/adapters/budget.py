"""How much a prompt may cost before it is stopped."""

from __future__ import annotations

from dataclasses import dataclass

from toolcrib.adapters.response import Usage
from toolcrib.errors import EvaluationReason, PromptEvaluationError, UsageError


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one prompt; None is no limit.

    What is spent stays in the ledger, so a prompt that was stopped here can be resumed with more.
    """

    max_steps: int | None = 50
    """How many requests are made."""
    max_tokens: int | None = None
    """After how many tokens, in and out, no further request is made."""
    max_calls: int | None = None
    """How many calls we run. What the provider runs is not ours to count before it has run."""
    seconds: float | None = None
    """From the first request, or from going on, until the answer."""

    def __post_init__(self) -> None:
        for name in ("max_steps", "max_tokens", "max_calls", "seconds"):
            limit = getattr(self, name)
            if limit is not None and not limit > 0:
                raise UsageError(f"{name} must be more than 0, or None for no limit")

    def check(self, prompt_name: str, *, steps: int, usage: Usage) -> None:
        """Raise, before another request is made, once a limit is reached."""
        if self.max_steps is not None and steps >= self.max_steps:
            raise _spent(prompt_name, f"{steps} steps", self.max_steps, "max_steps")
        used = usage.total_tokens
        if self.max_tokens is not None and used >= self.max_tokens:
            raise _spent(prompt_name, f"{used} tokens", self.max_tokens, "max_tokens")

    def check_calls(self, prompt_name: str, calls: int) -> None:
        """Raise, before any call of a step is run, when these would be too many."""
        if self.max_calls is not None and calls > self.max_calls:
            raise _spent(prompt_name, f"{calls} tool calls", self.max_calls, "max_calls")


def _spent(
    prompt_name: str, used: str, limit: int, reason: EvaluationReason
) -> PromptEvaluationError:
    return PromptEvaluationError(
        f"the prompt takes {used} and may take {limit}; the answer is not there yet. Raise the "
        "limit in its Budget, or ask for less",
        prompt_name=prompt_name,
        phase="budget",
        reason=reason,
    )
