"""No codec raises, whatever the items hold."""

from typing import Any

import pytest
from hypothesis import given, settings

from tests.adapters.openai.response_samples import mangled, only_objects
from tests.adapters.pydantic_ai.codecs.adapter_items import answer, call, header, image, message
from toolcrib.adapters.codec import Codec
from toolcrib.adapters.pydantic_ai.codecs.registry import default_codecs
from toolcrib.adapters.tool_declarations import undeclared
from toolcrib.tools.image_generation import image_generation_tool
from toolcrib.tools.mcp import McpConfig, mcp_tool

SERVER = mcp_tool(
    McpConfig(server_label="s", server_url="https://a.org/?key=0123456789", authorization="x" * 9)
)
NOTE = {"kind": "web", "url": "https://a.org", "start": 0, "end": 1}
RAW = {"type": "container_file_citation", "container_id": "c", "file_id": "f", "start_index": 0}
ITEMS = [
    header(container_id="c"),
    call("web_search", {"queries": ["a"], "url": "b"}, key="1"),
    answer("web_search", {"sources": [{"url": "a"}], "results": [{"uri": "b"}]}, key="1"),
    call("web_fetch", {"urls": ["a"]}, key="2"),
    answer("web_fetch", {"url": "a", "content": {"source": {"data": "d"}}}, key="2"),
    call("code_execution", {"code": "a", "container_id": "c"}, key="3"),
    image("aaaa", key="3"),
    answer(
        "code_execution", {"logs": ["a"], "outcome": "x", "content": [{"file_id": "f"}]}, key="3"
    ),
    call("file_search", {"query": "a"}, key="4"),
    answer("file_search", [{"text": "t", "custom_metadata": [{"key": "k"}]}], key="4"),
    call("mcp_server:s", {"action": "call_tool", "tool_name": "t", "tool_args": {}}, key="5"),
    answer(
        "mcp_server:s", {"content": [{"text": "t"}], "error": {"code": 1}, "tools": []}, key="5"
    ),
    call("tool_search", {"queries": ["a"]}, key="6"),
    answer("tool_search", {"discovered_tools": [{"name": "a"}]}, key="6", error_code="e"),
    call("image_generation", key="7"),
    answer("image_generation", {"status": "failed"}, key="7"),
    call("advisor", {"a": 1}, key="8"),
    answer("advisor", [1, "a"], key="8"),
    message("text", NOTE, NOTE | {"kind": "document"}, annotations=[RAW], citations=[RAW]),
]


@pytest.mark.parametrize("provider", ["anthropic", "google", "openai-responses", "openrouter"])
@settings(max_examples=30)
@given(items=mangled(ITEMS))
def test_nothing_that_a_provider_sends_is_too_odd(items: Any, provider: str) -> None:
    """H43: missing and wrong fields are read as far as they go; only calls become invocations."""
    told = only_objects(items)
    for kind, codec in default_codecs(provider).items():
        if not isinstance(codec, Codec):
            continue
        offered = {"mcp": SERVER, "image_generation": image_generation_tool()}
        for tool in (undeclared(kind), offered.get(kind, undeclared(kind))):
            for invocation in codec.invocations(told, tool):
                assert isinstance(invocation.message, str)
                assert invocation.success is (invocation.error is None)
            for item in told:
                codec.is_call(item, tool)
                codec.is_over(item, told)
                codec.invocation(item, told, tool)
            codec.parse_output(told, tool)
