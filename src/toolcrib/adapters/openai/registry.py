"""Which codec speaks for which kind of hosted tool on OpenAI."""

from __future__ import annotations

from typing import Any

from toolcrib.adapters.codec import HostedToolCodec
from toolcrib.adapters.openai.codecs.code_interpreter import OpenAICodeInterpreterCodec
from toolcrib.adapters.openai.codecs.file_search import OpenAIFileSearchCodec
from toolcrib.adapters.openai.codecs.web_search import OpenAIWebSearchCodec


def default_codecs() -> dict[str, HostedToolCodec[Any, Any]]:
    """A new mapping from kind to codec; the caller may add and replace."""
    return {
        "code_interpreter": OpenAICodeInterpreterCodec(),
        "file_search": OpenAIFileSearchCodec(),
        "web_search": OpenAIWebSearchCodec(),
    }
