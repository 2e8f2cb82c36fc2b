"""The patch of pydantic-ai's Bedrock model.

Of the tools that Bedrock runs, pydantic-ai knows the code interpreter; it drops the others, and
fails at them in a stream. It also drops citations that come without text.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

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
from pydantic_ai.models.bedrock import BedrockConverseModel, BedrockStreamedResponse

from toolcrib.adapters.items import json_object_of, mapping_of, mappings_of, text_of
from toolcrib.adapters.pydantic_ai.patched_models.private_api import (
    AsyncPatchedModel,
    add_part,
    filter_event_stream,
    stream_parts,
)
from toolcrib.adapters.pydantic_ai.patched_models.stream_filter import StreamFilter
from toolcrib.adapters.pydantic_ai.patched_models.unknown_content import (
    Json,
    UnknownContent,
    WireCalls,
    citation_source,
)

_CODE: Final = "nova_code_interpreter"
_NATIVE: Final = {"nova_grounding": "web_search"}
_RESULT: Final = "_result"
_UNKNOWN: Final = "SDK_UNKNOWN_MEMBER"
# What is gathered of a block while it streams.
_INPUT: Final = "partial_input"
_TEXT: Final = "has_text"
_CITATIONS: Final = "citations"


class PatchedBedrockModel(AsyncPatchedModel, BedrockConverseModel):
    """Keeps every block of a message."""

    async def read_response(
        self, response: Any, parse: Callable[[Any], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        """The message with a part for every block."""
        message = mapping_of(mapping_of(response, "output"), "message")
        unknown, parts = BedrockUnknownBlocks(self.system), list[ModelResponsePart]()
        blocks, known = mappings_of(message, "content"), list[Json]()

        async def parse_known() -> ModelResponse:
            output = {"message": {**message, "content": known}}
            return await parse({**response, "output": output})

        for block in blocks:
            if is_known(block):
                known.append(block)
            else:
                parts += (await parse_known()).parts
                parts += unknown.parts(block)
                known = []
        reply = await parse_known()
        reply.parts = [*parts, *reply.parts]
        unknown.attach(reply)
        wire, cited = WireCalls(), BlockCitations()
        for block in blocks:
            keep_wire(wire, block)
            facts = mapping_of(block, "citationsContent")
            texts = [text_of(block, "text"), *(text_of(c, "text") for c in _contents(facts))]
            cited.add(mappings_of(facts, "citations"), has_text=any(texts))
        wire.attach(reply)
        cited.attach(reply.parts)
        return reply

    @asynccontextmanager
    async def request_stream(self, *args: Any, **options: Any) -> AsyncGenerator[StreamedResponse]:
        """The stream without unknown blocks, and with their parts."""
        async with super().request_stream(*args, **options) as streamed:
            if isinstance(streamed, BedrockStreamedResponse):
                reader = BedrockEvents(streamed, BedrockUnknownBlocks(self.system))
                filter_event_stream(streamed, reader)
            yield streamed


class BedrockEvents(StreamFilter):
    """The events of one stream, without those of blocks that pydantic-ai does not know."""

    def __init__(self, streamed: BedrockStreamedResponse, unknown: BedrockUnknownBlocks) -> None:
        super().__init__()
        self._streamed = streamed
        self._unknown = unknown
        self._wire = WireCalls()
        self._cited = BlockCitations()
        self._blocks: dict[Any, Json] = {}
        self._is_over = False
        self._is_counted = False

    def is_unique(self, event: Any) -> bool:
        return "messageStart" in event

    def expand(self, event: Json) -> Iterator[Json]:
        name = next(iter(event), "")
        # Whatever follows the end of a message, but for its usage, is a repetition of it.
        if self._is_over and (self._is_counted or name != "metadata"):
            return
        self._is_over = self._is_over or name == "messageStop"
        self._is_counted = self._is_counted or name == "metadata"
        facts = mapping_of(event, name)
        index = facts.get("contentBlockIndex")
        if name == "contentBlockStart":
            self._blocks[index] = mapping_of(facts, "start")
        elif name == "contentBlockDelta":
            _extend(self._blocks.setdefault(index, {}), mapping_of(facts, "delta"))
        if index is None or is_known(self._blocks.get(index, {})):
            yield event
        if name == "contentBlockStop":
            self._close(_with_input(self._blocks.pop(index, {})))

    def at_end(self) -> None:
        self._unknown.attach(self._streamed)
        self._wire.attach(self._streamed)
        self._cited.attach(stream_parts(self._streamed))

    def _close(self, block: Json) -> None:
        if not is_known(block):
            for part in self._unknown.parts(block):
                add_part(self._streamed, part)
        keep_wire(self._wire, block)
        self._cited.add(mappings_of(block, _CITATIONS), has_text=bool(block.get(_TEXT)))


class BedrockUnknownBlocks(UnknownContent):
    """Content blocks that pydantic-ai does not know."""

    def parts(self, block: Json) -> Iterator[ModelResponsePart]:
        """A block as a part, if it is a call or a result."""
        use, result = mapping_of(block, "toolUse"), mapping_of(block, "toolResult")
        call_id = text_of(use, "toolUseId") or text_of(result, "toolUseId")
        if use:
            name, arguments = _name(text_of(use, "name")), mapping_of(use, "input")
            yield NativeToolCallPart(name, arguments, call_id, provider_name=self.provider)
        elif result:
            name = _name(text_of(result, "type").removesuffix(_RESULT))
            status = text_of(result, "status")
            yield NativeToolReturnPart(
                name,
                result.get("content"),
                call_id,
                provider_name=self.provider,
                provider_details={"status": status} if status else None,
            )
        else:
            kind = text_of(mapping_of(block, _UNKNOWN), "name") or next(iter(block), "block")
            self.keep({"type": kind, **block})


class BlockCitations:
    """The citations of a message. pydantic-ai drops those of a block without text, which belong to
    the text before it, and those that name neither a page nor a title.
    """

    def __init__(self) -> None:
        self._texts = 0
        self._cited: list[tuple[int, list[CitationSource], bool]] = []

    def add(self, citations: Sequence[Json], *, has_text: bool) -> None:
        """Take in the citations of the next block."""
        self._texts += has_text
        if citations:
            self._cited.append((self._texts, list(map(_source, citations)), has_text))

    def attach(self, parts: Sequence[ModelResponsePart]) -> None:
        """Give the texts among the parts their citations."""
        texts = [part for part in parts if isinstance(part, TextPart)]
        for number, sources, has_text in self._cited:
            if not texts:
                return
            part = texts[min(max(number, 1), len(texts)) - 1]
            # A block cites all of its text.
            anchor = ContentCitationAnchor(start=0, end=len(part.content)) if has_text else None
            earlier = [] if has_text else part.citations or []
            part.citations = [*earlier, Citation(sources, anchor=anchor)]


def _source(citation: Json) -> CitationSource:
    excerpts = [text_of(content, "text") for content in mappings_of(citation, "sourceContent")]
    return citation_source(
        url=text_of(mapping_of(mapping_of(citation, "location"), "web"), "url"),
        title=text_of(citation, "title"),
        document_id=text_of(citation, "source"),
        excerpt="\n".join(filter(None, excerpts)),
    )


def keep_wire(wire: WireCalls, block: Json) -> None:
    """Keep the provider's JSON of a block that is a hosted call or its result."""
    use, result = mapping_of(block, "toolUse"), mapping_of(block, "toolResult")
    if use.get("type") == "server_tool_use":
        wire.call(text_of(use, "toolUseId"), block)
    elif result:
        wire.result(text_of(result, "toolUseId"), block)


def is_known(block: Mapping[str, Any]) -> bool:
    """Whether pydantic-ai knows a block, or the start of one."""
    use, result = mapping_of(block, "toolUse"), mapping_of(block, "toolResult")
    if use:
        return use.get("type") != "server_tool_use" or use.get("name") == _CODE
    if result:
        return result.get("type") == f"{_CODE}{_RESULT}"
    return _UNKNOWN not in block


def _name(tool: str) -> str:
    return _NATIVE.get(tool) or tool or "unknown"


def _contents(facts: Mapping[str, Any]) -> list[Json]:
    return mappings_of(facts, "content")


def _extend(block: Json, delta: Mapping[str, Any]) -> None:
    if use := mapping_of(delta, "toolUse"):
        block[_INPUT] = text_of(block, _INPUT) + text_of(use, "input")
    if result := mapping_of(block, "toolResult"):
        content = [*mappings_of(result, "content"), *mappings_of(delta, "toolResult")]
        block["toolResult"] = {**result, "content": content}
    if delta.get("text"):
        block[_TEXT] = True
    if citation := mapping_of(delta, "citation"):
        block[_CITATIONS] = [*mappings_of(block, _CITATIONS), citation]


def _with_input(block: Json) -> Json:
    arguments = json_object_of(block, _INPUT)
    block.pop(_INPUT, None)
    use = mapping_of(block, "toolUse")
    return {"toolUse": {**use, "input": arguments}} if use else block
