"""A tool's own say in what the provider's output of it means."""

from __future__ import annotations

import asyncio
import inspect
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from toolcrib.tools.provider import ProviderTool
from toolcrib.tools.result import ToolResult

if TYPE_CHECKING:
    from toolcrib.adapters.codec import Invocation
    from toolcrib.calls.call import Call

logger = logging.getLogger(__name__)


async def hooked(call: Call, invocation: Invocation) -> Invocation:
    """The invocation as the tool's hook makes it; as it was where there is no hook, nothing to
    give it, or it returns None. A hook that fails makes a failed call, not a failed prompt.
    """
    tool, context = call.tool.tool, call.context
    hook = (
        cast("ProviderTool[Any, Any, Any]", tool).handle_provider_output
        if isinstance(tool, ProviderTool)
        else None
    )
    if hook is None or context is None or invocation.value is None:
        return invocation
    try:
        # In a thread, so that a hook may evaluate another prompt and wait for it.
        found: Any = await asyncio.to_thread(hook, invocation.value, context)
        if inspect.isawaitable(found):
            found = await found
        if found is None:
            return invocation
        if not isinstance(found, ToolResult):
            raise TypeError(f"it returned {type(found).__name__}, not a ToolResult or None")
    except Exception as error:
        logger.exception("handle_provider_output of %s failed", tool.name)
        text = f"handle_provider_output failed: {type(error).__name__}: {error}"
        return replace(invocation, success=False, error=text, message=text)
    return _as_said(invocation, cast("ToolResult[Any]", found))


def _as_said(invocation: Invocation, result: ToolResult[Any]) -> Invocation:
    return replace(
        invocation,
        value=result.value,
        message=result.message or invocation.message,
        success=result.success,
        error=None if result.success else result.message or invocation.error,
    )
