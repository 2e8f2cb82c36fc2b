"""The events of a session as the updates of the Agent Client Protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from acp.schema import AgentMessageChunk, AgentThoughtChunk, UserMessageChunk

from toolcrib.transports.acp.call_updates import CallUpdates
from toolcrib.transports.acp.payload import list_in, text_in
from toolcrib.transports.acp.said import answer_in, thought_in
from toolcrib.transports.acp.tool_calls import text_block

if TYPE_CHECKING:
    from collections.abc import Callable

    from acp.schema import ToolKind

    from toolcrib.runtime.envelope import Envelope
    from toolcrib.transports.acp.editor import Update

_TASK: Final = "## Task\n\n"
"""What stands before a person's words in a prompt of a runtime."""


class Transcript:
    """Tells the events of one session, in order. While it is replayed, what the person said is told
    too; a client knows what it has just sent.
    """

    def __init__(self, kind_of: Callable[[str], ToolKind]) -> None:
        self._calls = CallUpdates(kind_of)
        self._inner: set[int] = set()
        self._said: tuple[int, int] | None = None
        self._asked: tuple[int, int] = (0, 0)

    def tell(self, event: Envelope, *, is_replay: bool) -> Iterator[Update]:
        """The updates for one event; most events have none, or one."""
        data = event.data
        match event.kind:
            case "turn.started":
                if data.get("parent_call_id") is not None:
                    # A prompt that a tool evaluates: its words are not for the person.
                    self._inner.add(data.get("turn", 0))
            case "prompt.started" if is_replay and not self._is_inner(data):
                yield _user(words_of(text_in(data, "text")), data)
            case "model.text_delta" if not self._is_inner(data):
                self._said = _step(data)
                yield _message(text_in(data, "text"), data)
            case "model.responded" if not self._is_inner(data):
                yield from self._responded(data)
            case "prompt.answered" if not self._is_inner(data):
                if self._said != self._asked and (text := text_in(data, "text")):
                    self._said = self._asked
                    yield _message(text, data)
            case _:
                yield from self._calls.tell(event.kind, data)

    def _responded(self, data: Mapping[str, Any]) -> Iterator[Update]:
        self._asked = _step(data)
        if text_in(data, "status") not in ("completed", "paused"):
            return
        items = list_in(data, "items")
        if thought := thought_in(items):
            yield AgentThoughtChunk(
                session_update="agent_thought_chunk", content=text_block(thought)
            )
        if self._said != self._asked and (text := answer_in(items)):
            self._said = self._asked
            yield _message(text, data)

    def _is_inner(self, data: Mapping[str, Any]) -> bool:
        return data.get("turn") in self._inner or data.get("parent_call_id") is not None


def words_of(prompt: str) -> str:
    """What the person wrote, of a prompt as it was sent to the model."""
    if prompt.startswith(_TASK):
        return prompt[len(_TASK) :]
    _, found, words = prompt.partition("\n\n" + _TASK)
    return words if found else prompt


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
