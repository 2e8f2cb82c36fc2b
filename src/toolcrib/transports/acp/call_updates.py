"""The events of calls as `tool_call` and `tool_call_update`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from acp.schema import ToolCallProgress, ToolCallStart, ToolKind

from toolcrib.transports.acp.payload import object_in, text_in
from toolcrib.transports.acp.tool_calls import (
    locations_of,
    proposed_edit,
    text_content,
    title_of,
)

MOST_SHOWN: Final = 20_000
"""How many characters of a running call's output an editor is shown, the last ones."""


@dataclass(slots=True)
class _Shown:
    """What the editor was told of a call that is not over."""

    name: str
    output: str = ""
    progress: str = ""
    meta: dict[str, Any] = field(default_factory=dict[str, Any])


class CallUpdates:
    """Tells of each call from its first event to its end. One that was cut off is told anew when it
    is taken up.
    """

    def __init__(self, kind_of: Callable[[str], ToolKind]) -> None:
        self._kind_of = kind_of
        self._open: dict[str, _Shown] = {}

    def tell(
        self, kind: str, data: Mapping[str, Any]
    ) -> Iterator[ToolCallStart | ToolCallProgress]:
        """The updates for one event of a call; none for other events."""
        call_id = data.get("call_id")
        if not isinstance(call_id, str):
            return
        match kind:
            case "approval.requested":
                yield self._waits(call_id, object_in(data, "request"))
            case "call.started":
                yield self._runs(call_id, _name(data))
            case "tool.progress" | "tool.output" | "tool.emitted":
                yield from self._moves(call_id, kind, data)
            case "call.in_doubt":
                yield from self._ends(call_id, _name(data), {**data, "message": _IN_DOUBT})
            case "tool.invoked":
                yield from self._ends(call_id, text_in(data, "name"), data)
            case _:
                return

    def _waits(self, call_id: str, request: Mapping[str, Any]) -> ToolCallStart | ToolCallProgress:
        arguments = object_in(request, "arguments")
        name = _name(request)
        waiting = f"Waiting for approval {request.get('approval_id')}: {request.get('reason')}"
        return self._told(
            call_id,
            name,
            status="pending",
            title=title_of(name, arguments),
            raw_input=arguments,
            content=[*proposed_edit(name, arguments), text_content(waiting)],
            locations=locations_of(arguments),
        )

    def _runs(self, call_id: str, name: str) -> ToolCallStart | ToolCallProgress:
        return self._told(call_id, name, status="in_progress")

    def _moves(
        self, call_id: str, kind: str, data: Mapping[str, Any]
    ) -> Iterator[ToolCallStart | ToolCallProgress]:
        shown = self._open.get(call_id)
        if shown is None:
            return
        if kind == "tool.output":
            shown.output = (shown.output + text_in(data, "chunk"))[-MOST_SHOWN:]
        elif kind == "tool.progress":
            shown.progress = _progress(data)
            shown.meta = {key: data.get(key) for key in ("current", "total", "message")}
        else:
            event = {"type": data.get("type"), "data": data.get("data")}
            yield self._told(call_id, shown.name, field_meta=_meta(event=event))
            return
        content = [text_content(each) for each in (shown.output, shown.progress) if each]
        meta = _meta(progress=shown.meta) if shown.meta else None
        yield self._told(call_id, shown.name, content=content, field_meta=meta)

    def _ends(
        self, call_id: str, name: str, data: Mapping[str, Any]
    ) -> Iterator[ToolCallStart | ToolCallProgress]:
        arguments = object_in(data, "params")
        if call_id not in self._open:
            yield self._told(call_id, name, status="pending", title=title_of(name, arguments))
        yield self._told(
            call_id,
            name,
            status="completed" if data.get("success") else "failed",
            title=title_of(name, arguments),
            raw_input=data.get("params"),
            raw_output=_result(data),
            content=[text_content(text_in(data, "message"))],
            locations=locations_of(arguments),
            field_meta=_ending(data),
        )
        del self._open[call_id]

    def _told(self, call_id: str, name: str, **changes: Any) -> ToolCallStart | ToolCallProgress:
        if call_id in self._open:
            return ToolCallProgress(
                session_update="tool_call_update", tool_call_id=call_id, **changes
            )
        self._open[call_id] = _Shown(name)
        facts: dict[str, Any] = {"title": name, "kind": self._kind_of(name), **changes}
        return ToolCallStart(session_update="tool_call", tool_call_id=call_id, **facts)


_IN_DOUBT: Final = "The process ended during this call; whether it took effect is not known."


def _name(data: Mapping[str, Any]) -> str:
    return text_in(object_in(data, "tool"), "name")


def _progress(data: Mapping[str, Any]) -> str:
    current, total, message = (data.get(key) for key in ("current", "total", "message"))
    how_far = f"{current:g}" if total is None else f"{current:g}/{total:g}"
    return f"{how_far} {message}" if message else how_far


def _result(data: Mapping[str, Any]) -> Any:
    """The value for programs. A failure is typed; a value too large for the ledger is not here."""
    if not data.get("success"):
        return data.get("failure")
    return None if data.get("artifact_id") else data.get("value")


def _ending(data: Mapping[str, Any]) -> dict[str, Any] | None:
    told = {
        "parentCallId": data.get("parent_call_id"),
        "artifactId": data.get("artifact_id"),
        "decidedBy": data.get("decided_by"),
    }
    found = {key: value for key, value in told.items() if value is not None}
    return _meta(**found) if found else None


def _meta(**facts: Any) -> dict[str, Any]:
    return {"toolcrib": facts}
