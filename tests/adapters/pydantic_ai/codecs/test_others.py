"""File search, MCP servers, images, tool search, memory, and what nobody knows."""

from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.native_tools import MemoryTool

from tests.adapters.pydantic_ai.codecs.adapter_items import answer, call, image, message
from toolcrib.adapters.pydantic_ai.codecs.file_search import FileSearchCodec
from toolcrib.adapters.pydantic_ai.codecs.image_generation import ImageGenerationCodec
from toolcrib.adapters.pydantic_ai.codecs.mcp import McpCodec
from toolcrib.adapters.pydantic_ai.codecs.memory import MemoryCodec
from toolcrib.adapters.pydantic_ai.codecs.registry import default_codecs
from toolcrib.adapters.pydantic_ai.codecs.tool_search import ToolSearchCodec
from toolcrib.adapters.pydantic_ai.codecs.unknown import UnknownCallCodec
from toolcrib.adapters.tool_declarations import undeclared
from toolcrib.errors import UnsupportedOption
from toolcrib.toolkits.memory import memory_tool
from toolcrib.tools.file_search import (
    FileCitation,
    FileSearchConfig,
    FileSearchHit,
    FileSearchQuery,
    file_search_tool,
)
from toolcrib.tools.image_generation import ImageGenerationConfig, image_generation_tool
from toolcrib.tools.mcp import McpCall, McpCallResult, McpConfig, McpTool, ToolFilter, mcp_tool
from toolcrib.tools.tool_search import FoundTool, ToolSearchResult, tool_search_tool

FILES = file_search_tool(FileSearchConfig(("vs_1",)))
SECRET = "token-0123456789"
SERVER = mcp_tool(
    McpConfig(
        server_label="library",
        server_url="https://mcp.example.org/",
        authorization=SECRET,
        allowed_tools=ToolFilter(names=("find",)),
        require_approval="never",
    )
)
MCP = McpCodec("anthropic")


@pytest.mark.parametrize(
    ("content", "hit"),
    [
        (
            {
                "status": "completed",
                "results": [{"file_id": "f", "filename": "a.md", "text": "t", "score": 0.5}],
            },
            FileSearchHit("f", "a.md", "t", 0.5),
        ),
        (
            [
                {
                    "text": "t",
                    "title": "a.md",
                    "document_name": "docs/1",
                    "file_search_store": "stores/1",
                    "custom_metadata": [
                        {"key": "year", "numeric_value": 2026},
                        {"key": "team", "string_value": "blue"},
                        {"key": "list", "string_list_value": ["a"]},
                    ],
                }
            ],
            FileSearchHit("docs/1", "a.md", "t", None, {"year": 2026, "team": "blue"}, "stores/1"),
        ),
    ],
)
def test_passages_are_found_in_every_shape(content: Any, hit: FileSearchHit) -> None:
    """H30: OpenAI and Gemini each describe a passage in their own way."""
    codec = FileSearchCodec("google")
    items = [call("file_search", {"query": "q"}), answer("file_search", content)]

    found = codec.invocation(items[0], items, FILES)

    assert found.params == FileSearchQuery(("q",))
    assert found.value.results == (hit,)
    assert found.message == "a.md\nt"


def test_cited_documents_have_their_place() -> None:
    """H38: a passage counts as cited where it ends; what has no name is passed over."""
    note = {"kind": "document", "document_id": "d1", "title": "A"}
    raw = {"type": "file_citation", "file_id": "f1", "filename": "a.md", "index": 2}
    items = [
        call("file_search"),
        answer("file_search", []),
        message("One. ", note | {"start": 0, "end": 4}, {"kind": "document"}),
        message("Two.", {"kind": "file_citation", **raw}),
    ]

    result = FileSearchCodec("google").parse_output(items, FILES)

    assert result is not None
    assert result.text == "One. Two."
    assert result.citations == (
        FileCitation("d1", "A", 4, (0, 4)),
        FileCitation("f1", "a.md", 7),
    )


def test_a_failed_file_search_has_no_results() -> None:
    """N17: the failure is told, and what was asked is kept."""
    codec = FileSearchCodec("openai-responses")
    items = [call("file_search", {"queries": ["q"]}), answer("file_search", {"status": "failed"})]

    (found,) = codec.invocations(items, FILES)
    result = codec.parse_output(items, FILES)

    assert (found.success, found.error) == (False, "file_search failed: failed")
    assert (found.value.status, found.value.error) == ("failed", found.error)
    assert result is not None
    assert (result.results, result.queries) == ((), ("q",))


def mcp_call(content: Any, *, name: str = "mcp_server:library", **details: Any) -> Any:
    asked = {"action": "call_tool", "tool_name": "find", "tool_args": {"title": "Emma"}}
    items = [call(name, asked), answer(name, content, **details)]
    return MCP.invocation(items[0], items, SERVER)


@pytest.mark.parametrize(
    "content",
    [
        {"content": [{"type": "text", "text": "shelf 12", "citations": None}], "is_error": False},
        {"output": "shelf 12", "error": None},
        "shelf 12",
    ],
)
def test_a_remote_tool_answers_in_every_shape(content: Any) -> None:
    """H30: Anthropic, OpenAI and xAI each wrap what the server said."""
    found = mcp_call(content)

    assert found.params == McpCall("library", "find", {"title": "Emma"})
    assert found.success
    assert found.value == McpCallResult("find", "shelf 12", arguments={"title": "Emma"})


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (
            {"content": [{"type": "text", "text": "no book"}], "is_error": True},
            "mcp_call failed: no book",
        ),
        (
            {"output": None, "error": {"type": "http_error", "code": 503, "message": "down"}},
            "mcp_call failed: http_error 503: down",
        ),
        (
            {
                "output": None,
                "error": {
                    "type": "mcp_tool_execution_error",
                    "content": [{"type": "text", "text": "on loan"}],
                },
            },
            "mcp_call failed: mcp_tool_execution_error: on loan",
        ),
        ({"output": "", "error": "gone"}, "mcp_call failed: gone"),
    ],
)
def test_a_remote_failure_is_told(content: Any, error: str) -> None:
    """N17: whether the tool itself failed or was not reached."""
    found = mcp_call(content)

    assert (found.success, found.error) == (False, error)
    assert (found.value.status, found.value.error) == ("failed", error)


def test_a_server_is_called_by_its_label() -> None:
    """H30: several servers are told apart; a listing is no call, and no label is no loss."""
    listing = call("mcp_server:library", {"action": "list_tools"}, key="l")
    tools = {"tools": [{"name": "find", "description": "Find.", "input_schema": {"a": 1}}]}
    items = [
        listing,
        answer("mcp_server:library", {**tools, "error": None}, key="l"),
        call("mcp_server:library", {"action": "call_tool", "tool_name": "find"}, key="1"),
        answer("mcp_server:library", {"output": "a"}, key="1"),
        call("mcp_server:archive", {"action": "call_tool", "tool_name": "dig"}, key="2"),
        answer("mcp_server:archive", {"output": "b"}, key="2"),
        answer("mcp_server", {"content": [{"type": "text", "text": "c"}]}, key="3"),
    ]

    assert [each.item_id for each in MCP.invocations(items, SERVER)] == ["1", "3"]
    assert [each.item_id for each in MCP.invocations(items, undeclared("mcp"))] == ["1", "2", "3"]
    result = MCP.parse_output(items, SERVER)
    assert result is not None
    assert [each.output for each in result.calls] == ["a", "c"]
    assert result.tools == (McpTool("find", "Find.", {"a": 1}),)


def test_a_server_that_cannot_be_asked_is_an_error() -> None:
    """H44: no call was made, and the output says why."""
    items = [
        call("mcp_server:library", {"action": "list_tools"}),
        answer("mcp_server:library", {"tools": [], "error": "unreachable"}),
    ]

    result = MCP.parse_output(items, SERVER)

    assert result is not None
    assert (result.calls, result.error) == ((), "unreachable")
    assert MCP.parse_output([], SERVER) is None


def test_a_servers_credentials_are_hidden() -> None:
    """R45: a server that repeats its token does not get it written down."""
    found = mcp_call({"output": f"you said {SECRET}", "error": None})

    assert SECRET not in repr(found)
    assert "[secret]" in found.value.output
    assert MCP.serialize(SERVER) == {
        "type": "mcp_server",
        "id": "library",
        "url": "https://mcp.example.org/",
        "authorization_token": SECRET,
        "allowed_tools": ["find"],
    }


def test_a_connector_is_an_address_of_its_own() -> None:
    """H30: pydantic-ai knows OpenAI's connectors by a scheme."""
    config = McpConfig(
        server_label="mail", connector_id="connector_gmail", require_approval="never"
    )

    entry = McpCodec("openai-responses").serialize(mcp_tool(config))

    assert entry["url"] == "x-openai-connector:connector_gmail"


def test_an_image_is_found_by_its_call() -> None:
    """H30: the file under the call's id, with what the answer tells of it."""
    codec, tool = ImageGenerationCodec("openai-responses"), image_generation_tool()
    facts = {"status": "completed", "size": "1x1", "revised_prompt": "A square"}
    items = [
        call("image_generation", key="1"),
        image("a-_b", "image/webp", key="1"),
        answer("image_generation", facts, key="1"),
        call("image_generation", key="2"),
        answer("image_generation", {"status": "failed"}, key="2"),
        call("image_generation", key="3"),
        answer("image_generation", {"status": "generating"}, key="3"),
    ]

    made, failed, missing = codec.invocations(items, tool)

    assert (made.value.base64, made.value.format, made.value.size) == ("a+/b", "webp", "1x1")
    assert made.value.prompt == made.params.prompt == "A square"
    assert failed.error == "image_generation failed: failed"
    assert missing.error == "image_generation has no image: generating"
    result = codec.parse_output(items, tool)
    assert result is not None
    assert (len(result.images), len(result.errors)) == (1, 2)


def test_gemini_draws_without_a_call() -> None:
    """N24: each image is one invocation where the tool was offered, and only there."""
    tool = image_generation_tool()
    items = [message("Here:"), image("aaaa", "image/png"), image("bbbb", "image/None")]
    codec = ImageGenerationCodec("google")

    first, second = codec.invocations(items, tool)

    assert (first.value.format, second.value.format) == ("png", None)
    assert first.raw == items[1]
    assert codec.invocation(items[1], items, tool) == first
    assert codec.invocations(items, undeclared("image_generation")) == []
    assert ImageGenerationCodec("openai-responses").parse_output(items, tool) is None


def test_only_jpeg_is_compressed_on_vertex() -> None:
    """N14: two options that do not go together are refused before any request."""
    codec = ImageGenerationCodec("google-vertex")
    both = image_generation_tool(ImageGenerationConfig(output_format="png", output_compression=50))
    alone = image_generation_tool(ImageGenerationConfig(output_compression=50))

    assert codec.serialize(alone) == {"type": "image_generation", "output_compression": 50}
    with pytest.raises(UnsupportedOption, match=r"google-vertex.*output_compression.*jpeg"):
        codec.serialize(both)


def test_found_tools_are_named() -> None:
    """H30: pydantic-ai tells names only; a failed search tells its code."""
    codec, tool = ToolSearchCodec("anthropic"), tool_search_tool()
    found = {"discovered_tools": [{"name": "a"}, {"name": ""}, {"other": 1}]}
    items = [
        call("tool_search", {"queries": ["x"]}, key="1"),
        answer("tool_search", found, key="1"),
        call("tool_search", {"queries": ["("]}, key="2"),
        answer("tool_search", {}, key="2", error_code="invalid_pattern", error_message="bad"),
    ]

    first, second = codec.invocations(items, tool)

    assert (first.params, first.value) == ({"queries": ["x"]}, ToolSearchResult((FoundTool("a"),)))
    assert second.error == "tool_search failed: invalid_pattern: bad"
    assert codec.parse_output(items, tool) == ToolSearchResult(
        (FoundTool("a"),), error=second.error
    )
    assert codec.parse_output([], tool) is None


def test_calls_that_nobody_knows_are_told() -> None:
    """N24: every provider-run call is an invocation, under its own name and unread."""
    codec = default_codecs("anthropic")["native_tool"]
    assert isinstance(codec, UnknownCallCodec)
    tool = undeclared("native_tool")
    items = [
        call("advisor", key="1"),
        answer("advisor", {"type": "advisor_result", "text": "4"}, key="1"),
        call("web_search", key="2"),
        call("x_search", {"query": "x"}, key="3"),
        answer("x_search", None, key="3", status="failed", error="down"),
        answer("mcp_server:library", {}, key="4"),
    ]

    first, second = codec.invocations(items, tool)

    assert (first.kind, first.value, first.success) == ("advisor", items[1]["content"], True)
    assert first.message == '{"type": "advisor_result", "text": "4"}'
    assert (second.kind, second.params) == ("x_search", {"query": "x"})
    assert second.error == "x_search failed: failed: down"
    assert codec.parse_output(items, tool) == (first, second)
    assert codec.parse_output(items[2:3], tool) is None
    with pytest.raises(UnsupportedOption, match="declare the tool under its own kind"):
        codec.serialize(tool)


def test_memory_is_declared_twice_and_called_as_a_function(tmp_path: Path) -> None:
    """P3: pydantic-ai wants a function of that name, and gives its calls to us."""
    tool, codec = memory_tool(tmp_path), MemoryCodec("anthropic")
    arguments = '{"command": "view", "path": "/memories"}'
    item = {"type": "tool_call", "call_id": "c", "name": "memory", "arguments": arguments}

    asked = codec.call(item, tool.name)

    assert asked is not None
    assert asked.arguments == {"command": "view", "path": "/memories"}
    assert codec.call({**item, "name": "other"}, tool.name) is None
    assert codec.output_item(asked, "done", success=True) == {
        "type": "tool_return",
        "call_id": "c",
        "name": "memory",
        "output": "done",
    }
    assert codec.output_item(asked, "no", success=False, failure="denied")["failure"] == "denied"
    native, function = codec.contribute(tool).tools
    assert native == codec.serialize(tool) == {"type": "memory"}
    assert (function["type"], function["name"]) == ("function", "memory")
    assert "command" in function["parameters"]["properties"]


async def test_anthropic_is_sent_its_own_memory_tool(tmp_path: Path) -> None:
    """P3: of the two entries only the native one goes over the wire."""
    from pydantic_ai.exceptions import ModelHTTPError
    from pydantic_ai.messages import ModelRequest, UserPromptPart
    from pydantic_ai.tools import ToolDefinition

    from tests.adapters.pydantic_ai.codecs.loopback_server import loopback, model_at

    tool, codec = memory_tool(tmp_path), MemoryCodec("anthropic")
    _, entry = codec.contribute(tool).tools
    function = ToolDefinition(name=entry["name"], parameters_json_schema=entry["parameters"])
    parameters = ModelRequestParameters(function_tools=[function], native_tools=[MemoryTool()])
    with loopback() as server:
        async with model_at(server.url, "anthropic", "claude-sonnet-5") as model:
            with pytest.raises(ModelHTTPError):
                await model.request([ModelRequest([UserPromptPart("hi")])], None, parameters)

    assert server.asked[0]["tools"] == [{"name": "memory", "type": "memory_20250818"}]
