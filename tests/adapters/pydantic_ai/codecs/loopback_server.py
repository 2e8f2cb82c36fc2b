"""A server on this machine that answers as it is told, and the real models that speak to it."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic_ai.models import Model


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server sends next."""

    body: bytes
    content_type: str = "application/json"
    status: int = 200


@dataclass(slots=True)
class Loopback:
    """The server: replies in the order in which they were queued, and what it was asked."""

    url: str
    replies: list[Reply] = field(default_factory=list[Reply])
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


REFUSAL = Reply(b'{"error": {"message": "no", "type": "invalid_request_error"}}', status=400)


@contextmanager
def loopback() -> Generator[Loopback]:
    """A running server."""
    book = Loopback("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            book.asked.append(json.loads(self.rfile.read(length) or b"{}"))
            reply = book.replies.pop(0) if book.replies else REFUSAL
            self.send_response(reply.status)
            self.send_header("content-type", reply.content_type)
            self.send_header("content-length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        book.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield book
        finally:
            server.shutdown()
            thread.join()


@asynccontextmanager
async def model_at(url: str, provider: str, name: str) -> AsyncGenerator[Model]:
    """A real model of pydantic-ai, whose provider is the server."""
    model = _model(url, provider, name)
    async with model:
        yield model


def _model(url: str, provider: str, name: str) -> Model:
    match provider:
        case "anthropic":
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            return AnthropicModel(name, provider=AnthropicProvider(api_key="x", base_url=url))
        case "google":
            from pydantic_ai.models.google import GoogleModel
            from pydantic_ai.providers.google import GoogleProvider

            return GoogleModel(name, provider=GoogleProvider(api_key="x", base_url=url))
        case "google-vertex":
            from pydantic_ai.models.google import GoogleModel
            from pydantic_ai.providers.google_cloud import GoogleCloudProvider

            return GoogleModel(name, provider=GoogleCloudProvider(api_key="x", base_url=url))
        case "groq":
            from pydantic_ai.models.groq import GroqModel
            from pydantic_ai.providers.groq import GroqProvider

            return GroqModel(name, provider=GroqProvider(api_key="x", base_url=url))
        case "bedrock":
            from pydantic_ai.models.bedrock import BedrockConverseModel
            from pydantic_ai.providers.bedrock import BedrockProvider

            bedrock = BedrockProvider(
                base_url=url,
                region_name="us-east-1",
                aws_access_key_id="x",
                aws_secret_access_key="x",
            )
            return BedrockConverseModel(name, provider=bedrock)
        case _:
            return _openai_like(url, provider, name)


def _openai_like(url: str, provider: str, name: str) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.models.openrouter import OpenRouterModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openrouter import OpenRouterProvider

    openai = OpenAIProvider(api_key="x", base_url=url)
    match provider:
        case "openai-responses":
            return OpenAIResponsesModel(name, provider=openai)
        case "openai-chat":
            return OpenAIChatModel(name, provider=openai)
        case "openrouter":
            from openai import AsyncOpenAI

            client = AsyncOpenAI(api_key="x", base_url=url)
            return OpenRouterModel(name, provider=OpenRouterProvider(openai_client=client))
        case _:
            raise ValueError(f"no model for {provider}")
