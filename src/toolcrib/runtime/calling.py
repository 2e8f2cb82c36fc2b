"""Calls without a model."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from toolcrib.calls.call import Caller
from toolcrib.errors import Refused, UsageError
from toolcrib.runtime.messages import CallResult, CallTool, ToolFacts, Tools

if TYPE_CHECKING:
    from toolcrib.calls.outcome import Outcome
    from toolcrib.runtime.held import HeldSession
    from toolcrib.tools.prepared import PreparedTool


async def call_tool(held: HeldSession, asked: CallTool, caller: Caller) -> CallResult:
    """Call a tool. It goes on when whoever waits for it leaves; cancelling is asked for."""
    work = asyncio.ensure_future(
        held.executor.call(asked.name, asked.arguments, call_id=asked.call_id, caller=caller)
    )
    held.calls.add(work)
    work.add_done_callback(held.calls.discard)
    try:
        return call_result(await asyncio.shield(work))
    except UsageError as error:
        raise Refused("conflict", str(error)) from None


def call_result(outcome: Outcome) -> CallResult:
    """An outcome as it is told."""
    return CallResult(
        call_id=outcome.call_id,
        tool=outcome.tool,
        status=outcome.status,
        text=outcome.text,
        value=outcome.value,
        failure=outcome.failure,
        approval_id=outcome.approval.approval_id if outcome.approval else None,
        artifact_id=outcome.artifact_id,
    )


def tools_of(held: HeldSession, category: str | None) -> Tools:
    """The tools of a session."""
    found = [tool_facts(each) for each in held.executor.tools.values()]
    wanted = [each for each in found if category in (None, each.category)]
    return Tools(tools=wanted, unavailable=dict(held.unavailable))


def tool_of(held: HeldSession, name: str) -> ToolFacts:
    """One tool. Raises `Refused` (not_found)."""
    tool = held.executor.tools.get(name)
    if tool is None:
        why = held.unavailable.get(name)
        told = f": {why}" if why else ""
        raise Refused("not_found", f"the session has no tool {name[:128]!r}{told}")
    return tool_facts(tool)


def tool_facts(prepared: PreparedTool) -> ToolFacts:
    """A tool as it is told."""
    tool, ref = prepared.tool, prepared.ref
    parameters: dict[str, Any] = dict(prepared.declaration.parameters)
    return ToolFacts(
        name=ref.name,
        description=prepared.declaration.description,
        parameters=parameters,
        source=ref.source,
        place=ref.place,
        version=ref.version,
        digest=ref.digest,
        requires_approval=tool.requires_approval,
        is_read_only=tool.is_read_only,
        category=tool.category,
        timeout=tool.timeout,
        deprecated=tool.deprecated,
    )
