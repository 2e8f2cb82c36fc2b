"""What a brain says, as items with their events while it says it."""

from __future__ import annotations

from typing import Any

from toolcrib.local.ids import new_id
from toolcrib.local.responses.citing import Cited, Citer
from toolcrib.local.responses.run import Run


class Message:
    """One message of the assistant. It is there from its first piece of text."""

    def __init__(self, run: Run, citer: Citer) -> None:
        self._run = run
        self._citer = citer
        self._index: int | None = None
        self._annotations: list[dict[str, Any]] = []

    def say(self, text: str) -> None:
        """More text."""
        self._show(self._citer.feed(text))

    def end(self, status: str = "completed") -> None:
        """Nothing more is said. Without any text there is no message."""
        rest = self._citer.end()
        if self._index is None and not rest.text:
            return
        self._show(rest)
        index, text = self._index, self._citer.shown
        assert index is not None, "it was begun by showing its text"
        part = _part(text, self._annotations)
        self._run.tell("output_text.done", index, content_index=0, text=text, logprobs=[])
        self._run.tell("content_part.done", index, content_index=0, part=part)
        self._run.done(index, content=[part], status=status)

    def _show(self, cited: Cited) -> None:
        if self._index is None:
            if not cited.text:
                return
            self._index = self._begin()
        if cited.text:
            self._run.tell(
                "output_text.delta", self._index, content_index=0, delta=cited.text, logprobs=[]
            )
        for annotation in cited.annotations:
            self._run.tell(
                "output_text.annotation.added",
                self._index,
                content_index=0,
                annotation_index=len(self._annotations),
                annotation=annotation,
            )
            self._annotations.append(annotation)

    def _begin(self) -> int:
        index = self._run.add(
            {
                "id": new_id("msg"),
                "type": "message",
                "role": "assistant",
                "status": "in_progress",
                "content": [],
            }
        )
        self._run.tell("content_part.added", index, content_index=0, part=_part("", []))
        return index


def _part(text: str, annotations: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "type": "output_text",
        "text": text,
        "annotations": list(annotations),
        "logprobs": [],
    }


class Thinking:
    """What the brain thinks before it speaks."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._index: int | None = None
        self._text = ""

    def think(self, text: str) -> None:
        """More of it."""
        if self._index is None:
            item: dict[str, Any] = {"id": new_id("rs"), "type": "reasoning", "summary": []}
            self._index = self._run.add({**item, "content": []})
        self._text += text
        self._run.tell("reasoning_text.delta", self._index, content_index=0, delta=text)

    def end(self) -> None:
        """It thinks no more."""
        if self._index is None:
            return
        self._run.tell("reasoning_text.done", self._index, content_index=0, text=self._text)
        self._run.done(self._index, content=[{"type": "reasoning_text", "text": self._text}])
        self._index, self._text = None, ""


def ask_client(run: Run, name: str, arguments: str, *, is_freeform: bool) -> None:
    """A call that the client runs, as an item."""
    call: dict[str, Any] = {"call_id": new_id("call"), "name": name}
    if is_freeform:
        item = {"id": new_id("ctc"), "type": "custom_tool_call", **call, "input": ""}
        index = run.add(item)
        run.tell("custom_tool_call_input.delta", index, delta=arguments)
        run.tell("custom_tool_call_input.done", index, input=arguments)
        run.done(index, input=arguments)
        return
    base = {"id": new_id("fc"), "type": "function_call", "status": "in_progress"}
    index = run.add({**base, **call, "arguments": ""})
    run.tell("function_call_arguments.delta", index, delta=arguments)
    run.tell("function_call_arguments.done", index, arguments=arguments)
    run.done(index, arguments=arguments, status="completed")
