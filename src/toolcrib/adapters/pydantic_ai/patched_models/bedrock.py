"""What Bedrock says. Of the tools that Bedrock runs, pydantic-ai knows the code interpreter; it
passes over the others, and fails at them in a stream.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from pydantic_ai.messages import (
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    NativeToolCallPart,
    NativeToolReturnPart,
)
from pydantic_ai.models import StreamedResponse
from pydantic_ai.models.bedrock import BedrockConverseModel, BedrockStreamedResponse

from toolcrib.adapters.json_fields import json_object_of, mapping_of, mappings_of, text_of
from toolcrib.adapters.pydantic_ai.parts import UNREAD

_CODE: Final = "nova_code_interpreter"
_NATIVE: Final = {"nova_grounding": "web_search"}
_RESULT: Final = "_result"
_UNKNOWN: Final = "SDK_UNKNOWN_MEMBER"
_WRITTEN: Final = "written"

Block = dict[str, Any]


class WholeBedrockModel(BedrockConverseModel):
    """Tells every block of an answer."""

    async def _process_response(self, response: Any) -> ModelResponse:
        message = mapping_of(mapping_of(response, "output"), "message")
        odd, parts = Odd(self.system), list[ModelResponsePart]()
        known: list[Block] = []
        for block in mappings_of(message, "content"):
            if is_known(block):
                known.append(block)
            else:
                parts += (await self._read(response, message, known)).parts
                parts += odd.parts(block)
                known = []
        made = await self._read(response, message, known)
        made.parts = [*parts, *made.parts]
        made.provider_details = {**(made.provider_details or {}), **odd.unread}
        return made

    async def _read(self, response: Any, message: Block, content: list[Block]) -> ModelResponse:
        told = {**response, "output": {"message": {**message, "content": content}}}
        parent: Any = super()
        return await parent._process_response(told)

    @asynccontextmanager
    async def request_stream(self, *args: Any, **facts: Any) -> AsyncGenerator[StreamedResponse]:
        async with super().request_stream(*args, **facts) as made:
            if isinstance(made, BedrockStreamedResponse):
                made.__class__ = _WholeStream
            yield made


class _WholeStream(BedrockStreamedResponse):
    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        odd = Odd(self.provider_name)
        held: dict[Any, Block] = {}

        def known(event: Block) -> bool:
            name = next(iter(event), "")
            facts = mapping_of(event, name)
            at, start = facts.get("contentBlockIndex"), mapping_of(facts, "start")
            if name == "contentBlockStart" and not is_known(start):
                held[at] = start
            elif at not in held:
                return True
            elif name == "contentBlockDelta":
                _grow(held[at], mapping_of(facts, "delta"))
            else:
                self._note(odd, _closed(held.pop(at)))
            return False

        stream: Any = _Watched(self._event_stream, known)
        self._event_stream = stream
        async for event in super()._get_event_iterator():
            yield event
        self.provider_details = {**(self.provider_details or {}), **odd.unread}

    def _note(self, odd: Odd, block: Block) -> None:
        for part in odd.parts(block):
            self._parts_manager.handle_part(vendor_part_id=None, part=part)


class _Watched:
    """A stream of boto's without the events that `known` refuses; it is closed as boto's are."""

    def __init__(self, stream: Any, known: Callable[[Block], bool]) -> None:
        self._raw_stream = getattr(stream, "_raw_stream", None)
        self._stream = stream
        self._known = known

    def __iter__(self) -> Iterator[Block]:
        return filter(self._known, self._stream)

    def close(self) -> None:
        self._stream.close()


class Odd:
    """Blocks that pydantic-ai does not know: calls and their results become parts all the same, and
    the others are kept as they are.
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._others: list[Block] = []

    @property
    def unread(self) -> Mapping[str, Any]:
        """What goes with the response, because it is no part of it."""
        return {UNREAD: self._others} if self._others else {}

    def parts(self, block: Block) -> Iterator[ModelResponsePart]:
        """A block as a part, if it is a call or a result."""
        use, result = mapping_of(block, "toolUse"), mapping_of(block, "toolResult")
        key = text_of(use, "toolUseId") or text_of(result, "toolUseId")
        if use:
            name, asked = _name(text_of(use, "name")), mapping_of(use, "input")
            yield NativeToolCallPart(name, asked, key, provider_name=self._provider)
        elif result:
            name = _name(text_of(result, "type").removesuffix(_RESULT))
            status = text_of(result, "status")
            yield NativeToolReturnPart(
                name,
                result.get("content"),
                key,
                provider_name=self._provider,
                provider_details={"status": status} if status else None,
            )
        else:
            kind = text_of(mapping_of(block, _UNKNOWN), "name") or next(iter(block), "block")
            self._others.append({"type": kind, **block})


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


def _grow(block: Block, delta: Mapping[str, Any]) -> None:
    written = text_of(mapping_of(delta, "toolUse"), "input")
    block[_WRITTEN] = text_of(block, _WRITTEN) + written
    told = mapping_of(block, "toolResult")
    if told:
        content = [*mappings_of(told, "content"), *mappings_of(delta, "toolResult")]
        block["toolResult"] = {**told, "content": content}


def _closed(block: Block) -> Block:
    asked = json_object_of(block, _WRITTEN)
    block.pop(_WRITTEN, None)
    use = mapping_of(block, "toolUse")
    return {"toolUse": {**use, "input": asked}} if use else block
