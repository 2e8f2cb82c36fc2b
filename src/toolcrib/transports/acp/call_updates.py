"""Calls as updates of the Agent Client Protocol: while the model writes them, while they run, and
when they are over.

The payload of an event may have been deleted from the ledger, so every field is optional.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from acp.schema import ContentToolCallContent, ToolCallProgress, ToolCallStart, ToolKind
from pydantic_core import from_json

from toolcrib.transports.acp.tool_calls import (
    image_content,
    locations_of,
    proposed_edit,
    text_content,
    title_of,
)


def object_in(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An object in the data of an event; empty when there is none."""
    value = data.get(name)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def list_in(data: Mapping[str, Any], name: str) -> list[Any]:
    """A list in the data of an event; empty when there is none."""
    value = data.get(name)
    return cast("list[Any]", value) if isinstance(value, list) else []


def text_in(data: Mapping[str, Any], name: str) -> str:
    """A text in the data of an event; empty when there is none."""
    value = data.get(name)
    return value if isinstance(value, str) else ""


MAX_SHOWN: Final = 20_000
"""How many of the last characters of a running call's output an editor gets."""


_SHORT: Final = 2_000
"""Up to how many characters every piece is shown at once."""
_GROWTH: Final = 1.25


@dataclass(slots=True)
class _ShownCall:
    """What the editor was shown of an open call."""

    name: str
    turn: int = 0
    output: str = ""
    progress: str = ""
    meta: dict[str, Any] = field(default_factory=dict[str, Any])
    arguments: str = ""
    """What the model has written of them."""
    code: str = ""
    queries: tuple[str, ...] = ()
    is_begun: bool = False
    """Whether more happened than that the model wrote it."""
    shown_chars: int = 0
    """How long its texts were when they were shown last."""

    def is_due(self) -> bool:
        """Whether enough has come since: an update repeats what came before."""
        length = len(self.arguments) + len(self.code) + len(self.output)
        if length > _SHORT and length < self.shown_chars * _GROWTH:
            return False
        self.shown_chars = length
        return True


class CallUpdates:
    """The `tool_call` and `tool_call_update` of each call, from its first event to its end. An
    interrupted call starts again when it is resumed.
    """

    def __init__(self, kind_of: Callable[[str], ToolKind]) -> None:
        self._kind_of = kind_of
        self._open: dict[str, _ShownCall] = {}

    def tell(
        self, kind: str, data: Mapping[str, Any]
    ) -> Iterator[ToolCallStart | ToolCallProgress]:
        """The updates for one event of a call; none for other events."""
        call_id = data.get("call_id")
        if not isinstance(call_id, str):
            return
        match kind:
            case "model.arguments_delta":
                yield from self._writes(call_id, data)
            case "model.hosted_progress":
                yield from self._hosted(call_id, data)
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

    def end_turn(self, turn: int) -> Iterator[ToolCallProgress]:
        """The calls of a turn that is over which the model wrote and nobody ran."""
        unrun = [key for key, call in self._open.items() if call.turn == turn and not call.is_begun]
        for call_id in unrun:
            del self._open[call_id]
            yield ToolCallProgress(
                session_update="tool_call_update",
                tool_call_id=call_id,
                status="failed",
                content=[text_content(_NOT_RUN)],
            )

    def _writes(
        self, call_id: str, data: Mapping[str, Any]
    ) -> Iterator[ToolCallStart | ToolCallProgress]:
        name, shown = text_in(data, "tool"), self._open.get(call_id)
        if shown is None:
            yield self._update(call_id, name, status="pending")
            shown = self._open[call_id]
            shown.turn = data.get("turn", 0)
        shown.arguments += text_in(data, "text")
        if shown.arguments and len(shown.arguments) <= MAX_SHOWN and shown.is_due():
            yield self._update(call_id, name, raw_input=_partial(shown.arguments))

    def _hosted(
        self, call_id: str, data: Mapping[str, Any]
    ) -> Iterator[ToolCallStart | ToolCallProgress]:
        name = text_in(data, "tool")
        if call_id not in self._open:
            yield self._update(call_id, name, status="in_progress")
        shown = self._open[call_id]
        shown.is_begun = True
        shown.code = (shown.code + text_in(data, "code"))[-MAX_SHOWN:]
        shown.output = (shown.output + text_in(data, "output"))[-MAX_SHOWN:]
        shown.arguments = (shown.arguments + text_in(data, "arguments"))[-MAX_SHOWN:]
        shown.queries += tuple(filter(None, [*list_in(data, "queries"), text_in(data, "url")]))
        image = object_in(data, "image")
        is_new = any(data.get(key) for key in ("queries", "url", "image"))
        has_text = any(data.get(key) for key in ("code", "output", "arguments"))
        if is_new or (has_text and shown.is_due()):
            yield self._update(
                call_id, name, raw_input=_hosted_input(shown), content=_hosted_content(shown, image)
            )

    def _waits(self, call_id: str, request: Mapping[str, Any]) -> ToolCallStart | ToolCallProgress:
        arguments = object_in(request, "arguments")
        name = _name(request)
        self._begin(call_id)
        waiting = f"Waiting for approval {request.get('approval_id')}: {request.get('reason')}"
        return self._update(
            call_id,
            name,
            status="pending",
            title=title_of(name, arguments),
            raw_input=arguments,
            content=[*proposed_edit(name, arguments), text_content(waiting)],
            locations=locations_of(arguments),
        )

    def _runs(self, call_id: str, name: str) -> ToolCallStart | ToolCallProgress:
        self._begin(call_id)
        return self._update(call_id, name, status="in_progress")

    def _moves(
        self, call_id: str, kind: str, data: Mapping[str, Any]
    ) -> Iterator[ToolCallStart | ToolCallProgress]:
        shown = self._open.get(call_id)
        if shown is None:
            return
        if kind == "tool.output":
            shown.output = (shown.output + text_in(data, "chunk"))[-MAX_SHOWN:]
        elif kind == "tool.progress":
            shown.progress = _progress(data)
            shown.meta = {key: data.get(key) for key in ("current", "total", "message")}
        else:
            event = {"type": data.get("type"), "data": data.get("data")}
            yield self._update(call_id, shown.name, field_meta=_meta(event=event))
            return
        content = [text_content(text) for text in (shown.output, shown.progress) if text]
        meta = _meta(progress=shown.meta) if shown.meta else None
        yield self._update(call_id, shown.name, content=content, field_meta=meta)

    def _ends(
        self, call_id: str, name: str, data: Mapping[str, Any]
    ) -> Iterator[ToolCallStart | ToolCallProgress]:
        arguments = object_in(data, "params")
        if call_id not in self._open:
            yield self._update(call_id, name, status="pending", title=title_of(name, arguments))
        yield self._update(
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

    def _begin(self, call_id: str) -> None:
        if call_id in self._open:
            self._open[call_id].is_begun = True

    def _update(self, call_id: str, name: str, **changes: Any) -> ToolCallStart | ToolCallProgress:
        if call_id in self._open:
            return ToolCallProgress(
                session_update="tool_call_update", tool_call_id=call_id, **changes
            )
        self._open[call_id] = _ShownCall(name)
        facts: dict[str, Any] = {"title": name, "kind": self._kind_of(name), **changes}
        return ToolCallStart(session_update="tool_call", tool_call_id=call_id, **facts)


_NOT_RUN: Final = "The turn ended before this call was run."
_IN_DOUBT: Final = "Nobody recorded the end of this call; whether it took effect is not known."


def _partial(arguments: str) -> Any:
    """Arguments as far as they are written: JSON, or the text when it is none."""
    try:
        return from_json(arguments, allow_partial="trailing-strings")
    except ValueError:
        return arguments


def _hosted_input(shown: _ShownCall) -> Any:
    facts: dict[str, Any] = {}
    if shown.code:
        facts["code"] = shown.code
    if shown.queries:
        facts["queries"] = list(shown.queries)
    if shown.arguments:
        facts["arguments"] = _partial(shown.arguments)
    return facts or None


def _hosted_content(
    shown: _ShownCall, image: Mapping[str, Any]
) -> list[ContentToolCallContent] | None:
    texts = [shown.code, shown.output, "\n".join(shown.queries)]
    content = [text_content(text) for text in texts if text]
    if image:
        content.append(image_content(text_in(image, "base64"), text_in(image, "media_type")))
    return content or None


def _name(data: Mapping[str, Any]) -> str:
    return text_in(object_in(data, "tool"), "name")


def _progress(data: Mapping[str, Any]) -> str:
    current, total, message = (data.get(key) for key in ("current", "total", "message"))
    how_far = f"{current:g}" if total is None else f"{current:g}/{total:g}"
    return f"{how_far} {message}" if message else how_far


def _result(data: Mapping[str, Any]) -> Any:
    """The raw output of a call: its value or typed failure; None for an artifact."""
    if not data.get("success"):
        return data.get("failure")
    return None if data.get("artifact_id") else data.get("value")


def _ending(data: Mapping[str, Any]) -> dict[str, Any] | None:
    facts = {
        "parentCallId": data.get("parent_call_id"),
        "artifactId": data.get("artifact_id"),
        "decidedBy": data.get("decided_by"),
        "metadata": data.get("metadata"),
    }
    known = {key: value for key, value in facts.items() if value is not None}
    return _meta(**known) if known else None


def _meta(**facts: Any) -> dict[str, Any]:
    return {"toolcrib": facts}
