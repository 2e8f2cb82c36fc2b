"""Turns: numbered one by one, and linked to the call that they are part of."""

import asyncio
import threading
from typing import Any

import pytest

from tests.calls.nested_turns import asking, erase, look
from tests.calls.runs import found, invoked
from toolcrib import (
    Approve,
    CallRequest,
    Executor,
    Hooks,
    Session,
    ToolContext,
    tool,
)
from toolcrib.calls.outcome import run_all
from toolcrib.ledger.events import TurnStarted
from toolcrib.session.turns import call_here, turn_here


class TestNumbers:
    async def test_after_a_turn_within_it_the_outer_one_goes_on(self) -> None:
        """C8: what the outer turn does next is the outer turn's again."""
        session = Session()
        ask, _ = asking(session)
        executor = Executor(session, [ask, look])

        with executor.turn() as outer:
            await executor.call("ask")
            after = session.turn
            await executor.call("look")

        assert (outer, after, session.last_turn) == (1, 1, 2)
        assert [(event.name, event.turn) for event in invoked(session)] == [
            ("look", 2),
            ("ask", 1),
            ("look", 1),
        ]

    async def test_parallel_turns_within_one_are_told_apart(self) -> None:
        """C8: two calls at once, each with a turn of its own: no call is taken for the other's."""
        session = Session()
        names = ("one", "two")
        executor = Executor(session, [asking(session, called=name)[0] for name in names])

        with executor.turn():
            await executor.call_many([CallRequest(name, call_id=name) for name in names])

        begun = {event.parent_call_id: event.turn for event in found(session, TurnStarted)}
        inner = {event.parent_call_id: event.turn for event in invoked(session) if event.turn > 1}
        assert begun == {None: 1, "one": 2, "two": 3}
        assert inner == {"one": 2, "two": 3}

    def test_turns_that_begin_in_several_threads_have_several_numbers(self) -> None:
        """Blocking handlers evaluate prompts in threads; no two turns share a number."""
        session = Session()
        together = threading.Barrier(8)
        numbers: list[int] = []

        def begin() -> None:
            together.wait()
            for _ in range(50):
                numbers.append(session.next_turn())

        threads = [threading.Thread(target=begin) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(numbers) == list(range(1, 401))

    async def test_the_turn_of_another_session_is_not_ones_own(self) -> None:
        """A call made in one session while another session's turn is open belongs to no turn of
        that other one.
        """
        first, second = Session(), Session()
        ours, theirs = Executor(first, [look]), Executor(second, [look])

        with ours.turn(), ours.turn(), theirs.turn():
            await ours.call("look")
            await theirs.call("look")

        assert (invoked(first)[0].turn, invoked(second)[0].turn) == (2, 1)

    async def test_outside_of_turns_the_last_one_counts(self) -> None:
        """A call that no turn holds is counted to the turn that began last, if there is one."""
        session = Session()
        executor = Executor(session, [look])
        await executor.call("look")
        with executor.turn(), executor.turn():
            pass

        await executor.call("look")

        assert [event.turn for event in invoked(session)] == [0, 2]
        assert turn_here() is None

    async def test_a_turn_can_go_on_later(self) -> None:
        """What follows from a turn is counted to it also when others began meanwhile."""
        session = Session()
        executor = Executor(session, [look])
        with executor.turn() as first, executor.turn():
            pass

        with executor.turn_again(first, parent_call_id="c0", parent_turn=7):
            await executor.call("look")

        (event,) = invoked(session)
        assert (event.turn, event.parent_call_id, event.depth) == (first, "c0", 0)
        assert len(found(session, TurnStarted)) == 2


class TestLink:
    async def test_a_turn_and_its_calls_name_the_call_they_are_part_of(self) -> None:
        """C8, R46: the turn, its calls, their contexts and requests say which call it was."""
        session = Session()
        seen: list[str | None] = []

        @tool
        async def watch(ctx: ToolContext) -> None:
            """Watch."""
            seen.append(ctx.parent_call_id)

        @tool
        async def ask() -> None:
            """Ask."""
            inner = Executor(session, [watch, erase])
            with inner.turn():
                await inner.call("watch", call_id="c2")
                await inner.call("erase", call_id="c3")

        executor = Executor(session, [ask])
        with executor.turn():
            await executor.call("ask", call_id="c1")

        outer, inner = found(session, TurnStarted)
        assert (outer.parent_call_id, outer.parent_turn) == (None, None)
        assert (inner.parent_call_id, inner.parent_turn) == ("c1", 1)
        parents = [(event.call_id, event.parent_call_id) for event in invoked(session)]
        assert parents == [("c2", "c1"), ("c3", "c1"), ("c1", None)]
        (filed,) = session.store.approvals(session_id=session.session_id).items
        assert (filed.request.parent_call_id, seen) == ("c1", ["c1"])

    async def test_a_call_outside_of_turns_has_turns_of_its_own_too(self) -> None:
        """C8: whoever calls a tool without a model still gets the link."""
        session = Session()
        ask, _ = asking(session)

        outcome = await Executor(session, [ask]).call("ask")

        (begun,) = found(session, TurnStarted)
        assert (begun.turn, begun.parent_call_id) == (1, outcome.call_id)

    async def test_threads_know_the_call_they_serve(self) -> None:
        """C8: a blocking handler is as much part of its call as an async one."""
        session = Session()
        seen: list[str | None] = []

        @tool
        def block() -> None:
            """Block."""
            call = call_here(session)
            seen.append(call.call_id if call else None)

        await Executor(session, [block]).call("block", call_id="c1")

        assert seen == ["c1"]
        assert call_here() is None

    @pytest.mark.parametrize("moment", ["pre", "post", "approver"])
    async def test_hooks_and_approvers_are_part_of_the_call(self, moment: str) -> None:
        """C8: also what a hook or an approver asks a model is linked to the call it is about."""
        session = Session()

        def note() -> None:
            with Executor(session).turn():
                pass

        async def pre(ctx: Any, name: str, args: dict[str, Any]) -> dict[str, Any]:
            note()
            return args

        async def post(ctx: Any, name: str, result: Any) -> Any:
            note()
            return result

        class Asked:
            async def ask(self, request: Any) -> Any:
                note()
                return Approve()

        options: dict[str, dict[str, Any]] = {
            "pre": {"hooks": Hooks(global_pre=pre)},
            "post": {"hooks": Hooks(global_post=post)},
            "approver": {"approver": Asked()},
        }
        session.need_user_approve_tools = ["look"] if moment == "approver" else []

        await Executor(session, [look], **options[moment]).call("look", call_id="c1")

        assert [event.parent_call_id for event in found(session, TurnStarted)] == ["c1"]

    async def test_a_call_of_another_session_is_not_the_parent(self) -> None:
        """A ledger can only name calls that it has."""
        elsewhere = Session()
        ask, _ = asking(elsewhere)

        await Executor(Session(), [ask]).call("ask")

        (begun,) = found(elsewhere, TurnStarted)
        assert begun.parent_call_id is None

    async def test_what_a_handler_leaves_behind_is_no_part_of_its_call(self) -> None:
        """A task that outlives the call, as a worker that the handler was first to need, is free
        of it.
        """
        session = Session()
        is_over = asyncio.Event()
        left: list[asyncio.Task[None]] = []

        async def later() -> None:
            await is_over.wait()
            with Executor(session).turn():
                pass

        @tool
        async def leave() -> None:
            """Leave a task behind."""
            left.append(asyncio.create_task(later()))

        executor = Executor(session, [leave])
        with executor.turn():
            await executor.call("leave")
        is_over.set()
        await left[0]

        assert [event.parent_call_id for event in found(session, TurnStarted)] == [None, None]


async def test_calls_made_together_share_their_turn() -> None:
    """Tasks that a turn starts are part of it."""
    session = Session()
    executor = Executor(session, [look])

    with executor.turn(), executor.turn():
        await run_all([lambda: executor.call("look")] * 3)

    assert [event.turn for event in invoked(session)] == [2] * 3
