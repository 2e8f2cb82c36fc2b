"""What the model sees of a result, and what the application gets."""

import json
import logging
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any, cast

import pytest
from pydantic import BaseModel

from tests.calls.runs import Run, run
from toolcrib import (
    Approve,
    CallbackApprover,
    Executor,
    Limits,
    Session,
    ToolInvoked,
    ToolResult,
    tool,
)
from toolcrib.approval.decision import ApprovalRequest


@dataclass(frozen=True)
class Book:
    title: str
    pages: int


class Shelf(BaseModel):
    books: list[str]


class Colour(str, Enum):  # noqa: UP042 - what `str()` makes of it is not its value
    RED = "red"


@dataclass
class Rendered:
    text: Any

    def render(self) -> Any:
        return self.text


@dataclass
class Undecodable:
    number: int = 1

    def render(self) -> str:
        return "caf\udce9"


@dataclass
class Broken:
    title: str = "x"

    def render(self) -> str:
        raise LookupError("no template")


async def give(value: Any, **options: Any) -> Run:
    """Run a tool that returns `value`."""

    @tool
    async def give() -> Any:
        """Give it."""
        return value

    return await run(give, **options)


class TestText:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ("plain", "plain"),
            ("", ""),
            ("Ærø", "Ærø"),
            (None, "null"),
            (True, "true"),
            (3, "3"),
            (2.5, "2.5"),
            ([1, "two"], '[1,"two"]'),
            ({"a": {"b": None}}, '{"a":{"b":null}}'),
            (Book("Emma", 474), '{"title":"Emma","pages":474}'),
            (Shelf(books=["Emma"]), '{"books":["Emma"]}'),
            (date(2024, 2, 29), "2024-02-29"),
            (b"bytes", "bytes"),
            (Rendered("as told"), "as told"),
            (Colour.RED, "red"),
        ],
    )
    async def test_the_model_sees_text_or_json(self, value: Any, text: str) -> None:
        """R20, R22: text as it is, `render()` where there is one, JSON for the rest; never a
        Python repr. The application gets the value itself, and the record says the same.
        """
        ended = await give(value)

        assert ended.outcome.text == text
        assert ended.outcome.value is value
        assert ended.record.message == text
        assert ended.record.success

    @pytest.mark.parametrize(
        ("value", "text"), [(float("nan"), "NaN"), ({"x": float("-inf")}, '{"x":"-Infinity"}')]
    )
    async def test_numbers_that_json_has_not_are_text(self, value: Any, text: str) -> None:
        """R21: NaN and infinity are written by one rule, as text, so that every reader copes."""
        ended = await give(value)

        assert ended.outcome.text == ended.record.message == text

    async def test_the_record_has_the_value_as_json(self) -> None:
        """R46: what is read back from a ledger is plain JSON of the typed value."""
        ended = await give(Book("Emma", 474))

        assert ended.record.value == {"title": "Emma", "pages": 474}


class TestToolResult:
    async def test_the_message_is_for_the_model_and_the_value_for_the_application(self) -> None:
        """R17: a `ToolResult` says both apart."""
        book = Book("Emma", 474)

        ended = await give(ToolResult(value=book, message="Found it.", metadata={"shelf": 3}))

        assert ended.outcome.text == "Found it."
        assert ended.outcome.value is book
        assert ended.outcome.metadata == {"shelf": 3}
        assert ended.record.value == {"title": "Emma", "pages": 474}

    async def test_without_a_message_the_value_is_rendered(self) -> None:
        """A `ToolResult` that only wraps a value reads like the value."""
        ended = await give(ToolResult(value=Book("Emma", 474)))

        assert ended.outcome.text == '{"title":"Emma","pages":474}'

    async def test_success_false_is_a_tool_error(self) -> None:
        """R19, N17: a failure that the tool reports itself is one, and its value is kept."""
        ended = await give(ToolResult(value={"code": 7}, success=False, message="Out of paper."))

        assert ended.failure == "tool_error"
        assert ended.outcome.text == "Out of paper."
        assert ended.outcome.value == {"code": 7}
        assert not ended.record.success
        assert ended.record.value == {"code": 7}

    async def test_success_false_without_words_still_says_something(self) -> None:
        """R19: the message of a failure is never empty."""
        ended = await give(ToolResult(success=False))

        assert ended.outcome.text == "`give` failed."

    async def test_the_outcome_is_a_tool_result_again(self) -> None:
        """R17: whoever wants a `ToolResult` of a call gets one."""
        result = (await give(Book("Emma", 474))).outcome.result

        assert result.success
        assert result.value == Book("Emma", 474)
        assert result.message == '{"title":"Emma","pages":474}'


def nested(depth: int) -> list[Any]:
    value: list[Any] = [1]
    for _ in range(depth - 1):
        value = [value]
    return value


UNSENDABLE: list[Any] = [
    object(),
    {"deep": [object()]},
    b"\xff",
    "caf\udce9",
    {"name": "caf\udce9"},
    ValueError("returned, not raised"),
    nested(201),
    Broken(),
    Rendered(5),
    ToolResult(message=cast("Any", 5)),
    ToolResult(value=object(), message="looks fine"),
]


class TestInvalidResult:
    @pytest.mark.parametrize("value", UNSENDABLE, ids=lambda value: type(value).__name__)
    async def test_what_is_not_json_is_refused(self, value: Any) -> None:
        """R20, R21, T31: a value that cannot be sent is `invalid_result` before it reaches a
        transport; the caller gets an outcome, and the ledger stays readable.
        """
        ended = await give(value)

        assert ended.failure == "invalid_result"
        assert ended.outcome.value is None
        assert ended.record.failure == ended.outcome.failure
        assert ended.record.value is None
        assert " at 0x" not in ended.outcome.text

    async def test_the_refused_type_is_named(self) -> None:
        """R20: the developer reads what came back in place of a result."""
        ended = await give(object())

        assert ended.outcome.text.startswith("`give` returned object, which cannot be turned")
        assert ended.outcome.failure is not None
        assert ended.outcome.failure.error_type == "object"

    async def test_the_deepest_value_can_be_read_back(self) -> None:
        """R21: whatever is taken can be read from the ledger again."""
        ended = await give(nested(200))

        assert ended.outcome.ok
        assert ended.record.value == nested(200)

    async def test_messages_can_always_be_sent(self) -> None:
        """R21: undecodable bytes in a message are spelt out, wherever the message comes from."""
        text = "caf\udce9"

        @tool
        async def fail() -> str:
            """Fail."""
            raise LookupError(text)

        told = [
            await run(fail),
            await give(ToolResult(message=text)),
            await give(ToolResult(message=text, success=False)),
            await give(Undecodable()),
        ]

        assert all(each.outcome.text.endswith("caf\\udce9") for each in told)
        assert all(each.record.message == each.outcome.text for each in told)

    async def test_an_exception_that_cannot_be_printed_is_an_outcome(self) -> None:
        """R19: a broken exception class does not break the call."""

        class Mute(Exception):
            def __str__(self) -> str:
                raise RuntimeError

        @tool
        async def fail() -> str:
            """Fail."""
            raise Mute

        assert (await run(fail)).outcome.text.startswith("Mute")

    async def test_the_traceback_goes_to_the_log(self, caplog: pytest.LogCaptureFixture) -> None:
        """R19: the developer finds the traceback in the log; the model never sees it."""
        caplog.set_level(logging.INFO, "toolcrib")

        @tool
        async def fail() -> str:
            """Fail."""
            raise LookupError("no such book")

        ended = await run(fail)

        assert "Traceback" in caplog.text
        assert "Traceback" not in ended.outcome.text


class TestEditNote:
    async def test_the_model_is_told_what_ran(self) -> None:
        """A model whose call was edited must know what ran, or it calls again."""

        @tool(requires_approval=True)
        async def add(a: int, b: int) -> int:
            """Add."""
            return a + b

        async def edit(_: ApprovalRequest) -> Approve:
            return Approve({"a": 2, "b": 3})

        ended = await run(add, {"a": 1, "b": 1}, approver=CallbackApprover(edit))

        assert ended.outcome.value == 5
        assert ended.outcome.text.startswith("5\n\n[The arguments were edited")
        assert '{"a":2,"b":3}' in ended.outcome.text
        assert ended.record.message == ended.outcome.text
        assert ended.record.was_edited

    async def test_a_json_object_stays_one(self) -> None:
        """A model or a program that parses the result still can, and finds what ran in it."""

        @tool(requires_approval=True)
        async def order(kilos: int) -> dict[str, int]:
            """Order."""
            return {"kilos": kilos}

        async def edit(_: ApprovalRequest) -> Approve:
            return Approve({"kilos": 3})

        ended = await run(order, {"kilos": 1}, approver=CallbackApprover(edit))

        assert json.loads(ended.outcome.text) == {"kilos": 3, "_ran_with": {"kilos": 3}}
        assert ended.outcome.value == {"kilos": 3}


async def test_a_limit_of_results_is_the_executors_unless_the_tool_has_one() -> None:
    """The executor's cap is for tools that set none."""

    @tool(max_result_chars=8)
    async def own() -> str:
        """Give ten characters."""
        return "0123456789"

    assert (await run(own, limits=Limits(max_result_chars=100))).outcome.artifact_id
    ended = await give("0123456789", limits=Limits(max_result_chars=8))
    assert ended.outcome.artifact_id
    assert not (await give("0123456789", limits=Limits(max_result_chars=10))).outcome.artifact_id


@pytest.mark.parametrize("wrapped", [False, True])
async def test_a_generator_is_read_once_for_all(wrapped: bool) -> None:
    """F17: the text, the value and the record have the same three numbers."""

    @tool
    def count() -> Any:
        """Count."""
        numbers = (number for number in range(3))
        return ToolResult(value=numbers) if wrapped else numbers

    session = Session()
    outcome = await Executor(session, [count]).call("count")
    assert (outcome.text, outcome.value) == ("[0,1,2]", [0, 1, 2])
    (invoked,) = session.events(kinds=(ToolInvoked.kind,))
    assert isinstance(invoked, ToolInvoked)
    assert invoked.value == [0, 1, 2]
