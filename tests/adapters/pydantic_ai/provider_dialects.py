"""How real models of pydantic-ai are spoken to, and what their providers say back."""

from __future__ import annotations

import json
import ssl
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import httpx
import httpx2
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.groq import GroqModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.groq import GroqProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

from tests.adapters.openai import scripted_provider as responses
from tests.adapters.pydantic_ai.codecs.loopback_server import Reply as Encoded
from tests.adapters.pydantic_ai.wire.anthropic import AnthropicWire
from tests.adapters.pydantic_ai.wire.chat import ChatWire
from tests.adapters.pydantic_ai.wire.google import GoogleWire
from tests.adapters.pydantic_ai.wire.responses import ResponsesWire
from tests.adapters.pydantic_ai.wire.traffic import Json, Wire
from tests.helpers.patience import PATIENCE
from toolcrib.adapters.items import mapping_of, mappings_of, text_of

KEY: Final = "sk-test-0123456789"


class Speech(ABC):
    """What one provider says, and how its model is made."""

    provider: str
    wire: Wire

    def encode(self, body: Json) -> Encoded:
        """A whole answer as a stream."""
        return self.wire.encode(self.wire.events_of(body))

    @abstractmethod
    def model(self, url: str) -> Model:
        """The real model, whose provider is at this address."""

    @abstractmethod
    def says(self, text: str, stop: str = "stop") -> Json:
        """An answer; `stop` says why it ended: stop, length or filter."""

    @abstractmethod
    def calls(self, *calls: Json) -> Json:
        """An answer that asks for calls of ours."""

    @abstractmethod
    def call(self, name: str, arguments: Json, call_id: str = "call_1") -> Json:
        """A call of ours."""

    @abstractmethod
    def outputs(self, request: Json) -> list[str]:
        """What a request says that calls came to, in order."""


class Anthropic(Speech):
    provider = "anthropic"
    wire = AnthropicWire()

    def encode(self, body: Json) -> Encoded:
        events = self.wire.events_of(body)
        for event in events:
            if event["type"] == "message_delta":
                event["delta"]["stop_details"] = body.get("stop_details")
        return self.wire.encode(events)

    def model(self, url: str) -> Model:
        client = httpx2.AsyncClient(verify=certificates(), timeout=PATIENCE)
        provider = AnthropicProvider(api_key=KEY, base_url=url, http_client=client)
        # With more tokens the request would be streamed, whoever asks.
        few = ModelSettings(max_tokens=1000)
        return AnthropicModel("claude-sonnet-5", provider=provider, settings=few)

    def says(self, text: str, stop: str = "stop") -> Json:
        reasons = {"stop": "end_turn", "length": "max_tokens", "filter": "refusal"}
        return self.answer({"type": "text", "text": text}, stop=reasons[stop])

    def calls(self, *calls: Json) -> Json:
        return self.answer(*calls, stop="tool_use")

    def call(self, name: str, arguments: Json, call_id: str = "call_1") -> Json:
        return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}

    def outputs(self, request: Json) -> list[str]:
        said = [block for each in request["messages"] for block in mappings_of(each, "content")]
        results = [each for each in said if each.get("type") == "tool_result"]
        return [text_of(each, "content") or _joined(each) for each in results]

    def answer(self, *blocks: Json, stop: str = "end_turn", **fields: Any) -> Json:
        """A message of these blocks."""
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-5",
            "content": list(blocks),
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 5},
            **fields,
        }


class Google(Speech):
    provider = "google"
    wire = GoogleWire()

    def model(self, url: str) -> Model:
        client = httpx2.AsyncClient(verify=certificates(), timeout=PATIENCE)
        provider = GoogleProvider(api_key=KEY, base_url=url, http_client=client)
        return GoogleModel("gemini-3-flash-preview", provider=provider)

    def says(self, text: str, stop: str = "stop") -> Json:
        reasons = {"stop": "STOP", "length": "MAX_TOKENS", "filter": "SAFETY"}
        return self.answer({"text": text}, stop=reasons[stop])

    def calls(self, *calls: Json) -> Json:
        return self.answer(*calls)

    def call(self, name: str, arguments: Json, call_id: str = "call_1") -> Json:
        return {"functionCall": {"name": name, "args": arguments, "id": call_id}}

    def outputs(self, request: Json) -> list[str]:
        parts = [part for each in request["contents"] for part in mappings_of(each, "parts")]
        told = [mapping_of(part, "functionResponse") for part in parts]
        answers = [mapping_of(each, "response") for each in told if each]
        return [str(next(iter(each.values()))) for each in answers]

    def answer(self, *parts: Json, stop: str = "STOP", **fields: Any) -> Json:
        """A candidate of these parts."""
        content = {"parts": list(parts), "role": "model"}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        return {
            "candidates": [{"content": content, "finishReason": stop, **fields}],
            "usageMetadata": usage,
            "modelVersion": "gemini-3-flash-preview",
            "responseId": "resp_1",
        }


class Chat(Speech):
    """Chat completions of OpenAI's."""

    provider = "openai-chat"
    wire = ChatWire()

    def model(self, url: str) -> Model:
        return OpenAIChatModel("gpt-5.4", provider=_openai(url))

    def says(self, text: str, stop: str = "stop") -> Json:
        reasons = {"stop": "stop", "length": "length", "filter": "content_filter"}
        return self.answer({"content": text}, stop=reasons[stop])

    def calls(self, *calls: Json) -> Json:
        return self.answer({"content": None, "tool_calls": list(calls)}, stop="tool_calls")

    def call(self, name: str, arguments: Json, call_id: str = "call_1") -> Json:
        function = {"name": name, "arguments": json.dumps(arguments)}
        return {"type": "function", "id": call_id, "function": function}

    def outputs(self, request: Json) -> list[str]:
        said = mappings_of(request, "messages")
        return [text_of(each, "content") for each in said if each["role"] == "tool"]

    def answer(self, message: Json, stop: str = "stop") -> Json:
        """One choice with this message."""
        whole = {"role": "assistant", **message}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt-5.4",
            "choices": [{"index": 0, "message": whole, "finish_reason": stop}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }


class Groq(Chat):
    provider = "groq"

    def model(self, url: str) -> Model:
        client = httpx.AsyncClient(verify=certificates(), timeout=PATIENCE)
        provider = GroqProvider(api_key=KEY, base_url=url, http_client=client)
        return GroqModel("openai/gpt-oss-120b", provider=provider)


class Responses(Speech):
    """OpenAI's Responses, through pydantic-ai."""

    provider = "openai-responses"
    wire = ResponsesWire()

    def model(self, url: str) -> Model:
        return OpenAIResponsesModel("gpt-5.4", provider=_openai(url))

    def says(self, text: str, stop: str = "stop") -> Json:
        whole = responses.response(responses.message(text), model="gpt-5.4")
        if stop == "stop":
            return whole
        reason = {"length": "max_output_tokens", "filter": "content_filter"}[stop]
        return {**whole, "status": "incomplete", "incomplete_details": {"reason": reason}}

    def calls(self, *calls: Json) -> Json:
        return responses.response(*calls, model="gpt-5.4")

    def call(self, name: str, arguments: Json, call_id: str = "call_1") -> Json:
        return responses.call(name, arguments, call_id)

    def outputs(self, request: Json) -> list[str]:
        said = mappings_of(request, "input")
        return [text_of(e, "output") for e in said if e.get("type") == "function_call_output"]


ANTHROPIC: Final = Anthropic()
GOOGLE: Final = Google()
SPEECHES: Final[Mapping[str, Speech]] = {
    each.provider: each for each in (ANTHROPIC, GOOGLE, Groq(), Chat(), Responses())
}
"""Every provider that the tests speak to, by its column of the support matrix."""


@cache
def certificates() -> ssl.SSLContext:
    """Reading them takes longer than a test may."""
    return ssl.create_default_context()


def _openai(url: str) -> OpenAIProvider:
    client = httpx2.AsyncClient(verify=certificates(), timeout=PATIENCE)
    return OpenAIProvider(api_key=KEY, base_url=url, http_client=client)


def _joined(result: Json) -> str:
    return "".join(text_of(part, "text") for part in mappings_of(result, "content"))
