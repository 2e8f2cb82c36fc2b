"""What holds for every tool that a provider runs, wherever it is declared: the layers it lies in,
how it is made, how it is sent, and what is written down of its limits.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import toolcrib
from tests.adapters.openai.loopback_adapter import ask, bench, happened
from tests.adapters.openai.scripted_provider import Json, message, response
from toolcrib import HostedTool, NativeTool, Session, Tool, ToolInvoked
from toolcrib.adapters.openai.adapter import default_codecs
from toolcrib.tools.code_interpreter import CodeInterpreterResult, code_interpreter_tool
from toolcrib.tools.file_search import FileSearchConfig, FileSearchResult, file_search_tool
from toolcrib.tools.image_generation import ImageGenerationResult, image_generation_tool
from toolcrib.tools.mcp import McpConfig, McpResult, mcp_tool
from toolcrib.tools.program import ProgramResult, program_tool
from toolcrib.tools.shell import ShellResult, container_shell_tool
from toolcrib.tools.tool_search import ToolSearchResult, tool_search_tool
from toolcrib.tools.web_search import (
    WebSearchResult,
    web_search_tool,
)

PACKAGE = Path(toolcrib.__file__).parent
DOCS = Path(__file__).parents[1] / "docs"

CORE = (
    "approval",
    "calls",
    "ledger",
    "prompt",
    "session",
    "store",
    "toolkits",
    "tools",
    "toolsets",
    "vfs",
)
"""The packages that know nothing of any provider."""
REEXPORT = "tools/__init__.py imports toolcrib.adapters.openai.code_interpreter_tool"
"""The one documented name that lives with its provider and is looked for among the tools."""
WIRE_WORDS = frozenset(
    {
        "allowed_tools",
        "approximate",
        "code_interpreter_call",
        "container_file_citation",
        "custom_tool_call",
        "custom_tool_call_output",
        "external_web_access",
        "file_search_call",
        "function_call",
        "function_call_output",
        "input_file",
        "input_image",
        "input_text",
        "mcp_approval_request",
        "mcp_call",
        "output_text",
        "previous_response_id",
        "url_citation",
        "user_location",
        "web_search_call",
    }
)

HOSTED = {
    "code_interpreter": (code_interpreter_tool(), CodeInterpreterResult),
    "file_search": (file_search_tool(FileSearchConfig(("vs_1",))), FileSearchResult),
    "image_generation": (image_generation_tool(), ImageGenerationResult),
    "mcp": (
        mcp_tool(McpConfig(server_label="docs", server_url="https://docs.example.org")),
        McpResult,
    ),
    "program": (program_tool(), ProgramResult),
    "shell": (container_shell_tool(), ShellResult),
    "tool_search": (tool_search_tool(), ToolSearchResult),
    "web_search": (web_search_tool(), WebSearchResult),
}
"""Every kind that OpenAI has, as its factory makes it, with the type of its output."""


def core_modules(*packages: str) -> Iterator[tuple[Path, ast.Module]]:
    """The modules of these packages, or of the whole core, as syntax trees."""
    for package in packages or CORE:
        for path in sorted((PACKAGE / package).rglob("*.py")):
            yield path, ast.parse(path.read_text("utf-8"))


def imported(tree: ast.Module) -> set[str]:
    """Every module that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


class TestLayers:
    def test_the_core_imports_no_adapter_and_no_sdk(self) -> None:
        """H1, N4: what a provider needs is in its adapter; the arrow points one way only."""
        outside = ("toolcrib.adapters", "openai", "anthropic", "google.genai", "groq", "xai_sdk")
        found = {
            f"{path.relative_to(PACKAGE)} imports {name}"
            for path, tree in core_modules()
            for name in imported(tree)
            if name.startswith(outside)
        }

        assert found == {REEXPORT}

    def test_the_core_speaks_no_wire(self) -> None:
        """H1, H8, H13: options, outputs, sections and records are in nobody's words."""
        found = {
            f"{path.relative_to(PACKAGE)}:{node.lineno}: {node.value!r}"
            for path, tree in core_modules()
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and node.value in WIRE_WORDS
        }

        assert found == set()

    def test_the_neutral_adapters_speak_no_wire(self) -> None:
        """H1: the loop, declarations, hosted calls and history match on item types; the words of
        the Responses API are in the provider's folder.
        """
        neutral = sorted((PACKAGE / "adapters").glob("*.py"))
        found = {
            f"{path.name}:{node.lineno}: {node.value!r}"
            for path in neutral
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Constant)
            and node.value in WIRE_WORDS | {"container_id", "function", "server_url", "strict"}
        }

        assert len(neutral) > 10
        assert found == set()

    def test_the_wire_is_where_it_is_looked_for(self) -> None:
        """H1: the rule above would hold for words that nobody uses."""
        adapters = "".join(path.read_text("utf-8") for path in (PACKAGE / "adapters").rglob("*.py"))

        assert {word for word in WIRE_WORDS if f'"{word}' in adapters} == WIRE_WORDS

    @pytest.mark.parametrize("kind", HOSTED)
    def test_options_and_outputs_live_with_the_neutral_tools(self, kind: str) -> None:
        """H13: whichever provider runs it, a kind has one config and one output, in `tools`."""
        tool, output = HOSTED[kind]

        assert tool.kind == kind
        assert type(tool.config).__module__.startswith(f"toolcrib.tools.{kind}")
        assert output.__module__.startswith(f"toolcrib.tools.{kind}")

    def test_every_kind_of_the_adapter_is_among_them(self) -> None:
        """H13, H31: a codec for a kind without a neutral config would be a kind of its own."""
        assert set(HOSTED) == set(default_codecs())


@pytest.mark.parametrize("kind", HOSTED)
def test_no_hosted_tool_is_sent_as_a_function(kind: str) -> None:
    """H12: an entry of its own type, without name, parameters and handler."""
    tool, _ = HOSTED[kind]
    with bench(response(message("Fine."))) as (adapter, provider):
        adapter.evaluate(ask(hosted=[tool]))

    (entry,) = provider.bodies[0]["tools"]
    assert entry["type"] == {"program": "programmatic_tool_calling"}.get(kind, kind)
    assert entry.keys().isdisjoint({"name", "description", "parameters"})


@pytest.mark.parametrize(
    "limit",
    [
        "depends on the provider and the model",
        "rate limits of their own",
        "parsed as far as the provider reports them",
        "in a stream, citations arrive late",
        "no silent fallback",
    ],
)
def test_the_limits_are_written_down(limit: str) -> None:
    """H46: whoever reads about hosted tools learns what they cannot do."""
    page = " ".join((DOCS / "tools.md").read_text("utf-8").split())

    assert limit in page


class TestTheToolLayer:
    """N5: declaring a tool reaches for nothing; whoever sends requests has line and key."""

    NETWORK = (
        "aiohttp",
        "anyio",
        "ftplib",
        "http",
        "httpx",
        "httpx2",
        "openai",
        "requests",
        "smtplib",
        "socket",
        "ssl",
        "urllib.request",
        "urllib3",
        "websockets",
    )

    def test_it_does_no_networking(self) -> None:
        """N5: no module of `tools` imports anything that could open a connection."""
        found = {
            f"{path.relative_to(PACKAGE)} imports {name}"
            for path, tree in core_modules("tools")
            for name in imported(tree)
            if name in self.NETWORK or name.startswith(tuple(f"{each}." for each in self.NETWORK))
        }

        assert found == set()

    def test_it_looks_for_no_credentials(self) -> None:
        """N5: no module of `tools` reads the environment, where keys lie."""
        found = {
            f"{path.relative_to(PACKAGE)}:{node.lineno}"
            for path, tree in core_modules("tools")
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "environb")
        }

        assert found == set()

    def test_the_providers_own_payload_is_given_on(self) -> None:
        """N5: nothing is dressed up: what the provider sent of a call is there, as it came."""
        item: Json = {"type": "web_search_call", "id": "ws_1", "status": "completed", "new": [1]}
        session = Session()
        with bench(response(item, message("Fine."))) as (adapter, _):
            found = adapter.evaluate(ask(hosted=[web_search_tool()]), session=session)

        assert found.invocations[0][1].raw == item
        assert [event.raw for event in happened(session, ToolInvoked)] == [item]


@pytest.mark.parametrize("kind", HOSTED)
def test_a_new_capability_is_a_function_and_not_a_class(kind: str) -> None:
    """N31: every kind is made by a helper from the same class, and all that is its own is in its
    config; the marker below that class has no fields at all.
    """
    tool, _ = HOSTED[kind]

    assert type(tool) is HostedTool
    assert type(tool.config).__module__.startswith(f"toolcrib.tools.{kind}")
    assert [each.name for each in fields(NativeTool)] == [each.name for each in fields(Tool)]
