"""Exceptions that steer an agent run: pydantic-ai's become ours on the way in, and theirs again on
the way out.
"""

from __future__ import annotations

from pydantic_ai import exceptions as theirs

from toolcrib.errors import ApprovalRequired, ControlFlow, ModelRetry

_PASSING = (
    theirs.CallDeferred,
    theirs.RunCancelled,
    theirs.SkipToolExecution,
    theirs.SkipToolValidation,
    theirs.ToolFailedError,
    theirs.ToolRetryError,
    theirs.UsageLimitExceeded,
)
"""What means something to the run and nothing to a call: hooks neither see it nor can stop it."""


class Passing(ControlFlow):
    """A signal on its way through the executor to the agent run."""

    def __init__(self, signal: Exception) -> None:
        super().__init__(f"{type(signal).__name__} goes on to the agent run")
        self.signal = signal


def translate(error: Exception) -> ControlFlow | None:
    """Our signal for one of pydantic-ai's; None for an ordinary failure.

    `ToolFailed` is such a failure: post hooks may see it and recover from it.
    """
    match error:
        case theirs.ApprovalRequired(metadata=metadata):
            return ApprovalRequired(metadata)
        case theirs.ModelRetry(message=message):
            return ModelRetry(message)
        case _:
            return Passing(error) if isinstance(error, _PASSING) else None


def as_theirs(retry: ModelRetry) -> theirs.ModelRetry:
    """A retry as the agent takes it: the very one that was raised, if it was one of theirs."""
    cause = retry.__cause__
    return cause if isinstance(cause, theirs.ModelRetry) else theirs.ModelRetry(str(retry))
