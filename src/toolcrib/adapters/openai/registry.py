"""Which codec speaks for which kind of tool on OpenAI."""

from __future__ import annotations

from typing import Any

from toolcrib.adapters.client_calls import ClientCodec
from toolcrib.adapters.codec import HostedToolCodec
from toolcrib.adapters.openai.codecs.apply_patch import OpenAIApplyPatchCodec
from toolcrib.adapters.openai.codecs.code_interpreter import OpenAICodeInterpreterCodec
from toolcrib.adapters.openai.codecs.file_search import OpenAIFileSearchCodec
from toolcrib.adapters.openai.codecs.image_generation import OpenAIImageGenerationCodec
from toolcrib.adapters.openai.codecs.legacy_shell import OpenAILegacyShellCodec
from toolcrib.adapters.openai.codecs.local_shell import OpenAILocalShellCodec
from toolcrib.adapters.openai.codecs.local_tool_search import OpenAILocalToolSearchCodec
from toolcrib.adapters.openai.codecs.mcp import OpenAIMcpCodec
from toolcrib.adapters.openai.codecs.shell import OpenAIShellCodec
from toolcrib.adapters.openai.codecs.tool_search import OpenAIToolSearchCodec
from toolcrib.adapters.openai.codecs.web_search import OpenAIWebSearchCodec


def default_codecs() -> dict[str, HostedToolCodec[Any, Any]]:
    """A new mapping from kind to codec; the caller may add and replace."""
    return {
        "code_interpreter": OpenAICodeInterpreterCodec(),
        "file_search": OpenAIFileSearchCodec(),
        "image_generation": OpenAIImageGenerationCodec(),
        "mcp": OpenAIMcpCodec(),
        "shell": OpenAIShellCodec(),
        "tool_search": OpenAIToolSearchCodec(),
        "web_search": OpenAIWebSearchCodec(),
    }


def default_client_codecs() -> tuple[ClientCodec, ...]:
    """The codecs for tools that OpenAI defines and this process runs."""
    return (
        OpenAIApplyPatchCodec(),
        OpenAILegacyShellCodec(),
        OpenAILocalShellCodec(),
        OpenAILocalToolSearchCodec(),
    )
