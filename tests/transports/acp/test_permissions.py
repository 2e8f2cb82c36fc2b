"""Requests for approval at an editor: what each answer comes to, and what no answer comes to."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.patience import PATIENCE
from tests.transports.acp.connected_editor import connected, wired_desk
from tests.transports.acp.editor import Desk, Question
from tests.transports.shop import TOOLS, shop
from toolcrib.runtime.principal import Principal
from toolcrib.store.sqlite import SqliteStore

CALL: dict[str, Any] = {"name": "guarded", "arguments": {"name": "Ada"}}


async def waiting(at: Desk, session_id: str) -> tuple[Any, Question]:
    """A call that waits, and what the person is asked about it."""
    told = await at.ask("tools.call", session_id=session_id, **CALL)
    assert told["status"] == "waiting"
    return told, await at.question()


async def decided(at: Desk, approval_id: str) -> Any:
    """The request once it is decided."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await at.ask("approvals.get", approval_id=approval_id)
            if found["state"] != "pending":
                return found


@asynccontextmanager
async def closing_store(folder: Path) -> AsyncGenerator[SqliteStore]:
    """A store that lasts, closed after the runtime that uses it."""
    with SqliteStore(folder / "crib.sqlite3") as store:
        yield store


async def again(at: Desk, session_id: str, call: Any) -> Any:
    return await at.ask("tools.call", session_id=session_id, call_id=call["call_id"], **CALL)


async def test_a_question_has_all_that_the_decision_is_about() -> None:
    """R42: the request carries the tool, the arguments and the call, and four sorts of answers."""
    async with wired_desk(shop()) as at:
        call, question = await waiting(at, await at.open())

        assert question.call.tool_call_id == call["call_id"]
        assert (question.call.title, question.call.status) == ("guarded", "pending")
        assert question.call.raw_input == {"name": "Ada"}
        kinds = [each.kind for each in question.options]
        assert set(kinds) == {"allow_once", "allow_always", "reject_once", "reject_always"}


@pytest.mark.parametrize(
    ("option", "scope"),
    [("allow", None), ("allow_session", "session"), ("allow_principal", "principal")],
)
async def test_allowing_runs_the_call_and_grants_what_was_chosen(
    option: str, scope: str | None, tmp_path: Path
) -> None:
    """R42: once grants nothing, for the session is the session's, for the principal it spans
    sessions and has an end.
    """
    async with closing_store(tmp_path) as store, wired_desk(shop(store=store)) as at:
        session_id = await at.open()
        call, question = await waiting(at, session_id)

        question.choose(option)
        await decided(at, call["approval_id"])

        assert (await again(at, session_id, call))["value"] == "Hello, Ada!"
        grants = (await at.ask("grants.list"))["grants"]
        assert [each["scope"] for each in grants] == ([scope] if scope else [])
        assert all(each["expires_at"] for each in grants if each["scope"] == "principal")


async def test_a_grant_that_would_not_last_is_not_offered(tmp_path: Path) -> None:
    """Newcomers 10: for all sessions there is a grant only where a store keeps it."""
    offered: list[set[str]] = []
    async with closing_store(tmp_path) as store:
        for runtime in (shop(), shop(store=store)):
            async with wired_desk(runtime) as at:
                _, question = await waiting(at, await at.open())
                offered.append({each.option_id for each in question.options})

    assert offered[1] - offered[0] == {"allow_principal"}


async def test_the_question_names_who_asks() -> None:
    """Newcomers 8: the person reads whose call it is."""
    async with wired_desk(shop()) as at:
        _, question = await waiting(at, await at.open())

        assert "Asked by owner, directly" in str(question.call.content)


async def test_an_approver_is_not_asked_about_its_own_call() -> None:
    """Security 10: nobody approves their own call, so nobody is asked to."""
    approver = Principal("ann", frozenset({"caller", "approver"}), transport="acp")
    async with wired_desk(shop(), who=approver) as at:
        session_id = await at.open()
        await at.ask("events.subscribe", session_id=session_id)
        call = await at.ask("tools.call", session_id=session_id, **CALL)
        await at.ask("session.close", session_id=session_id)
        while (await at.editor.events.get())[0] != "toolcrib/events.ended":
            pass

        assert at.editor.questions.empty()
        assert at.editor.statuses(call["call_id"]) == ["pending"]


async def test_who_chooses_by_kind_alone_gets_the_lesser_grant() -> None:
    """A client that picks the first option of a kind grants no more than this session."""
    async with wired_desk(shop()) as at:
        _, question = await waiting(at, await at.open())

        first = next(each for each in question.options if each.kind == "allow_always")
        assert first.option_id == "allow_session"


async def test_a_rejected_call_is_denied() -> None:
    """R42: the handler is not entered."""
    async with wired_desk(shop()) as at:
        session_id = await at.open()
        call, question = await waiting(at, session_id)

        question.choose("reject")
        await decided(at, call["approval_id"])

        assert (await again(at, session_id, call))["failure"]["kind"] == "denied"
        # Only a prompt's updates are all told before its answer.
        while at.editor.statuses(call["call_id"])[-1] != "failed":
            await at.ask("runtime.capabilities")


async def test_rejecting_for_the_session_asks_no_more_about_the_tool() -> None:
    """The next call is denied without a question, in this session only."""
    async with wired_desk(shop()) as at:
        session_id = await at.open()
        call, question = await waiting(at, session_id)
        question.choose("reject_session")
        await decided(at, call["approval_id"])

        second = await at.ask("tools.call", session_id=session_id, **CALL)
        await decided(at, second["approval_id"])

        assert (await again(at, session_id, second))["failure"]["kind"] == "denied"
        assert at.editor.questions.empty()
        await waiting(at, await at.open())


async def test_a_dismissed_question_is_a_denial() -> None:
    """The outcome `cancelled` never allows."""
    async with wired_desk(shop()) as at:
        session_id = await at.open()
        call, question = await waiting(at, session_id)

        question.dismiss()
        await decided(at, call["approval_id"])

        assert (await again(at, session_id, call))["failure"]["kind"] == "denied"


@pytest.mark.parametrize("answer", ["an error", "what was not offered"])
async def test_an_answer_that_is_not_clear_decides_nothing(
    answer: str, caplog: pytest.LogCaptureFixture
) -> None:
    """R42: the request stays pending, for somebody else to decide."""
    async with wired_desk(shop()) as at:
        session_id = await at.open()
        call, question = await waiting(at, session_id)

        if answer == "an error":
            question.fail()
        else:
            question.choose("sudo")
        await heard(at, caplog, call["approval_id"])

        assert (await at.ask("approvals.get", approval_id=call["approval_id"]))["state"] == (
            "pending"
        )
        assert (await again(at, session_id, call))["status"] == "waiting"


async def heard(at: Desk, caplog: pytest.LogCaptureFixture, words: str) -> None:
    """Wait until the log says something of this."""
    async with asyncio.timeout(PATIENCE):
        while not any(words in each.getMessage() for each in caplog.records):
            await at.ask("runtime.capabilities")


async def test_an_editor_that_leaves_decides_nothing(tmp_path: Path) -> None:
    """R42: what it was asked waits in the store, and the handler is not entered."""
    runtime = shop(store=SqliteStore(tmp_path / "crib.sqlite3"))
    async with runtime, connected(runtime) as (wired, at):
        await at.agent.initialize(protocol_version=1)
        session_id = await at.open()
        call, _ = await waiting(at, session_id)

        await wired.end_input()

        found = await runtime.ask("approvals.get", {"approval_id": call["approval_id"]})
        assert found.state == "pending"
        taken = await runtime.ask(
            "tools.call", {"session_id": session_id, "call_id": call["call_id"], **CALL}
        )
        assert taken.status == "waiting"
    runtime.store.close()


async def test_a_decision_made_elsewhere_ends_the_question() -> None:
    """The person's answer comes too late, and changes nothing."""
    async with wired_desk(shop()) as at:
        session_id = await at.open()
        call, question = await waiting(at, session_id)

        await at.ask("approvals.decide", approval_id=call["approval_id"], decision="deny")
        assert (await again(at, session_id, call))["failure"]["kind"] == "denied"
        question.choose("allow_session")

        assert (await at.ask("grants.list"))["grants"] == []
        assert at.editor.statuses(call["call_id"]) == ["pending", "failed"]


async def test_a_tool_that_changed_is_asked_about_anew() -> None:
    """Finding 3: the person's answer to the old question lets nothing run; the new question says
    what changed.
    """
    runtime = shop()
    async with wired_desk(runtime) as at:
        session_id = await at.open()
        call, old = await waiting(at, session_id)
        (tool,) = (each for each in TOOLS if each.name == "guarded")
        await runtime.registry.register_or_replace(replace(tool, version="0.1.0"))

        assert (await again(at, session_id, call))["status"] == "waiting"
        new = await at.question()
        old.choose("allow")

        assert "Changed: version: 0.0.0 -> 0.1.0" in str(new.call.content)
        assert (await again(at, session_id, call))["status"] == "waiting"
        new.choose("allow")
        superseding = (await at.ask("approvals.list"))["approvals"]
        for each in superseding:
            assert (await decided(at, each["approval_id"]))["decision"] == "approve"
        assert (await again(at, session_id, call))["status"] == "completed"


async def test_a_client_that_may_not_approve_is_not_asked() -> None:
    """A principal without the scope sees that a call waits, and cannot allow it."""
    caller = Principal("caller", frozenset({"caller"}), transport="acp")
    async with wired_desk(shop(), who=caller) as at:
        session_id = await at.open()
        await at.ask("events.subscribe", session_id=session_id)
        call = await at.ask("tools.call", session_id=session_id, **CALL)
        await at.ask("session.close", session_id=session_id)
        while (await at.editor.events.get())[0] != "toolcrib/events.ended":
            pass

        assert at.editor.questions.empty()
        assert at.editor.statuses(call["call_id"]) == ["pending"]


async def test_the_directory_is_left_alone() -> None:
    """A session works where the editor says, whatever the process's own directory is."""
    before = os.getcwd()
    async with wired_desk(shop()) as at:
        session_id = await at.open("/tmp")

        assert (await at.ask("session.get", session_id=session_id))["cwd"] == "/tmp"
    assert os.getcwd() == before
