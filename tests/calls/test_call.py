"""What is left of a call that is over: a ledger may keep it for long."""

from dataclasses import dataclass

import pytest

from tests.calls.runs import run
from toolcrib import Session, ToolResult, tool
from toolcrib.calls.call import Call


@dataclass
class Book:
    title: str


@tool
async def look_up(title: str) -> Book:
    """Look up a book."""
    return Book(title)


@tool
async def read(title: str) -> str:
    """Read a book."""
    return f"All of {title}."


@tool
async def sum_up(title: str) -> ToolResult[Book]:
    """Sum up a book."""
    return ToolResult(value=Book(title), message=f"{title}, in short.")


@pytest.mark.parametrize("tried", [look_up, read, sum_up], ids=lambda tried: tried.tool.name)
async def test_the_record_says_what_the_model_saw(tried: object) -> None:
    """R46: read after the call was let go, the record has the text that the model got."""
    ended = await run(tried, {"title": "Emma"})

    assert ended.record.message == ended.outcome.text
    assert ended.outcome.text


@pytest.mark.parametrize(("is_plain", "kept"), [(True, ""), (False, "Emma, in short.")])
def test_text_that_is_just_the_value_is_not_kept(is_plain: bool, kept: str) -> None:
    """A call that waits to be recorded holds its result once: its text only where the text says
    something else.
    """
    call = Call("c1", "sum_up", b"{}", Session())
    call.text, call.is_plain_text = "Emma, in short.", is_plain

    call.let_go()

    assert call.text == kept
