"""What Anthropic says. pydantic-ai passes over calls of tools that nobody offered, fails at blocks
that it does not know, does not look into a stream whose first event is the whole answer, and takes
a pause to compact the conversation for the end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final, get_args

from anthropic.types.beta import (
    BetaInputJSONDelta,
    BetaMessageDeltaUsage,
    BetaRawContentBlockDeltaEvent,
    BetaRawContentBlockStartEvent,
    BetaRawContentBlockStopEvent,
    BetaRawMessageDeltaEvent,
)
from anthropic.types.beta.beta_raw_message_delta_event import Delta
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    NativeToolCallPart,
    NativeToolReturnPart,
)
from pydantic_ai.models.anthropic import AnthropicModel, AnthropicStreamedResponse
from pydantic_core import to_json

from toolcrib.adapters.json_fields import json_object_of, mapping_of, plain, text_of
from toolcrib.adapters.pydantic_ai.parts import UNREAD
from toolcrib.adapters.pydantic_ai.patched_models.streams import Watched

_SERVER_TOOLS: Final = frozenset(
    {
        "advisor",
        "bash_code_execution",
        "code_execution",
        "text_editor_code_execution",
        "tool_search_tool_bm25",
        "tool_search_tool_regex",
        "web_fetch",
        "web_search",
    }
)
# pydantic-ai has one name for these, and keeps theirs beside it.
_CODE: Final = frozenset({"bash_code_execution", "text_editor_code_execution"})
_BLOCKS: Final = frozenset(
    {
        "advisor_tool_result",
        "bash_code_execution_tool_result",
        "code_execution_tool_result",
        "compaction",
        "mcp_tool_result",
        "mcp_tool_use",
        "redacted_thinking",
        "text",
        "text_editor_code_execution_tool_result",
        "thinking",
        "tool_search_tool_result",
        "tool_use",
        "web_fetch_tool_result",
        "web_search_tool_result",
    }
)


class _Everything(frozenset[str]):
    def __contains__(self, name: object) -> bool:
        return True


class WholeAnthropicModel(AnthropicModel):
    """Tells every block of an answer."""

    def _get_enabled_server_tool_names(self, *args: Any, **facts: Any) -> frozenset[str]:
        return _Everything()

    def _process_response(self, response: Any, *args: Any, **facts: Any) -> ModelResponse:
        blocks: list[Any] = response.content
        known = [block for block in blocks if is_known(block)]
        read = response.model_copy(update={"content": known})
        made = super()._process_response(read, *args, **facts)
        if _is_paused(made.provider_details):
            made.state = "suspended"
        if len(known) == len(blocks):
            return made
        odd = Odd(self.system)
        # Every block that pydantic-ai knows becomes one part.
        rest = iter(list(made.parts))
        found = [next(rest, None) if is_known(each) else odd.part(plain(each)) for each in blocks]
        made.parts = [*filter(None, found), *rest]
        made.provider_details = {**(made.provider_details or {}), **odd.unread}
        return made

    async def _process_streamed_response(
        self, *args: Any, **facts: Any
    ) -> AnthropicStreamedResponse:
        made = await super()._process_streamed_response(*args, **facts)
        made.__class__ = _WholeStream
        return made


class _WholeStream(AnthropicStreamedResponse):
    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        odd = Odd(self.provider_name)
        held: dict[int, dict[str, Any]] = {}

        def known(event: Any) -> Iterator[Any]:
            for piece in expanded(event):
                index = getattr(piece, "index", None)
                if piece.type == "content_block_start" and not is_known(piece.content_block):
                    held[piece.index] = plain(piece.content_block)
                elif index not in held:
                    yield piece
                elif piece.type == "content_block_delta":
                    _grow(held[index], plain(piece.delta))
                else:
                    self._note(odd, held.pop(index), index)

        stream: Any = Watched(self._response, known)
        self._response = stream
        async for event in super()._get_event_iterator():
            yield event
        if _is_paused(self.provider_details):
            self.state = "suspended"

    def _note(self, odd: Odd, block: dict[str, Any], index: int) -> None:
        part = odd.part({**block, **_written(block)})
        if part is not None:
            self._parts_manager.handle_part(vendor_part_id=("odd", index), part=part)
        self.provider_details = {**(self.provider_details or {}), **odd.unread}


class Odd:
    """Blocks that pydantic-ai does not know: calls and their results become parts all the same, and
    the others are kept as they are.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._names: dict[str, str] = {}
        self._others: list[dict[str, Any]] = []

    @property
    def unread(self) -> Mapping[str, Any]:
        """What goes with the response, because it is no part of it."""
        return {UNREAD: self._others} if self._others else {}

    def part(self, block: dict[str, Any]) -> ModelResponsePart | None:
        """A block as a part; None when it is neither a call nor the result of one."""
        kind, key = text_of(block, "type"), text_of(block, "tool_use_id")
        if kind == "server_tool_use":
            key, name = text_of(block, "id"), text_of(block, "name")
            self._names[key] = name
            call = NativeToolCallPart(name, mapping_of(block, "input"), key)
            call.provider_name = self._provider
            return call
        if key and kind.endswith("_tool_result"):
            name = kind.removesuffix("_tool_result")
            code = {"anthropic_tool_name": name} if name in _CODE else None
            return NativeToolReturnPart(
                self._names.get(key) or ("code_execution" if code else name),
                block.get("content"),
                key,
                provider_name=self._provider,
                provider_details=code,
            )
        self._others.append(block)
        return None


def is_known(block: Any) -> bool:
    """Whether pydantic-ai knows the block. The SDK makes one of a class that it has of any block,
    so only what the block says counts.
    """
    if block.type == "server_tool_use":
        return block.name in _SERVER_TOOLS
    return block.type in _BLOCKS and _has_known_code(getattr(block, "content", None))


def _has_known_code(content: Any) -> bool:
    """Whether a result is none that failed for a reason that the SDK does not know: pydantic-ai
    warns of those.
    """
    code = getattr(content, "error_code", None)
    if code is None:
        return True
    fields: Mapping[str, Any] = getattr(content, "__pydantic_fields__", {})
    known = get_args(fields["error_code"].annotation) if "error_code" in fields else ()
    return not known or code in known


def _is_paused(details: Mapping[str, Any] | None) -> bool:
    """Whether the model made room for its answer, and waits to be asked for it again."""
    return text_of(details or {}, "finish_reason") == "compaction"


def expanded(event: Any) -> Iterator[Any]:
    """The event; and when it brings a whole answer at once, as it does when code goes on to call
    tools of ours, the events that would have told it.
    """
    yield event
    message = getattr(event, "message", None)
    if event.type != "message_start" or message is None or not message.content:
        return
    for index, block in enumerate(message.content):
        yield from _told(index, block)
    ended = Delta.construct(stop_reason=message.stop_reason, stop_sequence=message.stop_sequence)
    usage = BetaMessageDeltaUsage.construct(**plain(message.usage))
    yield BetaRawMessageDeltaEvent.construct(type="message_delta", delta=ended, usage=usage)


def _told(index: int, block: Any) -> Iterator[Any]:
    start, asked = block, getattr(block, "input", None)
    if asked:
        start = block.model_copy(update={"input": {}})
    yield BetaRawContentBlockStartEvent.construct(
        type="content_block_start", index=index, content_block=start
    )
    if asked:
        text = to_json(asked, fallback=str).decode()
        yield BetaRawContentBlockDeltaEvent.construct(
            type="content_block_delta",
            index=index,
            delta=BetaInputJSONDelta.construct(type="input_json_delta", partial_json=text),
        )
    yield BetaRawContentBlockStopEvent.construct(type="content_block_stop", index=index)


def _grow(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    if delta.get("type") == "input_json_delta":
        block["partial_json"] = text_of(block, "partial_json") + text_of(delta, "partial_json")


def _written(block: dict[str, Any]) -> dict[str, Any]:
    written = json_object_of(block, "partial_json")
    block.pop("partial_json", None)
    return {"input": written} if written else {}
