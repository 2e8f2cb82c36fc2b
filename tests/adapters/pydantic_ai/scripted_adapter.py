"""Prompts, adapters and models: what evaluations through pydantic-ai are tried on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from typing import Any, Final, cast

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models.function import (
    AgentInfo,
    DeltaThinkingPart,
    DeltaToolCall,
    FunctionModel,
)

from tests.adapters.openai.loopback_adapter import add, ask, happened
from tests.adapters.pydantic_ai.faulty_server import Reply, Server
from tests.adapters.pydantic_ai.provider_dialects import Speech
from tests.adapters.pydantic_ai.wire.traffic import Json
from toolcrib.adapters.model_client import Retry
from toolcrib.adapters.pydantic_ai import PydanticAIAdapter

__all__ = ["QUICK", "Script", "add", "ask", "bench", "call", "happened", "scripted", "wire_bench"]

QUICK: Final = Retry(first_seconds=0.001)


class Script:
    """What a model does, step by step, and what it was asked."""

    def __init__(self, *steps: Any) -> None:
        self._steps = list(steps)
        self.asked: list[list[ModelMessage]] = []
        self.infos: list[AgentInfo] = []

    def model(self, **options: Any) -> FunctionModel:
        """The script as a model."""
        options = {"model_name": "test-model", **options}
        return FunctionModel(self._respond, stream_function=self._stream, **options)

    @property
    def last(self) -> list[Any]:
        """The parts of the newest message of the newest request."""
        return list(self.asked[-1][-1].parts)

    def outputs(self, request: int = -1) -> list[tuple[str, Any]]:
        """The outputs of calls that the newest message of a request brings."""
        parts: list[Any] = list(self.asked[request][-1].parts)
        return [(each.tool_call_id, each.content) for each in parts]

    async def _respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return self._next(messages, info)

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:

        for index, part in enumerate(self._next(messages, info).parts):
            match part.part_kind:
                case "text":
                    half = len(part.content) // 2
                    yield part.content[:half]
                    yield part.content[half:]
                case "thinking":
                    yield {index: DeltaThinkingPart(content=part.content, signature=part.signature)}
                case "tool-call":
                    args = part.args_as_json_str()
                    told = DeltaToolCall(part.tool_name, args, tool_call_id=part.tool_call_id)
                    yield {index: told}
                case _:
                    yield {index: part}

    def _next(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:

        self.asked.append(list(messages))
        self.infos.append(info)
        step = self._steps.pop(0)
        match step:
            case Exception():
                raise step
            case str():
                return ModelResponse([TextPart(step)])
            case ModelResponse():
                return step
            case list():
                return ModelResponse(cast("list[ModelResponsePart]", step))
            case _:
                return ModelResponse([step])


def call(name: str, arguments: Any = None, call_id: str = "call_1") -> ToolCallPart:
    """A call of a tool of ours."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return ToolCallPart(name, text, call_id)


@contextmanager
def bench(*steps: Any, **options: Any) -> Generator[tuple[PydanticAIAdapter, Script]]:
    """An adapter on a model that takes these steps."""
    script = Script(*steps)
    model = script.model(**options.pop("model_options", {}))
    adapter = PydanticAIAdapter(model, retry=options.pop("retry", QUICK), **options)
    try:
        yield adapter, script
    finally:
        adapter.close()


def scripted(*steps: Any, **options: Any) -> FunctionModel:
    """A model that takes these steps."""
    return Script(*steps).model(**options)


@contextmanager
def wire_bench(
    speech: Speech, *replies: Json | Reply, **options: Any
) -> Generator[tuple[PydanticAIAdapter, Server]]:
    """An adapter on a real model, whose provider gives these replies."""
    with Server(speech.encode, *replies) as server:
        model, retry = speech.model(server.url), options.pop("retry", QUICK)
        adapter = PydanticAIAdapter(model, retry=retry, **options)
        try:
            yield adapter, server
        finally:
            adapter.close()
