"""One response while it is made: its items, and the events that tell of them.

A response that is being made.

What a backend says, as items with their events while it says it.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from toolcrib.embedded.database import new_id
from toolcrib.embedded.responses.citations import CitationWriter, CitedText
from toolcrib.embedded.responses.conversation import StoredItem
from toolcrib.embedded.responses.request import Item

if TYPE_CHECKING:
    from toolcrib.embedded.responses.conversation import RequestHistory


FINAL: Final = frozenset({"completed", "failed", "incomplete", "cancelled"})
_BY_PLACE: Final = "shell_call_command."
"""The one kind of events that name their item by its place alone."""


class EventLog:
    """The events of one response, for as many readers as there are."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._grown = asyncio.Event()
        self.is_over = False

    def add(self, kind: str, fields: dict[str, Any]) -> None:
        """Tell an event, with the next number."""
        self.events.append(self.next(kind, fields))
        self._wake()

    def next(self, kind: str, fields: dict[str, Any]) -> dict[str, Any]:
        """The event that would come next, which nobody is told of yet."""
        return {"type": kind, "sequence_number": len(self.events), **fields}

    def end(self, last: Iterable[dict[str, Any]] = ()) -> None:
        """Tell the last events, if there are any; nothing more will come."""
        self.events += last
        self.is_over = True
        self._wake()

    async def after(self, place: int = -1) -> AsyncIterator[dict[str, Any]]:
        """The events after a number, and those to come, until the end."""
        at = place + 1
        while True:
            grown = self._grown
            while at < len(self.events):
                yield self.events[at]
                at += 1
            if self.is_over:
                return
            await grown.wait()

    def _wake(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()


class ResponseWriter:
    """Makes the items of a response. What is told is copied, so that an event never changes."""

    def __init__(self, response: dict[str, Any], log: EventLog) -> None:
        self.response = response
        self.log = log
        self.answers: dict[str, dict[str, Any]] = {}
        """By an item's id: what its tool answered, which the item itself does not show."""

    def begin(self) -> None:
        """Tell that the response was created and is being made."""
        self._lifecycle("response.created")
        if self.response["status"] == "queued":
            self._lifecycle("response.queued")
            self.response["status"] = "in_progress"
        self._lifecycle("response.in_progress")

    def add_item(self, item: Item) -> int:
        """Put an item at the end and tell of it; returns its place."""
        output: list[Item] = self.response["output"]
        output.append(item)
        self.log.add(
            "response.output_item.added",
            {"output_index": len(output) - 1, "item": copy.deepcopy(item)},
        )
        return len(output) - 1

    def emit(self, kind: str, index: int, **fields: Any) -> None:
        """Tell an event of an item."""
        told: dict[str, Any] = {"output_index": index}
        if not kind.startswith(_BY_PLACE):
            told["item_id"] = self.response["output"][index]["id"]
        self.log.add(f"response.{kind}", {**told, **copy.deepcopy(fields)})

    def finish_item(self, index: int, **changes: Any) -> None:
        """Finish an item with its last facts."""
        item: Item = self.response["output"][index]
        item.update(changes)
        self.log.add(
            "response.output_item.done", {"output_index": index, "item": copy.deepcopy(item)}
        )

    def end(self, status: str, now: float, **changes: Any) -> list[dict[str, Any]]:
        """Finish the response. Returns the last events, which the log has yet to end with: whoever
        reads that a response is done may go on from it at once, so it has to be kept before.
        """
        self.response.update(status=status, **changes)
        if status == "completed":
            self.response["completed_at"] = int(now)
        for item in self.response["output"]:
            if item.get("status") in ("in_progress", "searching", "interpreting", "calling"):
                item["status"] = "incomplete"
        if status == "cancelled":
            # Clients know no event of this name: the stream just ends.
            return []
        told = {"response": copy.deepcopy(self.response)}
        return [self.log.next(f"response.{status}", told)]

    def _lifecycle(self, kind: str) -> None:
        self.log.add(kind, {"response": copy.deepcopy(self.response)})


@dataclass(frozen=True, slots=True)
class ActiveResponse:
    """What is made, from what, and by whom. `answer_task` may be cancelled; `task` ends after it,
    when the response is kept, and is never cancelled.
    """

    writer: ResponseWriter
    history: RequestHistory
    answer_task: asyncio.Task[tuple[str, dict[str, Any]]]
    task: asyncio.Task[None]

    async def stop(self) -> None:
        """Make it no further, and wait until what there is of it is kept."""
        self.answer_task.cancel()
        await asyncio.wait([self.task])

    @property
    def items(self) -> list[StoredItem]:
        """The whole conversation, with what was made."""
        answers, output = self.writer.answers, self.writer.response["output"]
        made = [StoredItem(item, answers.get(item["id"])) for item in output]
        return [*self.history.before, *self.history.given, *made]


class MessageWriter:
    """One message of the assistant. It is there from its first piece of text."""

    def __init__(self, writer: ResponseWriter, citer: CitationWriter) -> None:
        self._writer = writer
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
        self._writer.emit("output_text.done", index, content_index=0, text=text, logprobs=[])
        self._writer.emit("content_part.done", index, content_index=0, part=part)
        self._writer.finish_item(index, content=[part], status=status)

    def _show(self, cited: CitedText) -> None:
        if self._index is None:
            if not cited.text:
                return
            self._index = self._begin()
        if cited.text:
            self._writer.emit(
                "output_text.delta", self._index, content_index=0, delta=cited.text, logprobs=[]
            )
        for annotation in cited.annotations:
            self._writer.emit(
                "output_text.annotation.added",
                self._index,
                content_index=0,
                annotation_index=len(self._annotations),
                annotation=annotation,
            )
            self._annotations.append(annotation)

    def _begin(self) -> int:
        index = self._writer.add_item(
            {
                "id": new_id("msg"),
                "type": "message",
                "role": "assistant",
                "status": "in_progress",
                "content": [],
            }
        )
        self._writer.emit("content_part.added", index, content_index=0, part=_part("", []))
        return index


def _part(text: str, annotations: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "type": "output_text",
        "text": text,
        "annotations": list(annotations),
        "logprobs": [],
    }


class ReasoningWriter:
    """What the backend thinks before it speaks."""

    def __init__(self, writer: ResponseWriter) -> None:
        self._writer = writer
        self._index: int | None = None
        self._text = ""

    def think(self, text: str) -> None:
        """More of it."""
        if self._index is None:
            item: dict[str, Any] = {"id": new_id("rs"), "type": "reasoning", "summary": []}
            self._index = self._writer.add_item({**item, "content": []})
        self._text += text
        self._writer.emit("reasoning_text.delta", self._index, content_index=0, delta=text)

    def end(self) -> None:
        """It thinks no more."""
        if self._index is None:
            return
        self._writer.emit("reasoning_text.done", self._index, content_index=0, text=self._text)
        self._writer.finish_item(
            self._index, content=[{"type": "reasoning_text", "text": self._text}]
        )
        self._index, self._text = None, ""


def write_client_call(
    writer: ResponseWriter, name: str, arguments: str, *, is_freeform: bool
) -> None:
    """A call that the client runs, as an item."""
    call: dict[str, Any] = {"call_id": new_id("call"), "name": name}
    if is_freeform:
        item = {"id": new_id("ctc"), "type": "custom_tool_call", **call, "input": ""}
        index = writer.add_item(item)
        writer.emit("custom_tool_call_input.delta", index, delta=arguments)
        writer.emit("custom_tool_call_input.done", index, input=arguments)
        writer.finish_item(index, input=arguments)
        return
    base = {"id": new_id("fc"), "type": "function_call", "status": "in_progress"}
    index = writer.add_item({**base, **call, "arguments": ""})
    writer.emit("function_call_arguments.delta", index, delta=arguments)
    writer.emit("function_call_arguments.done", index, arguments=arguments)
    writer.finish_item(index, arguments=arguments, status="completed")
