"""One agent for many users: the context in the deps of a run is the context of its calls."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolResults, FunctionToolset, Tool
from pydantic_ai.exceptions import UserError

from tests.toolsets.agent_bridge.agents import (
    Shell,
    agent_of,
    call,
    commands_run,
    deferred,
    endings,
    scripted,
)
from toolcrib import tool
from toolcrib.context import AgentContext
from toolcrib.errors import UsageError
from toolcrib.toolsets import Toolset


def context_in(folder: Path, *listed: str) -> AgentContext:
    folder.mkdir()
    return AgentContext(cwd=str(folder), need_user_approve_tools=listed)


class TestApprovalList:
    async def test_the_list_of_the_deps_is_honoured(self, tmp_path: Path) -> None:
        """F1: a toolset without a list, a run whose user wants to be asked: the user is asked."""
        host, user = AgentContext(cwd=str(tmp_path)), context_in(tmp_path / "user", "shell")
        agent = agent_of(Toolset(host, [Shell]), steps=[[call("shell", command="ls")]])

        result = await agent.run("go", deps=user)
        assert [part.tool_name for part in deferred(result).approvals] == ["shell"]
        assert commands_run(tmp_path / "user") == []

        answers = DeferredToolResults(approvals={"c1": True})
        await agent.run(
            message_history=result.all_messages(), deferred_tool_results=answers, deps=user
        )
        assert commands_run(tmp_path / "user") == ["ls"]

    async def test_calls_are_in_the_ledger_of_the_user(self, tmp_path: Path) -> None:
        """F1: two users of one agent have a ledger each; the toolset's own stays empty."""
        host = AgentContext(cwd=str(tmp_path))
        ann, bob = context_in(tmp_path / "ann"), context_in(tmp_path / "bob")
        agent = agent_of(Toolset(host, [Shell]), steps=[[call("shell", command="ls")]])

        await agent.run("go", deps=ann)
        await agent.run("go", deps=bob)

        assert endings(ann.session) == endings(bob.session) == [("c1", None)]
        assert endings(host.session) == []

    async def test_the_list_of_the_toolset_stays_in_force(self, tmp_path: Path) -> None:
        """The deps add to what the host wants to be asked about and remove nothing."""
        host, user = context_in(tmp_path / "host", "shell"), context_in(tmp_path / "user")
        agent = agent_of(Toolset(host, [Shell]), steps=[[call("shell", command="ls")]])

        result = await agent.run("go", deps=user)

        assert len(deferred(result).approvals) == 1
        assert commands_run(tmp_path / "user") == []

    async def test_a_list_in_deps_of_any_class_is_honoured(self, tmp_path: Path) -> None:
        """An application's own deps may carry the list, too."""

        @dataclass
        class Deps:
            session: Any
            need_user_approve_tools: list[str] = field(default_factory=lambda: ["shell"])

        host = AgentContext(cwd=str(tmp_path))
        agent = agent_of(Toolset(host, [Shell]), steps=[[call("shell", command="ls")]])

        result = await agent.run("go", deps=Deps(host.session))

        assert len(deferred(result).approvals) == 1
        assert commands_run(tmp_path) == []

    async def test_a_misspelt_name_in_the_deps_is_refused(self, tmp_path: Path) -> None:
        """A user who wants to be asked about "shel" gets an error and not an ungated shell."""
        host, user = AgentContext(cwd=str(tmp_path)), context_in(tmp_path / "user", "shel")
        agent = agent_of(Toolset(host, [Shell]), steps=[[call("shell", command="ls")]])

        with pytest.raises(UsageError, match="did you mean 'shell'"):
            await agent.run("go", deps=user)

        assert commands_run(tmp_path / "user") == []


class TestPlainFunctions:
    def test_a_plain_agent_does_not_take_a_tool_that_requires_approval(self) -> None:
        """F2: no way of handing it over as a function gets it past the gate."""

        @tool(requires_approval=True)
        async def wipe(path: str) -> str:
            """Wipe a disk."""
            return f"wiped {path}"

        for take in (
            lambda: Agent(scripted(), tools=[wipe]),
            lambda: FunctionToolset([wipe]),
            lambda: Tool(wipe),
            lambda: Agent(scripted()).tool_plain(wipe),
        ):
            with pytest.raises(UserError, match=r"'wipe' requires approval.*Toolset\(AgentContext"):
                take()

    async def test_a_toolset_asks_before_it_runs(self) -> None:
        """F2: the way that the refusal names works and is gated."""
        ran: list[str] = []

        @tool(requires_approval=True)
        async def wipe(path: str) -> str:
            """Wipe a disk."""
            ran.append(path)
            return f"wiped {path}"

        toolset = Toolset(AgentContext(), [wipe])
        agent = agent_of(toolset, steps=[[call("wipe", path="/")]])
        result = await agent.run("go")
        assert len(deferred(result).approvals) == 1
        assert ran == []

        answers = DeferredToolResults(approvals={"c1": True})
        await agent.run(message_history=result.all_messages(), deferred_tool_results=answers)
        assert ran == ["/"]

    async def test_a_tool_without_a_gate_stays_a_function(self) -> None:
        """What requires no approval goes on working wherever a function does."""

        @tool
        def shout(text: str) -> str:
            """Shout."""
            return text.upper()

        assert list(inspect.signature(shout).parameters) == ["text"]
        agent = Agent(scripted([call("shout", text="a")]), tools=[shout])
        result = await agent.run("go")
        assert "A" in str(result.all_messages())
