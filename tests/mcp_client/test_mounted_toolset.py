"""A mounted MCP server among the tools of a toolset."""

from __future__ import annotations

from tests.mcp_client.mounted_servers import mounted, stdio
from tests.toolsets.agent_bridge.agents import Greet, agent_of, call, deferred, invocations, told
from toolcrib.context import AgentContext
from toolcrib.toolsets import Toolset


async def test_its_tools_are_governed_like_the_others() -> None:
    """F2: a tool of the server runs in an agent, in the ledger of the user, after the user's gate;
    when the server is gone, so is the tool.
    """
    async with mounted(stdio()) as mount:
        toolset = Toolset(tools=[Greet, mount.server])
        agent = agent_of(toolset, steps=[[call("peer_add", a=1, b=2)]])
        ann, bob = AgentContext(), AgentContext(need_user_approve_tools=["peer_add"])

        result = await agent.run("go", deps=ann)
        assert told(result)[0] == "success"
        (invoked,) = invocations(ann.session)
        assert invoked.tool is not None
        assert invoked.tool.id == "mcp:peer/peer_add"

        waiting = await agent.run("go", deps=bob)
        assert len(deferred(waiting).approvals) == 1
        assert invocations(bob.session) == []
        assert "peer_add" in await toolset.get_tools()

        mount.server._connection = None  # pyright: ignore[reportPrivateUsage]
        assert list(await toolset.get_tools()) == ["greet"]
