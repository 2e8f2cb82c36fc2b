"""Names that no tool has guard nothing: the runtime refuses them, or warns of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.host_runtime import Json, host_tool, new_session, refusal, serving
from toolcrib import Hooks, Policy, Rule
from toolcrib.errors import UsageError
from toolcrib.mcp_client.config import MountTerms, StdioServerConfig


async def same(context: object, arguments: Json) -> Json:
    return arguments


class TestSessionParams:
    @pytest.mark.parametrize("setting", ["denied_tools", "allowed_tools"])
    async def test_a_misspelt_name_is_refused(self, setting: str) -> None:
        """F14: a denial of "rsky" would have left "risky" in place; nothing is opened."""
        async with serving(host_tool("risky"), host_tool("add")) as runtime:
            refused = await refusal(runtime, "session.create", {setting: ["rsky"]})
            sessions = (await runtime.ask("session.list")).sessions

        assert refused.kind == "invalid"
        assert f"{setting} names 'rsky', which no tool has; did you mean 'risky'?" in str(refused)
        assert sessions == []

    async def test_names_are_globs_as_in_a_policy(self) -> None:
        """F14: "*" denies every tool, and "r*" those that begin with r."""
        async with serving(host_tool("risky"), host_tool("add")) as runtime:
            none = await new_session(runtime, denied_tools=["*"])
            some = await new_session(runtime, denied_tools=["r*"])
            names = [
                [tool.name for tool in (await runtime.ask("tools.list", {"session_id": one})).tools]
                for one in (none, some)
            ]

        assert names == [[], ["add"]]

    async def test_tools_of_the_client_are_known(self) -> None:
        """A client may name a tool that it brings itself."""
        tool: dict[str, Any] = {
            "name": "open_file",
            "description": "Open a file",
            "parameters": {"type": "object"},
        }
        async with serving(host_tool("add")) as runtime:
            session_id = await new_session(
                runtime, client_tools=[tool], allowed_tools=["open_file"]
            )

        assert session_id


class TestConfiguration:
    async def test_a_hook_for_an_unknown_tool_is_refused(self) -> None:
        """F14: the runtime does not start, as an executor with that hook would not."""
        with pytest.raises(UsageError, match=r"a hook names 'ad', .* did you mean 'add'\?"):
            async with serving(host_tool("add"), hooks=Hooks(pre={"ad": same})):
                pass

    @pytest.mark.parametrize("effect", ["deny", "ask", "allow"])
    async def test_a_rule_for_an_unknown_tool_is_refused(self, effect: Any) -> None:
        """The rule is named, so that it can be found in the file."""
        policy = Policy((Rule(effect, "riksy", id="no-risk"),))

        with pytest.raises(UsageError, match=r"rule .no-risk. names 'riksy', .* mean 'risky'"):
            async with serving(host_tool("risky"), policy=policy):
                pass

    async def test_rules_for_tools_that_a_host_cannot_list_are_taken(self) -> None:
        """Globs, tools of clients and tools of a kind come with a session or a prompt."""
        policy = Policy(
            (
                Rule("deny", "mcp_*"),
                Rule("ask", "open_file", place="client"),
                Rule("deny", "search", kind="web_search"),
                Rule("deny", "later"),
            )
        )
        async with serving(host_tool("add"), policy=policy, expected_tools=["later"]) as runtime:
            assert await new_session(runtime)

    async def test_names_are_warned_of_where_servers_may_bring_them(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        """With a server that is away its tools are unknown: the log says so, once."""
        away = StdioServerConfig(
            name="away", terms=MountTerms(prefix=""), command="no-such-program"
        )
        policy = Policy((Rule("deny", "ad", id="no-add"),))
        async with serving(host_tool("add"), policy=policy, mcp_servers=[away]) as runtime:
            await new_session(runtime)
            await new_session(runtime)

        warnings = [line for line in caplog.messages if "no-add" in line]
        assert warnings == [
            "rule \"no-add\" names 'ad', which no tool has yet; did you mean 'add'?"
        ]
