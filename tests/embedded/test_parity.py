"""Our codecs read what this provider says as they read what OpenAI says, item for item."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import ask
from tests.adapters.openai.recordings import recorded
from tests.adapters.openai.response_samples import read_items
from tests.adapters.openai.test_replay import (
    UNKNOWN,
    marked_texts,
    replay,
    shown,
    told,
    unaccounted,
)
from tests.embedded.full_provider import Workshop, workshop
from toolcrib import PromptResponse, Session
from toolcrib.adapters.answer import answer_items
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.tools.code_interpreter import code_interpreter_tool
from toolcrib.tools.file_search import FileSearchConfig, file_search_tool
from toolcrib.tools.mcp import McpConfig, mcp_tool
from toolcrib.tools.shell import container_shell_tool
from toolcrib.tools.web_search import web_search_tool

pytestmark = pytest.mark.wire

HOSTED = {
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "shell_call",
    "mcp_call",
}


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Traffic of this provider with every hosted tool in it, in the form of the real recordings."""
    folder = tmp_path_factory.mktemp("traffic")

    async def record() -> tuple[Any, Any]:
        async with workshop(folder) as at:
            return await at.body(), await at.events()

    body, events = asyncio.run(record())
    found = {"blocking": {"response": body}, "streamed": {"events": events}}
    for name, interaction in found.items():
        (folder / f"{name}.json").write_text(json.dumps({"interactions": [interaction]}))
    return {name: folder / f"{name}.json" for name in found}


@pytest.mark.parametrize("is_offered", [True, False], ids=["offered", "unoffered"])
@pytest.mark.parametrize("form", ["blocking", "streamed"])
def test_every_item_is_accounted_for(
    recordings: dict[str, Path], form: str, is_offered: bool, tmp_path: Path
) -> None:
    """The same as the tests of recorded traffic ask of OpenAI's."""
    script = recorded(recordings[form])
    assert {item["type"] for item in script[0].items} >= HOSTED
    blocking = replay(recordings[form], tmp_path, stream=False, is_offered=is_offered)
    streamed = replay(recordings[form], tmp_path, stream=True, is_offered=is_offered)
    for replayed in (blocking, streamed):
        assert list(unaccounted(script, replayed)) == []
        assert {kind for each in replayed.responses for kind in each.skipped} <= UNKNOWN
        failed = [event.raw["type"] for event in replayed.provider_run if not event.success]
        assert failed == ["shell_call"], "one of its commands ends with status 3"
    assert list(map(shown, blocking.responses)) == list(map(shown, streamed.responses))
    assert list(map(told, blocking.invoked)) == list(map(told, streamed.invoked))


@pytest.mark.parametrize("form", ["blocking", "streamed"])
def test_every_citation_points_into_the_answer(
    recordings: dict[str, Path], form: str, tmp_path: Path
) -> None:
    """A span cuts out of the answer what the annotation marks."""
    replayed = replay(recordings[form], tmp_path, stream=form == "streamed", is_offered=True)
    [found], [answer] = replayed.responses, replayed.answers
    cut = [found.text[slice(*each.span)] if each.span else None for each in found.citations]
    assert cut == list(marked_texts([item.raw for item in answer_items(read_items(answer))]))
    assert "[Opening hours](https://shop.example/hours.html)" in cut


def everything(at: Workshop) -> list[Any]:
    """A prompt's tools, one of each kind that the provider runs."""
    server = McpConfig(
        server_label="desk",
        server_url=at.server_url,
        allowed_tools=("add",),
        require_approval="never",
    )
    return [
        web_search_tool(),
        file_search_tool(FileSearchConfig(vector_store_ids=(at.store_id,))),
        code_interpreter_tool(),
        container_shell_tool(),
        mcp_tool(server),
    ]


@pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])
async def test_the_adapter_has_every_hosted_tool_run_here(stream: bool, tmp_path: Path) -> None:
    """A prompt of ours, evaluated by this provider: each tool's output comes back typed."""
    async with workshop(tmp_path) as at:
        adapter = OpenAIAdapter(model="puppet", client=at.client)
        prompt, session = ask(text="when?", hosted=everything(at)), Session()
        found = await adapter.evaluate_async(prompt, session=session, stream=stream)
        await adapter.aclose()
    check_outputs(found)
    assert session.verify() is not None


def check_outputs(found: PromptResponse[Any]) -> None:
    outputs: Any = found.hosted_outputs
    assert outputs["web_search"].source_urls == ("https://shop.example/hours.html",)
    assert outputs["file_search"].results[0].filename == "returns.md"
    assert outputs["code_interpreter"].stdout == "42\n"
    assert [each.stdout for each in outputs["shell"].outputs] == ["42", ""]
    assert [each.exit_code for each in outputs["shell"].outputs] == [0, 3]
    assert outputs["desk"].calls[0].output == "42"
    assert found.text.startswith("Open until nine")
