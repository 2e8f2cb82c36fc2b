"""Toolsets and host tools F5: whatever a handler, a caller or a person gives, the session can
still be read.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib import (
    Answer,
    Approve,
    CallbackApprover,
    Executor,
    Session,
    SqliteStore,
    ToolContext,
    ToolResult,
    tool,
)
from toolcrib.calls.outcome import Outcome
from toolcrib.errors import InvalidDecision, InvalidEvent, UsageError
from toolcrib.ledger.encoding import MOST_DIGITS, is_readable
from toolcrib.ledger.events import ToolEmitted
from toolcrib.ledger.record import GENESIS, seal
from toolcrib.runtime.event_reader import envelope_of
from toolcrib.session.state import ResumableState
from toolcrib.store import Store

HUGE = 10**5000


class Stranger:
    """A value that JSON has not."""


class Liar:
    """A value that breaks whoever looks at it."""

    def __repr__(self) -> str:
        raise ValueError("no")

    def render(self) -> str:
        return f"{HUGE:x}\ud800"


@dataclass
class Held:
    value: Any


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def circle() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


ODD: dict[str, Any] = {
    "huge": HUGE,
    "negative": -HUGE,
    "huge in a list": {"a": [HUGE]},
    "huge key": {HUGE: 1},
    "huge in a set": {HUGE},
    "huge in a dataclass": Held(HUGE),
    "huge in a result": ToolResult(value=HUGE, message="x"),
    "huge in a failed result": ToolResult(value=HUGE, message="x", success=False),
    "huge in metadata": ToolResult(value=1, message="x", metadata={"a": HUGE}),
    "surrogate": "\ud800",
    "surrogate key": {"\ud800": "\udfff"},
    "nan": [float("nan"), float("inf")],
    "circle": circle(),
    "deep": nested(199),
    "too deep": nested(300),
    "far too deep": nested(5000),
    "bytes": b"\xff",
    "stranger": Stranger(),
    "liar": Liar(),
    "long text": "1" * 5000,
}


def _said(value: Any) -> ToolResult[Any]:
    return ToolResult(value=value, message="said")


def _edit(value: Any) -> Approve:
    return Approve({"x": value})


ATOMS: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(4290, 4310).map(lambda digits: 10**digits)
    | st.floats()
    | st.text(st.characters())
    | st.text(st.characters(categories=["Cs", "Lu"]))
    | st.binary(max_size=20)
    | st.just(datetime(2026, 1, 1, tzinfo=UTC))
    | st.builds(Stranger)
    | st.sampled_from(list(ODD)).map(lambda name: ODD[name])
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    ATOMS,
    lambda values: (
        st.lists(values, max_size=3)
        | st.dictionaries(st.text(st.characters()) | st.integers(), values, max_size=3)
        | st.builds(Held, values)
        | st.tuples(values, values)
        | values.map(_said)
        | st.integers(1, 250).map(nested)
    ),
    max_leaves=4,
)


def check_readable(session: Session) -> None:
    """Everything that reads a session can."""
    for record in session.records():
        assert record.event.session_id == session.session_id
        assert envelope_of(record).seq == record.seq
    session.transcript()
    session.verify()
    ResumableState.from_json(session.export_state().to_json())


async def give(value: Any, store: Store | None) -> Outcome:
    @tool
    async def give() -> object:
        """Give it."""
        return value

    async with Session(store=store) as session:
        outcome = await Executor(session, [give]).call("give")
        check_readable(session)
    return outcome


class TestResults:
    @settings(max_examples=200, deadline=None)
    @given(VALUES)
    def test_any_value_leaves_the_session_readable(self, value: Any) -> None:
        """The call completes with it or ends as `invalid_result`; the ledger is whole."""
        outcome = asyncio.run(give(value, None))

        assert outcome.failure is None or outcome.failure.kind in ("invalid_result", "tool_error")

    @pytest.mark.parametrize("value", ODD.values(), ids=ODD.keys())
    async def test_odd_values_on_disk(self, value: Any, sqlite_path: Path) -> None:
        """The same in a file."""
        with SqliteStore(sqlite_path) as store:
            await give(value, store)

    @pytest.mark.parametrize(
        "value", [HUGE, -HUGE, {"a": [HUGE]}, Held(HUGE)], ids=lambda value: type(value).__name__
    )
    async def test_a_number_that_no_parser_takes_is_an_invalid_result(self, value: Any) -> None:
        """The handler's mistake is told to the model, and nothing of it is recorded."""
        outcome = await give(value, None)

        assert outcome.failure is not None
        assert outcome.failure.kind == "invalid_result"
        assert f"more than {MOST_DIGITS} digits" in outcome.failure.message


@pytest.mark.parametrize("value", ODD.values(), ids=ODD.keys())
class TestElsewhere:
    async def test_what_a_handler_emits(self, value: Any) -> None:
        """An event that cannot be written is refused to the handler."""

        @tool
        async def speak(ctx: ToolContext) -> str:
            """Speak."""
            for speech in (
                lambda: ctx.emit("tool.speak.x", value),
                lambda: ctx.progress(value),
                lambda: ctx.progress(1, message=value),
                lambda: ctx.output(value),
            ):
                with suppress(InvalidEvent):
                    speech()
            return "done"

        async with Session() as session:
            assert (await Executor(session, [speak]).call("speak")).ok
            check_readable(session)

    @pytest.mark.parametrize("needs_approval", [False, True])
    async def test_what_a_caller_sends(self, value: Any, needs_approval: bool) -> None:
        """Arguments that cannot be kept are refused before anything is."""

        @tool(requires_approval=needs_approval)
        async def take(x: object) -> str:
            """Take it."""
            return "taken"

        async with Session() as session:
            with suppress(UsageError):
                await Executor(session, [take]).call("take", {"x": value})
            check_readable(session)

    @pytest.mark.parametrize("decision", [Answer, _edit])
    async def test_what_an_approver_says(self, value: Any, decision: Any) -> None:
        """An answer or an edit that cannot be kept approves nothing that cannot be read."""

        @tool(requires_approval=True)
        async def take(x: object = None) -> str:
            """Take it."""
            return "taken"

        async with Session() as session:
            approver = CallbackApprover(lambda _: decision(value))
            with suppress(UsageError, InvalidDecision):
                await Executor(session, [take], approver=approver).call("take", {})
            check_readable(session)


@settings(max_examples=200, deadline=None)
@given(VALUES)
def test_any_event_can_be_read_back(value: Any) -> None:
    """Whatever gets past every check is spelt out and does not stop a ledger for good."""
    emitted = ToolEmitted(
        session_id="s", at=1.0, call_id="c", tool="t", type="tool.t.x", data=value
    )

    assert seal(emitted, 1, GENESIS).event.kind == emitted.kind


@pytest.mark.parametrize("digits", [MOST_DIGITS - 1, MOST_DIGITS, MOST_DIGITS + 1, 3 * MOST_DIGITS])
@pytest.mark.parametrize("before", [0, 1, 100, MOST_DIGITS - 1, MOST_DIGITS, 9_000])
def test_long_numbers_are_seen_wherever_they_are(digits: int, before: int) -> None:
    """What is taken for readable is; digits in a text are no number."""
    number = b"[" + b" " * before + b"7" * digits + b', "' + b"7" * 9_000 + b'"]'

    assert is_readable(number) == (digits <= MOST_DIGITS)
