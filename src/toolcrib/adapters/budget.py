"""How much a prompt may cost before it is stopped."""

from __future__ import annotations

from dataclasses import dataclass

from toolcrib.adapters.response import Usage
from toolcrib.errors import PromptEvaluationError, UsageError


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one prompt; None is no limit. `seconds` counts from the first request."""

    max_steps: int | None = 50
    max_tokens: int | None = None
    max_calls: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_steps", "max_tokens", "max_calls", "seconds"):
            limit = getattr(self, name)
            if limit is not None and not limit > 0:
                raise UsageError(f"{name} must be more than 0, or None for no limit")

    def check(self, prompt_name: str, *, steps: int, calls: int, usage: Usage) -> None:
        """Raise, before another request is made, once a limit is reached."""
        for what, used, limit in (
            ("steps", steps, self.max_steps),
            ("tokens", usage.total_tokens, self.max_tokens),
            ("tool calls", calls, self.max_calls),
        ):
            if limit is not None and used >= limit:
                raise PromptEvaluationError(
                    f"the prompt used {used} {what} and may use {limit}; the answer is not there "
                    "yet. Raise the limit in its Budget, or ask for less",
                    prompt_name=prompt_name,
                    phase="budget",
                )
