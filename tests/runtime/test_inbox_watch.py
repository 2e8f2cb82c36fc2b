"""The context of approval requests, and the stream of changes of the inbox."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.helpers.patience import PATIENCE
from tests.runtime.host_runtime import (
    BOSS,
    CALLER,
    add,
    call,
    host_tool,
    model,
    new_session,
    refusal,
    serving,
)
from toolcrib import Policy, SqliteStore
from toolcrib.approval.quorum import Quorum
from toolcrib.approval.rule import Rule
from toolcrib.runtime.approval_messages import ApprovalContext, InboxState
from toolcrib.runtime.principal import Principal
from toolcrib.runtime.runtime import Runtime
from toolcrib.store.store import Store
from toolcrib.testing import calls, says

RISKY = host_tool("add", requires_approval=True)
ADMIN = Principal("root", frozenset({"admin"}))


async def context(runtime: Runtime, approval_id: str, who: Principal = BOSS) -> ApprovalContext:
    return await runtime.ask("approvals.context", {"approval_id": approval_id}, who)


async def decide(runtime: Runtime, approval_id: str, decision: str = "approve", **rest: Any) -> Any:
    params = {"approval_id": approval_id, "decision": decision, **rest}
    return await runtime.ask("approvals.decide", params, BOSS)


async def next_state(states: AsyncIterator[InboxState]) -> InboxState:
    return await asyncio.wait_for(anext(states), PATIENCE)


class TestContext:
    async def test_the_words_before_the_call(self, store: Store) -> None:
        """Who decides reads the prompt of the turn and what the model said before it called."""
        adapter = model([says("I will add them."), calls("add", {"a": 1, "b": 2})])
        async with serving(RISKY, store=store, adapter=adapter) as runtime:
            session_id = await new_session(runtime, CALLER)
            params = {"session_id": session_id, "text": "Add one\nand two", "waits": False}
            waiting = await runtime.ask("prompt.send", params, CALLER)
            told = await context(runtime, waiting.pending[0])

        assert told.prompt is not None
        assert "Add one\nand two" in told.prompt
        assert told.last_words == "I will add them."
        assert told.session_title == "Add one and two"
        assert (told.session_owner, told.may_read_session) == ("bot", True)
        assert (told.description, told.risk) == ("The tool add.", "changes")

    async def test_what_is_different_from_the_last_approved_call(self, store: Store) -> None:
        """The arguments of the last approved call of the same tool, and those that differ; a denied
        call is none.
        """
        async with serving(RISKY, store=store) as runtime:
            session_id = await new_session(runtime)
            first = await call(runtime, session_id, "add", a=1, b=2)
            before = await context(runtime, first.approval_id)
            await decide(runtime, first.approval_id)
            denied = await call(runtime, session_id, "add", a=7, b=7)
            await decide(runtime, denied.approval_id, "deny")
            second = await call(runtime, session_id, "add", a=1, b=5)
            told = await context(runtime, second.approval_id)

        assert (before.last_approved, before.argument_changes) == (None, [])
        assert told.last_approved is not None
        assert (told.last_approved.approval_id, told.last_approved.by) == (
            first.approval_id,
            "ann",
        )
        assert [(each.pointer, each.before, each.after) for each in told.argument_changes] == [
            ("/b", 2, 5)
        ]

    async def test_the_last_approved_call_is_one_that_the_principal_may_see(self) -> None:
        """A caller is not told of the calls of somebody else."""
        async with serving(RISKY) as runtime:
            others = await call(runtime, await new_session(runtime), "add", a=1, b=2)
            await decide(runtime, others.approval_id)
            session_id = await new_session(runtime, CALLER)
            params = {"session_id": session_id, "name": "add", "arguments": {"a": 1, "b": 3}}
            own = await runtime.ask("tools.call", params, CALLER)
            mine = await context(runtime, own.approval_id, CALLER)
            theirs = await context(runtime, own.approval_id, BOSS)
            hidden = await refusal(
                runtime, "approvals.context", {"approval_id": others.approval_id}, CALLER
            )

        assert mine.last_approved is None
        assert theirs.last_approved is not None
        assert hidden.kind == "not_found"

    async def test_the_rule_has_its_line(self) -> None:
        """The rule that asked is named with the file's name, not its folder, and its line."""
        rule = Rule("ask", "add", id="ask-first", file="/etc/crib/policy.yaml", line=12)
        deadline = replace(rule, deadline_seconds=60)
        async with serving(host_tool("add"), policy=Policy((deadline,))) as runtime:
            waiting = await call(runtime, await new_session(runtime), "add", a=1, b=2)
            told = await context(runtime, waiting.approval_id)

        assert (told.rule.id, told.rule.file, told.rule.line) == ("ask-first", "policy.yaml", 12)
        assert told.unanswered == "expires"

    async def test_what_one_may_do(self) -> None:
        """Four eyes, groups, several approvers and grants for everyone: each is offered only to
        whom the server would let do it.
        """
        rule = Rule("ask", "add", approvers=Quorum(2, ("finance",)))
        fay = Principal("fay", frozenset({"approver"}), frozenset({"finance"}))
        async with serving(host_tool("add"), host_tool("sub", add, requires_approval=True),
                           policy=Policy((rule,))) as runtime:  # fmt: skip
            both = Principal("eve", frozenset({"caller", "approver"}))
            session_id = await new_session(runtime, both)
            params = {"session_id": session_id, "name": "sub", "arguments": {"a": 1, "b": 2}}
            own = await runtime.ask("tools.call", params, both)
            routed = await runtime.ask("tools.call", {**params, "name": "add"}, both)
            ways = [
                (await context(runtime, waiting.approval_id, who)).ways
                for waiting, who in ((own, both), (own, BOSS), (own, ADMIN), (routed, fay))
            ]
            decision = {"approval_id": routed.approval_id, "decision": "approve"}
            await runtime.ask("approvals.decide", decision, fay)
            after = await context(runtime, routed.approval_id, fay)
            auditor = await context(
                runtime, routed.approval_id, Principal("dora", frozenset({"auditor"}))
            )

        assert ways == [
            ["deny"],
            ["approve", "edit", "deny", "answer", "grant"],
            ["approve", "edit", "deny", "answer", "grant", "grant_everyone"],
            ["approve", "edit", "deny"],
        ]
        assert (after.ways, auditor.ways) == (["deny"], [])
        assert "somebody else" in (after.why_not or "")


class TestFeed:
    async def test_every_change_is_told(self, store: Store) -> None:
        """What waits at first, a request that comes, and one that is decided."""
        async with serving(RISKY, store=store) as runtime:
            session_id = await new_session(runtime)
            first = await call(runtime, session_id, "add", a=1, b=2)
            feed = runtime.service.inbox.follow(BOSS)
            states = aiter(feed)
            now = await next_state(states)
            second = await call(runtime, session_id, "add", a=3, b=4)
            more = await next_state(states)
            await decide(runtime, first.approval_id)
            less = await next_state(states)
            feed.close()
            asked = await runtime.ask("approvals.events", {}, BOSS)

        assert (now.waiting, now.added) == (1, [])
        assert (more.waiting, more.added) == (2, [second.approval_id])
        assert (less.waiting, less.removed) == (1, [first.approval_id])
        assert asked == InboxState(waiting=1, questions=0)

    async def test_another_process_is_noticed(self, tmp_path: Path) -> None:
        """A decision that goes to the same store by another connection ends a request here."""
        path = tmp_path / "crib.sqlite3"
        with SqliteStore(path) as here, SqliteStore(path) as there:
            async with serving(RISKY, store=here) as runtime, serving(store=there) as other:
                waiting = await call(runtime, await new_session(runtime), "add", a=1, b=2)
                feed = runtime.service.inbox.follow(BOSS)
                states = aiter(feed)
                await next_state(states)
                await decide(other, waiting.approval_id, "deny")
                gone = await next_state(states)
                feed.close()

        assert gone.removed == [waiting.approval_id]

    async def test_nobody_hears_of_what_they_may_not_see(self, store: Store) -> None:
        """A caller's stream tells of its own requests, and not of those of others."""
        async with serving(RISKY, store=store) as runtime:
            feed = runtime.service.inbox.follow(CALLER)
            states = aiter(feed)
            nothing = await next_state(states)
            await call(runtime, await new_session(runtime), "add", a=1, b=2)
            session_id = await new_session(runtime, CALLER)
            params = {"session_id": session_id, "name": "add", "arguments": {"a": 1, "b": 3}}
            own = await runtime.ask("tools.call", params, CALLER)
            told = await next_state(states)
            feed.close()

        assert nothing.waiting == 0
        assert (told.waiting, told.added) == (1, [own.approval_id])

    async def test_nothing_is_looked_at_while_nobody_reads(self) -> None:
        """The last reader that leaves ends the looking."""
        async with serving(RISKY) as runtime:
            before = asyncio.all_tasks()
            feeds = [runtime.service.inbox.follow(BOSS) for _ in range(2)]
            during = asyncio.all_tasks() - before
            feeds[0].close()
            [watch] = during
            assert not watch.cancelling()
            feeds[1].close()
            assert watch.cancelling()


async def test_faults_of_an_edit_have_pointers() -> None:
    """A form can mark the fields that the server refuses, and the request still waits."""
    async with serving(RISKY) as runtime:
        waiting = await call(runtime, await new_session(runtime), "add", a=1, b=2)
        params = {
            "approval_id": waiting.approval_id,
            "decision": "approve",
            "arguments": {"a": "one", "b": 2},
        }
        refused = await refusal(runtime, "approvals.decide", params, BOSS)
        state = await runtime.ask("approvals.events", {}, BOSS)

    assert [fault["pointer"] for fault in refused.facts["faults"]] == ["/a"]
    assert state.waiting == 1
