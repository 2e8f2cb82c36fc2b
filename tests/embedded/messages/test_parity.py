"""Our own adapter has hosted tools run by this provider, as it has them run by Anthropic."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from tests.adapters.openai.loopback_adapter import ask
from tests.embedded.messages.anthropic_provider import calls, site
from tests.embedded.scripted_provider import Puppet
from tests.mcp_client.mounted_servers import web_peer
from toolcrib import Session
from toolcrib.adapters.pydantic_ai import PydanticAIAdapter
from toolcrib.embedded import BackendCallResult, EmbeddedProvider
from toolcrib.tools.code_interpreter import code_interpreter_tool
from toolcrib.tools.mcp import McpConfig, mcp_tool
from toolcrib.tools.web_fetch import web_fetch_tool
from toolcrib.tools.web_search import web_search_tool

pytestmark = pytest.mark.wire

HOURS = "https://shop.example/hours.html"
NAME = "claude-opus-5"


class Claude(Puppet):
    """A backend with the name of a model that the adapter knows."""

    name = NAME


@asynccontextmanager
async def shop(folder: Path) -> AsyncGenerator[tuple[PydanticAIAdapter, Claude, list[Any]]]:
    """A provider with a web and a real MCP server: an adapter before it, and a prompt's tools."""
    steps = (
        ("web_search", {"query": "open until nine"}),
        ("web_fetch", {"url": HOURS}),
        ("bash_code_execution", {"command": "printf 42; printf x > a.txt"}),
        ("desk__add", {"a": 20, "b": 22}),
    )
    backend = Claude(calls(*steps, then="Open until nine [S1]."))
    async with (
        web_peer() as peer,
        EmbeddedProvider(backend, web=[site(folder)], allow_egress=["127.0.0.1"]) as provider,
    ):
        client = AnthropicProvider(anthropic_client=provider.anthropic_client())
        adapter = PydanticAIAdapter(AnthropicModel(NAME, provider=client))
        server = McpConfig(
            server_label="desk",
            server_url=f"http://127.0.0.1:{peer.port}/mcp",
            allowed_tools=("add",),
            require_approval="never",
        )
        hosted = [web_search_tool(), web_fetch_tool(), code_interpreter_tool(), mcp_tool(server)]
        yield adapter, backend, hosted
        await adapter.aclose()


@pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])
async def test_the_adapter_has_every_hosted_tool_run_here(stream: bool, tmp_path: Path) -> None:
    """Each tool's output comes back typed, with the citation of the answer."""
    async with shop(tmp_path) as (adapter, backend, hosted):
        prompt, session = ask(text="when?", hosted=hosted), Session()
        found = await adapter.evaluate_async(prompt, session=session, stream=stream)
    outputs: Any = found.hosted_outputs
    assert outputs["web_search"].source_urls[0] == HOURS
    assert outputs["web_fetch"].pages[0].url == HOURS
    assert outputs["code_interpreter"].stdout == "42"
    assert outputs["desk"].calls[0].output == "42"
    assert found.text == "Open until nine."
    citations: Any = found.citations
    assert [citation.url for citation in citations] == [HOURS]
    done = [turn for turn in backend.requests[-1].history if isinstance(turn, BackendCallResult)]
    assert len(done) == 4
    assert session.verify() is not None
