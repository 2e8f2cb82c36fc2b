"""The events of a session as updates of the Agent Client Protocol.

The payload of an event may have been deleted from the ledger, so every field is optional.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from acp.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    ToolCallProgress,
    ToolCallStart,
    ToolKind,
    UserMessageChunk,
)

from toolcrib.transports.acp.tool_calls import (
    locations_of,
    proposed_edit,
    text_block,
    text_content,
    title_of,
)
from toolcrib.transports.model_items import answer_in, thought_in

if TYPE_CHECKING:
    from toolcrib.runtime.event_reader import Envelope
    from toolcrib.transports.acp.editor import Update


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


@dataclass(slots=True)
class _ShownCall:
    """What the editor was shown of an open call."""

    name: str
    output: str = ""
    progress: str = ""
    meta: dict[str, Any] = field(default_factory=dict[str, Any])


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

    def _update(self, call_id: str, name: str, **changes: Any) -> ToolCallStart | ToolCallProgress:
        if call_id in self._open:
            return ToolCallProgress(
                session_update="tool_call_update", tool_call_id=call_id, **changes
            )
        self._open[call_id] = _ShownCall(name)
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


class Transcript:
    """Turns the events of one session into updates, in order. A replay includes the person's
    prompts; a live client knows what it has sent.
    """

    def __init__(self, kind_of: Callable[[str], ToolKind]) -> None:
        self._calls = CallUpdates(kind_of)
        self._inner: set[int] = set()
        self._text_step: tuple[int, int] | None = None
        self._response_step: tuple[int, int] = (0, 0)

    def updates_for(self, event: Envelope, *, is_replay: bool) -> Iterator[Update]:
        """The updates for one event; most events have none, or one."""
        data = event.data
        match event.kind:
            case "turn.started":
                if data.get("parent_call_id") is not None:
                    # A prompt that a tool evaluates: its text is not for the person.
                    self._inner.add(data.get("turn", 0))
            case "prompt.started" if is_replay and not self._is_inner(data):
                yield _user(text_in(data, "text"), data)
            case "model.text_delta" if not self._is_inner(data):
                self._text_step = _step(data)
                yield _message(text_in(data, "text"), data)
            case "model.responded" if not self._is_inner(data):
                yield from self._responded(data)
            case "prompt.answered" if not self._is_inner(data):
                if self._text_step != self._response_step and (text := text_in(data, "text")):
                    self._text_step = self._response_step
                    yield _message(text, data)
            case _:
                yield from self._calls.tell(event.kind, data)

    def _responded(self, data: Mapping[str, Any]) -> Iterator[Update]:
        self._response_step = _step(data)
        if text_in(data, "status") not in ("completed", "paused"):
            return
        items = list_in(data, "items")
        if thought := thought_in(items):
            yield AgentThoughtChunk(
                session_update="agent_thought_chunk", content=text_block(thought)
            )
        if self._text_step != self._response_step and (text := answer_in(items)):
            self._text_step = self._response_step
            yield _message(text, data)

    def _is_inner(self, data: Mapping[str, Any]) -> bool:
        return data.get("turn") in self._inner or data.get("parent_call_id") is not None


def _user(text: str, data: Mapping[str, Any]) -> UserMessageChunk:
    return UserMessageChunk(
        session_update="user_message_chunk",
        content=text_block(text),
        message_id=f"prompt-{data.get('turn', 0)}",
    )


def _message(text: str, data: Mapping[str, Any]) -> AgentMessageChunk:
    turn, step = _step(data)
    return AgentMessageChunk(
        session_update="agent_message_chunk",
        content=text_block(text),
        message_id=f"answer-{turn}-{step}" if step else f"answer-{turn}",
    )


def _step(data: Mapping[str, Any]) -> tuple[int, int]:
    return data.get("turn", 0), data.get("step", 0)
