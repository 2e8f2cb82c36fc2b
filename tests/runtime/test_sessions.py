"""Sessions: created, found, resumed, forked, closed and deleted."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.host_runtime import (
    CALLER,
    Json,
    add,
    call,
    events,
    host_tool,
    kinds,
    model,
    new_session,
    refusal,
    registry_of,
    serving,
)
from toolcrib import RuntimeConfig, Session, SqliteStore, ToolContext, create_runtime
from toolcrib.errors import UsageError
from toolcrib.host_tools import host_tool_registry
from toolcrib.runtime.principal import OWNER, Principal
from toolcrib.store.store import Store
from toolcrib.testing import says


async def where(given: Json, context: ToolContext) -> Json:
    return {"cwd": context.cwd, "environment": dict(context.environment), **context.metadata}


async def test_a_session_is_created_got_and_listed(store: Store) -> None:
    """A new session is open, has its tools at once (R23, R40) and shows in the list."""
    async with serving(host_tool("add"), store=store) as runtime:
        created = await runtime.ask("session.create", {"session_id": "s", "metadata": {"n": 1}})
        got = await runtime.ask("session.get", {"session_id": "s"})
        listed = await runtime.ask("session.list")
        tools = await runtime.ask("tools.list", {"session_id": "s"})

    assert created == got == listed.sessions[0]
    assert (got.state, got.metadata, got.is_busy) == ("open", {"n": 1}, False)
    assert [tool.name for tool in tools.tools] == ["add"]


async def test_an_id_is_given_once(store: Store) -> None:
    """Creating a session that is there already is a conflict, at the same moment too."""
    async with serving(store=store) as runtime:
        asked = [runtime.ask("session.create", {"session_id": "s"}) for _ in range(3)]
        done = await asyncio.gather(*asked, return_exceptions=True)
        refused = await refusal(runtime, "session.create", {"session_id": "s"})

    assert sorted(getattr(each, "kind", "done") for each in done) == [
        "conflict",
        "conflict",
        "done",
    ]
    assert refused.kind == "conflict"


async def test_a_strange_id_is_invalid() -> None:
    """What could not be a session's id is refused with what an id is."""
    async with serving() as runtime:
        refused = await refusal(runtime, "session.create", {"session_id": "a/b"})

    assert refused.kind == "invalid"


async def test_context_of_a_call_is_of_its_session() -> None:
    """R28: handlers get the session's cwd, environment and metadata."""
    async with serving(host_tool("where", where), environment={"A": "1", "B": "1"}) as runtime:
        session_id = await new_session(
            runtime, cwd="/there", environment={"B": "2"}, metadata={"team": "x"}
        )
        result = await call(runtime, session_id, "where")

    assert result.value == {"cwd": "/there", "environment": {"A": "1", "B": "2"}, "team": "x"}


async def test_resuming_gives_the_session_as_it_was(store: Store) -> None:
    """R26: a resumed session has its tools, cwd and metadata, and no more tools than it had."""
    tools = [host_tool("where", where), host_tool("add"), host_tool("rm")]
    async with serving(*tools, store=store) as runtime:
        asked = {"session_id": "s", "cwd": "/there", "metadata": {"n": 1}, "denied_tools": ["rm"]}
        await runtime.ask("session.create", asked)
        await runtime.ask("session.close", {"session_id": "s"})
        closed = await runtime.ask("session.get", {"session_id": "s"})
        resumed = await runtime.ask("session.resume", {"session_id": "s"})
        names = [each.name for each in (await runtime.ask("tools.list", {"session_id": "s"})).tools]
        result = await call(runtime, "s", "where")

    assert (closed.state, closed.cwd, closed.metadata) == ("closed", "/there", {"n": 1})
    assert (resumed.state, resumed.cwd) == ("open", "/there")
    assert names == ["where", "add"]
    assert result.value["n"] == 1


async def test_resuming_an_open_session_changes_nothing() -> None:
    """Two clients may resume one session at once, and share it."""
    async with serving() as runtime:
        session_id = await new_session(runtime)
        asked = [runtime.ask("session.resume", {"session_id": session_id}) for _ in range(3)]
        facts = await asyncio.gather(*asked)
        opened = await events(runtime, session_id, "session.opened")

    assert {each.state for each in facts} == {"open"}
    assert len(opened) == 1


async def test_a_session_of_another_process_is_a_conflict(sqlite_path: Path) -> None:
    """A session that another writer holds is neither resumed nor deleted here."""
    theirs = SqliteStore(sqlite_path)
    async with await Session.open(theirs, "s"), serving(store=SqliteStore(sqlite_path)) as runtime:
        resuming = await refusal(runtime, "session.resume", {"session_id": "s"})
        deleting = await refusal(runtime, "session.delete", {"session_id": "s"})
    runtime.store.close()
    theirs.close()

    assert resuming.kind == deleting.kind == "conflict"


async def test_a_fork_begins_with_what_happened(store: Store) -> None:
    """R26: a fork has the tools, the past and the artifacts, and its own ledger that verifies."""

    async def long(given: Json, context: ToolContext) -> str:
        return "x" * 200_000

    asked = {"session_id": "s", "denied_tools": ["rm"], "expected_tools": ["rm"]}
    async with serving(host_tool("add"), host_tool("long", long), store=store) as runtime:
        await runtime.ask("session.create", asked)
        await call(runtime, "s", "add", a=1, b=2)
        artifact = (await call(runtime, "s", "long")).artifact_id
        forked = await runtime.ask("session.fork", {"session_id": "s", "new_session_id": "t"})
        await call(runtime, "t", "add", a=2, b=3)
        happened = [each["data"]["name"] for each in await events(runtime, "t", "tool.invoked")]
        theirs = await events(runtime, "s", "tool.invoked")

    assert forked.metadata["forked_from"] == "s"
    assert happened == ["add", "long", "add"]
    assert len(theirs) == 2
    assert artifact is not None
    assert len(store.artifact("t", artifact) or "") >= 200_000
    async with await Session.open(store, "t") as session:
        assert session.verify() is not None


async def test_a_closed_session_can_be_forked(sqlite_path: Path) -> None:
    """A fork needs the past alone: the session need not be open, and is not opened."""
    async with serving(host_tool("add"), store=SqliteStore(sqlite_path)) as runtime:
        await runtime.ask("session.create", {"session_id": "s"})
        await runtime.ask("session.close", {"session_id": "s"})
        await runtime.ask("session.fork", {"session_id": "s", "new_session_id": "t"})
        state = (await runtime.ask("session.get", {"session_id": "s"})).state
    runtime.store.close()

    assert state == "closed"


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "closed"])
async def test_a_fork_asks_about_what_its_source_asks_about(store: Store, is_open: bool) -> None:
    """A fork is no way around the approval list of a session."""
    opened: list[Session] = []
    async with serving(host_tool("add"), store=store, on_session=opened.append) as runtime:
        await runtime.ask("session.create", {"session_id": "s"})
        opened[0].need_user_approve_tools = ["add"]
        if not is_open:
            await runtime.ask("session.close", {"session_id": "s"})
        await runtime.ask("session.fork", {"session_id": "s", "new_session_id": "t"})
        result = await call(runtime, "t", "add", a=1, b=2)

    assert result.status == "waiting"


async def test_a_question_is_asked_in_one_session_only(store: Store) -> None:
    """What waits in a session does not wait in its fork as well."""
    async with serving(host_tool("add", requires_approval=True), store=store) as runtime:
        await runtime.ask("session.create", {"session_id": "s"})
        await call(runtime, "s", "add", a=1, b=2)
        forked = await runtime.ask("session.fork", {"session_id": "s", "new_session_id": "t"})
        inbox = await runtime.ask("approvals.list")

    assert forked.pending_approvals == 0
    assert [each.session_id for each in inbox.approvals] == ["s"]


async def test_delete_takes_everything(store: Store) -> None:
    """R27: a deleted session is gone, whether it was open or closed."""
    async with serving(host_tool("add"), store=store) as runtime:
        for session_id in ("open", "closed"):
            await runtime.ask("session.create", {"session_id": session_id})
            await call(runtime, session_id, "add", a=1, b=2)
        await runtime.ask("session.close", {"session_id": "closed"})
        for session_id in ("open", "closed"):
            await runtime.ask("session.delete", {"session_id": session_id})
        left = await runtime.ask("session.list")
        refused = await refusal(runtime, "session.delete", {"session_id": "open"})
        unknown = await refusal(runtime, "events.list", {"session_id": "open"})

    assert left.sessions == []
    assert refused.kind == unknown.kind == "not_found"


@pytest.mark.parametrize("name", ["session.get", "session.resume", "session.close", "session.fork"])
async def test_a_session_that_is_not_there_is_not_found(name: str, store: Store) -> None:
    """Every operation says of an unknown session that it is not there."""
    async with serving(store=store) as runtime:
        refused = await refusal(runtime, name, {"session_id": "nobody"})

    assert refused.kind == "not_found"
    assert "nobody" in refused.message


async def test_only_so_many_sessions_are_open() -> None:
    """`max_sessions` bounds what is held; closing one makes room."""
    async with serving(max_sessions=2) as runtime:
        first, _ = await new_session(runtime), await new_session(runtime)
        refused = await refusal(runtime, "session.create")
        await runtime.ask("session.close", {"session_id": first})
        await new_session(runtime)

    assert refused.kind == "unavailable"
    assert "2 sessions" in refused.message


async def test_a_session_that_fails_to_open_leaves_nothing(store: Store) -> None:
    """A refused session is not in the store, and its id is free."""

    def fail(session: Session) -> None:
        raise RuntimeError("no")

    async with serving(store=store, on_session=fail) as runtime:
        refused = await refusal(runtime, "session.create", {"session_id": "s"})
        left = await runtime.ask("session.list")

    assert refused.kind == "internal"
    assert left.sessions == []


async def test_creating_a_runtime_does_nothing() -> None:
    """R34: `create_runtime` is sync and opens nothing; before `start` it answers nothing."""
    runtime = create_runtime(RuntimeConfig())

    assert (await refusal(runtime, "session.list")).kind == "unavailable"
    await runtime.close()


async def test_a_runtime_starts_once() -> None:
    """Started twice, or after its end, a runtime says so; closing twice is fine."""
    async with serving() as runtime:
        with pytest.raises(UsageError):
            await runtime.start()
    await runtime.close()
    refused = await refusal(runtime, "session.list")

    assert refused.kind == "closing"


async def test_two_runtimes_know_nothing_of_each_other() -> None:
    """R34, R12: each has its own sessions and tools, and the default registry is left alone."""
    before = host_tool_registry.list_tools()
    async with serving(host_tool("one")) as first, serving(host_tool("two")) as second:
        session_id = await new_session(first, session_id="s")
        await new_session(second, session_id="s")
        await first.registry.register(host_tool("three"))
        names: list[list[str]] = []
        for runtime in (first, second):
            listed = await runtime.ask("tools.list", {"session_id": session_id})
            names.append([each.name for each in listed.tools])

    assert names == [["one", "three"], ["two"]]
    assert host_tool_registry.list_tools() == before


async def test_a_runtime_with_its_own_registry_takes_that_one() -> None:
    """R12: an empty registry that was given is used, and no other."""
    registry = registry_of()
    async with serving(host_tool_registry=registry) as runtime:
        assert runtime.registry is registry
        session_id = await new_session(runtime)
        await registry.register(host_tool("late", add))
        result = await call(runtime, session_id, "late", a=1, b=1)

    assert result.value == 2


async def test_whoever_watches_sees_every_session_open() -> None:
    """`on_session` gets each session before anything can be called in it."""
    seen: list[Any] = []
    async with serving(on_session=seen.append) as runtime:
        session_id = await new_session(runtime)
        assert await kinds(runtime, session_id) == ["session.opened", "session.settings_saved"]

    assert [each.session_id for each in seen] == [session_id]


async def test_sessions_are_searched_and_counted(store: Store) -> None:
    """By words, tool, failures and what waits; a principal finds nothing of another one."""
    tools = host_tool("add"), host_tool("risky", requires_approval=True)
    async with serving(*tools, store=store, adapter=model([says("done")])) as runtime:
        for name, who in (("bot:sums", CALLER), ("lab", OWNER)):
            params = {"session_id": name, "metadata": {"ticket": f"T-{name[-1]}"}}
            await runtime.ask("session.create", params, who)
        one = {"session_id": "bot:sums", "name": "add"}
        await runtime.ask("tools.call", {**one, "arguments": {"a": 1}}, CALLER)
        risky = {"session_id": "lab", "name": "risky", "arguments": {"a": 1, "b": 2}}
        await runtime.ask("tools.call", risky, OWNER)
        prompt = {"session_id": "lab", "text": "Count the orders"}
        await runtime.ask("prompt.send", prompt, OWNER)

        async def found(who: Principal = OWNER, **filters: Any) -> list[str]:
            page = await runtime.ask("session.list", filters, who)
            return [facts.session_id for facts in page.sessions]

        assert await found(text="ORDERS count") == ["lab"]
        assert await found(text="t-s") == ["bot:sums"]
        assert await found(tool="a*") == await found(failed=True) == ["bot:sums"]
        assert await found(waiting=True) == ["lab"]
        assert await found(waiting=True, state="closed") == []
        assert await found(CALLER, text="orders") == await found(CALLER, waiting=True) == []
        [lab] = (await runtime.ask("session.list", {"text": "lab"}, OWNER)).sessions

    assert (lab.title, lab.title_source) == ("Count the orders", "prompt")
    assert (lab.prompts, lab.calls, lab.pending_approvals) == (1, 1, 1)


async def test_events_are_listed_backwards(store: Store) -> None:
    """Page by page from the newest to the oldest, of an open session and of a closed one."""
    async with serving(host_tool("add"), store=store) as runtime:
        one = {"session_id": "s"}
        await runtime.ask("session.create", one)
        for number in range(5):
            arguments = {**one, "name": "add", "arguments": {"a": number, "b": 1}}
            await runtime.ask("tools.call", arguments)

        async def numbers(**params: Any) -> list[int]:
            page = await runtime.ask("events.list", {**one, **params})
            events = [event["seq"] for event in page.events]
            assert page.first_seq == min(events, default=None)
            return events

        for is_open in (True, False):
            if not is_open:
                await runtime.ask("session.close", one)
            forwards = await numbers()
            backwards = await numbers(newest_first=True, limit=3)
            while page := await numbers(newest_first=True, limit=3, before=backwards[-1]):
                backwards += page
            assert backwards == forwards[::-1]
            assert await numbers(after=2, before=4) == [3]
