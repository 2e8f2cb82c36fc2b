"""Sessions of an editor: opened, told again, listed, forked, closed, deleted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from acp import schema
from acp.exceptions import RequestError

from tests.transports.acp.connected_editor import connected, wired_desk
from tests.transports.acp.editor import why
from tests.transports.acp.history import GREETED, history
from tests.transports.acp.shop_agent import scripted
from tests.transports.shop import shop


@pytest.mark.parametrize("version", [0, 1, 2, 65535])
async def test_there_is_one_version_whatever_is_asked_for(version: int) -> None:
    """Who cannot speak it may hang up; the agent says what it speaks."""
    runtime = shop()
    async with runtime, connected(runtime) as (_, at):
        answer = await at.agent.initialize(protocol_version=version)

        assert answer.protocol_version == 1
        assert answer.agent_info is not None
        assert answer.agent_info.name == "toolcrib"


async def test_what_is_promised_is_what_there_is() -> None:
    """R49: what is not advertised is not there, and what is, is."""
    runtime = shop()
    async with runtime, connected(runtime) as (_, at):
        can = (await at.agent.initialize(protocol_version=1)).agent_capabilities

        assert can is not None
        assert can.load_session
        assert can.prompt_capabilities == schema.PromptCapabilities(embedded_context=True)
        session = can.session_capabilities
        assert session is not None
        assert None not in (session.list, session.resume, session.fork, session.close)
        with pytest.raises(RequestError) as told:
            await at.agent.set_session_mode(session_id="x", mode_id="y")
        assert told.value.code == -32601


async def test_nothing_is_opened_before_the_client_has_said_what_it_can_do() -> None:
    """The protocol begins with initialize."""
    runtime = shop()
    async with runtime, connected(runtime) as (_, at):
        with pytest.raises(RequestError, match="initialize first"):
            await at.open()


async def test_a_session_has_the_directory_and_setup_that_were_asked_for() -> None:
    """`_meta.toolcrib` may say more of a session than the protocol has words for."""
    async with wired_desk(shop()) as at:
        setup = {"session_id": "mine", "allowed_tools": ["greet"], "metadata": {"title": "T"}}
        session = await at.agent.new_session(cwd="/tmp", toolcrib=setup)

        assert session.session_id == "mine"
        assert [
            each["name"] for each in (await at.ask("tools.list", session_id="mine"))["tools"]
        ] == ["greet"]
        (listed,) = (await at.agent.list_sessions()).sessions
        assert (listed.session_id, listed.cwd, listed.title) == ("mine", "/tmp", "T")


@pytest.mark.parametrize("asked", [{"cwd": "here"}, {"cwd": "/", "toolcrib": {"color": "red"}}])
async def test_a_session_that_cannot_be_as_asked_is_refused(asked: Any) -> None:
    """A wrong directory or setup is told, not guessed at."""
    async with wired_desk(shop()) as at:
        with pytest.raises(RequestError) as told:
            await at.agent.new_session(**asked)

        assert told.value.code == -32602


async def test_a_session_is_loaded_with_all_that_happened() -> None:
    """What the person said, what the model said and did, in order; then the session goes on."""
    async with wired_desk(shop(has_model=True)) as at:
        session_id = await at.open()
        await at.prompt(session_id, "Greet Ada.")

        assert await history(at, session_id) == GREETED

        turn = asyncio.ensure_future(at.prompt(session_id, "Greet Bob."))
        (await at.question()).choose("allow")
        assert (await turn).stop_reason == "end_turn"


async def test_loading_a_session_asks_nothing_about_its_past() -> None:
    """What waits is shown; a question comes only with a prompt that goes on."""
    runtime = shop()
    async with runtime:
        async with connected(runtime) as (_, at):
            await at.agent.initialize(protocol_version=1)
            session_id = await at.open()
            call = {"session_id": session_id, "name": "guarded", "arguments": {"name": "Ada"}}
            await at.ask("tools.call", **call)
            await at.question()
        async with connected(runtime) as (_, at):
            await at.agent.initialize(protocol_version=1)

            assert await history(at, session_id) == [("tool_call", "pending")]
            for _ in range(10):
                assert len((await at.ask("approvals.list"))["approvals"]) == 1
            assert at.editor.questions.empty()


async def test_a_resumed_session_is_not_told_again() -> None:
    """Resuming is for a client that has the history."""
    async with wired_desk(shop(has_model=True)) as at:
        session_id = await at.open()
        await at.prompt(session_id, "Greet Ada.")
        await at.agent.close_session(session_id=session_id)
        at.editor.updates.clear()

        await at.agent.resume_session(session_id=session_id, cwd="/")

        assert at.editor.updates == []
        turn = asyncio.ensure_future(at.prompt(session_id, "Greet Bob."))
        (await at.question()).choose("allow")
        assert (await turn).stop_reason == "end_turn"


async def test_a_fork_begins_with_what_happened() -> None:
    """The fork has the history; the session that it comes from goes on unchanged."""
    async with wired_desk(shop(has_model=True)) as at:
        session_id = await at.open()
        await at.prompt(session_id, "Greet Ada.")

        fork = await at.agent.fork_session(session_id=session_id, cwd="/")

        assert fork.session_id != session_id
        assert await history(at, fork.session_id) == GREETED


async def test_a_closed_session_ends_its_prompt_and_can_be_loaded() -> None:
    """Closing cancels what runs; what happened stays."""
    async with wired_desk(shop(adapter=scripted("guarded"))) as at:
        session_id = await at.open()
        turn = asyncio.ensure_future(at.prompt(session_id, "Greet Bob."))
        await at.question()

        await at.agent.close_session(session_id=session_id)

        with pytest.raises(RequestError):
            await turn
        with pytest.raises(RequestError) as told:
            await at.prompt(session_id, "More.")
        assert why(told.value) == "not_found"
        assert (await history(at, session_id))[0] == ("user_message_chunk", "Greet Bob.")


async def test_a_deleted_session_is_gone() -> None:
    """It is listed no more and cannot be loaded: the protocol's own code says so."""
    async with wired_desk(shop()) as at:
        session_id = await at.open()
        await at.ask("session.delete", session_id=session_id)

        assert (await at.agent.list_sessions()).sessions == []
        with pytest.raises(RequestError) as told:
            await at.agent.load_session(cwd="/", session_id=session_id)
        assert told.value.code == -32002


async def test_sessions_are_listed_a_page_at_a_time_the_newest_first() -> None:
    """Every session comes once; a directory chooses among them."""
    async with wired_desk(shop()) as at:
        made = [await at.open("/tmp" if n % 2 else "/") for n in range(110)]

        first = await at.agent.list_sessions()
        rest = await at.agent.list_sessions(cursor=first.next_cursor)

        assert [each.session_id for each in (*first.sessions, *rest.sessions)] == made[::-1]
        assert (len(first.sessions), rest.next_cursor) == (100, None)
        assert len((await at.agent.list_sessions(cwd="/tmp")).sessions) == 55
        with pytest.raises(RequestError):
            await at.agent.list_sessions(cursor="nobody")
