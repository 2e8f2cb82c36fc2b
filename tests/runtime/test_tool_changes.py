"""A session that is opened again says which of its tools are gone or are not what they were."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.host_runtime import call, events, host_tool, new_session, serving
from toolcrib.errors import UsageError
from toolcrib.host_tools import HostToolDefinition
from toolcrib.runtime.config import RuntimeConfig
from toolcrib.tools.context import ToolContext


async def test_resuming_tells_which_tools_are_gone_or_changed() -> None:
    """R50, F15: one warning event with each tool as it was and as it is; the rest is not named."""
    first = [host_tool("add", version="1.0.0"), host_tool("sub"), host_tool("mul")]
    async with serving(*first) as runtime:
        session_id = await new_session(runtime)
        await runtime.ask("session.close", {"session_id": session_id})
        await runtime.registry.register_or_replace(host_tool("add", version="2.0.0"))
        await runtime.registry.unregister("sub")

        await runtime.ask("session.resume", {"session_id": session_id})
        (told,) = await events(runtime, session_id, "session.tools_changed")

        assert [ref["name"] for ref in told["data"]["gone"]] == ["sub"]
        (change,) = told["data"]["changed"]
        assert [change[side]["version"] for side in ("old", "new")] == ["1.0.0", "2.0.0"]

        await runtime.ask("session.close", {"session_id": session_id})
        await runtime.ask("session.resume", {"session_id": session_id})
        assert len(await events(runtime, session_id, "session.tools_changed")) == 1


async def test_resuming_with_the_same_tools_tells_nothing() -> None:
    """A tool that came in the meantime, or was made again, is no warning."""
    async with serving(host_tool("add")) as runtime:
        session_id = await new_session(runtime)
        await runtime.ask("session.close", {"session_id": session_id})
        await runtime.registry.register_or_replace(host_tool("add"))
        await runtime.registry.register(host_tool("sub"))

        await runtime.ask("session.resume", {"session_id": session_id})

        assert await events(runtime, session_id, "session.tools_changed") == []


def adding(number: int) -> HostToolDefinition:
    def handle(given: dict[str, Any], context: ToolContext) -> int:
        return number

    return HostToolDefinition(
        name="add",
        description="Add.",
        parameters={"type": "object"},
        handler=handle,
        version="1.0.0",
        requires_approval=True,
    )


@pytest.mark.parametrize(("bind_to", "status"), [("code", "waiting"), ("version", "completed")])
async def test_a_runtime_may_bind_decisions_to_the_version(bind_to: Any, status: str) -> None:
    """Other code of the same version is asked about again, unless the host deploys by version."""
    async with serving(adding(1), bind_to=bind_to) as runtime:
        session_id = await new_session(runtime)
        waiting = await call(runtime, session_id, "add")
        decision = {"approval_id": waiting.approval_id, "decision": "approve"}
        await runtime.ask("approvals.decide", decision)
        await runtime.registry.register_or_replace(adding(2))

        taken_up = {"session_id": session_id, "name": "add", "call_id": waiting.call_id}
        assert (await runtime.ask("tools.call", taken_up)).status == status


def test_a_misspelt_binding_is_an_error() -> None:
    """Anything but the two words would bind to nobody knows what."""
    wrong: Any = "versions"
    with pytest.raises(UsageError, match="bind_to must be 'code' or 'version'"):
        RuntimeConfig(bind_to=wrong)
