"""What an agent gets of a call: a value, or an exception that means the same to it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai import ModelRetry as TheirRetry
from pydantic_ai import ToolDenied, ToolReturn
from pydantic_ai.exceptions import ToolFailed

from toolcrib.errors import ModelRetry, ToolTimeout
from toolcrib.toolsets.packed import Packed
from toolcrib.toolsets.pydantic_ai.signals import as_theirs

if TYPE_CHECKING:
    from toolcrib.calls.failure import Failure
    from toolcrib.calls.outcome import Outcome
    from toolcrib.tools.prepared import PreparedTool


def result_of(outcome: Outcome, tool: PreparedTool | None) -> Any:
    """What the model is to see of an outcome that does not wait.

    A refusal is a `ToolDenied`. Raises the tool's own exception, `ModelRetry` where another try may
    mend it, and `ToolFailed` where it cannot.
    """
    if outcome.failure is None:
        return _value(outcome, tool)
    if outcome.failure.kind in ("denied", "expired", "not_permitted"):
        return ToolDenied(outcome.failure.message)
    raise _exception(outcome.failure, outcome.error)


def _value(outcome: Outcome, tool: PreparedTool | None) -> Any:
    value = outcome.value
    has_secrets = tool is not None and tool.redactor is not None
    if isinstance(value, Packed):
        return _unpacked(value, None if outcome.text == value.text else outcome.text)
    # Otherwise the text says more or less than the value: it was rendered, cut or redacted.
    return value if outcome.is_plain and not has_secrets else outcome.text


def _unpacked(packed: Packed, text: str | None) -> Any:
    """The value as the tool returned it; with `text`, the text stands in its JSON's place."""
    original = packed.original
    if text is None:
        return original
    if isinstance(original, ToolReturn):
        return replace(cast("ToolReturn[Any]", original), return_value=text)
    return text


def _exception(failure: Failure, error: BaseException | None) -> BaseException:
    if isinstance(error, ModelRetry):
        return as_theirs(error)
    if failure.kind == "invalid_arguments":
        return TheirRetry(failure.message)
    if isinstance(error, ToolTimeout):
        # What could not be stopped must not be begun a second time beside it.
        return (ToolFailed if failure.still_running else TheirRetry)(failure.message)
    return error or ToolFailed(failure.message)
