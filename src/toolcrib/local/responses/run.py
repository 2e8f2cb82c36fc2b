"""One response while it is made: its items, and the events that tell of them."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

from toolcrib.local.responses.request import Item

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


class Run:
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

    def add(self, item: Item) -> int:
        """Put an item at the end and tell of it; returns its place."""
        output: list[Item] = self.response["output"]
        output.append(item)
        self.log.add(
            "response.output_item.added",
            {"output_index": len(output) - 1, "item": copy.deepcopy(item)},
        )
        return len(output) - 1

    def tell(self, kind: str, index: int, **fields: Any) -> None:
        """Tell an event of an item."""
        told: dict[str, Any] = {"output_index": index}
        if not kind.startswith(_BY_PLACE):
            told["item_id"] = self.response["output"][index]["id"]
        self.log.add(f"response.{kind}", {**told, **copy.deepcopy(fields)})

    def done(self, index: int, **changes: Any) -> None:
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
