"""Approvals that an application gives through pydantic-ai's deferred tools.

The flag of a run context opens nothing by itself. It becomes a decision on the request that was
filed when the call was asked about; the gate then acts on that decision like on any other.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai.messages import ModelMessage, ToolCallPart, ToolReturnPart
from pydantic_core import from_json, to_json

from toolcrib.approval.decision import Actor, Approve, Deny
from toolcrib.approval.edit import check_edit
from toolcrib.calls.request import is_about_doubt
from toolcrib.errors import InvalidDecision
from toolcrib.store.store import ask_store
from toolcrib.tools.secrets import SECRET

if TYPE_CHECKING:
    from pydantic_ai import RunContext

    from toolcrib.approval.request import ApprovalRequest
    from toolcrib.session.session import Session
    from toolcrib.store.store import OpenCall
    from toolcrib.tools.prepared import PreparedTool


async def approve(
    session: Session, run: RunContext[Any], found: OpenCall, edited: dict[str, Any] | None
) -> None:
    """File the yes of a run context on the request about an open call, if it still waits for one.

    Raises `InvalidDecision` when the edit does not fit; the request stays open then.
    """
    request = await pending_request(session, found.call_id)
    if request is None:
        return
    if edited is not None:
        check_edit(request, edited)
    # Somebody else was faster, or the time is over: what is filed counts.
    with suppress(InvalidDecision):
        await session.approvals.decide(request.approval_id, Approve(edited), by=_decider(run))


async def deny(session: Session, run: RunContext[Any], call_id: str, reason: str) -> bool:
    """File the no that an application gave to the agent; False when nobody waits for one."""
    request = await pending_request(session, call_id)
    if request is None:
        return False
    with suppress(InvalidDecision):
        await session.approvals.decide(request.approval_id, Deny(reason), by=_decider(run))
    return True


async def pending_request(session: Session, call_id: str) -> ApprovalRequest | None:
    """The request about a call that nobody has decided."""
    pending = await ask_store(session.store, session.approvals.pending)
    return next((request for request in pending if request.call_id == call_id), None)


def edit_of(tool: PreparedTool, found: OpenCall, given: bytes) -> dict[str, Any]:
    """Overriding arguments as an edit: secrets that are as they were stay hidden."""
    arguments = cast("dict[str, Any]", from_json(given))
    if tool.redactor is None:
        return arguments
    frozen = from_json(found.arguments)
    return _hidden(arguments, frozen, tool.redactor.redact(frozen))


def sent_arguments(messages: list[ModelMessage], tool_call_id: str | None) -> bytes | None:
    """What the model sent with a call, from the history of the conversation."""
    for part in _parts_from_the_end(messages):
        if isinstance(part, ToolCallPart) and part.tool_call_id == tool_call_id:
            args = part.args or {}
            with suppress(ValueError):
                return to_json(from_json(args) if isinstance(args, str) else args)
            return None
    return None


def answers_to(messages: list[ModelMessage], call_ids: set[str]) -> dict[str, ToolReturnPart]:
    """What the conversation holds as the results of calls, by id: of each the last word."""
    unknown = set(call_ids)
    answers: dict[str, ToolReturnPart] = {}
    for part in _parts_from_the_end(messages):
        if not unknown:
            break
        # A result is older than the call when a model uses its ids again.
        if isinstance(part, ToolCallPart | ToolReturnPart) and part.tool_call_id in unknown:
            unknown.discard(part.tool_call_id)
            if isinstance(part, ToolReturnPart):
                answers[part.tool_call_id] = part
    return answers


def metadata_for(
    request: ApprovalRequest, tool: PreparedTool, given: bytes, problem: str | None
) -> dict[str, Any] | None:
    """What the application is told about a call that waits.

    Just what the tool tells approvers, unless there is more to know: hooks changed the arguments
    that the agent shows, the call may have run already, or an approval was not taken.
    """
    metadata = dict(request.metadata or {})
    shown = from_json(given)
    if tool.redactor is not None:
        shown = tool.redactor.redact(shown)
    if request.arguments != shown:
        metadata["final_arguments"] = request.arguments
    if is_about_doubt(request):
        metadata["in_doubt"] = request.reason
    if problem is not None:
        metadata["problem"] = problem
    return metadata or None


def _decider(run: RunContext[Any]) -> Actor:
    """Who decided, as the application tells it in the metadata of its results."""
    told = run.tool_call_metadata
    by = cast("dict[str, Any]", told).get("by") if isinstance(told, dict) else None
    return Actor("person", by if isinstance(by, str) and by.strip() else "application")


def _parts_from_the_end(messages: list[ModelMessage]) -> Any:
    return (part for message in reversed(messages) for part in reversed(message.parts))


def _hidden(given: Any, frozen: Any, shown: Any) -> Any:
    if shown == SECRET:
        return SECRET if given == frozen else given
    if isinstance(given, dict) and isinstance(frozen, dict):
        was, hid = cast("dict[str, Any]", frozen), cast("dict[str, Any]", shown)
        members = cast("dict[str, Any]", given).items()
        return {key: _hidden(each, was.get(key), hid.get(key)) for key, each in members}
    if isinstance(given, list) and isinstance(frozen, list):
        elements = cast("list[Any]", given)
        before, seen = cast("list[Any]", frozen), cast("list[Any]", shown)
        if len(elements) == len(before):
            return [_hidden(*each) for each in zip(elements, before, seen, strict=True)]
    return cast("Any", given)
