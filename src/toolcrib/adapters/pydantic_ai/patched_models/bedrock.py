"""The patch of pydantic-ai's Bedrock model.

Of the tools that Bedrock runs, pydantic-ai knows the code interpreter; it drops the others, and
fails at them in a stream.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from pydantic_ai.messages import (
    ModelResponse,
    ModelResponsePart,
    NativeToolCallPart,
    NativeToolReturnPart,
)
from pydantic_ai.models import StreamedResponse
from pydantic_ai.models.bedrock import BedrockConverseModel, BedrockStreamedResponse

from toolcrib.adapters.items import json_object_of, mapping_of, mappings_of, text_of
from toolcrib.adapters.pydantic_ai.patched_models.private_api import (
    AsyncPatchedModel,
    add_part,
    filter_event_stream,
)
from toolcrib.adapters.pydantic_ai.patched_models.unknown_content import Json, UnknownContent

_CODE: Final = "nova_code_interpreter"
_NATIVE: Final = {"nova_grounding": "web_search"}
_RESULT: Final = "_result"
_UNKNOWN: Final = "SDK_UNKNOWN_MEMBER"
_INPUT: Final = "partial_input"


class PatchedBedrockModel(AsyncPatchedModel, BedrockConverseModel):
    """Keeps every block of a message."""

    async def read_response(
        self, response: Any, parse: Callable[[Any], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        """The message with a part for every block."""
        message = mapping_of(mapping_of(response, "output"), "message")
        unknown, parts = BedrockUnknownBlocks(self.system), list[ModelResponsePart]()
        known: list[Json] = []

        async def parse_known() -> ModelResponse:
            output = {"message": {**message, "content": known}}
            return await parse({**response, "output": output})

        for block in mappings_of(message, "content"):
            if is_known(block):
                known.append(block)
            else:
                parts += (await parse_known()).parts
                parts += unknown.parts(block)
                known = []
        reply = await parse_known()
        reply.parts = [*parts, *reply.parts]
        unknown.attach(reply)
        return reply

    @asynccontextmanager
    async def request_stream(self, *args: Any, **options: Any) -> AsyncGenerator[StreamedResponse]:
        """The stream without unknown blocks, and with their parts."""
        async with super().request_stream(*args, **options) as streamed:
            if isinstance(streamed, BedrockStreamedResponse):
                self._read_stream(streamed)
            yield streamed

    def _read_stream(self, streamed: BedrockStreamedResponse) -> None:
        unknown = BedrockUnknownBlocks(self.system)
        open_blocks: dict[Any, Json] = {}

        def known_events(event: Json) -> Iterator[Json]:
            name = next(iter(event), "")
            facts = mapping_of(event, name)
            index, start = facts.get("contentBlockIndex"), mapping_of(facts, "start")
            if name == "contentBlockStart" and not is_known(start):
                open_blocks[index] = start
            elif index not in open_blocks:
                yield event
            elif name == "contentBlockDelta":
                _extend(open_blocks[index], mapping_of(facts, "delta"))
            else:
                for part in unknown.parts(_with_input(open_blocks.pop(index))):
                    add_part(streamed, part)

        filter_event_stream(streamed, known_events, lambda: unknown.attach(streamed))


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


def _extend(block: Json, delta: Mapping[str, Any]) -> None:
    block[_INPUT] = text_of(block, _INPUT) + text_of(mapping_of(delta, "toolUse"), "input")
    result = mapping_of(block, "toolResult")
    if result:
        content = [*mappings_of(result, "content"), *mappings_of(delta, "toolResult")]
        block["toolResult"] = {**result, "content": content}


def _with_input(block: Json) -> Json:
    arguments = json_object_of(block, _INPUT)
    block.pop(_INPUT, None)
    use = mapping_of(block, "toolUse")
    return {"toolUse": {**use, "input": arguments}} if use else block
