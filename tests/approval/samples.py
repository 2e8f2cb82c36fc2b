"""Small calls and requests that the tests of approval share."""

from collections.abc import Mapping
from typing import Any

from toolcrib.approval.decision import ApprovalRequest
from toolcrib.approval.rule import Subject
from toolcrib.tools.identity import Place, ToolRef


def tool_ref(
    name: str = "write_file",
    *,
    source: str = "python",
    digest: str = "digest-1",
    place: Place = "local",
) -> ToolRef:
    return ToolRef(name, source, "1.2.0", digest, place)


def subject(
    arguments: Mapping[str, Any] | None = None,
    *,
    tool: ToolRef | None = None,
    is_read_only: bool = False,
    requires_approval: bool = False,
) -> Subject:
    return Subject(tool or tool_ref(), arguments or {}, is_read_only, requires_approval)


def request(
    arguments: dict[str, Any] | None = None, *, tool: ToolRef | None = None, **changes: Any
) -> ApprovalRequest:
    facts: dict[str, Any] = {
        "approval_id": "approval-1",
        "session_id": "session-1",
        "call_id": "call-1",
        "tool": tool or tool_ref(),
        "arguments": {"path": "notes.txt"} if arguments is None else arguments,
        "digest": "call-digest",
        "rule": "writes",
        "reason": "Files change.",
        "created_at": 1000.0,
    }
    return ApprovalRequest(**(facts | changes))
