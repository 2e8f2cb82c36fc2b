"""Toolsets and tools of the provider in the sessions of a runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.runtime.host_runtime import call, host_tool, new_session, refusal, scripted, serving
from toolcrib import GlobalHooks, Hooks, Policy, Rule, Session, SqliteStore
from toolcrib.context import AgentContext
from toolcrib.errors import DuplicateTool, UsageError
from toolcrib.runtime.runtime import Runtime
from toolcrib.testing import ScriptedOpenAI, calls, says
from toolcrib.tools.web_search import web_search_tool
from toolcrib.toolsets import BaseTool, Toolset


class Greet(BaseTool):
    name = "greet"
    description = "Greet somebody."
    is_ready = True

    def is_available(self) -> bool:
        return self.is_ready

    def get_instruction(self, ctx: Any) -> str | None:
        return f"Greet kindly in {ctx.session_id}."

    async def call(self, ctx: Any, who: str) -> str:
        return f"hello {who}"


class Loud(Toolset):
    """A toolset with its own way of running a tool."""

    async def _call_tool_func(self, args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        return str(await super()._call_tool_func(args, ctx, tool)).upper()


async def names(runtime: Runtime, session_id: str) -> list[str]:
    listed = await runtime.list_tools(session_id)
    return [tool.name for tool in listed.tools]


class TestToolsets:
    async def test_a_toolset_is_served_with_its_hooks_and_its_way_of_running(self) -> None:
        """F10: runtime hooks run outside of the toolset's, which run outside of the tool's own."""
        order: list[str] = []

        def pre(name: str) -> Any:
            async def hook(ctx: Any, *args: Any) -> Any:
                order.append(name)
                return args[-1]

            return hook

        toolset = Loud(
            AgentContext(),
            [Greet],
            pre_hooks={"greet": pre("own pre")},
            post_hooks={"greet": pre("own post")},
            global_hooks=GlobalHooks(pre("toolset pre"), pre("toolset post")),
        )
        hooks = Hooks(global_pre=pre("runtime pre"), global_post=pre("runtime post"))
        async with serving(host_tool("add"), toolsets=[toolset], hooks=hooks) as runtime:
            session_id = await new_session(runtime)
            greeted = await call(runtime, session_id, "greet", who="ann")

            assert await names(runtime, session_id) == ["add", "greet"]
        assert greeted.value == "HELLO ANN"
        assert order == [
            "runtime pre",
            "toolset pre",
            "own pre",
            "own post",
            "toolset post",
            "runtime post",
        ]

    async def test_a_hook_of_a_toolset_guards_only_its_tools(self) -> None:
        """The tools of the registry are not the toolset's to refuse."""

        async def refuse(ctx: Any, name: str, arguments: dict[str, Any]) -> Any:
            raise PermissionError(name)

        toolset = Toolset(AgentContext(), [Greet], global_hooks=GlobalHooks(pre=refuse))
        async with serving(host_tool("add"), toolsets=[toolset]) as runtime:
            session_id = await new_session(runtime)
            added = await call(runtime, session_id, "add", a=1, b=2)
            refused = await call(runtime, session_id, "greet", who="ann")

        assert added.value == 3
        assert refused.status == "failed"

    async def test_what_the_context_asks_about_waits(self) -> None:
        """The approval list of the toolset's context holds in every session."""
        context = AgentContext()
        context.need_user_approve_tools = ["greet"]
        async with serving(toolsets=[Toolset(context, [Greet])]) as runtime:
            session_id = await new_session(runtime)
            waiting = await call(runtime, session_id, "greet", who="ann")

        assert waiting.status == "waiting"

    async def test_the_runtime_decides_about_the_tools_of_a_toolset(self) -> None:
        """A policy of the runtime denies; one of the toolset is refused, because it would not."""
        policy = Policy(rules=(Rule(effect="deny", tool="greet"),))
        async with serving(toolsets=[Toolset(AgentContext(), [Greet])], policy=policy) as runtime:
            denied = await call(runtime, await new_session(runtime), "greet", who="ann")

        assert denied.failure is not None
        assert denied.failure.kind == "not_permitted"
        with pytest.raises(UsageError, match="give RuntimeConfig the policy"):
            async with serving(toolsets=[Toolset(AgentContext(), [Greet], policy=policy)]):
                pass

    async def test_a_session_may_deny_a_tool_of_a_toolset(self) -> None:
        """`denied_tools` knows these names too."""
        async with serving(toolsets=[Toolset(AgentContext(), [Greet])]) as runtime:
            session_id = await new_session(runtime, denied_tools=["greet"])

            assert await names(runtime, session_id) == []

    async def test_two_tools_of_one_name_are_refused_at_the_start(self) -> None:
        """Which of them runs must not depend on an order."""
        toolset = Toolset(AgentContext(), [Greet])
        with pytest.raises(DuplicateTool, match="greet"):
            async with serving(toolsets=[toolset, Toolset(AgentContext(), [Greet])]):
                pass

    @pytest.mark.parametrize("by", ["toolset", "registry"])
    async def test_a_tool_comes_and_goes(self, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """F9: `is_available` is asked whenever tools are listed and before each call."""
        tool = Greet()
        config: dict[str, Any] = {"toolsets": [Toolset(AgentContext(), [tool])]}
        async with serving(**(config if by == "toolset" else {})) as runtime:
            if by == "registry":
                runtime.registry.add(tool)
            session_id = await new_session(runtime)
            before = await names(runtime, session_id)
            monkeypatch.setattr(Greet, "is_ready", False)
            listed = await runtime.list_tools(session_id)
            refused = await call(runtime, session_id, "greet", who="ann")
            monkeypatch.setattr(Greet, "is_ready", True)
            after = await names(runtime, session_id)

        assert before == after == ["greet"]
        assert listed.tools == []
        assert "greet" in listed.unavailable
        assert refused.failure is not None
        assert refused.failure.kind == "not_found"


class TestInstructions:
    @pytest.mark.parametrize("by", ["toolset", "registry"])
    async def test_a_tool_instructs_the_model(self, by: str) -> None:
        """F9: `get_instruction` is asked for every prompt, and follows the host's instructions."""
        script = ScriptedOpenAI([says("hi")])
        config: dict[str, Any] = {"adapter": scripted(script), "instructions": "Be brief."}
        if by == "toolset":
            config["toolsets"] = [Toolset(AgentContext(), [Greet])]
        async with serving(**config) as runtime:
            if by == "registry":
                runtime.registry.add(Greet())
            await runtime.send_prompt(await new_session(runtime, session_id="desk"), "hi")

        assert script.requests[0]["instructions"] == "Be brief.\n\nGreet kindly in desk."

    async def test_a_tool_that_cannot_instruct_stops_the_prompt(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What it says may keep the model from harm, so nothing is sent without it."""

        def fail(self: Greet, ctx: Any) -> str:
            raise RuntimeError("no manual")

        monkeypatch.setattr(Greet, "get_instruction", fail)
        script = ScriptedOpenAI([says("hi")])
        async with serving(
            adapter=scripted(script), toolsets=[Toolset(AgentContext(), [Greet])]
        ) as runtime:
            params = {"session_id": await new_session(runtime), "text": "hi"}
            refused = await refusal(runtime, "prompt.send", params)

        assert "no manual" in refused.message
        assert script.requests == []

    async def test_a_prompt_is_resumed_with_the_instructions_it_began_with(
        self, tmp_path: Path
    ) -> None:
        """A host that says something else since then can still go on with what waits."""
        script = ScriptedOpenAI([calls("add", {"a": 1, "b": 2})], [says("3")])
        store = SqliteStore(tmp_path / "s.db")
        config: dict[str, Any] = {"adapter": scripted(script), "store": store}
        tool = host_tool("add", requires_approval=True)
        async with serving(tool, **config, instructions="Old.") as runtime:
            session_id = await new_session(runtime)
            sent = await runtime.send_prompt(session_id, "1+2?", waits=False)
            await runtime.decide(sent.pending[0], "approve")
        async with serving(tool, **config, instructions="New.") as runtime:
            await runtime.resume_session(session_id)
            answered = await runtime.resume_prompt(session_id)
        store.close()

        assert answered.text == "3"
        assert [request["instructions"] for request in script.requests] == ["Old.", "Old."]

    async def test_a_prompt_whose_instructions_were_not_kept_gets_those_of_now(
        self, tmp_path: Path
    ) -> None:
        """A session of an older version is resumed with instructions, not without any."""
        script = ScriptedOpenAI([calls("add", {"a": 1, "b": 2})], [says("3")])
        store = SqliteStore(tmp_path / "s.db")
        config: dict[str, Any] = {"adapter": scripted(script), "store": store}
        config["instructions"] = "Be brief."
        opened: list[Session] = []
        tool = host_tool("add", requires_approval=True)
        async with serving(tool, **config, on_session=opened.append) as runtime:
            session_id = await new_session(runtime)
            sent = await runtime.send_prompt(session_id, "1+2?", waits=False)
            opened[0].set_host_setting("prompt_instructions", None)
            await runtime.decide(sent.pending[0], "approve")
            answered = await runtime.resume_prompt(session_id)
        store.close()

        assert answered.text == "3"
        assert [each["instructions"] for each in script.requests] == ["Be brief.", "Be brief."]


class TestHostedTools:
    async def test_a_prompt_offers_the_tools_of_the_provider(self) -> None:
        """F10, finding 3: what is served can search the web as a prompt in Python can."""
        script = ScriptedOpenAI([says("hi")])
        config: dict[str, Any] = {"adapter": scripted(script), "hosted_tools": [web_search_tool()]}
        async with serving(host_tool("add"), **config) as runtime:
            session_id = await new_session(runtime)
            await runtime.send_prompt(session_id, "look it up")
            listed = await runtime.list_tools(session_id)

        assert {tool["type"] for tool in script.requests[0]["tools"]} == {"function", "web_search"}
        assert [(tool.name, tool.place) for tool in listed.tools] == [
            ("add", "local"),
            ("web_search", "provider"),
        ]

    async def test_nobody_calls_them_here(self) -> None:
        """A call says where the tool runs."""
        async with serving(hosted_tools=[web_search_tool()]) as runtime:
            params = {"session_id": await new_session(runtime), "name": "web_search"}
            refused = await refusal(runtime, "tools.call", params)

        assert refused.kind == "invalid"
        assert "provider" in refused.message

    @pytest.mark.parametrize("how", ["policy", "session"])
    async def test_they_are_withheld_where_they_are_not_allowed(self, how: str) -> None:
        """A denial by the policy, or by the session that was made without them."""
        script = ScriptedOpenAI([says("hi")])
        config: dict[str, Any] = {"adapter": scripted(script), "hosted_tools": [web_search_tool()]}
        if how == "policy":
            config["policy"] = Policy(rules=(Rule(effect="deny", tool="web_search"),))
        denied = ["web_search"] if how == "session" else []
        async with serving(**config) as runtime:
            session_id = await new_session(runtime, denied_tools=denied)
            await runtime.send_prompt(session_id, "look it up")

        assert not script.requests[0].get("tools")

    async def test_a_tool_with_a_handler_is_no_hosted_tool(self) -> None:
        """The registry is where it belongs, and the error says so."""
        with pytest.raises(UsageError, match="host tool registry"):
            async with serving(hosted_tools=[host_tool("add")]):
                pass
