"""A grant for a tool of a server is bound to the server: what is started or called, and how."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_client.mounted_servers import HERE, raw, terms
from tests.runtime.host_runtime import call, new_session, serving
from toolcrib import Policy
from toolcrib.approval import Rule
from toolcrib.mcp_client import HttpServerConfig, McpServerConfig, StdioServerConfig
from toolcrib.mcp_client.config import server_identity
from toolcrib.mcp_client.results import RemoteHandler
from toolcrib.runtime.runtime import Runtime
from toolcrib.tools.identity import changes_between
from toolcrib.tools.prepared_tool import PreparedTool, prepare
from toolcrib.tools.tool import Tool

ASK = Policy((Rule("ask", "*"),))


async def decide(runtime: Runtime, approval_id: str | None, **more: Any) -> None:
    decision = {"approval_id": approval_id, "decision": "approve", **more}
    await runtime.ask("approvals.decide", decision)


def another_program(server: StdioServerConfig, folder: Path) -> StdioServerConfig:
    shutil.copy(HERE / "raw_peer.py", folder / "other_peer.py")
    return replace(server, args=(str(folder / "other_peer.py"), *server.args[1:]))


def other_environment(server: StdioServerConfig, folder: Path) -> StdioServerConfig:
    return replace(server, env={"ACCOUNT": "another"})


def other_folder(server: StdioServerConfig, folder: Path) -> StdioServerConfig:
    return replace(server, cwd=str(folder))


def more_tools(server: StdioServerConfig, folder: Path) -> StdioServerConfig:
    return replace(server, terms=replace(server.terms, denied_tools=("other",)))


@pytest.mark.wire
@pytest.mark.parametrize(
    ("change", "line"),
    [
        (another_program, "server.args changed"),
        (other_environment, "server.env: not set -> 'ACCOUNT'"),
        (other_folder, "server.cwd: not set -> "),
        (more_tools, "server.terms.denied_tools: not set -> 'other'"),
    ],
)
async def test_a_grant_does_not_cover_another_program_under_the_same_name(
    change: Callable[[StdioServerConfig, Path], StdioServerConfig], line: str, tmp_path: Path
) -> None:
    """Found afterwards: a program that is mounted under the name of another is asked about, in
    the session that is open and in one that is new.
    """
    server = raw("read")
    async with serving(mcp_servers=[server], policy=ASK) as runtime:
        session = await new_session(runtime)
        waiting = await call(runtime, session, "raw_read")
        await decide(runtime, waiting.approval_id, grant={"scope": "everyone", "unlimited": True})
        assert (await call(runtime, session, "raw_read")).status == "completed"

        await runtime.service.remount_servers([change(server, tmp_path)])

        for session_id in (session, await new_session(runtime)):
            again = await call(runtime, session_id, "raw_read")
            assert again.status == "waiting"
            facts = await runtime.ask("approvals.get", {"approval_id": again.approval_id})
            assert any(each.startswith(line) for each in facts.changes)
            assert "another" not in repr(facts)


@pytest.mark.wire
async def test_an_approved_call_is_asked_about_when_its_server_is_another(tmp_path: Path) -> None:
    """The yes was for the program that was mounted then."""
    server = raw("read")
    async with serving(mcp_servers=[server], policy=ASK) as runtime:
        session = await new_session(runtime)
        waiting = await call(runtime, session, "raw_read")
        await decide(runtime, waiting.approval_id)
        await runtime.service.remount_servers([another_program(server, tmp_path)])

        taken_up = {"session_id": session, "name": "raw_read", "call_id": waiting.call_id}
        again = await runtime.ask("tools.call", taken_up)

        assert again.status == "waiting"
        assert again.approval_id != waiting.approval_id
        facts = await runtime.ask("approvals.get", {"approval_id": again.approval_id})
        assert facts.supersedes == waiting.approval_id
        assert facts.changes[0].startswith("server.args changed")


def prepared(
    config: McpServerConfig, environ: dict[str, str] | None = None, program: str = "peer 1.0"
) -> PreparedTool:
    identity = server_identity(config, environ, program)
    handler: Any = RemoteHandler(None, "read", "", identity)  # pyright: ignore[reportArgumentType]
    return prepare(
        Tool[Any, Any](
            name="web_read",
            description="Reads.",
            handler=handler,
            calling="input",
            json_schema={"type": "object"},
            source="mcp:web",
        )
    )


def web(url: str = "https://good.example/mcp", **headers: str) -> HttpServerConfig:
    return HttpServerConfig(name="web", terms=terms("web"), url=url, headers=headers)


@pytest.mark.parametrize(
    "other",
    [
        prepared(web("https://evil.example/mcp")),
        prepared(web("https://good.example/mcp?tenant=2")),
        prepared(web(Authorization="Bearer hunter2hunter2")),
        prepared(web(), program="peer 2.0"),
        prepared(web(), program="another 1.0"),
        prepared(replace(web(), terms=terms("web", timeout=1.0))),
    ],
)
def test_every_part_of_a_server_counts(other: PreparedTool) -> None:
    """The address, the headers, the terms, and what the server says it is."""
    assert other.ref.digest != prepared(web()).ref.digest
    assert "hunter2" not in repr(other.identity)


def test_the_value_of_a_variable_counts() -> None:
    """An address that is filled in from the environment is bound as it is called."""
    config = web("https://${HOST}/mcp", Authorization="Bearer ${TOKEN}")
    good = {"HOST": "good.example", "TOKEN": "hunter2hunter2"}
    first = prepared(config, good)

    evil = prepared(config, {**good, "HOST": "evil.example"})
    rotated = prepared(config, {**good, "TOKEN": "another-token"})

    assert prepared(config, good).ref == first.ref
    assert changes_between(first.identity.parts, evil.identity.parts) == (
        "server.url: https://good.example/mcp -> https://evil.example/mcp",
    )
    assert changes_between(first.identity.parts, rotated.identity.parts) == (
        "server.headers.Authorization changed, in the part that is not shown: set",
    )
    assert "hunter2" not in repr((first.identity, rotated.identity))
