"""The default codecs of a provider that pydantic-ai reaches, by kind of tool."""

from __future__ import annotations

from typing import Any

from toolcrib.adapters.codec import HostedToolCodec
from toolcrib.adapters.pydantic_ai.codecs.code_interpreter import CodeInterpreterCodec
from toolcrib.adapters.pydantic_ai.codecs.file_search import FileSearchCodec
from toolcrib.adapters.pydantic_ai.codecs.image_generation import ImageGenerationCodec
from toolcrib.adapters.pydantic_ai.codecs.mcp import McpCodec
from toolcrib.adapters.pydantic_ai.codecs.memory import MemoryCodec
from toolcrib.adapters.pydantic_ai.codecs.native import NativeCodec, RefusedCodec
from toolcrib.adapters.pydantic_ai.codecs.tool_search import ToolSearchCodec
from toolcrib.adapters.pydantic_ai.codecs.unknown import UnknownCallCodec
from toolcrib.adapters.pydantic_ai.codecs.web_fetch import WebFetchCodec
from toolcrib.adapters.pydantic_ai.codecs.web_search import WebSearchCodec
from toolcrib.adapters.pydantic_ai.codecs.x_search import XSearchCodec
from toolcrib.adapters.tool_calls import ClientCodec


def default_codecs(
    provider: str, system: str | None = None
) -> dict[str, HostedToolCodec[Any, Any]]:
    """A new mapping from kind to codec; the caller may add and replace.

    `provider` is a column of the support matrix, `system` the model's own name for its provider.
    The last codec is for every native call that no other knows.
    """
    codecs: list[NativeCodec[Any, Any]] = [
        CodeInterpreterCodec(provider, system),
        FileSearchCodec(provider),
        ImageGenerationCodec(provider),
        McpCodec(provider),
        ToolSearchCodec(provider),
        WebFetchCodec(provider),
        WebSearchCodec(provider),
    ]
    kinds = ["shell", "program"]
    if provider == "xai":
        codecs.append(XSearchCodec(provider))
    else:
        kinds.append("x_search")
    unknown = UnknownCallCodec(provider, [codec.native for codec in codecs])
    refused = [RefusedCodec(provider, kind) for kind in kinds]
    return {codec.kind: codec for codec in (*codecs, *refused, unknown)}


def default_client_codecs(provider: str) -> tuple[ClientCodec, ...]:
    """The codecs for tools that a provider defines and this process runs."""
    return (MemoryCodec(provider),)
