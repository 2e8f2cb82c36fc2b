"""`handle_provider_output`: a tool's own say in what the output of each of its calls means.

The hook is called once for every call, whether the provider ran it or the tool's handler did. Of a
call that failed it gets the error in the place of an output.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, cast

from toolcrib.errors import ControlFlow, InvalidTool, OutputHookFailed
from toolcrib.tools.result import NamedFields, ToolResult

if TYPE_CHECKING:
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.invoke import Invoke
    from toolcrib.tools.tool import Tool

Hook = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class FailedOutput(NamedFields):
    """What a hook gets of a failed call whose result type has no place for an error."""

    status: str
    error: str


def output_hook_of(tool: Tool[Any, Any]) -> Hook | None:
    """Return the hook of a tool, if it has one."""
    return getattr(tool, "handle_provider_output", None)


def failed_output(tool: Tool[Any, Any], error: str, status: str = "failed") -> Any:
    """Return what the hook gets of a failed call: the tool's own result type where that has an
    `error`, else a `FailedOutput`.
    """
    result_type: Any = tool.result_type
    if isinstance(result_type, type) and is_dataclass(result_type):
        names = {field.name for field in fields(result_type) if field.init}
        facts = {
            name: text for name, text in (("status", status), ("error", error)) if name in names
        }
        if "error" in facts:
            # A type of the user's own may refuse to be made of these alone.
            with suppress(Exception):
                return cast("Any", result_type)(**facts)
    return FailedOutput(status, error)


def checked_result(result: object) -> ToolResult[Any] | None:
    """Return what a hook returned. Raises `OutputHookFailed` for anything else."""
    if result is None or isinstance(result, ToolResult):
        return cast("ToolResult[Any] | None", result)
    raise OutputHookFailed(
        f"handle_provider_output failed: it returned {type(result).__name__}, not a ToolResult or "
        "None"
    )


def hook_failure(error: Exception) -> str:
    """Return what is recorded of a hook that raised."""
    if isinstance(error, OutputHookFailed):
        return str(error)
    return f"handle_provider_output failed: {type(error).__name__}: {error}"


def beside_handler(invoke: Invoke, tool: Tool[Any, Any], *, is_async: bool) -> Invoke:
    """Return the call of a handler, followed by the tool's hook."""
    hook = output_hook_of(tool)
    if hook is None:
        return invoke
    if is_async:
        return _async_call(invoke, tool, hook)
    if inspect.iscoroutinefunction(hook):
        raise InvalidTool(
            f"tool {tool.name!r}: handle_provider_output is async and the handler is not; make "
            "both async, or neither"
        )
    return _sync_call(invoke, tool, hook)


def _sync_call(invoke: Invoke, tool: Tool[Any, Any], hook: Hook) -> Invoke:
    def call(params: Any, context: ToolContext | None) -> Any:
        raised, result = None, None
        try:
            result = invoke(params, context)
        except ControlFlow:
            raise
        except Exception as error:
            raised = error
        try:
            reply = checked_result(hook(_output(tool, result, raised), context))
        except Exception as error:
            raise OutputHookFailed(hook_failure(error)) from error
        return _settled(reply, result, raised)

    return call


def _async_call(invoke: Invoke, tool: Tool[Any, Any], hook: Hook) -> Invoke:
    async def call(params: Any, context: ToolContext | None) -> Any:
        raised, result = None, None
        try:
            result = await invoke(params, context)
        except ControlFlow:
            raise
        except Exception as error:
            raised = error
        try:
            reply = hook(_output(tool, result, raised), context)
            if inspect.isawaitable(reply):
                reply = await reply
            reply = checked_result(reply)
        except Exception as error:
            raise OutputHookFailed(hook_failure(error)) from error
        return _settled(reply, result, raised)

    return call


def _output(tool: Tool[Any, Any], result: Any, raised: Exception | None) -> Any:
    if raised is not None:
        return failed_output(tool, f"{type(raised).__name__}: {raised}")
    if not isinstance(result, ToolResult):
        return result
    whole = cast("ToolResult[Any]", result)
    is_failure = not whole.success and whole.value is None
    return failed_output(tool, whole.message or "the tool failed") if is_failure else whole.value


def _settled(reply: ToolResult[Any] | None, result: Any, raised: Exception | None) -> Any:
    if reply is not None:
        return reply
    if raised is not None:
        raise raised
    return result
