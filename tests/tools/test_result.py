"""ToolResult: one result in the words of two documents."""

import dataclasses

import pytest

from toolcrib.errors import UsageError
from toolcrib.tools.result import ToolRenderableResult, ToolResult


def test_a_plain_result_succeeds_with_nothing() -> None:
    """R3: every part has a default, and the default is success."""
    result = ToolResult[int]()

    assert (result.value, result.message, result.success, result.metadata) == (None, "", True, {})


def test_output_and_error_are_other_words_for_value_and_message() -> None:
    """R3: a result built with output= and error= is the same as one with value= and message=."""
    assert ToolResult(success=True, output=5) == ToolResult(value=5)
    assert ToolResult[int](success=False, error="no") == ToolResult[int](
        success=False, message="no"
    )


def test_output_and_error_can_be_read_under_both_words() -> None:
    """R3: `output` is the value; `error` is the message of a failure, and None without one."""
    failed = ToolResult(value=5, message="half done", success=False)

    assert (failed.output, failed.error) == (5, "half done")
    assert ToolResult(value=5, message="all done").error is None


def test_two_words_for_one_thing_are_refused() -> None:
    """A result that says a thing twice is a mistake, not a choice."""
    with pytest.raises(UsageError, match="value= and output="):
        ToolResult(value=1, output=2)
    with pytest.raises(UsageError, match="message= and error="):
        ToolResult[int](success=False, message="a", error="b")


def test_an_error_of_a_success_is_refused() -> None:
    """An error with success=True would vanish, so it must be said which of the two holds."""
    with pytest.raises(UsageError, match="success=False"):
        ToolResult[int](error="boom")


def test_a_value_of_zero_is_a_value() -> None:
    """Falsy values are not taken for missing ones."""
    assert ToolResult(output=0).value == 0
    assert ToolResult(value="").value == ""


def test_metadata_is_not_shared() -> None:
    """R3: two results never share a metadata dict, nor one with its maker."""
    given = {"a": 1}
    result = ToolResult(value=1, metadata=given)
    given["b"] = 2

    assert result.metadata == {"a": 1}
    assert ToolResult[int]().metadata is not ToolResult[int]().metadata


def test_a_result_is_frozen_and_can_be_replaced() -> None:
    """A result is a fact: a change makes a new one."""
    result = ToolResult(value=1, message="m")

    with pytest.raises(dataclasses.FrozenInstanceError):
        result.value = 2  # pyright: ignore[reportAttributeAccessIssue]
    assert dataclasses.replace(result, value=2) == ToolResult(value=2, message="m")


def test_a_result_is_hashable_when_its_value_is() -> None:
    """Metadata does not spoil the hash; a value without a hash does."""
    assert hash(ToolResult(value=1, metadata={"a": []})) == hash(ToolResult(value=1))
    with pytest.raises(TypeError):
        hash(ToolResult(value=[1]))


def test_the_repr_names_every_part() -> None:
    """A result in a log says what it holds."""
    assert repr(ToolResult(value=1)) == "ToolResult(value=1, message='', success=True, metadata={})"


def test_a_value_with_render_is_renderable() -> None:
    """N16: a value tells the model's text with render(), and that can be asked."""

    class Report:
        def render(self) -> str:
            return "text"

    assert isinstance(Report(), ToolRenderableResult)
    assert not isinstance("text", ToolRenderableResult)
