"""The writer of a message: adds content blocks and emits the events of a stream."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from toolcrib.embedded.database import new_id

if TYPE_CHECKING:
    from toolcrib.embedded.messages.request import Block

PING_SECONDS: Final = 15.0
"""The longest silence of a stream."""

_PING: Final = {"type": "ping"}


class ContentWriter:
    """Writes one message. Events hold copies, so that a later change does not reach them."""

    def __init__(self, model: str, input_tokens: int) -> None:
        self.message: dict[str, Any] = {
            "id": new_id("msg"),
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [],
            "container": None,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage(input_tokens, 0),
        }
        self._events: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._emit({"type": "message_start", "message": self.message})

    @property
    def content(self) -> list[Block]:
        """The blocks so far."""
        return self.message["content"]

    def begin(self, block: Block) -> int:
        """Start a block; returns its index."""
        self.content.append(block)
        index = len(self.content) - 1
        self._emit({"type": "content_block_start", "index": index, "content_block": block})
        if index == 0:
            self._emit(_PING)
        return index

    def delta(self, index: int, **delta: Any) -> None:
        """Emit a change of a block, which the caller has applied."""
        self._emit({"type": "content_block_delta", "index": index, "delta": delta})

    def stop(self, index: int) -> None:
        """End a block."""
        self._emit({"type": "content_block_stop", "index": index})

    def whole(self, block: Block) -> None:
        """Add a block that is complete."""
        self.stop(self.begin(block))

    def use(self, block: Block, arguments: str) -> None:
        """Add a call; its input follows the start of the block as JSON."""
        index = self.begin({**block, "input": {}})
        self.delta(index, type="input_json_delta", partial_json="")
        self.delta(index, type="input_json_delta", partial_json=arguments)
        self.content[index]["input"] = _object(arguments)
        self.stop(index)

    def end(
        self,
        stop_reason: str,
        totals: Mapping[str, Any],
        *,
        stop_sequence: str | None = None,
        container: Mapping[str, Any] | None = None,
    ) -> None:
        """Set the last state of the message and end the stream."""
        change = {"stop_reason": stop_reason, "stop_sequence": stop_sequence}
        self.message.update(change, usage=dict(totals), container=container)
        delta = {**change, "container": container} if container is not None else change
        self._emit({"type": "message_delta", "delta": delta, "usage": totals})
        self._emit({"type": "message_stop"})
        self._events.put_nowait(None)

    def fail(self, error: Mapping[str, Any]) -> None:
        """End the stream with an error."""
        self._emit({"type": "error", "error": error})
        self._events.put_nowait(None)

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """The events until the end, with a ping when nothing happens for long."""
        while True:
            try:
                async with asyncio.timeout(PING_SECONDS):
                    event = await self._events.get()
            except TimeoutError:
                yield _PING
                continue
            if event is None:
                return
            yield event

    def _emit(self, event: Mapping[str, Any]) -> None:
        self._events.put_nowait(copy.deepcopy(dict(event)))


class ThinkingWriter:
    """Writes one thinking block. Without `is_shown`, the reasoning is left out."""

    def __init__(self, writer: ContentWriter, *, is_shown: bool) -> None:
        self._writer = writer
        self._is_shown = is_shown
        self._index: int | None = None

    def think(self, text: str) -> None:
        """Append reasoning."""
        if not self._is_shown:
            return
        if self._index is None:
            self._index = self._writer.begin({"type": "thinking", "thinking": "", "signature": ""})
        self._writer.content[self._index]["thinking"] += text
        self._writer.delta(self._index, type="thinking_delta", thinking=text)

    def end(self) -> None:
        """End the block, if it was started."""
        if self._index is None:
            return
        block = self._writer.content[self._index]
        block["signature"] = hashlib.sha256(block["thinking"].encode()).hexdigest()
        self._writer.delta(self._index, type="signature_delta", signature=block["signature"])
        self._writer.stop(self._index)
        self._index = None


class TextWriter:
    """Writes text blocks. The text with citations is a block of its own."""

    def __init__(self, writer: ContentWriter) -> None:
        self._writer = writer
        self._index: int | None = None

    def say(self, text: str) -> None:
        """Append text without a citation."""
        if not text:
            return
        if self._index is None:
            self._index = self._writer.begin({"type": "text", "text": ""})
        self._append(self._index, text)

    def cite(self, text: str, citations: Sequence[Mapping[str, Any]]) -> None:
        """Add text with its citations."""
        self.end()
        index = self._writer.begin({"type": "text", "text": "", "citations": []})
        for citation in citations:
            self._writer.content[index]["citations"].append(citation)
            self._writer.delta(index, type="citations_delta", citation=citation)
        self._append(index, text)
        self._writer.stop(index)

    def end(self) -> None:
        """End the block, if it was started."""
        if self._index is not None:
            self._writer.stop(self._index)
            self._index = None

    def _append(self, index: int, text: str) -> None:
        self._writer.content[index]["text"] += text
        self._writer.delta(index, type="text_delta", text=text)


def usage(
    input_tokens: int, output_tokens: int, server: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """The usage of a message. Nothing is cached here."""
    totals: dict[str, Any] = {
        "input_tokens": input_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": output_tokens,
    }
    return totals if server is None else {**totals, "server_tool_use": dict(server)}


def _object(arguments: str) -> Any:
    try:
        return json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return {}
