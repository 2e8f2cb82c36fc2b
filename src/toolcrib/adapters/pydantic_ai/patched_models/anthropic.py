"""The patch of pydantic-ai's Anthropic model.

pydantic-ai drops calls of tools that the request did not enable and citations that it does not
know, fails at blocks that it does not know, ignores the content of a stream whose first event is
the whole message, and takes a pause for compaction for the end of the turn.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, get_args

from anthropic.types.beta import (
    BetaInputJSONDelta,
    BetaMessage,
    BetaMessageDeltaUsage,
    BetaRawContentBlockDeltaEvent,
    BetaRawContentBlockStartEvent,
    BetaRawContentBlockStopEvent,
    BetaRawMessageDeltaEvent,
    BetaUsage,
)
from anthropic.types.beta.beta_raw_message_delta_event import Delta
from pydantic_ai.messages import (
    Citation,
    CitationSource,
    ContentCitationAnchor,
    ModelResponse,
    ModelResponsePart,
    NativeToolCallPart,
    NativeToolReturnPart,
    TextPart,
)
from pydantic_ai.models import StreamedResponse
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_core import to_json

from toolcrib.adapters.items import mapping_of, mappings_of, plain, text_of
from toolcrib.adapters.pydantic_ai.patched_models.private_api import (
    PatchedServerToolModel,
    as_streamed,
    filter_stream,
    revise_response,
)
from toolcrib.adapters.pydantic_ai.patched_models.stream_filter import StreamFilter
from toolcrib.adapters.pydantic_ai.patched_models.unknown_content import (
    Json,
    UnknownContent,
    WireCalls,
    citation_source,
)

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
_CALLS: Final = frozenset({"server_tool_use", "mcp_tool_use"})
# The citations that pydantic-ai knows.
_LOCATIONS: Final = frozenset(
    {"char_location", "content_block_location", "page_location", "web_search_result_location"}
)
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
        blocks: list[Any] = [block for block in response.content or () if block is not None]
        known = [block for block in blocks if is_known(block)]
        reply = parse(_counted(response.model_copy(update={"content": known})))
        if _is_paused(reply.provider_details):
            reply.state = "suspended"
        unknown = AnthropicUnknownBlocks(self.system)
        # pydantic-ai makes one part of every block that it knows.
        parts = iter(list(reply.parts))
        merged = [
            _cited(next(parts, None), block) if is_known(block) else unknown.part(plain(block))
            for block in blocks
        ]
        reply.parts = [*filter(None, merged), *parts]
        unknown.attach(reply)
        wire_calls(blocks).attach(reply)
        return reply

    def read_stream(
        self, streamed: StreamedResponse, parse: Callable[[Any], ModelResponse]
    ) -> None:
        """Read the whole message from the stream: its events only show how it comes about."""
        reader = AnthropicEvents()

        def revised(reply: ModelResponse) -> ModelResponse:
            body = reader.message.body()
            whole = None if body is None else parse(BetaMessage.construct(**body))
            return reply if whole is None else as_streamed(reply, whole)

        filter_stream(streamed, reader)
        revise_response(streamed, revised)


class AnthropicEvents(StreamFilter):
    """The events of one stream, without those of blocks that pydantic-ai does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.message = StreamedMessage()
        self._unknown: set[int] = set()

    def is_unique(self, event: Any) -> bool:
        return event.type == "message_start"

    def expand(self, event: Any) -> Iterator[Any]:
        # Whatever follows the end of a message is a repetition of it.
        if self.message.is_over:
            return
        for piece in expanded(event):
            self.message.add(piece)
            index = getattr(piece, "index", None)
            if piece.type == "content_block_start" and not is_known(piece.content_block):
                self._unknown.add(piece.index)
            elif index not in self._unknown:
                yield _counted_event(piece)

    def at_end(self) -> None:
        pass


class StreamedMessage:
    """The message that the events of a stream add up to."""

    def __init__(self) -> None:
        self.is_over = False
        self._facts: Json = {}
        self._blocks: dict[int, Json] = {}
        self._arguments: dict[int, list[str]] = {}
        self._texts: dict[tuple[int, str], list[str]] = {}

    def add(self, event: Any) -> None:
        """Take in one event."""
        match event.type:
            case "message_start" if getattr(event, "message", None) is not None:
                self._facts = {**plain(event.message), "content": []}
            case "content_block_start":
                self._blocks[event.index] = plain(event.content_block)
            case "content_block_delta" if event.index in self._blocks:
                self._extend(event.index, event.delta)
            case "message_delta":
                self._end(plain(event))
            case "message_stop":
                self.is_over = True
            case _:
                pass

    def body(self) -> Json | None:
        """The whole message; None when it has no end, or arguments that are no JSON."""
        if not self._facts.get("stop_reason"):
            return None
        for (index, field), pieces in self._texts.items():
            block = self._blocks[index]
            self._blocks[index] = {**block, field: text_of(block, field) + "".join(pieces)}
        self._texts = {}
        try:
            for index, pieces in self._arguments.items():
                if text := "".join(pieces):
                    self._blocks[index] = {**self._blocks[index], "input": json.loads(text)}
        except ValueError:
            return None
        return {**self._facts, "content": [block for _, block in sorted(self._blocks.items())]}

    def _extend(self, index: int, delta: Any) -> None:
        block = self._blocks[index]
        match delta.type:
            case "text_delta":
                self._texts.setdefault((index, "text"), []).append(delta.text or "")
            case "thinking_delta":
                self._texts.setdefault((index, "thinking"), []).append(delta.thinking or "")
            case "input_json_delta":
                self._arguments.setdefault(index, []).append(delta.partial_json or "")
            case "citations_delta":
                block["citations"] = [*mappings_of(block, "citations"), plain(delta.citation)]
            case "signature_delta":
                block["signature"] = text_of(block, "signature") + (delta.signature or "")
            case _:
                block |= {key: value for key, value in plain(delta).items() if key != "type"}

    def _end(self, event: Json) -> None:
        facts = {
            key: value
            for key, value in {**event, **mapping_of(event, "delta")}.items()
            if value is not None and key not in ("type", "delta", "usage")
        }
        told = {
            key: value for key, value in mapping_of(event, "usage").items() if value is not None
        }
        self._facts |= {**facts, "usage": {**mapping_of(self._facts, "usage"), **told}}


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


def _counted(message: Any) -> Any:
    """The message with the counts of tokens that pydantic-ai takes for granted."""
    usage = getattr(message, "usage", None) or BetaUsage.construct()
    counts = {name: getattr(usage, name, None) or 0 for name in ("input_tokens", "output_tokens")}
    return message.model_copy(update={"usage": usage.model_copy(update=counts)})


def _counted_event(event: Any) -> Any:
    message = getattr(event, "message", None)
    if event.type == "message_start" and message is not None:
        return event.model_copy(update={"message": _counted(message)})
    if event.type == "message_delta":
        usage = getattr(event, "usage", None) or BetaMessageDeltaUsage.construct()
        counted = usage.model_copy(update={"output_tokens": usage.output_tokens or 0})
        return event.model_copy(update={"usage": counted})
    return event


def wire_calls(blocks: Sequence[Any]) -> WireCalls:
    """The provider's JSON of every call and result."""
    wire = WireCalls()
    for block in map(plain, blocks):
        if call_id := text_of(block, "tool_use_id"):
            wire.result(call_id, block)
        elif text_of(block, "type") in _CALLS:
            wire.call(text_of(block, "id"), block)
    return wire


def _cited(part: ModelResponsePart | None, block: Any) -> ModelResponsePart | None:
    """The part, with the citations of a text that pydantic-ai does not know."""
    raws = mappings_of(plain(block), "citations") if block.type == "text" else []
    unknown = [raw for raw in raws if raw.get("type") not in _LOCATIONS]
    if unknown and isinstance(part, TextPart):
        anchor = ContentCitationAnchor(start=0, end=len(part.content)) if part.content else None
        sources = list(map(_source, unknown))
        part.citations = [*(part.citations or ()), Citation(sources, anchor=anchor)]
    return part


def _source(raw: Json) -> CitationSource:
    address = text_of(raw, "url") or text_of(raw, "source")
    is_page = "://" in address
    document_id = text_of(raw, "file_id") or text_of(raw, "document_id") or address
    return citation_source(
        url=address if is_page else "",
        title=text_of(raw, "title") or text_of(raw, "document_title"),
        document_id="" if is_page else document_id,
        excerpt=text_of(raw, "cited_text"),
    )
