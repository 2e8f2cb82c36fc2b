"""The events of a session as updates of the Agent Client Protocol.

The payload of an event may have been deleted from the ledger, so every field is optional.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from acp.schema import AgentMessageChunk, AgentThoughtChunk, ToolKind, UserMessageChunk

from toolcrib.runtime.model_items import answer_in, thought_in
from toolcrib.transports.acp.call_updates import CallUpdates, list_in, text_in
from toolcrib.transports.acp.tool_calls import text_block

if TYPE_CHECKING:
    from toolcrib.runtime.event_reader import Envelope
    from toolcrib.transports.acp.editor import Update


class Transcript:
    """Turns the events of one session into updates, in order. A replay includes the person's
    prompts; a live client knows what it has sent.
    """

    def __init__(self, kind_of: Callable[[str], ToolKind]) -> None:
        self._calls = CallUpdates(kind_of)
        self._inner: set[int] = set()
        self._text_step: tuple[int, int] | None = None
        self._thought_step: tuple[int, int] | None = None
        self._restarts = 0
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
            case "model.text_delta" | "model.reasoning_delta" | "model.partial_reply":
                yield from self._pieces(event.kind, data)
            case "turn.ended":
                if data.get("outcome") != "waiting":
                    yield from self._calls.end_turn(data.get("turn", 0))
            case "model.responded" if not self._is_inner(data):
                yield from self._responded(data)
            case "prompt.answered" if not self._is_inner(data):
                if self._text_step != self._response_step and (text := text_in(data, "text")):
                    self._text_step = self._response_step
                    yield _message(text, data)
            case _:
                yield from self._calls.tell(event.kind, data)

    def _pieces(self, kind: str, data: Mapping[str, Any]) -> Iterator[Update]:
        if self._is_inner(data):
            return
        if kind == "model.partial_reply":
            yield from self._partial(data)
        else:
            yield self._piece(kind, data)

    def _piece(self, kind: str, data: Mapping[str, Any]) -> Update:
        if kind == "model.reasoning_delta":
            self._thought_step = _step(data)
            return _thought(text_in(data, "text"), data)
        self._text_step = _step(data)
        self._restarts += data.get("is_restart") is True
        return _message(text_in(data, "text"), data, self._restarts)

    def _partial(self, data: Mapping[str, Any]) -> Iterator[Update]:
        """What is written of a reply that was begun before the session was followed."""
        thoughts = [text for text in list_in(data, "reasoning") if isinstance(text, str)]
        if self._thought_step != _step(data):
            for index, text in enumerate(thoughts):
                self._thought_step = _step(data)
                yield _thought(text, {**data, "index": index})
        if text_in(data, "text"):
            is_restart = self._text_step == _step(data)
            yield self._piece("model.text_delta", {**data, "is_restart": is_restart})

    def _responded(self, data: Mapping[str, Any]) -> Iterator[Update]:
        self._response_step = _step(data)
        if text_in(data, "status") not in ("completed", "paused"):
            return
        items = list_in(data, "items")
        if self._thought_step != self._response_step and (thought := thought_in(items)):
            yield _thought(thought, data)
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


def _thought(text: str, data: Mapping[str, Any]) -> AgentThoughtChunk:
    turn, step = _step(data)
    return AgentThoughtChunk(
        session_update="agent_thought_chunk",
        content=text_block(text),
        message_id=f"thought-{turn}-{step}-{data.get('index', 0)}",
    )


def _message(text: str, data: Mapping[str, Any], restarts: int = 0) -> AgentMessageChunk:
    """A piece of an answer. One that begins anew is another message: none can be taken back."""
    turn, step = _step(data)
    again = f"-again-{restarts}" if restarts else ""
    return AgentMessageChunk(
        session_update="agent_message_chunk",
        content=text_block(text),
        message_id=f"answer-{turn}-{step}{again}" if step else f"answer-{turn}",
    )


def _step(data: Mapping[str, Any]) -> tuple[int, int]:
    return data.get("turn", 0), data.get("step", 0)
