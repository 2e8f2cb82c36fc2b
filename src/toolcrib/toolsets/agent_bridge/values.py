"""Values, exceptions and run contexts between the executor and pydantic-ai.

Values with a meaning in pydantic-ai (images, files, `ToolReturn`) travel through the executor as
`PackedValue`: the ledger gets a description without their bytes, the agent gets the original.
Exceptions that steer an agent run become Toolcrib's signals, and pydantic-ai's again at the end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    RunContext,
    ToolDenied,
    ToolReturn,
    UploadedFile,
    VideoUrl,
)
from pydantic_ai import exceptions as agent_exceptions
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import is_multi_modal_content

from toolcrib.errors import (
    ApprovalRequired,
    ControlFlow,
    ModelRetry,
    ResultDeferred,
    ToolTimeout,
)
from toolcrib.ledger.encoding import rendered
from toolcrib.tools.result import ToolResult
from toolcrib.toolsets.run_executor import PackedValue, unpack

if TYPE_CHECKING:
    from toolcrib.calls.outcome import Outcome
    from toolcrib.failures import Failure
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.prepared_tool import PreparedTool
    from toolcrib.toolsets.base_tool import AsyncHandler


@dataclass(repr=False, kw_only=True)
class ToolRunContext(RunContext[Any]):
    """pydantic-ai's run context of one call, with the attributes of the call's `ToolContext` as
    well: `session`, `cwd`, `progress()`, `call_tool()` and the rest. `tool_context` is it.

    `tool_call_approved` is true only when this session's gate let an approved call pass.
    """

    tool_context: ToolContext | None = None

    def __getattr__(self, name: str) -> Any:
        context = self.__dict__.get("tool_context")
        if context is None or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(context, name)


def run_context(ctx: ToolContext) -> RunContext[Any]:
    """The run context of a call in an agent: the same object for its hooks and its tool."""
    run = cast("RunContext[Any]", ctx.run)
    if not isinstance(run, ToolRunContext) or run.tool_context is not ctx:
        run = ctx.run = with_tool_context(run, ctx)
    run.tool_call_approved = ctx.tool_call_approved
    return run


def with_tool_context(run: RunContext[Any], ctx: ToolContext) -> ToolRunContext:
    """A copy of a run context with a tool context behind it, and the deps of that context."""
    copy = ToolRunContext.__new__(ToolRunContext)
    # Not through the constructor: the run context of a durable agent has only some of the fields.
    copy.__dict__.update(run.__dict__)
    copy.tool_context = ctx
    copy.deps = ctx.deps
    return copy


_PLAIN = (str, int, float, bool, type(None))


def pack(value: Any) -> Any:
    """The value as the executor records it; most values are unchanged."""
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
        return PackedValue({"content": record}, value, rendered(record))
    return value


def _pack_return(value: ToolReturn[Any]) -> PackedValue:
    # Its metadata belongs to the application, may be of any type, and is not for the model.
    returned = _described(value.return_value)
    record = {"return_value": returned}
    if value.content is not None:
        record["content"] = _described(value.content)
    return PackedValue(record, value, rendered(returned))


def _holds_content(value: Any) -> bool:
    """Whether the value contains content that a model sees as something other than JSON."""
    if type(value) in _PLAIN:
        return False
    if isinstance(value, Mapping):
        return any(map(_holds_content, cast("Mapping[Any, Any]", value).values()))
    if isinstance(value, list | tuple):
        return any(map(_holds_content, cast("Sequence[Any]", value)))
    return is_multi_modal_content(value)


def _described(value: Any) -> Any:
    """The value with its files and links replaced by descriptions."""
    match value:
        case BinaryContent():
            return {"kind": value.kind, "media_type": value.media_type, "bytes": len(value.data)}
        case UploadedFile():
            return {"kind": value.kind, "file_id": value.file_id, "provider": value.provider_name}
        case ImageUrl() | AudioUrl() | DocumentUrl() | VideoUrl():
            return {"kind": value.kind, "url": value.url}
        case Mapping():
            members = cast("Mapping[Any, Any]", value).items()
            return {key: _described(member) for key, member in members}
        case list() | tuple():
            return [_described(element) for element in cast("Sequence[Any]", value)]
        case _:
            return value


_RUN_SIGNALS = (
    agent_exceptions.RunCancelled,
    agent_exceptions.SkipToolExecution,
    agent_exceptions.SkipToolValidation,
    agent_exceptions.ToolFailedError,
    agent_exceptions.ToolRetryError,
    agent_exceptions.UsageLimitExceeded,
)
"""Exceptions that concern the run and not the call: hooks neither see nor stop them."""


class RunSignal(ControlFlow):
    """An exception of pydantic-ai on its way through the executor to the agent run."""

    def __init__(self, signal: Exception) -> None:
        super().__init__(f"{type(signal).__name__} passes through to the agent run")
        self.signal = signal


def translate(error: Exception) -> ControlFlow | None:
    """Toolcrib's signal for an exception of either library; None for an ordinary failure.

    `ToolFailed` is an ordinary failure: post hooks may see it and recover from it.
    """
    match error:
        case ControlFlow():
            return error
        case agent_exceptions.ApprovalRequired(metadata=metadata):
            return ApprovalRequired(metadata)
        case agent_exceptions.CallDeferred(metadata=metadata):
            return ResultDeferred(metadata)
        case agent_exceptions.ModelRetry(message=message):
            return ModelRetry(message)
        case _:
            return RunSignal(error) if isinstance(error, _RUN_SIGNALS) else None


def to_agent_retry(retry: ModelRetry) -> agent_exceptions.ModelRetry:
    """The retry for the agent: the exception that was raised, if it was pydantic-ai's."""
    cause = retry.__cause__
    return (
        cause
        if isinstance(cause, agent_exceptions.ModelRetry)
        else agent_exceptions.ModelRetry(str(retry))
    )


def result_of(outcome: Outcome, tool: PreparedTool | None) -> Any:
    """The value for the agent of an outcome that does not wait for a decision.

    A refusal is a `ToolDenied`. Raises the tool's own exception, `ModelRetry` where another attempt
    may succeed, and `ToolFailed` where it cannot.
    """
    if outcome.failure is None:
        return _value(outcome, tool)
    if outcome.failure.kind in ("denied", "expired", "not_permitted"):
        return ToolDenied(outcome.failure.message)
    raise _exception(outcome.failure, outcome.error)


def _value(outcome: Outcome, tool: PreparedTool | None) -> Any:
    value = outcome.value
    has_secrets = tool is not None and tool.redactor is not None
    if isinstance(value, PackedValue):
        shown = _unpacked(value, None if outcome.text == value.text else outcome.text)
    else:
        # A text that differs from the value was rendered, cut or redacted: the model gets the text.
        shown = value if outcome.is_plain and not has_secrets else outcome.text
    return _with_metadata(shown, outcome.metadata) if outcome.metadata else shown


def _with_metadata(value: Any, metadata: Mapping[str, Any]) -> ToolReturn[Any]:
    """The value with the metadata of its `ToolResult`, which the application finds in the history.
    That of a `ToolReturn` of the tool's own stays.
    """
    if not isinstance(value, ToolReturn):
        return ToolReturn(value, metadata=dict(metadata))
    own = cast("ToolReturn[Any]", value)
    return own if own.metadata is not None else replace(own, metadata=dict(metadata))


def _unpacked(packed: PackedValue, text: str | None) -> Any:
    """The value as the tool returned it; `text` replaces its JSON."""
    original = packed.original
    if text is None:
        return original
    if isinstance(original, ToolReturn):
        return replace(cast("ToolReturn[Any]", original), return_value=text)
    return text


def _exception(failure: Failure, error: BaseException | None) -> BaseException:
    if isinstance(error, ModelRetry):
        return to_agent_retry(error)
    if failure.kind == "invalid_arguments":
        return agent_exceptions.ModelRetry(failure.message)
    if isinstance(error, ToolTimeout):
        # A handler that could not be stopped must not start a second time beside itself.
        return (ToolFailed if failure.still_running else agent_exceptions.ModelRetry)(
            failure.message
        )
    return error or ToolFailed(failure.message)


async def run_handler(
    handler: AsyncHandler, ctx: ToolContext, args: dict[str, Any], *, gets_tool_context: bool
) -> Any:
    """Run a tool with its context: a `ToolContext` or the run context."""
    return pack(await handler(ctx if gets_tool_context else run_context(ctx), **args))


def run_hook(
    hook: Callable[..., Any],
    ctx: ToolContext,
    rest: tuple[Any, ...],
    *,
    gets_tool_context: bool,
    is_post: bool,
) -> Any:
    """Call a hook. The executor awaits its result, and refuses one that is not awaitable."""
    context = ctx if gets_tool_context else run_context(ctx)
    if not is_post:
        reply = hook(context, *rest)
        return _awaited(reply) if isawaitable(reply) else reply
    *named, packed = rest
    reply = hook(context, *named, unpack(packed))
    return _repacked(reply, packed) if isawaitable(reply) else reply


async def _awaited(reply: Awaitable[Any]) -> Any:
    try:
        return await reply
    except Exception as error:
        signal = translate(error)
        if signal is None or signal is error:
            raise
        raise signal from error


async def _repacked(reply: Awaitable[Any], packed: Any) -> Any:
    result = await _awaited(reply)
    # An unchanged value stays the same object, so that it keeps its original and its text.
    return packed if result is unpack(packed) else pack(result)
