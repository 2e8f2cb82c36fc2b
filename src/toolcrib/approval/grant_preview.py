"""The preview of a grant: which past calls it would have covered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from toolcrib.approval.caller import Caller
from toolcrib.approval.pattern import MISSING, resolve
from toolcrib.approval.rule import Subject
from toolcrib.tools.identity import ToolRef

if TYPE_CHECKING:
    from toolcrib.approval.grant import Grant


@dataclass(frozen=True, slots=True)
class PastCall:
    """A call that ended, with its redacted arguments."""

    session_id: str
    call_id: str
    at: float
    tool: ToolRef
    arguments: Mapping[str, Any]
    principal: str | None = None


@dataclass(frozen=True, slots=True)
class GrantPreview:
    """What a grant would have covered. A hidden argument never matches, here as later."""

    covered: tuple[PastCall, ...]
    """Newest first, at most as many as were asked for."""
    covered_count: int
    looked_at: int
    """How many past calls of the tool were compared."""
    unknown_arguments: tuple[str, ...]
    """Pointers of patterns that lead to no argument of the tool: such a grant covers nothing."""


def preview_grant(
    grant: Grant,
    calls: Iterable[PastCall],
    *,
    parameters: Mapping[str, Any] | None = None,
    limit: int = 20,
) -> GrantPreview:
    """Compare a grant with past calls of its tool, newest first. `parameters` is the tool's JSON
    Schema; without it, an argument that no past call has is unknown.
    """
    # Whether it still holds is no question here, nor is which version of the tool was called.
    timeless = replace(grant, expires_at=None, expired_at=None, revoked_at=None, uses_left=None)
    covered: list[PastCall] = []
    covered_count = looked_at = 0
    unseen = set(grant.arguments)
    for call in calls:
        if call.tool.id != grant.tool_id:
            continue
        looked_at += 1
        unseen -= {pointer for pointer in unseen if _leads_somewhere(pointer, call.arguments)}
        if timeless.covers(
            _subject(call, grant), session_id=call.session_id, now=call.at, call_id=call.call_id
        ):
            covered_count += 1
            if len(covered) < limit:
                covered.append(call)
    if parameters is not None:
        unknown = unknown_arguments(grant.arguments, parameters)
    else:
        unknown = tuple(sorted(unseen)) if looked_at else ()
    return GrantPreview(tuple(covered), covered_count, looked_at, unknown)


def unknown_arguments(pointers: Iterable[str], parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """The pointers that lead to no argument by the tool's JSON Schema. Where the schema says
    nothing about a member, it is taken to be there.
    """
    return tuple(
        pointer for pointer in pointers if not _is_declared(_segments(pointer), parameters)
    )


def _subject(call: PastCall, grant: Grant) -> Subject:
    tool = replace(call.tool, digest=grant.tool_digest)
    return Subject(tool, call.arguments, caller=Caller(call.principal))


def _leads_somewhere(pointer: str, arguments: Mapping[str, Any]) -> bool:
    return any(value is not MISSING for value in resolve(pointer, arguments))


def _segments(pointer: str) -> Iterator[str]:
    for segment in pointer.split("/")[1:]:
        yield segment.replace("~1", "/").replace("~0", "~")


def _is_declared(segments: Iterator[str], schema: Mapping[str, Any]) -> bool:
    for segment in segments:
        properties = schema.get("properties")
        if not isinstance(properties, Mapping):
            return True
        members = cast("Mapping[str, Any]", properties)
        if segment not in members:
            return segment == "*" or isinstance(schema.get("additionalProperties"), Mapping)
        member = members[segment]
        if not isinstance(member, Mapping):
            return True
        schema = cast("Mapping[str, Any]", member)
    return True
