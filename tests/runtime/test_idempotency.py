"""What is asked for twice under one key is done once."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import to_json

from tests.runtime.host_runtime import (
    Gate,
    Json,
    call,
    host_tool,
    model,
    new_session,
    refusal,
    serving,
)
from toolcrib import SqliteStore, ToolContext
from toolcrib.errors import Refused
from toolcrib.runtime.idempotency import IdempotencyKeys
from toolcrib.runtime.messages import SendPrompt
from toolcrib.runtime.principal import OWNER, Principal
from toolcrib.store import KeyClaim, MemoryStore
from toolcrib.testing import FakeClock, calls, says


async def test_a_session_is_created_once() -> None:
    """The same key and body give the same session; another body is a conflict."""
    async with serving() as runtime:
        asked: Json = {"metadata": {"n": 1}, "idempotency_key": "k"}
        first = await runtime.ask("session.create", asked)
        again = await runtime.ask("session.create", dict(asked))
        other = await refusal(runtime, "session.create", {"idempotency_key": "k"})
        listed = await runtime.ask("session.list")

    assert first == again
    assert other.kind == "conflict"
    assert len(listed.sessions) == 1


async def test_a_call_runs_once_for_all_who_ask() -> None:
    """Several that ask at the same time under one key share one run; who leaves stops nobody."""
    gate = Gate()
    async with serving(host_tool("gate", gate)) as runtime:
        session_id = await new_session(runtime)
        asked = {"session_id": session_id, "name": "gate", "idempotency_key": "k"}
        asking = [asyncio.create_task(runtime.ask("tools.call", asked)) for _ in range(3)]
        await gate.is_entered.wait()
        asking.pop().cancel()
        gate.is_open.set()
        results = [*await asyncio.gather(*asking), await runtime.ask("tools.call", asked)]

    assert gate.entered == 1
    assert len({each.call_id for each in results}) == 1


async def test_a_prompt_is_answered_once() -> None:
    """A prompt sent again under its key gives the answer it had."""
    async with serving(adapter=model([says("one")], [says("two")])) as runtime:
        session_id = await new_session(runtime)
        asked = {"session_id": session_id, "text": "hi", "idempotency_key": "k"}
        answers = [await runtime.ask("prompt.send", asked) for _ in range(2)]
        refused = await refusal(runtime, "prompt.send", {**asked, "text": "ho"})
        next_one = await runtime.ask("prompt.send", {**asked, "idempotency_key": "l"})

    assert [each.text for each in answers] == ["one", "one"]
    assert refused.kind == "conflict"
    assert next_one.text == "two"


async def test_a_decision_is_made_once() -> None:
    """A decision repeated under its key is the one that was made, not a conflict."""
    async with serving(host_tool("add", requires_approval=True)) as runtime:
        waiting = await call(runtime, await new_session(runtime), "add", a=1, b=2)
        asked = {
            "approval_id": waiting.approval_id,
            "decision": "approve",
            "idempotency_key": "k",
        }
        first = await runtime.ask("approvals.decide", asked)
        again = await runtime.ask("approvals.decide", asked)
        other = await refusal(runtime, "approvals.decide", {**asked, "decision": "deny"})
        bare = {key: asked[key] for key in ("approval_id", "decision")}
        without = await refusal(runtime, "approvals.decide", bare)

    assert first == again
    assert (first.state, first.decided_by) == ("decided", "owner")
    assert other.kind == without.kind == "conflict"


async def test_keys_are_each_principals_own() -> None:
    """Two principals may use one key; neither gets the other's answer."""
    other = Principal("bot", OWNER.roles)
    async with serving() as runtime:
        asked = {"idempotency_key": "k"}
        mine = await runtime.ask("session.create", asked)
        theirs = await runtime.ask("session.create", asked, other)

    assert mine.session_id != theirs.session_id


async def test_what_was_refused_may_be_tried_again() -> None:
    """A refusal is not remembered under its key."""
    async with serving(max_sessions=1) as runtime:
        session_id = await new_session(runtime)
        asked = {"session_id": "t", "idempotency_key": "k"}
        refused = await refusal(runtime, "session.create", asked)
        await runtime.ask("session.close", {"session_id": session_id})
        created = await runtime.ask("session.create", asked)

    assert refused.kind == "unavailable"
    assert created.session_id == "t"


@pytest.mark.parametrize("key", ["", "k" * 256])
async def test_a_key_is_neither_empty_nor_huge(key: str) -> None:
    """Keys have bounds, and breaking them is told."""
    async with serving() as runtime:
        refused = await refusal(runtime, "session.create", {"idempotency_key": key})

    assert refused.kind == "invalid"


async def test_no_number_of_keys_lets_one_be_used_again() -> None:
    """Security 11: a key is not forgotten because many others came."""
    async with serving(host_tool("gate", (gate := Gate()))) as runtime:
        gate.is_open.set()
        session_id = await new_session(runtime)
        asked = {"session_id": session_id, "name": "gate"}
        first = await runtime.ask("tools.call", {**asked, "idempotency_key": "k"})
        for number in range(10_050):
            await runtime.ask("tools.call", {**asked, "idempotency_key": f"other {number}"})
        again = await runtime.ask("tools.call", {**asked, "idempotency_key": "k"})

    assert again == first
    assert gate.entered == 10_051


async def test_only_what_is_being_done_is_held_in_memory() -> None:
    """Security, found afterwards: no request looks at the keys of all others."""
    keys, go, runs = IdempotencyKeys(MemoryStore(), FakeClock()), asyncio.Event(), list[str]()

    async def slow(_: str) -> None:
        runs.append("slow")
        await go.wait()

    first = asyncio.create_task(keys.share("me", "op", "a", {}, slow))
    await asyncio.sleep(0)
    second = asyncio.create_task(keys.share("me", "op", "a", {}, slow))
    await asyncio.sleep(0)
    with pytest.raises(Refused, match="used with other parameters"):
        await keys.share("me", "op", "a", {"other": 1}, slow)
    go.set()
    await asyncio.gather(first, second)

    assert runs == ["slow"]
    assert keys.running == 0


async def test_a_failure_is_told_to_all_who_wait() -> None:
    """Those who share one run share its refusal, and nothing is left unheard."""

    async def fail(_: str) -> Any:
        raise Refused("unavailable", "later")

    keys = IdempotencyKeys(MemoryStore(), FakeClock())
    asking = [keys.share("me", "op", "k", {}, fail) for _ in "ab"]
    results = await asyncio.gather(*asking, return_exceptions=True)

    assert [str(each) for each in results] == ["later", "later"]


async def test_a_key_and_an_id_name_one_call() -> None:
    """Who gives both has one call: neither another id under the key, nor another key, runs it."""
    async with serving(host_tool("gate", (gate := Gate()))) as runtime:
        gate.is_open.set()
        session_id = await new_session(runtime)
        asked = {"session_id": session_id, "name": "gate", "call_id": "c", "idempotency_key": "k"}
        results = [await runtime.ask("tools.call", asked) for _ in range(2)]
        other_id = await refusal(runtime, "tools.call", {**asked, "call_id": "d"})
        other_key = await runtime.ask("tools.call", {**asked, "idempotency_key": "l"})

    assert results[0] == results[1] == other_key
    assert (other_id.kind, gate.entered) == ("conflict", 1)


async def test_a_keyed_call_that_waited_answers_with_its_outcome_later() -> None:
    """Security 23: a key does not say `waiting` for ever, and not what other arguments asked."""
    async with serving(host_tool("add", requires_approval=True)) as runtime:
        session_id = await new_session(runtime)
        asked: Json = {"session_id": session_id, "name": "add", "idempotency_key": "k"}
        asked["arguments"] = {"a": 1, "b": 2}
        waiting = await runtime.ask("tools.call", asked)
        other = await refusal(runtime, "tools.call", {**asked, "arguments": {"a": 5, "b": 5}})
        still = await runtime.ask("tools.call", asked)
        decision = {"approval_id": waiting.approval_id, "decision": "approve"}
        await runtime.ask("approvals.decide", decision)
        results = [await runtime.ask("tools.call", asked) for _ in range(2)]

    assert (waiting.status, still.status, other.kind) == ("waiting", "waiting", "conflict")
    assert [(each.status, each.value) for each in results] == [("completed", 3)] * 2


def cut_off(path: Path) -> None:
    """Leave the store as a process that died in the middle of its keyed work leaves it."""
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute("UPDATE keys SET outcome = NULL").rowcount == 1


class TestRestart:
    """Security 11: keys of every operation are as durable as what they stand for."""

    @pytest.mark.parametrize("is_cut_off", [False, True])
    async def test_a_session_is_created_once(self, sqlite_path: Path, is_cut_off: bool) -> None:
        """The key leads to the session that it made, open again; it goes with the session."""
        asked: Json = {"metadata": {"n": 1}, "idempotency_key": "k"}
        with SqliteStore(sqlite_path) as store:
            async with serving(store=store) as runtime:
                first = await runtime.ask("session.create", asked)
        if is_cut_off:
            cut_off(sqlite_path)
        with SqliteStore(sqlite_path) as store:
            async with serving(store=store) as runtime:
                again = await runtime.ask("session.create", asked)
                other = await refusal(runtime, "session.create", {"idempotency_key": "k"})
                listed = await runtime.ask("session.list")
                await runtime.ask("session.delete", {"session_id": first.session_id})
                anew = await runtime.ask("session.create", {"idempotency_key": "k"})

        assert (again.session_id, again.state) == (first.session_id, "open")
        assert other.kind == "conflict"
        assert len(listed.sessions) == 1
        assert anew.metadata == {}

    @pytest.mark.parametrize("is_cut_off", [False, True])
    async def test_a_prompt_is_answered_once(self, sqlite_path: Path, is_cut_off: bool) -> None:
        """The answer comes from the ledger, not from the model."""
        asked = {"session_id": "s", "text": "hi", "idempotency_key": "k"}
        with SqliteStore(sqlite_path) as store:
            async with serving(adapter=model([says("one")]), store=store) as runtime:
                await new_session(runtime, session_id="s")
                first = await runtime.ask("prompt.send", asked)
        if is_cut_off:
            cut_off(sqlite_path)
        with SqliteStore(sqlite_path) as store:
            async with serving(adapter=model([says("two")]), store=store) as runtime:
                await runtime.ask("session.resume", {"session_id": "s"})
                again = await runtime.ask("prompt.send", asked)
                refused = await refusal(runtime, "prompt.send", {**asked, "text": "ho"})
                next_one = await runtime.ask("prompt.send", {**asked, "idempotency_key": "l"})

        assert (first.text, again.text, again.turn) == ("one", "one", first.turn)
        assert again.usage == ({} if is_cut_off else first.usage)
        assert refused.kind == "conflict"
        assert next_one.text == "two"

    @pytest.mark.parametrize("is_cut_off", [False, True])
    async def test_a_prompt_that_waited_goes_on_under_its_key(
        self, sqlite_path: Path, is_cut_off: bool
    ) -> None:
        """Security 23: after the decision it is answered, and then gives that answer."""
        asked = {"session_id": "s", "text": "hi", "waits": False, "idempotency_key": "k"}
        tool = host_tool("add", requires_approval=True)
        with SqliteStore(sqlite_path) as store:
            adapter = model([calls("add", {"a": 1, "b": 2}, call_id="c1")])
            async with serving(tool, adapter=adapter, store=store) as runtime:
                await new_session(runtime, session_id="s")
                waiting = await runtime.ask("prompt.send", asked)
                decision = {"approval_id": waiting.pending[0], "decision": "approve"}
                await runtime.ask("approvals.decide", decision)
        if is_cut_off:
            cut_off(sqlite_path)
        with SqliteStore(sqlite_path) as store:
            async with serving(tool, adapter=model([says("three")]), store=store) as runtime:
                await runtime.ask("session.resume", {"session_id": "s"})
                answers = [await runtime.ask("prompt.send", asked) for _ in range(2)]

        assert waiting.status == "waiting"
        assert [(each.status, each.text) for each in answers] == [("completed", "three")] * 2

    @pytest.mark.parametrize("is_cut_off", [False, True])
    async def test_a_decision_is_made_once(self, sqlite_path: Path, is_cut_off: bool) -> None:
        """A decision repeated under its key in another process is the one that was made."""
        tool = host_tool("add", requires_approval=True)
        with SqliteStore(sqlite_path) as store:
            async with serving(tool, store=store) as runtime:
                session_id = await new_session(runtime)
                waiting = await call(runtime, session_id, "add", a=1, b=2)
                asked = {"approval_id": waiting.approval_id, "decision": "approve"}
                first = await runtime.ask("approvals.decide", {**asked, "idempotency_key": "k"})
        if is_cut_off:
            cut_off(sqlite_path)
        with SqliteStore(sqlite_path) as store:
            async with serving(tool, store=store) as runtime:
                again = await runtime.ask("approvals.decide", {**asked, "idempotency_key": "k"})
                without = await refusal(runtime, "approvals.decide", asked)

        assert again == first
        assert without.kind == "conflict"

    async def test_a_prompt_that_never_began_is_sent(self, sqlite_path: Path) -> None:
        """A process that died between the claim of the key and the prompt leaves no answer."""
        asked = {"session_id": "s", "text": "hi", "idempotency_key": "k"}
        with SqliteStore(sqlite_path) as store:
            adapter = model([says("old")], [says("one")])
            async with serving(adapter=adapter, store=store) as runtime:
                await new_session(runtime, session_id="s")
                await runtime.ask("prompt.send", {"session_id": "s", "text": "before"})
                params = SendPrompt(session_id="s", text="hi", idempotency_key="k")
                digest = sha256(to_json(params)).hexdigest()
                claim = KeyClaim("owner", "prompt.send s", "k", digest, "s", 1.0, after_turn=1)
                assert store.claim_key(claim) is None

                answer = await runtime.ask("prompt.send", asked)

        assert (answer.text, answer.turn) == ("one", 2)


async def test_a_call_under_a_key_outlives_its_process(sqlite_path: Path) -> None:
    """A client that asks again after a restart gets the answer that the ledger has: the tool ran
    once, and the key is not free for anything else, nor anybody else's.
    """
    runs: list[Json] = []

    async def work(given: Json, context: ToolContext) -> Json:
        runs.append(given)
        if given.get("fails"):
            raise ValueError("no")
        return {"n": len(runs)}

    asked: Json = {"session_id": "s", "name": "work", "idempotency_key": "k", "arguments": {"x": 1}}
    failing = {**asked, "idempotency_key": "f", "arguments": {"fails": True}}
    tool = host_tool("work", work)
    with SqliteStore(sqlite_path) as store:
        async with serving(tool, store=store) as runtime:
            await new_session(runtime, session_id="s")
            first = [await runtime.ask("tools.call", each) for each in (asked, failing)]
    with SqliteStore(sqlite_path) as store:
        async with serving(tool, store=store) as runtime:
            await runtime.ask("session.resume", {"session_id": "s"})
            again = [await runtime.ask("tools.call", each) for each in (asked, failing)]
            other = await refusal(runtime, "tools.call", {**asked, "arguments": {"x": 2}})
            theirs = await runtime.ask("tools.call", asked, Principal("bot", OWNER.roles))
            fork = await runtime.ask("session.fork", {"session_id": "s", "new_session_id": "t"})
            forked = await runtime.ask("tools.call", {**asked, "session_id": fork.session_id})

    assert again == first
    assert (again[0].value, again[1].failure.kind) == ({"n": 1}, "tool_error")
    assert other.kind == "conflict"
    assert (theirs.value, forked.value, len(runs)) == ({"n": 3}, {"n": 4}, 4)


async def test_a_waiting_call_under_a_key_is_taken_up_after_a_restart(sqlite_path: Path) -> None:
    """R42: asked again under its key in another process, a call that waits is the same call."""
    tool = host_tool("add", requires_approval=True)
    asked: Json = {"session_id": "s", "name": "add", "idempotency_key": "k"}
    asked["arguments"] = {"a": 1, "b": 2}
    with SqliteStore(sqlite_path) as store:
        async with serving(tool, store=store) as runtime:
            await new_session(runtime, session_id="s")
            waiting = await runtime.ask("tools.call", asked)
    with SqliteStore(sqlite_path) as store:
        async with serving(tool, store=store) as runtime:
            await runtime.ask("session.resume", {"session_id": "s"})
            decision = {"approval_id": waiting.approval_id, "decision": "approve"}
            await runtime.ask("approvals.decide", decision)
            result = await runtime.ask("tools.call", asked)

    assert (waiting.status, result.status, result.value) == ("waiting", "completed", 3)
    assert result.call_id == waiting.call_id


async def test_calls_of_a_fork_have_ids_of_their_own() -> None:
    """Security 12: the ids that a fork begins with are not given to its own calls."""
    async with serving(host_tool("add")) as runtime:
        session_id = await new_session(runtime)
        earlier = [await call(runtime, session_id, "add", a=1, b=n) for n in range(3)]
        fork = await runtime.ask("session.fork", {"session_id": session_id})
        later = [await call(runtime, fork.session_id, "add", a=1, b=n) for n in range(3)]

    assert not {each.call_id for each in earlier} & {each.call_id for each in later}
