"""Approvals that an application gives through pydantic-ai's deferred tools.

The approval flag of a run context permits nothing by itself. It becomes a decision on the approval
request of the call, and the gate acts on that decision as on any other.
"""

from __future__ import annotations

from collections import Counter
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

    from toolcrib.approval.decision import ApprovalRequest
    from toolcrib.session.session import Session
    from toolcrib.store.store import OpenCall
    from toolcrib.tools.prepared_tool import PreparedTool


async def approve(
    session: Session, run: RunContext[Any], call: OpenCall, edited: dict[str, Any] | None
) -> None:
    """Approve the pending request about an open call, if there is one.

    Raises `InvalidDecision` when the edited arguments are invalid; the request stays open then.
    """
    request = await pending_request(session, call.call_id)
    if request is None:
        return
    if edited is not None:
        check_edit(request, edited)
    # Decided by somebody else meanwhile, or expired: that decision stands.
    with suppress(InvalidDecision):
        await session.approvals.decide(request.approval_id, Approve(edited), by=_decider(run))


async def deny(session: Session, run: RunContext[Any], call_id: str, reason: str) -> bool:
    """Deny the pending request about a call; False when there is none."""
    request = await pending_request(session, call_id)
    if request is None:
        return False
    with suppress(InvalidDecision):
        await session.approvals.decide(request.approval_id, Deny(reason), by=_decider(run))
    return True


async def pending_request(session: Session, call_id: str) -> ApprovalRequest | None:
    """The undecided approval request about a call."""
    pending = await ask_store(session.store, session.approvals.pending)
    return next((request for request in pending if request.call_id == call_id), None)


def edit_of(tool: PreparedTool, call: OpenCall, arguments: bytes) -> dict[str, Any]:
    """Overriding arguments as an edit of a call: unchanged secrets stay redacted."""
    values = cast("dict[str, Any]", from_json(arguments))
    if tool.redactor is None:
        return values
    frozen = from_json(call.arguments)
    return _redact_unchanged(values, frozen, tool.redactor.redact(frozen))


def sent_arguments(messages: list[ModelMessage], tool_call_id: str | None) -> bytes | None:
    """The arguments that the model sent with a call, from the history of the conversation."""
    for part in _parts_from_the_end(messages):
        if isinstance(part, ToolCallPart) and part.tool_call_id == tool_call_id:
            args = part.args or {}
            with suppress(ValueError):
                return to_json(from_json(args) if isinstance(args, str) else args)
            return None
    return None


class ResultCounts:
    """How many results each call id has in a conversation. A conversation that has grown is read on
    from where it ended before, so that a step costs the same however long it is.
    """

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._read = 0
        self._last: ModelMessage | None = None

    def of(self, messages: list[ModelMessage], tool_call_id: str) -> int:
        """How many calls of this id have a result in these messages."""
        read = self._read
        if read and (len(messages) < read or messages[read - 1] is not self._last):
            self._counts.clear()
            read = 0
        for message in messages[read:]:
            for part in message.parts:
                if isinstance(part, ToolReturnPart):
                    self._counts[part.tool_call_id] += 1
        self._read, self._last = len(messages), messages[-1] if messages else None
        return self._counts[tool_call_id]


def answers(messages: list[ModelMessage]) -> list[tuple[str, int, ToolReturnPart]]:
    """The results of calls in the conversation, each with the id that the model used and how many
    results this id has by then.
    """
    results = Counter[str]()
    returned: list[tuple[str, int, ToolReturnPart]] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                results[part.tool_call_id] += 1
                returned.append((part.tool_call_id, results[part.tool_call_id], part))
    return returned


def metadata_for(
    request: ApprovalRequest, tool: PreparedTool, arguments: bytes, problem: str | None
) -> dict[str, Any] | None:
    """The metadata that the application gets about a waiting call.

    The tool's own approval metadata, and more where it applies: the arguments that hooks changed,
    that the call may have run already, what changed in the tool since an earlier decision, or why
    an approval was not accepted.
    """
    metadata = dict(request.metadata or {})
    shown = from_json(arguments)
    if tool.redactor is not None:
        shown = tool.redactor.redact(shown)
    if request.arguments != shown:
        metadata["final_arguments"] = request.arguments
    if is_about_doubt(request):
        metadata["in_doubt"] = request.reason
    if request.changes:
        metadata["changes"] = list(request.changes)
    if problem is not None:
        metadata["problem"] = problem
    return metadata or None


def _decider(run: RunContext[Any]) -> Actor:
    """The person who decided, from the application's metadata of the tool result."""
    metadata = run.tool_call_metadata
    by = cast("dict[str, Any]", metadata).get("by") if isinstance(metadata, dict) else None
    return Actor("person", by if isinstance(by, str) and by.strip() else "application")


def _parts_from_the_end(messages: list[ModelMessage]) -> Any:
    return (part for message in reversed(messages) for part in reversed(message.parts))


def _redact_unchanged(value: Any, frozen: Any, redacted: Any) -> Any:
    if redacted == SECRET:
        return SECRET if value == frozen else value
    if isinstance(value, dict) and isinstance(frozen, dict):
        before, shown = cast("dict[str, Any]", frozen), cast("dict[str, Any]", redacted)
        members = cast("dict[str, Any]", value).items()
        return {
            key: _redact_unchanged(member, before.get(key), shown.get(key))
            for key, member in members
        }
    if isinstance(value, list) and isinstance(frozen, list):
        elements = cast("list[Any]", value)
        old, hidden = cast("list[Any]", frozen), cast("list[Any]", redacted)
        if len(elements) == len(old):
            return [
                _redact_unchanged(*triple) for triple in zip(elements, old, hidden, strict=True)
            ]
    return cast("Any", value)
