"""Values that pydantic-ai has a meaning for: images, files, `ToolReturn`.

Inside the executor they travel as `Packed`: what is recorded tells what they are, without their
bytes, and the agent gets them as the tool returned them.

Exceptions that steer an agent run: pydantic-ai's become ours on the way in, and theirs again on
the way out.

What an agent gets of a call: a value, or an exception that means the same to it.

Tools and hooks run inside an agent: with its run context, and with its values.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    ToolDenied,
    ToolReturn,
    UploadedFile,
    VideoUrl,
)
from pydantic_ai import ModelRetry as TheirRetry
from pydantic_ai import exceptions as theirs
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import is_multi_modal_content

from toolcrib.errors import ApprovalRequired, ControlFlow, ModelRetry, ToolTimeout
from toolcrib.ledger.encoding import rendered
from toolcrib.tools.result import ToolResult
from toolcrib.toolsets.agent_bridge.run_context import run_context
from toolcrib.toolsets.edge import signal_of
from toolcrib.toolsets.packed import Packed, unpack

if TYPE_CHECKING:
    from toolcrib.calls.outcome import Outcome
    from toolcrib.failures import Failure
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.prepared import PreparedTool
    from toolcrib.toolsets.base_tool import AsyncHandler


_PLAIN = (str, int, float, bool, type(None))


def pack(value: Any) -> Any:
    """The value as the executor can record it; most values just as they are."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, ToolReturn):
        return _pack_return(cast("ToolReturn[Any]", value))
    if isinstance(value, ToolResult):
        result = cast("ToolResult[Any]", value)
        inner = pack(result.value)
        return result if inner is result.value else replace(result, value=inner)
    if _holds_content(value):
        record = _described(value)
        return Packed({"content": record}, value, rendered(record))
    return value


def _pack_return(value: ToolReturn[Any]) -> Packed:
    # Its metadata is the application's, of any type, and no part of what the model is told.
    returned = _described(value.return_value)
    record = {"return_value": returned}
    if value.content is not None:
        record["content"] = _described(value.content)
    return Packed(record, value, rendered(returned))


def _holds_content(value: Any) -> bool:
    """Whether there is content in it that a model sees as something other than JSON."""
    if type(value) in _PLAIN:
        return False
    if isinstance(value, Mapping):
        return any(map(_holds_content, cast("Mapping[Any, Any]", value).values()))
    if isinstance(value, list | tuple):
        return any(map(_holds_content, cast("Sequence[Any]", value)))
    return is_multi_modal_content(value)


def _described(value: Any) -> Any:
    """The value with every content in it replaced by a description."""
    match value:
        case BinaryContent():
            return {"kind": value.kind, "media_type": value.media_type, "bytes": len(value.data)}
        case UploadedFile():
            return {"kind": value.kind, "file_id": value.file_id, "provider": value.provider_name}
        case ImageUrl() | AudioUrl() | DocumentUrl() | VideoUrl():
            return {"kind": value.kind, "url": value.url}
        case Mapping():
            members = cast("Mapping[Any, Any]", value).items()
            return {key: _described(each) for key, each in members}
        case list() | tuple():
            return [_described(each) for each in cast("Sequence[Any]", value)]
        case _:
            return value


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


async def run_handler(
    handler: AsyncHandler, ctx: ToolContext, args: dict[str, Any], *, is_ours: bool
) -> Any:
    """Run a tool; `is_ours` says which of the two contexts it wants."""
    return pack(await handler(ctx if is_ours else run_context(ctx), **args))


def run_hook(
    hook: Callable[..., Any],
    ctx: ToolContext,
    rest: tuple[Any, ...],
    *,
    is_ours: bool,
    is_post: bool,
) -> Any:
    """Call a hook. What it returns is awaited by the executor, which refuses what cannot be."""
    shown = ctx if is_ours else run_context(ctx)
    if not is_post:
        reply = hook(shown, *rest)
        return _awaited(reply) if isawaitable(reply) else reply
    *named, packed = rest
    reply = hook(shown, *named, unpack(packed))
    return _repacked(reply, packed) if isawaitable(reply) else reply


async def _awaited(reply: Awaitable[Any]) -> Any:
    try:
        return await reply
    except Exception as error:
        signal = signal_of(error)
        if signal is None or signal is error:
            raise
        raise signal from error


async def _repacked(reply: Awaitable[Any], packed: Any) -> Any:
    result = await _awaited(reply)
    # Unchanged must stay the same object: only then does an exception keep its part.
    return packed if result is unpack(packed) else pack(result)
