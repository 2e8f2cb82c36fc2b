"""R46: what is on record stays as it was, wherever it is kept and however the call was left."""

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.calls.runs import found, invoked, run
from toolcrib import (
    ApprovalRequired,
    Approve,
    CallbackApprover,
    Executor,
    GlobalHooks,
    Hooks,
    Session,
    SqliteStore,
    ToolContext,
    ToolInvoked,
    tool,
)
from toolcrib.approval.decision import ApprovalRequest
from toolcrib.errors import LeaseLost
from toolcrib.ledger.events import CallStarted
from toolcrib.testing import FakeClock, Recorder


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
async def broken() -> str:
    """Fail."""
    raise LookupError("no such book")


@dataclass
class Basket:
    items: list[str] = field(default_factory=list[str])


class TestLastingness:
    @pytest.mark.parametrize("is_heard", [False, True], ids=["unheard", "heard"])
    async def test_what_the_application_changes_later_is_not_on_record(
        self, is_heard: bool
    ) -> None:
        """R46: the value belongs to the application; the record is of what it was."""

        @tool
        async def fill() -> Basket:
            """Fill a basket."""
            return Basket(["egg"])

        session = Session()
        if is_heard:
            Recorder(session.bus)
        ended = await run(fill, session=session)

        ended.outcome.value.items.append("mouse")

        assert ended.record.value == {"items": ["egg"]}
        assert ended.record.message == '{"items":["egg"]}'

    async def test_a_start_is_recorded_as_it_was(self) -> None:
        """R46: a call that asks while it runs, and is edited, keeps the record of its first start:
        first attempt, first arguments.
        """

        @tool
        async def work(ctx: ToolContext, number: int) -> int:
            """Ask on second thoughts."""
            if not ctx.tool_call_approved:
                raise ApprovalRequired
            return number

        async def edit(_: ApprovalRequest) -> Approve:
            return Approve({"number": 2})

        ended = await run(work, {"number": 1}, approver=CallbackApprover(edit))

        first, second = found(ended.session, CallStarted)
        assert (first.attempt, second.attempt) == (1, 2)
        assert first.arguments_digest != second.arguments_digest
        assert second.arguments_digest == ended.record.arguments_digest
        assert ended.record.params == {"number": 2}

    @pytest.mark.parametrize("is_heard", [False, True], ids=["unheard", "heard"])
    async def test_a_call_that_is_over_is_not_open(self, is_heard: bool) -> None:
        """The raw arguments of a call lie beside the ledger only while it is open."""
        session = Session()
        if is_heard:
            Recorder(session.bus)

        await run(add, {"a": 1, "b": 2}, session=session)

        assert session.open_calls() == []
        assert session.export_state().open_calls == ()

    async def test_a_store_keeps_the_same_record(self, sqlite_path: Path) -> None:
        """R46: the record of a call reads the same from memory, from a file, and live."""
        store = SqliteStore(sqlite_path)
        clock = FakeClock()
        durable = await Session.open(store, "s", clock=clock)
        heard = Recorder(durable.bus)
        memory = Session("s", clock=clock)

        ended = [await run(add, {"a": 1, "b": 2}, session=each) for each in (durable, memory)]

        assert ended[0].record == ended[1].record == heard.of(ToolInvoked)[0]
        assert durable.open_calls() == []
        await durable.close()
        store.close()


async def test_a_cancelled_call_is_closed_in_its_store(sqlite_path: Path) -> None:
    """A call that was cancelled is not in doubt afterwards: its end is written, too."""
    store = SqliteStore(sqlite_path)
    session = await Session.open(store, "s")
    begun = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await asyncio.Event().wait()
        return "done"

    task = asyncio.create_task(Executor(session, [wait]).call("wait"))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await session.close()

    assert store.open_calls("s") == []
    assert failure_kinds(session) == ["cancelled"]
    store.close()


async def test_a_call_that_an_error_of_the_store_tears_down_is_on_record() -> None:
    """R46: when the session cannot be written, the caller is told, and what is left says why."""
    session = Session(need_user_approve_tools=["add"])
    session.store.release(session.lease)

    with pytest.raises(LeaseLost):
        await Executor(session, [add]).call("add", {"a": 1, "b": 2})

    (ended,) = invoked(session)
    assert ended.failure is not None
    assert (ended.failure.kind, ended.failure.error_type) == ("tool_error", "LeaseLost")


def failure_kinds(session: Session) -> list[str | None]:
    return [ended.failure and ended.failure.kind for ended in invoked(session)]


async def test_post_hooks_that_mend_a_failure_are_on_record() -> None:
    """T23: what the model saw in the end is what is recorded."""

    async def mend(_: Any, __: str, result: Any) -> Any:
        return "mended" if isinstance(result, Exception) else result

    hooks = GlobalHooks(post=mend)
    ended = await run(broken, hooks=Hooks(global_post=hooks.post))

    assert ended.outcome.text == "mended"
    assert ended.record.success
    assert ended.record.message == "mended"


@pytest.mark.parametrize(
    ("arguments", "params"),
    [
        (b'{"x": NaN}', {"x": "NaN"}),
        (b'{"x": [-Infinity]}', {"x": ["-Infinity"]}),
        (b'{"x": "Nan In NaN Infinity"}', {"x": "Nan In NaN Infinity"}),
    ],
)
async def test_arguments_that_json_has_not_are_on_record_as_text(
    arguments: bytes, params: dict[str, Any]
) -> None:
    """R21: the parser takes NaN and Infinity; the record of them is proper JSON."""

    @tool
    async def take(x: Any) -> str:
        """Take anything."""
        return "taken"

    ended = await run(take, arguments)

    *_, last = ended.session.records()
    assert last.payload is not None
    assert json.loads(last.payload, parse_constant=pytest.fail)["params"] == params
