"""What a call may cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

from toolcrib.errors import UsageError


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of an executor. A tool's own `timeout` and `max_result_chars` come first."""

    timeout: float | None = None
    """Seconds for a tool that sets no timeout itself; None is no limit."""
    max_parallel: int | None = None
    """How many calls may run at once; nested calls do not count, or they could deadlock."""
    max_threads: int = 64
    """How many sync handlers may run at once."""
    max_depth: int = 8
    """How deep tools may call tools, and how deep prompts may be evaluated within calls."""
    max_arguments_bytes: int = 1_000_000
    max_result_chars: int = 50_000

    def __post_init__(self) -> None:
        if self.timeout is not None and not (0 < self.timeout < math.inf):
            raise UsageError(
                f"timeout must be a finite number of seconds above 0, not {self.timeout!r}; "
                "for no limit pass None"
            )
        for name in ("max_threads", "max_depth", "max_arguments_bytes", "max_result_chars"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be 1 or more, not {getattr(self, name)!r}")
        if self.max_parallel is not None and self.max_parallel < 1:
            raise UsageError(f"max_parallel must be 1 or more, not {self.max_parallel!r}")
