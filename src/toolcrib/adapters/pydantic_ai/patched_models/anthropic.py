"""The patch of pydantic-ai's Anthropic model.

pydantic-ai drops calls of tools that the request did not enable, fails at blocks that it does not
know, ignores the content of a stream whose first event is the whole message, and takes a pause for
compaction for the end of the turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
    NativeToolCallPart,
    NativeToolReturnPart,
)
from pydantic_ai.models import StreamedResponse
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_core import to_json

from toolcrib.adapters.items import json_object_of, mapping_of, plain, text_of
from toolcrib.adapters.pydantic_ai.patched_models.private_api import (
    PatchedServerToolModel,
    add_part,
    filter_stream,
)
from toolcrib.adapters.pydantic_ai.patched_models.unknown_content import Json, UnknownContent

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
# pydantic-ai has one name for these and keeps theirs in the details of the part.
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


class PatchedAnthropicModel(PatchedServerToolModel, AnthropicModel):
    """Keeps every block of a message."""

    def read_response(self, response: Any, parse: Callable[[Any], ModelResponse]) -> ModelResponse:
        """The message with a part for every block."""
        blocks: list[Any] = response.content
        known = [block for block in blocks if is_known(block)]
        reply = parse(response.model_copy(update={"content": known}))
        if _is_paused(reply.provider_details):
            reply.state = "suspended"
        if len(known) == len(blocks):
            return reply
        unknown = AnthropicUnknownBlocks(self.system)
        # pydantic-ai makes one part of every block that it knows.
        parts = iter(list(reply.parts))
        merged = [
            next(parts, None) if is_known(block) else unknown.part(plain(block)) for block in blocks
        ]
        reply.parts = [*filter(None, merged), *parts]
        unknown.attach(reply)
        return reply

    def read_stream(self, streamed: StreamedResponse) -> None:
        """Take unknown blocks out of the stream and add their parts."""
        unknown = AnthropicUnknownBlocks(self.system)
        open_blocks: dict[int, Json] = {}

        def known_events(event: Any) -> Iterator[Any]:
            for piece in expanded(event):
                index = getattr(piece, "index", None)
                if piece.type == "content_block_start" and not is_known(piece.content_block):
                    open_blocks[piece.index] = plain(piece.content_block)
                elif index not in open_blocks:
                    yield piece
                elif piece.type == "content_block_delta":
                    _extend_input(open_blocks[index], plain(piece.delta))
                else:
                    part = unknown.part(_with_input(open_blocks.pop(index)))
                    if part is not None:
                        add_part(streamed, part, ("unknown", index))
                    unknown.attach(streamed)

        def at_end() -> None:
            unknown.attach(streamed)
            if _is_paused(streamed.provider_details):
                streamed.state = "suspended"

        filter_stream(streamed, known_events, at_end)


class AnthropicUnknownBlocks(UnknownContent):
    """Content blocks that pydantic-ai does not know."""

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self._names: dict[str, str] = {}

    def part(self, block: Json) -> ModelResponsePart | None:
        """A block as a part; None when it is neither a call nor the result of one."""
        kind, call_id = text_of(block, "type"), text_of(block, "tool_use_id")
        if kind == "server_tool_use":
            call_id, name = text_of(block, "id"), text_of(block, "name")
            self._names[call_id] = name
            arguments = mapping_of(block, "input")
            return NativeToolCallPart(name, arguments, call_id, provider_name=self.provider)
        if call_id and kind.endswith("_tool_result"):
            name = kind.removesuffix("_tool_result")
            details = {"anthropic_tool_name": name} if name in _CODE else None
            return NativeToolReturnPart(
                self._names.get(call_id) or ("code_execution" if details else name),
                block.get("content"),
                call_id,
                provider_name=self.provider,
                provider_details=details,
            )
        self.keep(block)
        return None


def is_known(block: Any) -> bool:
    """Whether pydantic-ai knows the block. By its `type`: the SDK parses an unknown block into the
    class of a known one.
    """
    if block.type == "server_tool_use":
        return block.name in _SERVER_TOOLS
    return block.type in _BLOCKS and _has_known_code(getattr(block, "content", None))


def _has_known_code(content: Any) -> bool:
    """Whether the SDK knows the error code of a result: pydantic-ai warns of other codes."""
    code = getattr(content, "error_code", None)
    if code is None:
        return True
    fields: Mapping[str, Any] = getattr(content, "__pydantic_fields__", {})
    known = get_args(fields["error_code"].annotation) if "error_code" in fields else ()
    return not known or code in known


def _is_paused(details: Mapping[str, Any] | None) -> bool:
    """Whether the model compacted the conversation and waits for the request to be repeated."""
    return text_of(details or {}, "finish_reason") == "compaction"


def expanded(event: Any) -> Iterator[Any]:
    """The event; for one that brings a whole message, also the events that would have built it.

    Anthropic sends a whole message when code that it runs continues after a call of a client tool.
    """
    yield event
    message = getattr(event, "message", None)
    if event.type != "message_start" or message is None or not message.content:
        return
    for index, block in enumerate(message.content):
        yield from _block_events(index, block)
    delta = Delta.construct(stop_reason=message.stop_reason, stop_sequence=message.stop_sequence)
    usage = BetaMessageDeltaUsage.construct(**plain(message.usage))
    yield BetaRawMessageDeltaEvent.construct(type="message_delta", delta=delta, usage=usage)


def _block_events(index: int, block: Any) -> Iterator[Any]:
    start, arguments = block, getattr(block, "input", None)
    if arguments:
        start = block.model_copy(update={"input": {}})
    yield BetaRawContentBlockStartEvent.construct(
        type="content_block_start", index=index, content_block=start
    )
    if arguments:
        text = to_json(arguments, fallback=str).decode()
        yield BetaRawContentBlockDeltaEvent.construct(
            type="content_block_delta",
            index=index,
            delta=BetaInputJSONDelta.construct(type="input_json_delta", partial_json=text),
        )
    yield BetaRawContentBlockStopEvent.construct(type="content_block_stop", index=index)


def _extend_input(block: Json, delta: Mapping[str, Any]) -> None:
    if delta.get("type") == "input_json_delta":
        block["partial_json"] = text_of(block, "partial_json") + text_of(delta, "partial_json")


def _with_input(block: Json) -> Json:
    arguments = json_object_of(block, "partial_json")
    block.pop("partial_json", None)
    return {**block, "input": arguments} if arguments else block
