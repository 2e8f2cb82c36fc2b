"""The editor's files and terminals as tools."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from acp import schema

from tests.transports.acp.connected_editor import connected, wired_desk
from tests.transports.acp.editor import ALL, Desk
from tests.transports.shop import NOTHING, greet, registry, shop
from toolcrib.host_tools import HostToolDefinition

IDE = {"ide_read_file", "ide_write_file", "ide_terminal"}


async def names(at: Desk, session_id: str) -> set[str]:
    return {each["name"] for each in (await at.ask("tools.list", session_id=session_id))["tools"]}


async def called(at: Desk, session_id: str, name: str, **arguments: Any) -> Any:
    return await at.ask("tools.call", session_id=session_id, name=name, arguments=arguments)


async def allowed(at: Desk, session_id: str, name: str, **arguments: Any) -> Any:
    """What a call comes to that the person allows."""
    waiting = await called(at, session_id, name, **arguments)
    assert waiting["status"] == "waiting"
    (await at.question()).choose("allow")
    while (await at.ask("approvals.list", session_id=session_id))["approvals"]:
        pass
    return await at.ask(
        "tools.call",
        session_id=session_id,
        name=name,
        arguments=arguments,
        call_id=waiting["call_id"],
    )


@pytest.mark.parametrize(
    ("fs", "terminal", "found"),
    [
        ((False, False), False, set[str]()),
        ((True, False), False, {"ide_read_file"}),
        ((False, True), False, {"ide_write_file"}),
        ((False, False), True, {"ide_terminal"}),
        ((True, True), True, IDE),
    ],
)
async def test_a_session_has_what_the_editor_advertises(
    fs: tuple[bool, bool], terminal: bool, found: set[str]
) -> None:
    """R41: omitted is unsupported, and the host's tools are there in any case."""
    files = schema.FileSystemCapabilities(read_text_file=fs[0], write_text_file=fs[1])
    can = schema.ClientCapabilities(fs=files, terminal=terminal)
    async with wired_desk(shop(), can) as at:
        have = await names(at, await at.open())

        assert have & IDE == found
        assert "greet" in have


async def test_a_file_is_read_as_the_editor_has_it() -> None:
    """Reading needs no approval."""
    async with wired_desk(shop(), ALL) as at:
        at.editor.files["/a.py"] = "a = 1"
        session_id = await at.open()

        told = await called(at, session_id, "ide_read_file", path="/a.py")

        assert told["value"] == "a = 1"


async def test_what_the_editor_cannot_do_is_the_failure_of_the_call() -> None:
    """The model reads the editor's own words."""
    async with wired_desk(shop(), ALL) as at:
        told = await called(at, await at.open(), "ide_read_file", path="/gone.py")

        assert told["failure"]["kind"] == "tool_error"
        assert "/gone.py is not open here" in told["text"]


async def test_writing_needs_approval_and_shows_what_would_be_written() -> None:
    """R42: nothing is written before an allow, and the question has the new text."""
    async with wired_desk(shop(), ALL) as at:
        session_id = await at.open()
        waiting = await called(at, session_id, "ide_write_file", path="/a.py", content="a = 2")
        question = await at.question()

        assert at.editor.files == {}
        assert question.call.kind == "edit"
        assert question.call.content is not None
        edit = question.call.content[0]
        assert isinstance(edit, schema.FileEditToolCallContent)
        assert (edit.path, edit.new_text) == ("/a.py", "a = 2")
        assert question.call.locations == [schema.ToolCallLocation(path="/a.py")]

        question.choose("allow")
        while (await at.ask("approvals.list", session_id=session_id))["approvals"]:
            pass
        await at.ask(
            "tools.call",
            session_id=session_id,
            name="ide_write_file",
            call_id=waiting["call_id"],
            arguments={"path": "/a.py", "content": "a = 2"},
        )
        assert at.editor.files == {"/a.py": "a = 2"}


async def test_a_command_runs_in_a_terminal_that_is_shown_and_let_go() -> None:
    """The value has output and exit code; the editor shows the terminal with the call."""
    async with wired_desk(shop(), ALL) as at:
        at.editor.may_exit.set()
        told = await allowed(at, await at.open(), "ide_terminal", command="make")

        assert told["value"] == {
            "output": "out of the terminal of make",
            "is_truncated": False,
            "exit_code": 3,
            "signal": None,
        }
        assert at.editor.released == ["terminal of make"]
        assert at.editor.killed == []
        shown = [each.content for each in at.editor.told("tool_call_update") if each.content]
        assert any(isinstance(each[0], schema.TerminalToolCallContent) for each in shown)


async def test_a_cancelled_command_is_killed() -> None:
    """The command does not go on without its call."""
    async with wired_desk(shop(), ALL) as at:
        session_id = await at.open()
        waiting = await called(at, session_id, "ide_terminal", command="sleep")
        (await at.question()).choose("allow")
        while (await at.ask("approvals.list", session_id=session_id))["approvals"]:
            pass
        call = {"session_id": session_id, "call_id": waiting["call_id"]}
        running = asyncio.ensure_future(
            at.ask("tools.call", name="ide_terminal", arguments={"command": "sleep"}, **call)
        )
        await at.editor.began.wait()

        await at.ask("tools.cancel", **call)

        assert (await running)["failure"]["kind"] == "cancelled"
        while not at.editor.released:
            await at.ask("runtime.capabilities")
        assert at.editor.killed == at.editor.released == ["terminal of sleep"]


async def test_they_work_only_while_the_editor_is_connected() -> None:
    """R41: without the editor, a call of its tools fails as unavailable."""
    runtime = shop()
    async with runtime, connected(runtime) as (wired, at):
        await at.agent.initialize(protocol_version=1, client_capabilities=ALL)
        session_id = await at.open()
        await wired.end_input()

        told = await runtime.ask(
            "tools.call",
            {"session_id": session_id, "name": "ide_read_file", "arguments": {"path": "/a"}},
        )
        assert told.failure.kind == "unavailable"
        assert "not connected" in told.text


async def test_a_tool_of_the_host_is_not_shadowed() -> None:
    """R41: host and editor together work, and the host's own tool keeps its name."""
    tools = registry()
    tools.add(HostToolDefinition("ide_terminal", "The host's own.", NOTHING, greet))
    async with wired_desk(shop(host_tool_registry=tools), ALL) as at:
        session_id = await at.open()

        assert await names(at, session_id) >= IDE
        own = await at.ask("tools.info", session_id=session_id, name="ide_terminal")
        assert own["description"] == "The host's own."


async def test_a_host_tool_may_require_what_an_editor_can_do() -> None:
    """R49: it is offered where the editor advertises it, and nowhere else."""
    tools = registry()
    tools.add(
        HostToolDefinition("format", "Format a file.", NOTHING, greet, requires=("terminal",))
    )
    async with wired_desk(shop(host_tool_registry=tools), ALL) as at:
        assert "format" in await names(at, await at.open())
    tools = registry()
    tools.add(
        HostToolDefinition("format", "Format a file.", NOTHING, greet, requires=("terminal",))
    )
    async with wired_desk(shop(host_tool_registry=tools)) as at:
        assert "format" not in await names(at, await at.open())
