"""The JavaScript of the page about front ends runs as it is printed."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from tests.adapters.openai.scripted_provider import call, message, response
from tests.helpers.patience import PATIENCE
from tests.node.peers import MODULES, command, environment, needs_node
from tests.transports.http.frontends.chat_host import ADA, chat_host

PAGE = Path(__file__).parents[4] / "docs" / "frontends.md"
SNIPPETS = re.findall(r"^```js\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_the_page_has_a_snippet_for_each_protocol() -> None:
    """The rule below would hold for a page without any."""
    assert len(SNIPPETS) == 2


@needs_node
@pytest.mark.parametrize("snippet", SNIPPETS)
async def test_a_snippet_asks_approves_and_prints_the_answer(snippet: str, tmp_path: Path) -> None:
    """A reader who pastes it into a file of a project with the packages sees the answer."""
    (tmp_path / "node_modules").symlink_to(MODULES)
    program = tmp_path / "page.mjs"
    program.write_text(snippet, "utf-8")
    guarded = response(call("guarded", {"name": "Bob"}))
    async with chat_host(guarded, response(message("Bob was greeted."))) as host:
        node = await asyncio.create_subprocess_exec(
            command("node"),
            "--preserve-symlinks",
            str(program),
            env=environment(TOOLCRIB_URL=host.url, TOOLCRIB_TOKEN=ADA),
            stdout=asyncio.subprocess.PIPE,
        )
        printed, _ = await asyncio.wait_for(node.communicate(), PATIENCE)

        assert host.tools.greeted == ["Bob"]
    assert (node.returncode, printed.decode()) == (0, "Bob was greeted.\n")
