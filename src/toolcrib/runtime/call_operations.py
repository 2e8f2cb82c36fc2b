"""Calls without a model."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from toolcrib.calls.call import Caller
from toolcrib.errors import Refused, UsageError
from toolcrib.ledger.encoding import encode_value
from toolcrib.runtime.messages import CallResult, CallTool, ToolFacts, Tools

if TYPE_CHECKING:
    from toolcrib.calls.outcome import Outcome
    from toolcrib.runtime.live_session import LiveSession
    from toolcrib.tools.prepared_tool import PreparedTool


async def call_tool(held: LiveSession, asked: CallTool, caller: Caller) -> CallResult:
    """Call a tool, in a task that ends when the session is closed."""
    # With the loop it need not be looked for, which asks the kernel who we are.
    task = asyncio.current_task(held.loop)
    assert task is not None, "an operation runs in a task of the loop that holds the session"
    held.calls.add(task)
    try:
        outcome = await held.executor.call(
            asked.name, asked.arguments, call_id=asked.call_id, caller=caller
        )
    except UsageError as error:
        raise Refused("conflict", str(error)) from None
    finally:
        held.calls.discard(task)
    return call_result(outcome)


async def cancel_call(held: LiveSession, call_id: str) -> bool:
    """Stop a call that runs, or withdraw one that waits; False when there is none."""
    if held.executor.cancel(call_id):
        return True
    if not held.executor.is_waiting(call_id):
        return False
    try:
        await held.executor.withdraw(call_id)
    except UsageError:
        # Somebody took it up, or ended it, in the meantime.
        return held.executor.cancel(call_id)
    return True


def call_result(outcome: Outcome) -> CallResult:
    """An outcome as it is told."""
    return CallResult(
        call_id=outcome.call_id,
        tool=outcome.tool,
        status=outcome.status,
        text=outcome.text,
        value=_plain(outcome.value),
        failure=outcome.failure,
        approval_id=outcome.approval.approval_id if outcome.approval else None,
        artifact_id=outcome.artifact_id,
    )


def _plain(value: Any) -> Any:
    """A typed value as the ledger has it."""
    if value is None or type(value) in (str, bool, int):
        return value
    return from_json(encode_value(value))


def tools_of(held: LiveSession, category: str | None) -> Tools:
    """The tools of a session."""
    found = [tool_facts(held, each) for each in held.executor.tools.values()]
    wanted = [each for each in found if category in (None, each.category)]
    return Tools(tools=wanted, unavailable=dict(held.unavailable))


def tool_of(held: LiveSession, name: str) -> ToolFacts:
    """One tool. Raises `Refused` (not_found)."""
    tool = held.executor.tools.get(name)
    if tool is None:
        why = held.unavailable.get(name)
        told = f": {why}" if why else ""
        raise Refused("not_found", f"the session has no tool {name[:128]!r}{told}")
    return tool_facts(held, tool)


def tool_facts(held: LiveSession, prepared: PreparedTool) -> ToolFacts:
    """A tool as it is told."""
    tool, ref = prepared.tool, prepared.ref
    parameters: dict[str, Any] = dict(prepared.declaration.parameters)
    return ToolFacts(
        name=ref.name,
        description=prepared.declaration.description,
        parameters=parameters,
        source=ref.source,
        place=ref.place,
        scope="session" if held.is_own(ref.name) else "global",
        version=ref.version,
        digest=ref.digest,
        requires_approval=tool.requires_approval,
        is_read_only=tool.is_read_only,
        is_idempotent=tool.is_idempotent,
        category=tool.category,
        timeout=tool.timeout,
        deprecated=tool.deprecated,
        uses=list(tool.uses),
        output_schema=None if tool.output_schema is None else dict(tool.output_schema),
    )
