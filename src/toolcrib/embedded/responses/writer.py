"""Writers of an active response: they add its items and emit the events of each change."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from toolcrib.embedded.database import new_id
from toolcrib.embedded.responses.citations import CitationWriter, CitedText
from toolcrib.embedded.responses.conversation import StoredItem
from toolcrib.embedded.responses.request import MAX_METADATA_VALUE, Item

if TYPE_CHECKING:
    from toolcrib.embedded.backend import TokenLogprob
    from toolcrib.embedded.responses.conversation import RequestHistory


WARNING_KEY: Final = "toolcrib_warning"
"""The metadata of a response that says what had no effect, or which model answered."""
FINAL: Final = frozenset({"completed", "failed", "incomplete", "cancelled"})
_BY_PLACE: Final = "shell_call_command."
"""The only events that identify their item by its index alone."""


class EventLog:
    """The events of one response, for any number of readers."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._grown = asyncio.Event()
        self.is_over = False

    def add(self, kind: str, fields: dict[str, Any]) -> None:
        """Append an event under the next sequence number."""
        self.events.append(self.next(kind, fields))
        self._wake()

    def next(self, kind: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Build the next event without appending it."""
        return {"type": kind, "sequence_number": len(self.events), **fields}

    def end(self, last: Iterable[dict[str, Any]] = ()) -> None:
        """Append the last events and end every reader."""
        self.events += last
        self.is_over = True
        self._wake()

    async def after(self, place: int = -1) -> AsyncIterator[dict[str, Any]]:
        """Iterate over the events after a sequence number, until the response ends."""
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
    """Adds items to a response. Events hold copies, so that a later change does not reach them."""

    def __init__(self, response: dict[str, Any], log: EventLog) -> None:
        self.response = response
        self.log = log
        self.answers: dict[str, dict[str, Any]] = {}
        """By the id of an item: the answer of its tool that the item does not show."""

    def begin(self) -> None:
        """Emit the events that start a response."""
        self._lifecycle("response.created")
        if self.response["status"] == "queued":
            self._lifecycle("response.queued")
            self.response["status"] = "in_progress"
        self._lifecycle("response.in_progress")

    def add_item(self, item: Item) -> int:
        """Append an item and emit its event; returns its index."""
        output: list[Item] = self.response["output"]
        output.append(item)
        self.log.add(
            "response.output_item.added",
            {"output_index": len(output) - 1, "item": copy.deepcopy(item)},
        )
        return len(output) - 1

    def emit(self, kind: str, index: int, **fields: Any) -> None:
        """Emit an event of an item."""
        address: dict[str, Any] = {"output_index": index}
        if not kind.startswith(_BY_PLACE):
            address["item_id"] = self.response["output"][index]["id"]
        self.log.add(f"response.{kind}", {**address, **copy.deepcopy(fields)})

    def finish_item(self, index: int, **changes: Any) -> None:
        """Apply the last changes to an item and emit its final event."""
        item: Item = self.response["output"][index]
        item.update(changes)
        self.log.add(
            "response.output_item.done", {"output_index": index, "item": copy.deepcopy(item)}
        )

    def warn(self, warning: str) -> None:
        """Name in the metadata what the client asked for and does not get."""
        metadata: dict[str, str] = self.response["metadata"]
        known = metadata.get(WARNING_KEY)
        if known is None or warning not in known:
            text = "; ".join(filter(None, [known, warning]))
            metadata[WARNING_KEY] = text[:MAX_METADATA_VALUE]

    def end(self, status: str, now: float, **changes: Any) -> list[dict[str, Any]]:
        """Set the last state of the response and return its last events, not yet appended.

        A client that reads them may continue the response at once, so the caller stores the
        response before it appends them.
        """
        self.response.update(status=status, **changes)
        if status == "completed":
            self.response["completed_at"] = int(now)
        for item in self.response["output"]:
            if item.get("status") in ("in_progress", "searching", "interpreting", "calling"):
                item["status"] = "incomplete"
        if status == "cancelled":
            # The API has no event for this state: the stream just ends.
            return []
        data = {"response": copy.deepcopy(self.response)}
        return [self.log.next(f"response.{status}", data)]

    def _lifecycle(self, kind: str) -> None:
        self.log.add(kind, {"response": copy.deepcopy(self.response)})


@dataclass(frozen=True, slots=True)
class ActiveResponse:
    """A response whose loop runs.

    `answer_task` runs the loop and may be cancelled. `task` waits for it and stores the response;
    it is never cancelled, so that the last state is not lost.
    """

    writer: ResponseWriter
    history: RequestHistory
    answer_task: asyncio.Task[tuple[str, dict[str, Any]]]
    task: asyncio.Task[None]
    owner: str
    warnings: tuple[str, ...] = ()

    async def stop(self) -> None:
        """Cancel the loop and wait until the response is stored."""
        self.answer_task.cancel()
        await asyncio.wait([self.task])

    @property
    def items(self) -> list[StoredItem]:
        """The conversation with the output of this response."""
        answers, output = self.writer.answers, self.writer.response["output"]
        items = [StoredItem(item, answers.get(item["id"])) for item in output]
        return [*self.history.before, *self.history.input_items, *items]


class MessageWriter:
    """Writes one message of the assistant. The item starts with its first text."""

    def __init__(self, writer: ResponseWriter, citer: CitationWriter) -> None:
        self._writer = writer
        self._citer = citer
        self._index: int | None = None
        self._annotations: list[dict[str, Any]] = []
        self._logprobs: list[TokenLogprob] = []
        self._shown_logprobs = 0

    @property
    def has_logprobs(self) -> bool:
        """Whether the probabilities of some tokens are known."""
        return bool(self._logprobs)

    def say(self, text: str, logprobs: Sequence[TokenLogprob] = ()) -> None:
        """Append text, with the probabilities of its tokens."""
        self._logprobs += logprobs
        self._show(self._citer.feed(text))

    def end(self, status: str = "completed") -> None:
        """End the message. Without text there is no item."""
        rest = self._citer.end()
        if self._index is None and not rest.text:
            return
        self._show(rest)
        index, text = self._index, self._citer.shown
        assert index is not None, "it was begun by showing its text"
        part = _part(text, self._annotations, self._logprobs)
        logprobs = [logprob_resource(each, has_bytes=False) for each in self._logprobs]
        self._writer.emit("output_text.done", index, content_index=0, text=text, logprobs=logprobs)
        self._writer.emit("content_part.done", index, content_index=0, part=part)
        self._writer.finish_item(index, content=[part], status=status)

    def _show(self, cited: CitedText) -> None:
        if self._index is None:
            if not cited.text:
                return
            self._index = self._begin()
        if cited.text:
            fresh = self._logprobs[self._shown_logprobs :]
            self._shown_logprobs = len(self._logprobs)
            self._writer.emit(
                "output_text.delta",
                self._index,
                content_index=0,
                delta=cited.text,
                logprobs=[logprob_resource(each, has_bytes=False) for each in fresh],
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


def _part(
    text: str, annotations: list[dict[str, Any]], logprobs: Sequence[TokenLogprob] = ()
) -> dict[str, Any]:
    return {
        "type": "output_text",
        "text": text,
        "annotations": list(annotations),
        "logprobs": [logprob_resource(each) for each in logprobs],
    }


def logprob_resource(entry: TokenLogprob, *, has_bytes: bool = True) -> dict[str, Any]:
    """The probability of a token as items show it, or without bytes as events do."""
    return {
        **_token(entry, has_bytes=has_bytes),
        "top_logprobs": [_token(other, has_bytes=has_bytes) for other in entry.top],
    }


def _token(entry: TokenLogprob, *, has_bytes: bool) -> dict[str, Any]:
    data = entry.token.encode() if entry.data is None else entry.data
    shown: dict[str, Any] = {"token": entry.token, "logprob": entry.logprob}
    return {**shown, "bytes": list(data)} if has_bytes else shown


class ReasoningWriter:
    """Writes one reasoning item."""

    def __init__(self, writer: ResponseWriter) -> None:
        self._writer = writer
        self._index: int | None = None
        self._text = ""

    def think(self, text: str) -> None:
        """Append reasoning text."""
        if self._index is None:
            item: dict[str, Any] = {"id": new_id("rs"), "type": "reasoning", "summary": []}
            self._index = self._writer.add_item({**item, "content": []})
        self._text += text
        self._writer.emit("reasoning_text.delta", self._index, content_index=0, delta=text)

    def end(self) -> None:
        """End the item, if it was started."""
        if self._index is None:
            return
        self._writer.emit("reasoning_text.done", self._index, content_index=0, text=self._text)
        self._writer.finish_item(
            self._index, content=[{"type": "reasoning_text", "text": self._text}]
        )
        self._index, self._text = None, ""
