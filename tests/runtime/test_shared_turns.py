"""Prompts on a store that two runtimes share: accepted by either, run by either, decided by either,
and never lost or run twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import pytest

from tests.helpers.patience import PATIENCE
from tests.runtime.host_runtime import (
    CALLER,
    Gate,
    Json,
    SlowModel,
    events,
    host_tool,
    kinds,
    model,
    new_session,
    refusal,
    registry_of,
    serving,
)
from toolcrib import Session, ToolContext
from toolcrib.approval.policy import Policy, Rule
from toolcrib.calls.hooks import Hooks
from toolcrib.calls.lifecycle import HookedSession, Refuse
from toolcrib.errors import LeaseLost, Refused, SessionElsewhere, StoreError
from toolcrib.runtime import runtime as runtime_module
from toolcrib.runtime import sessions as sessions_module
from toolcrib.runtime.principal import OWNER, Principal
from toolcrib.runtime.runtime import Runtime
from toolcrib.runtime.session_setup import open_session
from toolcrib.runtime.sessions import LiveSessions
from toolcrib.runtime.turn_progress import Advanced
from toolcrib.store import PostgresStore
from toolcrib.store.cipher import new_key
from toolcrib.store.store import Lease
from toolcrib.testing import calls, says

ADD = {"a": 2, "b": 3}
OpenStore = Callable[..., PostgresStore]


@pytest.fixture
def open_store(postgres_url: str) -> Iterator[OpenStore]:
    """Opens replicas of one new database."""
    key = new_key()
    with ExitStack() as stack:

        def open_one(**options: Any) -> PostgresStore:
            store = PostgresStore(postgres_url, key=key, **options)
            return stack.enter_context(store)

        yield open_one


@pytest.fixture
def store(open_store: OpenStore) -> PostgresStore:
    return open_store()


async def send(runtime: Runtime, session_id: str, who: Principal = OWNER, **params: Any) -> Any:
    asked = {"session_id": session_id, "text": "how many?", **params}
    return await runtime.ask("prompt.send", asked, who)


async def decide(runtime: Runtime, decision: str = "approve") -> None:
    (approval,) = (await runtime.ask("approvals.list")).approvals
    params = {"approval_id": approval.approval_id, "digest": approval.digest}
    await runtime.ask("approvals.decide", {**params, "decision": decision})


async def until(condition: Callable[[], Any]) -> None:
    """Wait for something in the store."""
    end = time.monotonic() + PATIENCE
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < end
        await asyncio.to_thread(time.sleep, 0.01)


def is_waiting(store: PostgresStore, session_id: str) -> Callable[[], bool]:
    return lambda: [turn.state for turn in store.turns(session_id=session_id)] == ["waiting"]


def asking(*outputs: list[Json], **config: Any) -> Json:
    """A runtime whose tool needs an approval, and whose model says this."""
    registry = registry_of(host_tool("add", requires_approval=True))
    return {"host_tool_registry": registry, "adapter": model(*outputs), **config}


async def test_a_prompt_is_answered(store: PostgresStore) -> None:
    """A prompt comes back with its answer, and the session is free afterwards."""
    adapter = model([calls("add", ADD)], [says("five")])
    async with serving(host_tool("add"), store=store, adapter=adapter) as runtime:
        session_id = await new_session(runtime)
        result = await send(runtime, session_id)
        holder = store.holder(session_id)
        again = await refusal(runtime, "prompt.resume", {"session_id": session_id})

    assert (result.status, result.text, result.turn) == ("completed", "five", 1)
    assert holder is None
    assert again.kind == "conflict"


async def test_the_other_replica_runs_what_one_accepts(open_store: OpenStore) -> None:
    """A replica that takes no turns up accepts prompts: it waits for the answer of another one."""
    first, second = open_store(), open_store()
    async with (
        serving(store=first, adapter=model(), takes_turns=False) as front,
        serving(store=second, adapter=model([says("hello")])),
    ):
        session_id = await new_session(front)
        await front.ask("session.close", {"session_id": session_id})
        result = await send(front, session_id)

    assert (result.status, result.text) == ("completed", "hello")


async def test_a_session_that_is_open_at_a_replica_has_its_turns_run_there(
    open_store: OpenStore,
) -> None:
    """Somebody reads the session at one replica: what the other accepts runs where it is open."""
    first, second = open_store(), open_store()
    async with (
        serving(store=first, adapter=model([says("here")]), takes_turns=False) as one,
        serving(store=second, adapter=model()) as other,
    ):
        session_id = await new_session(one)
        reader = one.service.follow(session_id)
        result = await send(other, session_id)
        reader.close()

    assert result.text == "here"


async def test_a_turn_that_waits_holds_nothing(open_store: OpenStore) -> None:
    """Waiting for a person, a turn has neither lease nor memory, and the other replica can take the
    session at once.
    """
    store, other = open_store(), open_store()
    async with serving(store=store, **asking([calls("add", ADD)])) as runtime:
        session_id = await new_session(runtime)
        sent = await send(runtime, session_id, waits=False)
        open_sessions = runtime.state.open_sessions
        other.release(other.acquire(session_id, create=False))

    assert sent.status == "waiting"
    assert len(sent.pending) == 1
    assert open_sessions == 0


@pytest.mark.parametrize("uses_hints", [True, False])
async def test_a_decision_at_one_replica_lets_the_turn_go_on_at_another(
    open_store: OpenStore, uses_hints: bool
) -> None:
    """Decided where nobody runs turns, answered where somebody does, waited for at a third; with
    hints soon, without them a little later.
    """
    stores = [open_store(uses_hints=uses_hints) for _ in range(3)]
    asked = asking([calls("add", ADD)], [says("five")])
    front: Json = {**asked, "adapter": model(), "takes_turns": False}
    async with (
        serving(store=stores[0], **front) as one,
        serving(store=stores[1], **front) as two,
        serving(store=stores[2], **asked) as worker,
    ):
        session_id = await new_session(worker)
        waiting = asyncio.ensure_future(send(one, session_id))
        await until(is_waiting(stores[0], session_id))
        decided_at = time.monotonic()
        await decide(two)
        result = await waiting
        seconds = time.monotonic() - decided_at
        ran = await kinds(two, session_id)

    assert (result.status, result.text) == ("completed", "five")
    assert ran.count("tool.invoked") == 1
    # Two looks, each within two seconds; a busy machine is slower.
    assert seconds < (2 if uses_hints else 8)


async def test_a_prompt_that_waits_is_resumed_after_the_decision(store: PostgresStore) -> None:
    """Whoever was told that it waits asks for its end by `prompt.resume`, also when it went on by
    itself meanwhile.
    """
    async with serving(store=store, **asking([calls("add", ADD)], [says("five")])) as runtime:
        session_id = await new_session(runtime)
        await send(runtime, session_id, waits=False)
        before = await runtime.ask("prompt.resume", {"session_id": session_id, "waits": False})
        await decide(runtime)
        after = await runtime.ask("prompt.resume", {"session_id": session_id})
        once_more = await runtime.ask("prompt.resume", {"session_id": session_id})

    assert before.status == "waiting"
    assert (after.status, after.text) == ("completed", "five")
    assert once_more == after


async def test_a_failed_prompt_is_tried_again_by_resume(store: PostgresStore) -> None:
    """A model that fails ends the turn; `prompt.resume` tries it again."""
    async with serving(store=store, adapter=model([])) as runtime:
        session_id = await new_session(runtime)
        failed = await send(runtime, session_id)
    async with serving(store=store, adapter=model([says("at last")])) as runtime:
        resumed = await runtime.ask("prompt.resume", {"session_id": session_id})

    assert failed.status == "failed"
    assert (resumed.status, resumed.text) == ("completed", "at last")


async def test_a_running_prompt_is_cancelled_at_the_other_replica(open_store: OpenStore) -> None:
    """A cancel reaches the turn wherever it runs, and comes back when it has ended."""
    slow, first, second = SlowModel(), open_store(), open_store()
    async with (
        serving(store=first, adapter=slow.adapter()) as runner,
        serving(store=second, adapter=model(), takes_turns=False) as other,
    ):
        session_id = await new_session(runner)
        sent = asyncio.ensure_future(send(runner, session_id))
        await slow.is_asked.wait()
        cancelled = await other.ask("prompt.cancel", {"session_id": session_id})
        result = await sent
        nothing = await other.ask("prompt.cancel", {"session_id": session_id})
        (stopped,) = await events(other, session_id, "prompt.stopped")

    assert cancelled.was_running
    assert result.status == "cancelled"
    assert not nothing.was_running
    assert stopped["data"]["principal"] == "owner"


async def test_a_handler_that_takes_long_to_end_holds_up_no_other_cancel(
    open_store: OpenStore,
) -> None:
    """Of two prompts that run at another replica, the second is cancelled while the handler of the
    first is still ending.
    """
    first, second = open_store(), open_store()
    is_ending, may_end = asyncio.Event(), asyncio.Event()

    async def slow(given: Json, context: ToolContext) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            is_ending.set()
            await may_end.wait()
        return "never"

    gate = Gate()
    tools = (host_tool("slow", slow), host_tool("gate", gate))
    script = model([calls("slow", {})], [calls("gate", {})])
    async with (
        serving(*tools, store=first, adapter=script) as runner,
        serving(store=second, adapter=model(), takes_turns=False) as other,
    ):
        stubborn, quick = await new_session(runner), await new_session(runner)
        sent = [asyncio.ensure_future(send(runner, stubborn))]
        await until(lambda: list(first.open_calls(stubborn)))
        sent.append(asyncio.ensure_future(send(runner, quick)))
        await gate.is_entered.wait()
        held_up = asyncio.ensure_future(other.ask("prompt.cancel", {"session_id": stubborn}))
        await is_ending.wait()
        try:
            async with asyncio.timeout(PATIENCE):
                cancelled = await other.ask("prompt.cancel", {"session_id": quick})
            was_ending = not held_up.done()
        finally:
            may_end.set()
        await held_up
        results = await asyncio.gather(*sent)

    assert cancelled.was_running
    assert was_ending
    assert [result.status for result in results] == ["cancelled", "cancelled"]


async def test_a_waiting_prompt_is_cancelled(store: PostgresStore) -> None:
    """A turn that waits is ended by a cancel, and its request is withdrawn."""
    async with serving(store=store, **asking([calls("add", ADD)], [says("more")])) as runtime:
        session_id = await new_session(runtime)
        sent = asyncio.ensure_future(send(runtime, session_id))
        await until(is_waiting(store, session_id))
        cancelled = await runtime.ask("prompt.cancel", {"session_id": session_id})
        result = await sent
        pending = (await runtime.ask("approvals.list")).approvals
        more = await send(runtime, session_id)

    assert cancelled.was_running
    assert result.status == "cancelled"
    assert pending == []
    assert more.text == "more"


async def test_a_busy_session_rejects_enqueues_or_is_interrupted(store: PostgresStore) -> None:
    """The three rules for a prompt that comes while another one has not ended."""
    gate = Gate()
    adapter = model([calls("wait", {})], [says("one")], [says("two")], [says("three")])
    async with serving(host_tool("wait", gate), store=store, adapter=adapter) as runtime:
        session_id = await new_session(runtime)
        first = asyncio.ensure_future(send(runtime, session_id))
        await gate.is_entered.wait()
        rejected = await refusal(runtime, "prompt.send", {"session_id": session_id, "text": "?"})
        second = asyncio.ensure_future(send(runtime, session_id, when_busy="enqueue"))
        await until(lambda: len(store.turns(session_id=session_id)) == 2)
        gate.is_open.set()
        answers = [(await first).text, (await second).text]

        slow = asyncio.ensure_future(send(runtime, session_id))
        third = await slow

    assert rejected.kind == "busy"
    assert answers == ["one", "two"]
    assert third.text == "three"


async def test_an_interrupt_takes_the_place_of_all_others(store: PostgresStore) -> None:
    """Those that run and those that are queued end as cancelled."""
    gate = Gate()
    adapter = model([calls("wait", {})], [says("last")])
    async with serving(host_tool("wait", gate), store=store, adapter=adapter) as runtime:
        session_id = await new_session(runtime)
        first = asyncio.ensure_future(send(runtime, session_id))
        await gate.is_entered.wait()
        second = asyncio.ensure_future(send(runtime, session_id, when_busy="enqueue"))
        await until(lambda: len(store.turns(session_id=session_id)) == 2)
        third = await send(runtime, session_id, when_busy="interrupt")
        others = [(await first).status, (await second).status]

    assert third.text == "last"
    assert others == ["cancelled", "cancelled"]
    assert gate.was_cancelled


async def test_a_prompt_that_nobody_waits_for_gives_way(store: PostgresStore) -> None:
    """With `waits: false`, the next prompt takes the place of one that waits; otherwise it is
    refused as busy.
    """
    script = asking([calls("add", ADD)], [says("next")])
    async with serving(store=store, **script) as runtime:
        session_id = await new_session(runtime)
        await send(runtime, session_id, waits=False)
        following = await send(runtime, session_id)
        (stopped,) = await events(runtime, session_id, "prompt.stopped")

    assert following.text == "next"
    assert stopped["data"]["outcome"] == "cancelled"


async def test_a_key_gives_one_turn_on_two_replicas(open_store: OpenStore) -> None:
    """The same prompt under one key, to two replicas at once and once more later: one turn."""
    stores = [open_store(), open_store()]
    adapter = model([says("once")])
    async with (
        serving(store=stores[0], adapter=adapter) as one,
        serving(store=stores[1], adapter=adapter) as two,
    ):
        session_id = await new_session(one)
        params: Json = {"idempotency_key": "k"}
        both = await asyncio.gather(
            send(one, session_id, **params), send(two, session_id, **params)
        )
        later = await send(two, session_id, **params)
        other = await refusal(
            one, "prompt.send", {"session_id": session_id, "text": "other", **params}
        )
        started = (await kinds(one, session_id)).count("prompt.started")

    assert [result.text for result in (*both, later)] == ["once"] * 3
    assert other.kind == "conflict"
    assert started == 1


async def test_sessions_of_others_are_not_there(store: PostgresStore) -> None:
    """A prompt, its resumption and its cancel are for the owner of a session."""
    async with serving(store=store, adapter=model()) as runtime:
        session_id = await new_session(runtime)
        params = {"session_id": session_id}
        refused = [
            await refusal(runtime, "prompt.send", {**params, "text": "?"}, CALLER),
            await refusal(runtime, "prompt.resume", params, CALLER),
            await refusal(runtime, "prompt.cancel", params, CALLER),
        ]
    assert [error.kind for error in refused] == ["not_found"] * 3


async def test_the_calls_of_a_prompt_name_who_sent_it(store: PostgresStore) -> None:
    """Whichever process runs it, a call of the model is one of the principal that asked."""
    adapter = model([calls("add", ADD)], [says("five")])
    async with serving(host_tool("add"), store=store, adapter=adapter) as runtime:
        session_id = await new_session(runtime, CALLER)
        await send(runtime, session_id, CALLER)
        (call,) = (await runtime.ask("calls.list", {"session_id": session_id})).calls
    assert call.principal == CALLER.name


async def test_a_turn_whose_session_cannot_be_opened_now_is_tried_again(
    store: PostgresStore,
) -> None:
    """A process that has no room leaves the turn for later, and does not spin."""
    async with serving(store=store, adapter=model([says("late")]), max_sessions=1) as runtime:
        full = await new_session(runtime)
        reader = runtime.service.follow(full)
        lease = store.acquire("waiting", owner="owner")
        store.release(lease)
        sent = asyncio.ensure_future(send(runtime, "waiting"))
        await until(lambda: [t.failures >= 2 for t in store.turns(session_id="waiting")] == [True])
        reader.close()
        await runtime.ask("session.close", {"session_id": full})
        result = await sent
        turn = store.last_turn("waiting")

    assert result.text == "late"
    assert turn is not None
    assert turn.failures < 10


async def test_a_turn_that_is_claimed_again_is_opened_under_its_new_lease(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease of a turn is lost while its session is being opened, and the same process claims
    the turn again before it notices: the first run does not take the second one's lease away.
    """
    is_claimed_again, opened = asyncio.Event(), list[Lease]()

    class Watched(LiveSessions):
        def claimed(self, lease: Lease) -> None:
            super().claimed(lease)
            if opened:
                is_claimed_again.set()

    async def open_late(*args: Any) -> Session:
        lease: Lease = args[-1]
        if not opened:
            opened.append(lease)
            await asyncio.to_thread(store.release, lease)
            await is_claimed_again.wait()
            raise LeaseLost("it is another one's by now")
        opened.append(lease)
        return await open_session(*args)

    monkeypatch.setattr(runtime_module, "LiveSessions", Watched)
    async with serving(store=store, adapter=model([says("late")])) as runtime:
        session_id = await new_session(runtime)
        await runtime.ask("session.close", {"session_id": session_id})
        monkeypatch.setattr(sessions_module, "open_session", open_late)
        result = await send(runtime, session_id)

    assert result.text == "late"
    first, second = opened
    assert second.fence > first.fence


async def test_a_turn_whose_session_is_open_elsewhere_is_tried_again(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has the session may let it go: no prompt that was accepted ends for it."""
    refusals = [SessionElsewhere("another process has the session open")]

    async def open_late(*args: Any) -> Session:
        if refusals:
            raise refusals.pop()
        return await open_session(*args)

    async with serving(store=store, adapter=model([says("late")])) as runtime:
        session_id = await new_session(runtime)
        await runtime.ask("session.close", {"session_id": session_id})
        monkeypatch.setattr(sessions_module, "open_session", open_late)
        result = await send(runtime, session_id)

    assert result.text == "late"


async def test_a_turn_that_the_store_fails_on_is_not_tried_without_a_pause(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fails each time, such as a secret that the key of this replica does not open, is tried
    again after pauses that grow, and goes on once it is mended.
    """
    failed: list[float] = []
    really = store.open_calls

    def open_calls(session_id: str) -> Any:
        if len(failed) == 3:
            return really(session_id)
        failed.append(time.monotonic())
        raise StoreError("the key does not open it")

    async with serving(store=store, adapter=model([says("at last")])) as runtime:
        session_id = await new_session(runtime)
        await runtime.ask("session.close", {"session_id": session_id})
        monkeypatch.setattr(store, "open_calls", open_calls)
        result = await send(runtime, session_id)

    assert result.text == "at last"
    first, second, third = failed
    assert second - first >= 0.25
    assert third - second >= 0.5


async def test_a_process_without_a_model_leaves_turns_to_others(open_store: OpenStore) -> None:
    """A command that lists what waits takes no turn up, only to hand it back after a while."""
    stores = [open_store(), open_store()]
    async with (
        serving(store=stores[0]) as command,
        serving(store=stores[1], adapter=model([says("5")])) as runtime,
    ):
        session_id = await new_session(runtime)
        await runtime.ask("session.close", {"session_id": session_id})
        await command.ask("session.list")
        result = await send(runtime, session_id)
        turn, replicas = stores[1].last_turn(session_id), stores[1].replicas()

    assert result.text == "5"
    assert turn is not None
    assert turn.failures == 0
    assert [each.replica_id for each in replicas] == [stores[1].replica_id]


async def test_a_session_says_whether_it_is_busy(open_store: OpenStore) -> None:
    """A prompt that waits for a person with its sender is busy at every replica; one that gives way
    can be resumed, or replaced.
    """
    stores = [open_store(), open_store()]
    async with (
        serving(store=stores[0], **asking([calls("add", ADD)], [calls("add", ADD)])) as runtime,
        serving(store=stores[1], adapter=model(), takes_turns=False) as other,
    ):
        params = {"session_id": await new_session(runtime)}
        before = await other.ask("session.get", params)
        sent = asyncio.ensure_future(send(runtime, params["session_id"]))
        await until(is_waiting(stores[0], params["session_id"]))
        busy = await other.ask("session.get", params)
        await other.ask("prompt.cancel", params)
        await sent
        await send(runtime, params["session_id"], waits=False)
        waiting = await other.ask("session.get", params)

    facts = [(each.is_busy, each.has_open_prompt) for each in (before, busy, waiting)]
    assert facts == [(False, False), (True, True), (False, True)]


async def test_a_turn_that_nobody_may_run_ends_with_the_refusal(store: PostgresStore) -> None:
    """A hook refuses the session: whoever asked is told so, and nobody tries again."""
    hooks = Hooks()

    @hooks.on("session_opened")
    async def refuse(opened: HookedSession) -> Refuse | None:
        return None if opened.is_new else Refuse("not in this house")

    async with serving(store=store, adapter=model([says("never")]), hooks=hooks) as runtime:
        session_id = await new_session(runtime)
        await runtime.ask("session.close", {"session_id": session_id})
        refused = await refusal(runtime, "prompt.send", {"session_id": session_id, "text": "?"})
        turn = store.last_turn(session_id)

    assert refused.kind == "forbidden"
    assert "not in this house" in str(refused)
    assert turn is not None
    assert (turn.state, turn.failures) == ("ended", 1)


async def test_a_turn_that_fails_unexpectedly_is_given_up(
    store: PostgresStore, caplog: pytest.LogCaptureFixture
) -> None:
    """It is tried again a few times, each a while after the last, and then refused."""

    class Broken:
        name = model_name = "broken"

        async def evaluate_async(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("a bug, and a secret")

        resume_async = evaluate_async

    async with serving(store=store, adapter=Broken()) as runtime:
        session_id = await new_session(runtime)
        refused = await refusal(runtime, "prompt.send", {"session_id": session_id, "text": "?"})
        turn = store.last_turn(session_id)

    assert refused.kind == "internal"
    assert "secret" not in str(refused)
    assert turn is not None
    assert turn.failures == 5


async def test_a_turn_that_was_cut_off_often_may_fail_as_often_as_any_other(
    open_store: OpenStore,
) -> None:
    """Replicas that died while they ran it are no failures of the turn: one real failure neither
    ends it nor lets it rest for long.
    """

    class FailsOnce:
        name = model_name = "fails once"

        def __init__(self) -> None:
            self._adapter, self._failures = model([says("late")]), 0

        async def evaluate_async(self, *args: Any, **options: Any) -> Any:
            self._failures += 1
            if self._failures == 1:
                raise RuntimeError("a bug")
            return await self._adapter.evaluate_async(*args, **options)

        resume_async = evaluate_async

    first, second = open_store(), open_store()
    async with serving(store=first, adapter=model(), takes_turns=False) as front:
        session_id = await new_session(front)
        await front.ask("session.close", {"session_id": session_id})
        sent = asyncio.ensure_future(send(front, session_id))
        await until(lambda: first.turns(session_id=session_id))
        for _ in range(10):
            (claimed,) = await asyncio.to_thread(second.claim_turns, 1)
            await asyncio.to_thread(second.release, claimed.lease)
        async with serving(store=second, adapter=FailsOnce()):
            result = await asyncio.wait_for(sent, PATIENCE)
        turn = first.last_turn(session_id)

    assert result.text == "late"
    assert turn is not None
    assert turn.failures == 1


async def test_advance_takes_one_session_up(open_store: OpenStore) -> None:
    """`advance` begins, resumes, and says what is left; the store says the same to all."""
    front, store = open_store(), open_store()
    script = asking([calls("add", ADD)], [says("five")], [says("six")], takes_turns=False)
    async with (
        serving(store=front, adapter=model(), takes_turns=False) as client,
        serving(store=store, **script) as worker,
    ):
        session_id = await new_session(worker)
        await worker.ask("session.close", {"session_id": session_id})
        nothing = await worker.advance(session_id)
        first = asyncio.ensure_future(send(client, session_id))
        await until(lambda: len(store.turns(session_id=session_id)) == 1)
        second = asyncio.ensure_future(send(client, session_id, when_busy="enqueue"))
        await until(lambda: len(store.turns(session_id=session_id)) == 2)
        statuses = [await worker.advance(session_id), await worker.advance(session_id)]
        await decide(client)
        statuses += [await worker.advance(session_id) for _ in range(3)]
        with pytest.raises(Refused, match="no session"):
            await worker.advance("ses_none")
        texts = [(await first).text, (await second).text]

    assert nothing.status == "idle"
    assert [each.status for each in statuses] == [
        "waiting",
        "waiting",
        "answered",
        "answered",
        "idle",
    ]
    assert [each.has_more for each in statuses] == [False, False, True, False, False]
    assert texts == ["five", "six"]


async def test_a_turn_that_runs_elsewhere_is_left_alone(open_store: OpenStore) -> None:
    """While one replica runs a turn, `advance` at another does nothing."""
    slow, first, second = SlowModel(), open_store(), open_store()
    async with (
        serving(store=first, adapter=slow.adapter()) as runner,
        serving(store=second, adapter=model(), takes_turns=False) as other,
    ):
        session_id = await new_session(runner)
        sent = asyncio.ensure_future(send(runner, session_id))
        await slow.is_asked.wait()
        advanced = await other.advance(session_id)
        await runner.ask("prompt.cancel", {"session_id": session_id})
        await sent
    assert advanced == Advanced(session_id, "elsewhere")


async def test_a_deadline_lets_a_turn_go_on(store: PostgresStore) -> None:
    """Nobody decides: the request expires, and the turn goes on by itself."""
    policy = Policy(rules=(Rule(tool="add", effect="ask", deadline_seconds=1),))
    adapter = model([calls("add", ADD)], [says("nobody came")])
    async with serving(host_tool("add"), store=store, adapter=adapter, policy=policy) as runtime:
        session_id = await new_session(runtime)
        result = await send(runtime, session_id)
    assert result.text == "nobody came"


@asynccontextmanager
async def closing(runtime: Runtime) -> AsyncGenerator[float]:
    began = time.monotonic()
    await runtime.close()
    yield time.monotonic() - began


async def test_a_turn_that_waits_does_not_hold_up_the_end_of_a_process(
    store: PostgresStore,
) -> None:
    """Whoever waits for a person hears that it waits, and the process ends at once."""
    async with serving(store=store, **asking([calls("add", ADD)], drain_seconds=60)) as runtime:
        session_id = await new_session(runtime)
        sent = asyncio.ensure_future(send(runtime, session_id))
        await until(is_waiting(store, session_id))
        async with closing(runtime) as seconds:
            result = await sent

    assert result.status == "waiting"
    assert seconds < 5


@pytest.mark.parametrize("drain_seconds", [0, 60])
async def test_a_turn_that_runs_is_handed_over_at_the_end_of_a_process(
    open_store: OpenStore, drain_seconds: float
) -> None:
    """Another replica goes on at once, as no handler runs: nothing is lost, and whoever waited is
    told where to ask.
    """
    slow, first, second = SlowModel(), open_store(), open_store()
    async with (
        serving(store=first, adapter=slow.adapter(), drain_seconds=drain_seconds) as ending,
        serving(store=second, adapter=model([says("handed over")]), takes_turns=True) as other,
    ):
        session_id = await new_session(ending)
        # While somebody reads it here, the session is open here.
        reader = ending.service.follow(session_id)
        sent = asyncio.ensure_future(send(ending, session_id))
        await slow.is_asked.wait()
        async with closing(ending) as seconds:
            reader.close()
        result = await other.ask("prompt.resume", {"session_id": session_id})
        with pytest.raises(Refused, match="goes on in another"):
            await sent
        started = (await kinds(other, session_id)).count("prompt.started")

    assert (result.status, result.text) == ("completed", "handed over")
    assert started == 1
    assert seconds < 5


async def test_a_handler_ends_before_its_turn_is_handed_over(open_store: OpenStore) -> None:
    """Within the drain time a handler runs to its end, so that nobody has to ask whether it did
    anything; then the turn goes on elsewhere, long before the drain time is over.
    """
    gate, first, second = Gate(), open_store(), open_store()
    registry = registry_of(host_tool("wait", gate))
    config: Json = {"host_tool_registry": registry, "drain_seconds": 60}
    async with (
        serving(store=first, adapter=model([calls("wait", {})]), **config) as ending,
        serving(store=second, adapter=model([says("done")]), **config) as other,
    ):
        session_id = await new_session(ending)
        sent = asyncio.ensure_future(send(ending, session_id))
        await gate.is_entered.wait()
        closing = asyncio.ensure_future(ending.close())
        refused = await refusal(ending, "prompt.send", {"session_id": session_id, "text": "?"})
        assert not closing.done()
        gate.is_open.set()
        await closing
        result = await other.ask("prompt.resume", {"session_id": session_id})
        await asyncio.gather(sent, return_exceptions=True)
        ran = await kinds(other, session_id)

    assert refused.kind == "closing"
    assert (result.status, result.text) == ("completed", "done")
    assert (gate.entered, gate.was_cancelled) == (1, False)
    assert (ran.count("tool.invoked"), ran.count("call.in_doubt")) == (1, 0)


async def test_a_session_that_nobody_uses_is_handed_over_while_a_handler_runs(
    open_store: OpenStore,
) -> None:
    """A handler that takes all the drain time keeps its own session, and no other one."""
    gate, first, second = Gate(), open_store(), open_store()
    registry = registry_of(host_tool("wait", gate))
    config: Json = {"host_tool_registry": registry, "drain_seconds": 60}
    async with serving(store=first, **config) as ending, serving(store=second, **config) as other:
        busy, unused = await new_session(ending), await new_session(ending)
        params: Json = {"session_id": busy, "name": "wait", "arguments": {}}
        called = asyncio.ensure_future(ending.ask("tools.call", params))
        await gate.is_entered.wait()
        closing = asyncio.ensure_future(ending.close())
        await until(lambda: second.holder(unused) is None)
        opened = await other.ask("session.resume", {"session_id": unused})
        assert (first.holder(busy) is None, called.done(), closing.done()) == (False,) * 3
        gate.is_open.set()
        ended = await called
        await closing

    assert (opened.session_id, ended.status) == (unused, "completed")


async def test_a_turn_that_runs_alone_ends_before_the_process_does(store: PostgresStore) -> None:
    """Where no other replica could go on, the drain time is for the turn to end."""
    gate = Gate()
    adapter = model([calls("wait", {})], [says("done")])
    async with serving(host_tool("wait", gate), store=store, adapter=adapter) as runtime:
        session_id = await new_session(runtime)
        sent = asyncio.ensure_future(send(runtime, session_id))
        await gate.is_entered.wait()
        closing = asyncio.ensure_future(runtime.close())
        gate.is_open.set()
        result = await sent
        await closing

    assert (result.status, result.text) == ("completed", "done")


async def test_a_turn_goes_on_when_its_replica_loses_its_lease(open_store: OpenStore) -> None:
    """A replica that cannot renew gives its turn up; another one goes on after the lease."""
    effects: list[str] = []

    async def note(given: Json, context: ToolContext) -> str:
        effects.append("noted")
        return "done"

    slow = SlowModel()
    first, second = open_store(lease_seconds=1), open_store(lease_seconds=1)
    config: Json = {"host_tool_registry": registry_of(host_tool("note", note))}
    async with (
        serving(store=first, adapter=slow.adapter(), **config) as losing,
        serving(
            store=second, adapter=model([says("taken over")]), takes_turns=True, **config
        ) as other,
    ):
        session_id = await new_session(losing)
        reader = losing.service.follow(session_id)
        sent = asyncio.ensure_future(send(losing, session_id))
        await slow.is_asked.wait()
        heartbeat: Any = first
        heartbeat._thread.loop.call_soon_threadsafe(heartbeat._heartbeat._task.cancel)
        result = await sent
        reader.close()
        started = (await kinds(other, session_id)).count("prompt.started")

    assert (result.status, result.text) == ("completed", "taken over")
    assert started == 1
