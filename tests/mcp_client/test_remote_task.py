"""Tools whose calls a mounted server runs as tasks."""

from __future__ import annotations

import asyncio

import pytest

from tests.helpers.patience import PATIENCE
from tests.mcp_client.mounted_servers import mounted, rich, terms
from tests.node.peers import MODULES, command, needs_node
from toolcrib.approval import CallbackResponder
from toolcrib.ledger.events import ToolProgress
from toolcrib.mcp_client import StdioServerConfig

pytestmark = pytest.mark.wire
EVERYTHING = MODULES / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"


async def test_a_task_of_the_extension_is_waited_for_and_answered() -> None:
    """A call that becomes a task has the result of the task; its question is one of the call."""
    async with mounted(rich()) as peer:
        peer.session.questions.responder = CallbackResponder(lambda _: {"colour": "red"})
        done = await asyncio.wait_for(peer.call("rich_build"), PATIENCE)

    assert done.text == "built in red"


async def test_cancelling_the_call_cancels_the_task() -> None:
    """The server must not go on with what nobody waits for."""
    async with mounted(rich()) as peer:
        call = asyncio.ensure_future(peer.call("rich_build", endless=True))
        async with asyncio.timeout(PATIENCE):
            while (await peer.call("rich_plain")).text != "task-1 was polled":
                pass
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        after = await peer.call("rich_plain")

    assert after.text == "task-1 was cancelled"


@needs_node
@pytest.mark.slow
async def test_a_tool_that_requires_a_task_runs_as_one() -> None:
    """The reference server's tool of the revision 2025-11-25, which asks in the middle; its status
    messages are progress.
    """
    config = StdioServerConfig(
        name="everything",
        terms=terms("everything"),
        command=command("node"),
        args=(str(EVERYTHING), "stdio"),
    )
    told: list[ToolProgress] = []
    async with mounted(config) as peer:
        peer.session.bus.subscribe(ToolProgress, told.append)
        peer.session.questions.responder = CallbackResponder(lambda _: {"interpretation": "snake"})
        name = "everything_simulate-research-query"
        done = await asyncio.wait_for(peer.call(name, topic="python", ambiguous=True), PATIENCE)

    assert "# Research Report: python (snake)" in done.text
    assert "Analyzing content..." in [each.message for each in told]
