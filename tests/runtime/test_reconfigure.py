"""A running runtime takes another configuration in one step, or none of it."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib import Hooks, Policy, Rule, RuntimeConfig, create_runtime, tool
from toolcrib.errors import UsageError
from toolcrib.host_tools import HostToolRegistry
from toolcrib.runtime.runtime import Runtime


@tool
def greet() -> str:
    """Greet."""
    return "hello"


def config(**changes: Any) -> RuntimeConfig:
    registry = HostToolRegistry()
    registry.add(greet)
    return RuntimeConfig(host_tool_registry=registry, **changes)


async def session_of(runtime: Runtime) -> str:
    return (await runtime.ask("session.create", {})).session_id


async def called(runtime: Runtime, session_id: str) -> Any:
    return await runtime.ask("tools.call", {"session_id": session_id, "name": "greet"})


ALLOWED = Policy(rules=(Rule("allow", "greet"),))
DENIED = Policy(rules=(Rule("deny", "greet"),))


async def test_a_policy_holds_in_open_sessions() -> None:
    """In both directions: a policy may come, change and go."""
    async with create_runtime(config()) as runtime:
        session = await session_of(runtime)
        assert (await called(runtime, session)).status == "completed"
        for policy, status in ((DENIED, "failed"), (ALLOWED, "completed"), (None, "completed")):
            runtime.reconfigure(config(policy=policy))
            assert (await called(runtime, session)).status == status
            assert (await called(runtime, await session_of(runtime))).status == status


async def test_a_policy_that_does_not_fit_changes_nothing() -> None:
    """A rule for a tool that is not there is refused, and the old policy goes on."""
    async with create_runtime(config(policy=DENIED)) as runtime:
        session = await session_of(runtime)
        with pytest.raises(UsageError, match="gret"):
            runtime.reconfigure(config(policy=Policy(rules=(Rule("allow", "gret"),))))
        assert runtime.config.policy is DENIED
        assert (await called(runtime, session)).status == "failed"


async def test_hooks_come_and_go_in_open_sessions() -> None:
    """They govern calls as the policy does."""

    async def mark(context: Any, name: str, value: Any) -> Any:
        return f"<{value}>"

    async with create_runtime(config()) as runtime:
        session = await session_of(runtime)
        runtime.reconfigure(config(hooks=Hooks(global_post=mark)))
        assert (await called(runtime, session)).text == "<hello>"
        runtime.reconfigure(config())
        assert (await called(runtime, session)).text == "hello"


async def test_what_cannot_change_stays() -> None:
    """The store, the registry and the limits of the runtime are those that it was made with."""
    async with create_runtime(config(max_sessions=7)) as runtime:
        store, registry = runtime.store, runtime.registry
        runtime.reconfigure(config(max_sessions=9, instructions="Be kind."))
        assert (runtime.config.max_sessions, runtime.config.instructions) == (7, "Be kind.")
        assert (runtime.store, runtime.registry) == (store, registry)
